#include "core/placement/spread.h"

#include <algorithm>

#include "core/placement/exact_share.h"

namespace berth::core {

std::int64_t SpreadPolicy::figure(const DeviceFace& device) const {
  return Memory::bytes(device.usable - device.headroom).floor_mib();
}

std::int64_t SpreadPolicy::cpu_figure(const NodeInput& on) const {
  return -exact_share(on.face.cpu_free, on.node.cpu.count());
}

}  // namespace berth::core
