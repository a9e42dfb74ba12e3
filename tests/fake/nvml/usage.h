// How busy devices and processes are, from the state's time line.
#pragma once

#include <cstdint>

#include "fake/nvml/library.h"

namespace berth::fake::nvml {

// Percent of the last second in which the device had a kernel.
unsigned int device_busy_percent(const DeviceEntry& device);
// Percent of the card's memory that is in use.
unsigned int memory_busy_percent(int entry);
// A process's part: its kernel time as a share of the device's since it was last asked about.
unsigned int process_busy_percent(int slot, int entry);
std::uint64_t now_us();  // since 1970, as the interface counts

}  // namespace berth::fake::nvml
