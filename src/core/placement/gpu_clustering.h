// gpu-clustering: keeps work of one GPU shape together: nodes that hold this shape alone first. A
// baseline of the published comparison.
//
// Source: placement.md section 3. Thread-safety: const calls may run side by side.
#pragma once

#include <cstdint>

#include "core/placement/class_counts.h"
#include "core/placement/node_score.h"

namespace berth::core {

class GpuClusteringPolicy final : public NodeScorePolicy {
 public:
  explicit GpuClusteringPolicy(const ClassCounts&) {}

  // `hosts` has a bit per GPU shape on the node: 0 = parts of devices, k = k whole devices.
  NodeValue value_of(const NodeInput& node) const override;

 private:
  std::int64_t score(const PlaceInput& input, const Places& places) const override;
};

}  // namespace berth::core
