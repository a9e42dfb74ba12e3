// The scores of FGD and of the baseline policies, in integers, as pure functions of plain numbers.
//
// Each score is the floor of a real-valued formula; here it is computed without rounding, so that
// two machines never disagree about a tie. Higher wins. The formulas' constants (128 cores, 8
// devices) are the largest node of the openb cluster; larger nodes may score outside 0..100 and
// still rank right.
//
// Source: placement contract, sections 3 and 5.8 (normative).
// Thread-safety: pure functions; FgdScore is immutable.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/wide.h"

namespace berth::core {

// FGD: floor(100 sigmoid(dF / 1000)), dF = how far the expected fragmentation falls, in milli. The
// expectation is over classes with integer counts n_m of sum N, so N dF is an integer. At zero the
// score rises by 25 per 1000 milli: drops within about 40 milli tie.

// c_s = round(1e12 ln(s / (100 - s))): score s is reached at dF / 1000 = c_s / 1e12. For s
// in 1..99.
std::int64_t fgd_threshold(int score);

struct FragmentationDrop {
  Int128 weighted_milli = 0;  // N dF: the sum of n_m (F_before(m) - F_after(m))
  std::int64_t pods = 0;      // N
};

// By the letter of section 5.8: the largest s in 0..99 with s = 0 or 1e12 N dF >= 1000 N c_s.
// Without any class (N = 0) every place is alike: 50.
int fgd_score(const FragmentationDrop& drop);

// fgd_score() for one N: seven comparisons of 64 bits instead of seven 128-bit products.
class FgdScore {
 public:
  // Requires 0 <= pods <= ClassCounts::kMaxPods.
  explicit FgdScore(std::int64_t pods);

  // The score of a drop of `weighted_milli` = N dF.
  [[nodiscard]] int of(std::int64_t weighted_milli) const;

  // The least drop that reaches a score of 0..99.
  [[nodiscard]] std::int64_t least(int score) const {
    return score == 0 ? INT64_MIN : least_[static_cast<std::size_t>(score - 1)];
  }

 private:
  std::array<std::int64_t, 99> least_{};  // the least drop that reaches score 1, 2, .., 99
};

// A node before placement, and the pod that may go there.
struct RoomAndRequest {
  std::int64_t free_cpu_milli = 0;
  std::int64_t free_gpu_milli = 0;  // of all devices together
  std::int64_t cpu_milli = 0;
  std::int64_t gpu_milli = 0;  // k x q
};

// floor(100 (1 - 0.5 (C - c) / 128000 - 0.5 (R - g) / 8000))
std::int64_t best_fit_score(const RoomAndRequest& at);

// floor(100 (1 - ((C / 128000) (c / 128000) + (R / 8000) (g / 8000)) / 2))
std::int64_t dot_product_score(const RoomAndRequest& at);

// Which GPU shapes the pods on a node have, as the asking pod sees it. All fractions are one shape;
// 1, 2, 4 and 8 whole devices are one each. CPU-only pods have none.
enum class ShapesOnNode { none, only_others, this_among_others, only_this };

// floor(25 (8000 - R) / 8000) + 0, 25, 50 or 75: nodes of the pod's own shape first, then mixed
// ones that have it, then fresh ones, then those of other shapes. For pods that ask for a GPU;
// CPU-only pods score 0 everywhere.
std::int64_t gpu_clustering_score(ShapesOnNode shapes, std::int64_t free_gpu_milli);

struct PackingCandidate {
  int devices = 0;       // of the node
  int idle_devices = 0;  // of these
  int num_gpu = 0;       // the pod's k; 0 = CPU only
  int gpu_milli = 0;     // the pod's q
  // The smallest leftover of a partly used device that holds the fraction, in milli.
  std::optional<int> tightest_used = std::nullopt;
};

// Partly used devices first, the fuller the better (50..100); then idle devices of a used node
// (33..50); then fresh nodes (up to 33). CPU-only pods score 0.
int gpu_packing_score(const PackingCandidate& at);

}  // namespace berth::core
