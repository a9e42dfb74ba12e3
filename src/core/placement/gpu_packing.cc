#include "core/placement/gpu_packing.h"

#include <algorithm>

#include "core/placement/score_rationals.h"

namespace berth::core {

std::int64_t GpuPackingPolicy::score(const PlaceInput& input, const Places& places) const {
  if (input.ask == nullptr) {
    return 0;
  }
  PackingCandidate at{.devices = static_cast<int>(input.on.devices.size()),
                      .idle_devices = input.value.idle,
                      .num_gpu = input.ask->count,
                      .gpu_milli = input.fit->needs[places.at[0]].milli};
  if (input.ask->is_share()) {
    // A part that takes a device in full is a fraction here all the same.
    at.gpu_milli = std::min(at.gpu_milli, 999);
    const DeviceFace& tightest = input.on.devices[places.at[0]];
    if (!tightest.idle) {
      at.tightest_used = tightest.free_milli;
    }
  }
  return gpu_packing_score(at);
}

}  // namespace berth::core
