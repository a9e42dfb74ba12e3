// DeviceRankPolicy: the base of policies that rank single devices of the whole fleet, whatever node
// they are in.
//
// A candidate's cost holds the device's figure and, below it, the place of its UUID in byte order,
// so that equal devices of different nodes tie by UUID and not by node. Several devices: the best
// of each node; nodes by the sum of their figures. Work without GPUs goes by the node's CPU.
//
// Thread-safety: const calls may run side by side.
#pragma once

#include <cstdint>
#include <span>

#include "core/placement/policy.h"

namespace berth::core {

class DeviceRankPolicy : public Policy {
 public:
  NodeValue value_of(const NodeInput&) const override { return {}; }

  void replace(const NodeValue&, const NodeValue&) override {}

  Candidates evaluate(const PlaceInput& input) const override;

  void offsets(const Shape&, std::span<const GroupKey>, std::span<std::int64_t>) const override {}

  Places choose(const PlaceInput& input, int which) const override;

 protected:
  DeviceRankPolicy();

  // In MiB, lower first.
  virtual std::int64_t figure(const DeviceFace& device) const = 0;
  // Of a node, for work without GPUs; lower first.
  virtual std::int64_t cpu_figure(const NodeInput& on) const = 0;

 private:
  // Figure and UUID in one number. Figures beyond 2^37 MiB count as 2^37: no device is that large.
  std::int64_t rank(const PlaceInput& input, std::size_t place) const;
};

}  // namespace berth::core
