#include "core/placement/most_free.h"

namespace berth::core {

std::int64_t MostFreePolicy::figure(const DeviceFace& device) const {
  return -Memory::bytes(device.headroom).floor_mib();
}

std::int64_t MostFreePolicy::cpu_figure(const NodeInput& on) const { return -on.face.cpu_free; }

}  // namespace berth::core
