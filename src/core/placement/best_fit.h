// best-fit: places where the least free GPU and CPU is left, and on the tightest device there.
//
// Source: placement.md section 3. Thread-safety: const calls may run side by side.
#pragma once

#include <cstdint>

#include "core/placement/class_counts.h"
#include "core/placement/node_score.h"

namespace berth::core {

class BestFitPolicy final : public NodeScorePolicy {
 public:
  explicit BestFitPolicy(const ClassCounts&) {}

 private:
  std::int64_t score(const PlaceInput& input, const Places& places) const override;
};

}  // namespace berth::core
