#include "core/placement/registry.h"

#include <fmt/format.h>

#include <array>

#include "core/placement/best_fit.h"
#include "core/placement/dot_product.h"
#include "core/placement/fgd.h"
#include "core/placement/gpu_clustering.h"
#include "core/placement/gpu_packing.h"
#include "core/placement/random_node.h"
#include "core/placement/vgd.h"

namespace berth::core {

namespace {

template <typename P>
std::unique_ptr<Policy> make(const ClassCounts& history) {
  return std::make_unique<P>(history);
}

constexpr std::array<PolicyInfo, 7> kPolicies{{
    {"pack", "least loss of future usable value (VGD); packs like a best fit without history", "",
     false, make<ValueGradientPolicy>},
    {"fgd", "largest fall of the expected fragmentation (FGD)", "", false,
     make<FragmentationPolicy>},
    {"best-fit", "least free GPU and CPU left on the node, tightest device", "", false,
     make<BestFitPolicy>},
    {"random", "any node and device that can, drawn uniformly", "", true, make<RandomPolicy>},
    {"dotprod", "least alignment of free CPU and GPU with the request (DotProd)", "", true,
     make<DotProductPolicy>},
    {"gpu-clustering", "nodes that hold only this GPU shape first (GpuClustering)", "", true,
     make<GpuClusteringPolicy>},
    {"gpu-packing", "used devices, then used nodes, then fresh ones (GpuPacking)", "", true,
     make<GpuPackingPolicy>},
}};

}  // namespace

std::span<const PolicyInfo> registered_policies() { return kPolicies; }

Result<std::unique_ptr<Policy>> make_policy(std::string_view spec, const ClassCounts& history) {
  for (const PolicyInfo& policy : kPolicies) {
    if (policy.name == spec) {
      return policy.make(history);
    }
  }
  std::string known;
  for (const PolicyInfo& policy : kPolicies) {
    known += known.empty() ? "" : ", ";
    known += policy.name;
  }
  return invalid_argument(fmt::format("policy {}: it is not registered; known are {}", spec, known));
}

}  // namespace berth::core
