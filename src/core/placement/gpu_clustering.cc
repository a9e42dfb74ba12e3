#include "core/placement/gpu_clustering.h"

#include <algorithm>
#include <array>

#include "core/placement/score_rationals.h"

namespace berth::core {

namespace {

constexpr std::uint64_t kParts = 1;

// 63 and 64 devices are one shape: a mask has 64 bits.
std::uint64_t whole_shape(std::int64_t devices) {
  return std::uint64_t{1} << std::min<std::int64_t>(devices, 63);
}

}  // namespace

NodeValue GpuClusteringPolicy::value_of(const NodeInput& node) const {
  NodeValue value = NodeScorePolicy::value_of(node);
  std::array<WorkloadId, 64> owners;  // of devices held as a whole
  std::size_t owned = 0;
  for (const DeviceId id : node.ids) {
    for (const Holding& holding : node.ledger.book(id).holdings) {
      if (holding.exclusive) {
        owners[owned++] = holding.workload;
      } else {
        value.hosts |= kParts;
      }
    }
  }
  const std::span<WorkloadId> all(owners.data(), owned);
  for (const WorkloadId owner : all) {
    value.hosts |= whole_shape(std::ranges::count(all, owner));
  }
  return value;
}

std::int64_t GpuClusteringPolicy::score(const PlaceInput& input, const Places&) const {
  if (input.ask == nullptr) {
    return 0;
  }
  const std::uint64_t mine = input.ask->is_exclusive() ? whole_shape(input.ask->count) : kParts;
  const std::uint64_t there = input.value.hosts;
  const ShapesOnNode shapes = there == 0            ? ShapesOnNode::none
                              : there == mine       ? ShapesOnNode::only_this
                              : (there & mine) != 0 ? ShapesOnNode::this_among_others
                                                    : ShapesOnNode::only_others;
  return gpu_clustering_score(shapes, input.value.spare);
}

}  // namespace berth::core
