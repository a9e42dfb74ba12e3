// dotprod: places where what is free points least in the direction of what is asked for, and on the
// tightest device there. A baseline of the published comparison.
//
// Source: placement.md section 3. Thread-safety: const calls may run side by side.
#pragma once

#include <cstdint>

#include "core/placement/class_counts.h"
#include "core/placement/node_score.h"

namespace berth::core {

class DotProductPolicy final : public NodeScorePolicy {
 public:
  explicit DotProductPolicy(const ClassCounts&) {}

 private:
  std::int64_t score(const PlaceInput& input, const Places& places) const override;
};

}  // namespace berth::core
