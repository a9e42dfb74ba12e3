// spread: the eligible device with the least committed memory; ties by UUID in byte order. Work
// without GPUs goes to the node whose CPU is used least.
//
// Source: leases.md 3.7 (the default there). Thread-safety: const calls may run side by side.
#pragma once

#include <cstdint>

#include "core/placement/class_counts.h"
#include "core/placement/device_rank.h"

namespace berth::core {

class SpreadPolicy final : public DeviceRankPolicy {
 public:
  explicit SpreadPolicy(const ClassCounts&) {}

 private:
  std::int64_t figure(const DeviceFace& device) const override;
  std::int64_t cpu_figure(const NodeInput& on) const override;
};

}  // namespace berth::core
