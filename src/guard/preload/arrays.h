// Bytes of arrays, from their descriptors (enforcement.md 2.3, "Arrays"). Thread-safety: functions
// of their arguments.
#pragma once

#include <cstdint>

#include "guard/preload/abi.h"

namespace berth::guard {

struct ArrayShape {
  std::uint64_t width = 0, height = 0, depth = 0;
  unsigned format = 0, channels = 0, flags = 0;
};

// The shape of any of the driver's descriptors: of two dimensions, or with depth and flags.
template <typename Descriptor>
ArrayShape shape_of(const Descriptor& descriptor) {
  ArrayShape shape{.width = descriptor.width,
                   .height = descriptor.height,
                   .format = descriptor.format,
                   .channels = descriptor.channels};
  if constexpr (requires { descriptor.depth; }) {
    shape.depth = descriptor.depth;
    shape.flags = descriptor.flags;
  }
  return shape;
}

// Format size · channels · extent · layers, over all mip levels, rounded up to 512 B.
std::uint64_t array_bytes(const ArrayShape& shape, unsigned levels);

// Frees what one of our own calls got but may not keep.
void free_again(CuPtr pointer);

}  // namespace berth::guard
