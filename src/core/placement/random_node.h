// random: any node that can, any device that can, each as likely as the other. The floor of every
// comparison.
//
// The index draws, from one generator per engine: first the node, then for a part of a device the
// device (PlaceInput::drawn). Source: placement.md sections 2 and 3.
// Thread-safety: const calls may run side by side.
#pragma once

#include <span>

#include "core/placement/class_counts.h"
#include "core/placement/policy.h"

namespace berth::core {

class RandomPolicy final : public Policy {
 public:
  explicit RandomPolicy(const ClassCounts&) { draws_ = true; }

  NodeValue value_of(const NodeInput&) const override { return {}; }

  void replace(const NodeValue&, const NodeValue&) override {}

  // Every place costs the same.
  Candidates evaluate(const PlaceInput& input) const override;

  void offsets(const Shape&, std::span<const GroupKey>, std::span<std::int64_t>) const override {}

  // Whole devices: the lowest idle ones. Parts: the drawn place and, of several, those after it.
  Places choose(const PlaceInput& input, int which) const override;
};

}  // namespace berth::core
