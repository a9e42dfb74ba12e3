// Copies and fills: device memory of the fake is real memory, so content survives the way there and
// back.
#pragma once

#include "fake/cuda/stream.h"

namespace berth::fake::cuda {

// Where [pointer, pointer + bytes) really lies, marked as written if `writes`; null if it is no
// device memory or only partly. Takes the driver's lock.
unsigned char* device_memory(CUdeviceptr pointer, std::uint64_t bytes, bool writes);
// The same for an address of either side: what is no device memory is the program's own.
unsigned char* any_memory(CUdeviceptr pointer, std::uint64_t bytes, bool writes);

CUresult copy_linear(unsigned char* target, const unsigned char* source, std::uint64_t bytes);
CUresult copy_shape(const Copy3d& copy);
Copy3d widened(const Copy2d& copy);

// Fills `height` rows of `width` elements of `element` bytes. A pitch of 0 means one row.
CUresult fill(CUdeviceptr target, std::size_t pitch, unsigned int value, unsigned int element,
              std::size_t width, std::size_t height);

}  // namespace berth::fake::cuda
