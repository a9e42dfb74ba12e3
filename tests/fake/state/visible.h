// Which devices a process sees, by the environment.
#pragma once

#include "fake/state/layout.h"

namespace berth::fake {

// The devices that exist for the process at all: BERTH_FAKE_DEVICES (a comma list of UUIDs) stands
// for the device files that a container has; null or "all" = every one. GPUs only, by index.
int existing_gpus(const State& state, const char* existing, int (&chosen)[kMaxDevices]);
// Whether a device (a GPU, or an instance itself or by its GPU) is among them.
bool exists(const State& state, int device, const char* existing);

// The list as CUDA sees it: `cuda` = CUDA_VISIBLE_DEVICES, indices or UUIDs or their beginnings;
// the first wrong word ends the list. Of MIG instances a process sees one at most, and by default
// only where no whole GPU is to be had. Returns how many were put into `chosen` (places in
// State::devices).
int visible_devices(const State& state, const char* cuda, const char* existing,
                    int (&chosen)[kMaxDevices]);

}  // namespace berth::fake
