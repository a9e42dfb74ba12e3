// Host memory that the driver knows: page-locked allocations and registered ranges. Never charged.
#pragma once

#include "fake/cuda/context.h"

namespace berth::fake::cuda {

// With the driver's lock held: whether the whole range lies in known host memory.
bool is_host_memory(CUdeviceptr pointer, std::uint64_t bytes);

}  // namespace berth::fake::cuda
