#include "guard/preload/arrays.h"

#include "guard/preload/books.h"

namespace berth::guard {

namespace {

constexpr unsigned kLayered = 0x01;
constexpr unsigned kCubemap = 0x04;

// What a format stores: bytes per element of a channel, or of a texel (all channels), or half bytes
// per texel of planar video, or bytes per block of 4 x 4 texels. Values of CUarray_format in
// cuda.h.
enum class Unit : std::uint8_t { channel, texel, half_bytes, block };

struct Format {
  Unit unit;
  std::uint8_t size;
};

Format format_of(unsigned format) {
  switch (format) {
    case 0x01:
    case 0x08: return {Unit::channel, 1};
    case 0x02:
    case 0x09:
    case 0x10: return {Unit::channel, 2};
    case 0x03:
    case 0x0a:
    case 0x20: return {Unit::channel, 4};
    case 0xc0:
    case 0xc6: return {Unit::texel, 1};
    case 0xc1:
    case 0xc7:
    case 0xc3:
    case 0xc9: return {Unit::texel, 2};
    case 0xc2:
    case 0xc8:
    case 0xc4:
    case 0xca:
    case 0x50: return {Unit::texel, 4};
    case 0xc5:
    case 0xcb: return {Unit::texel, 8};
    case 0xb0: return {Unit::half_bytes, 3};  // NV12
    case 0xa2:
    case 0xa5: return {Unit::half_bytes, 4};  // NV16, YUY2
    case 0x9f:                                // P010
    case 0xa1:                                // P016
    case 0xb2:
    case 0xb4:
    case 0xb5: return {Unit::half_bytes, 6};
    case 0xa3:
    case 0xa4:
    case 0xa6:
    case 0xa7:
    case 0xa8:
    case 0xa9: return {Unit::half_bytes, 8};
    case 0xb3: return {Unit::half_bytes, 12};
    case 0xb1: return {Unit::half_bytes, 16};
    case 0x91:
    case 0x92:
    case 0x97:
    case 0x98: return {Unit::block, 8};
    default: break;
  }
  if (format >= 0x93 && format <= 0x9e) return {Unit::block, 16};
  // Newer than this table: the largest element of a channel, the safe direction.
  return {Unit::channel, 4};
}

std::uint64_t at_least_one(std::uint64_t value) { return value == 0 ? 1 : value; }

std::uint64_t plane_bytes(const ArrayShape& shape, std::uint64_t width, std::uint64_t height) {
  const Format format = format_of(shape.format);
  switch (format.unit) {
    case Unit::channel:
      return times(times(width, height), at_least_one(shape.channels) * format.size);
    case Unit::texel: return times(times(width, height), format.size);
    case Unit::half_bytes: return times(times(width, height), format.size) / 2;
    case Unit::block:
      return times(times(round_up(width, 4) / 4, round_up(height, 4) / 4), format.size);
  }
  return 0;
}

}  // namespace

std::uint64_t array_bytes(const ArrayShape& shape, unsigned levels) {
  if ((shape.flags & (kArraySparse | kArrayDeferred)) != 0) return 0;
  const bool layered = (shape.flags & (kLayered | kCubemap)) != 0;
  std::uint64_t width = at_least_one(shape.width);
  std::uint64_t height = at_least_one(shape.height);
  std::uint64_t depth = at_least_one(shape.depth);
  std::uint64_t sum = 0;
  // The driver takes no levels for one, and leaves out levels that do not exist.
  for (unsigned level = 0; level == 0 || (level < levels && level < 64); ++level) {
    sum += times(plane_bytes(shape, width, height), depth);
    if (sum >= kImpossible) return kImpossible;
    if (width == 1 && height == 1 && (layered || depth == 1)) break;  // no smaller level exists
    width = at_least_one(width / 2);
    height = at_least_one(height / 2);
    if (!layered) depth = at_least_one(depth / 2);
  }
  return round_up(sum, kGrain);
}

}  // namespace berth::guard
