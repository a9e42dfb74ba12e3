// most-free: the eligible device with the most headroom; ties by UUID in byte order. Work without
// GPUs goes to the node with the most free CPU.
//
// Unlike `spread` it prefers large devices to small ones that are used as little. Source: leases.md
// 3.7. Thread-safety: const calls may run side by side.
#pragma once

#include <cstdint>

#include "core/placement/class_counts.h"
#include "core/placement/device_rank.h"

namespace berth::core {

class MostFreePolicy final : public DeviceRankPolicy {
 public:
  explicit MostFreePolicy(const ClassCounts&) {}

 private:
  std::int64_t figure(const DeviceFace& device) const override;
  std::int64_t cpu_figure(const NodeInput& on) const override;
};

}  // namespace berth::core
