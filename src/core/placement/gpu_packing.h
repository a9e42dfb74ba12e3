// gpu-packing: parts of devices go to partly used devices, the fuller the better; then idle devices
// of used nodes; fresh nodes last. A baseline of the published comparison.
//
// Source: placement.md section 3. Thread-safety: const calls may run side by side.
#pragma once

#include <cstdint>

#include "core/placement/class_counts.h"
#include "core/placement/node_score.h"

namespace berth::core {

class GpuPackingPolicy final : public NodeScorePolicy {
 public:
  explicit GpuPackingPolicy(const ClassCounts&) {}

 private:
  std::int64_t score(const PlaceInput& input, const Places& places) const override;
};

}  // namespace berth::core
