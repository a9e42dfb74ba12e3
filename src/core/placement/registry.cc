#include "core/placement/registry.h"

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/suggest.h"
#include "core/placement/best_fit.h"
#include "core/placement/by_level.h"
#include "core/placement/dot_product.h"
#include "core/placement/fgd.h"
#include "core/placement/gpu_clustering.h"
#include "core/placement/gpu_packing.h"
#include "core/placement/most_free.h"
#include "core/placement/random_node.h"
#include "core/placement/spread.h"
#include "core/placement/vgd.h"

namespace berth::core {

namespace {

template <typename P>
std::unique_ptr<Policy> make(const ClassCounts& history) {
  return std::make_unique<P>(history);
}

template <OrderHint kNodes, OrderHint kDevices>
std::unique_ptr<Policy> make_by_level(const ClassCounts&) {
  return std::make_unique<ByLevelPolicy>(LevelOrders{.nodes = kNodes, .devices = kDevices});
}

constexpr OrderHint kPack = OrderHint::pack;
constexpr OrderHint kSpread = OrderHint::spread;

constexpr std::array<PolicyInfo, 13> kPolicies{{
    {"pack", "least loss of future usable value (VGD); packs like a best fit without history",
     "class counts of the work seen so far", false, make<ValueGradientPolicy>},
    {"fgd", "largest fall of the expected fragmentation (FGD)",
     "class counts of the work seen so far; without them the first node that fits", false,
     make<FragmentationPolicy>},
    {"best-fit", "least free GPU and CPU left on the node, tightest device", "", false,
     make<BestFitPolicy>},
    {"spread", "the device with the least committed memory, ties by UUID", "", false,
     make<SpreadPolicy>},
    {"most-free", "the device with the most headroom, ties by UUID", "", false,
     make<MostFreePolicy>},
    {"nodes=pack,devices=pack", "fullest node that fits, fullest shared device, free devices last",
     "", false, make_by_level<kPack, kPack>},
    {"nodes=pack,devices=spread", "fullest node that fits, there a free device first", "", false,
     make_by_level<kPack, kSpread>},
    {"nodes=spread,devices=pack", "emptiest node, there the fullest shared device that fits", "",
     false, make_by_level<kSpread, kPack>},
    {"nodes=spread,devices=spread", "emptiest node, there a free device first", "", false,
     make_by_level<kSpread, kSpread>},
    {"random", "any node and device that can, drawn uniformly", "the run's seed", true,
     make<RandomPolicy>},
    {"dotprod", "least alignment of free CPU and GPU with the request (DotProd)", "", true,
     make<DotProductPolicy>},
    {"gpu-clustering", "nodes that hold only this GPU shape first (GpuClustering)", "", true,
     make<GpuClusteringPolicy>},
    {"gpu-packing", "used devices, then used nodes, then fresh ones (GpuPacking)", "", true,
     make<GpuPackingPolicy>},
}};

Error unknown_level_form(std::string_view spec) {
  return invalid_argument(fmt::format(
      "policy {}: it sets an order per level, which is written nodes=X,devices=Y with X "
      "and Y one of pack, spread; for example nodes=pack,devices=spread",
      spec));
}

}  // namespace

std::span<const PolicyInfo> registered_policies() { return kPolicies; }

Result<std::unique_ptr<Policy>> make_policy(std::string_view spec, const ClassCounts& history) {
  for (const PolicyInfo& policy : kPolicies) {
    if (policy.name == spec) {
      return policy.make(history);
    }
  }
  if (spec.find_first_of("=,") != std::string_view::npos) {
    return unknown_level_form(spec);
  }
  std::vector<std::string> known;
  for (const PolicyInfo& policy : kPolicies) {
    known.emplace_back(policy.name);
  }
  return invalid_argument(
      fmt::format("policy {}: it is not registered; did you mean {}? Known are {}", spec,
                  nearest(spec, known), fmt::join(known, ", ")));
}

}  // namespace berth::core
