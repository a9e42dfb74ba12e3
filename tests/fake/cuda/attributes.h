// What cuDeviceGetAttribute answers.
#pragma once

#include "fake/state/layout.h"

namespace berth::fake::cuda {

// Every number that the driver of the profile knows; others are an invalid value.
int device_attribute(const Header& header, const DeviceEntry& device, int attribute, int* value);

}  // namespace berth::fake::cuda
