#include "core/placement/score_rationals.h"

#include <algorithm>

#include "base/assert.h"
#include "core/placement/wide_arithmetic.h"

namespace berth::core {
namespace {

// c_50 .. c_99, computed to 60 digits; the nearest of them lies 0.01 from a tie of the rounding.
// c_(100 - s) = -c_s.
constexpr std::array<std::int64_t, 50> kUpperThresholds = {0,
                                                           40'005'334'614,
                                                           80'042'707'674,
                                                           120'144'311'842,
                                                           160'342'650'075,
                                                           200'670'695'462,
                                                           241'162'056'817,
                                                           281'851'152'141,
                                                           322'773'392'263,
                                                           363'965'377'201,
                                                           405'465'108'108,
                                                           447'312'218'044,
                                                           489'548'225'319,
                                                           532'216'813'747,
                                                           575'364'144'904,
                                                           619'039'208'406,
                                                           663'294'217'410,
                                                           708'185'057'924,
                                                           753'771'802'376,
                                                           800'119'300'112,
                                                           847'297'860'387,
                                                           895'384'047'055,
                                                           944'461'608'841,
                                                           994'622'575'144,
                                                           1'045'968'555'183,
                                                           1'098'612'288'668,
                                                           1'152'679'509'938,
                                                           1'208'311'205'925,
                                                           1'265'666'373'331,
                                                           1'324'925'414'744,
                                                           1'386'294'361'120,
                                                           1'450'010'175'506,
                                                           1'516'347'489'368,
                                                           1'585'627'263'740,
                                                           1'658'228'076'604,
                                                           1'734'601'055'388,
                                                           1'815'289'966'638,
                                                           1'900'958'761'193,
                                                           1'992'430'164'690,
                                                           2'090'741'096'934,
                                                           2'197'224'577'336,
                                                           2'313'634'929'181,
                                                           2'442'347'035'369,
                                                           2'586'689'344'098,
                                                           2'751'535'313'042,
                                                           2'944'438'979'166,
                                                           3'178'053'830'348,
                                                           3'476'098'689'835,
                                                           3'891'820'298'111,
                                                           4'595'119'850'135};

constexpr int kMostScore = 99;
constexpr int kScoreOfNoDrop = 50;

}  // namespace

std::int64_t fgd_threshold(int score) {
  ASSERT(score >= 1 && score <= kMostScore, score);
  return score >= 50 ? kUpperThresholds[static_cast<std::size_t>(score - 50)]
                     : -kUpperThresholds[static_cast<std::size_t>(50 - score)];
}

int fgd_score(const FragmentationDrop& drop) {
  if (drop.pods == 0) return kScoreOfNoDrop;
  int reached = 0;
  int missed = kMostScore + 1;
  while (missed - reached > 1) {
    const int score = (reached + missed) / 2;
    // 1e12 N dF >= 1000 N c_s, both sides by 1000.
    const Int128 threshold = Int128{drop.pods} * fgd_threshold(score);
    (drop.weighted_milli * 1'000'000'000 >= threshold ? reached : missed) = score;
  }
  return reached;
}

FgdScore::FgdScore(std::int64_t pods) {
  ASSERT(pods >= 0, pods);
  for (int score = 1; score <= kMostScore; ++score) {
    // Rounded up: the least integer drop with 1e9 drop >= N c_s.
    std::int64_t& least = least_[static_cast<std::size_t>(score - 1)];
    least = -floor_quotient(Int128{-pods} * fgd_threshold(score), 1'000'000'000);
    if (pods == 0) least = score <= kScoreOfNoDrop ? INT64_MIN : INT64_MAX;
  }
}

int FgdScore::of(std::int64_t weighted_milli) const {
  return static_cast<int>(std::upper_bound(least_.begin(), least_.end(), weighted_milli) -
                          least_.begin());
}

std::int64_t best_fit_score(const RoomAndRequest& at) {
  // 100 - (C - c) / 2560 - (R - g) / 160
  const Int128 left_cpu = Int128{at.free_cpu_milli} - at.cpu_milli;
  const Int128 left_gpu = Int128{at.free_gpu_milli} - at.gpu_milli;
  return floor_quotient(256'000 - left_cpu - 16 * left_gpu, 2560);
}

std::int64_t dot_product_score(const RoomAndRequest& at) {
  // 100 - C c / 327'680'000 - R g / 1'280'000
  const Int128 cpu = Int128{at.free_cpu_milli} * at.cpu_milli;
  const Int128 gpu = Int128{at.free_gpu_milli} * at.gpu_milli;
  return floor_quotient(32'768'000'000 - cpu - 256 * gpu, 327'680'000);
}

std::int64_t gpu_clustering_score(ShapesOnNode shapes, std::int64_t free_gpu_milli) {
  const std::int64_t fullness = floor_quotient(25 * (Int128{8000} - free_gpu_milli), 8000);
  switch (shapes) {
    case ShapesOnNode::only_this: return fullness + 75;
    case ShapesOnNode::this_among_others: return fullness + 50;
    case ShapesOnNode::none: return fullness + 25;
    case ShapesOnNode::only_others: break;
  }
  return fullness;
}

int gpu_packing_score(const PackingCandidate& at) {
  if (at.num_gpu == 0) return 0;
  if (at.idle_devices == at.devices) return std::max(33 - at.devices, at.devices);
  if (at.gpu_milli == 1000) return std::max(50 - at.num_gpu, 33);
  if (!at.tightest_used) return 49;
  return std::max(100 - *at.tightest_used / 100, 50);
}

}  // namespace berth::core
