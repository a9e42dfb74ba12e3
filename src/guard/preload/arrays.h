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

inline ArrayShape shape_of(const ArrayDescriptor& d) {
  return {.width = d.width,
          .height = d.height,
          .depth = 0,
          .format = d.format,
          .channels = d.channels,
          .flags = 0};
}

inline ArrayShape shape_of(const ArrayDescriptorV1& d) {
  return {.width = d.width,
          .height = d.height,
          .depth = 0,
          .format = d.format,
          .channels = d.channels,
          .flags = 0};
}

inline ArrayShape shape_of(const Array3dDescriptor& d) {
  return {.width = d.width,
          .height = d.height,
          .depth = d.depth,
          .format = d.format,
          .channels = d.channels,
          .flags = d.flags};
}

inline ArrayShape shape_of(const Array3dDescriptorV1& d) {
  return {.width = d.width,
          .height = d.height,
          .depth = d.depth,
          .format = d.format,
          .channels = d.channels,
          .flags = d.flags};
}

// Format size · channels · extent · layers, over all mip levels, rounded up to 512 B.
std::uint64_t array_bytes(const ArrayShape& shape, unsigned levels);

// Frees what one of our own calls got but may not keep.
void free_again(CuPtr pointer);

}  // namespace berth::guard
