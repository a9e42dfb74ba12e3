// NodeScorePolicy: the base of policies that score a node and then take its tightest devices.
//
// Source: placement.md section 3. Thread-safety: as the policies built on it: const calls may run
// side by side.
#pragma once

#include <cstdint>
#include <span>

#include "core/placement/pick_places.h"
#include "core/placement/policy.h"

namespace berth::core {

class NodeScorePolicy : public Policy {
 public:
  // `spare` is R; `idle` counts idle devices.
  NodeValue value_of(const NodeInput& node) const override;

  void replace(const NodeValue&, const NodeValue&) override {}

  Candidates evaluate(const PlaceInput& input) const override;

  void offsets(const Shape&, std::span<const GroupKey>, std::span<std::int64_t>) const override {}

  Places choose(const PlaceInput& input, int which) const override;

 protected:
  NodeScorePolicy() { adds_up_ = false; }

  // Higher wins. `places` are the devices that the ask would take; none for CPU-only work.
  virtual std::int64_t score(const PlaceInput& input, const Places& places) const = 0;
};

}  // namespace berth::core
