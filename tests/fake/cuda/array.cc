#include "fake/cuda/array.h"

#include <algorithm>

namespace berth::fake::cuda {

Slab<Array> g_arrays;
Slab<MipmappedArray> g_mipmaps;

namespace {

// Sparse arrays and arrays whose mapping is deferred have no memory of their own.
constexpr unsigned int kSparse = 0x40;
constexpr unsigned int kDeferred = 0x80;

void link(Context& context, Array& array) {
  array.next = context.arrays;
  if (context.arrays != nullptr) context.arrays->previous = &array;
  context.arrays = &array;
}

void unlink(Array& array) {
  if (array.previous != nullptr) {
    array.previous->next = array.next;
  } else if (array.context->arrays == &array) {
    array.context->arrays = array.next;
  }
  if (array.next != nullptr) array.next->previous = array.previous;
}

}  // namespace

std::uint64_t element_bytes(int format, unsigned int channels) {
  switch (format) {
    case 0x01:  // 8-bit integers
    case 0x08: return channels;
    case 0x02:  // 16-bit integers and halves
    case 0x09:
    case 0x10: return 2ULL * channels;
    case 0x03:  // 32-bit integers and floats
    case 0x0A:
    case 0x20: return 4ULL * channels;
    case 0xC0:  // normalised, the channels are part of the format
    case 0xC6: return 1;
    case 0xC1:
    case 0xC7:
    case 0xC3:
    case 0xC9: return 2;
    case 0xC2:
    case 0xC8:
    case 0xC4:
    case 0xCA: return 4;
    case 0xC5:
    case 0xCB: return 8;
    default: return 0;
  }
}

std::uint64_t shape_bytes(const Array3dDescriptor& shape) {
  const std::uint64_t element = element_bytes(shape.format, shape.channels);
  constexpr std::size_t kMost = 1U << 20U;
  if (element == 0 || shape.width == 0 || shape.width > kMost || shape.height > kMost ||
      shape.depth > kMost) {
    return 0;
  }
  return element * shape.width * std::max<std::size_t>(shape.height, 1) *
         std::max<std::size_t>(shape.depth, 1);
}

CUresult make_array(Context& context, const Array3dDescriptor& shape, Array** array) {
  const bool by_channel = shape.format < 0x40;
  if (by_channel && shape.channels != 1 && shape.channels != 2 && shape.channels != 4) {
    return kInvalidValue;
  }
  const std::uint64_t bytes = shape_bytes(shape);
  if (bytes == 0) return kInvalidValue;
  const bool bare = (shape.flags & (kSparse | kDeferred)) != 0;
  const std::uint64_t physical = bare ? 0 : rounded_up(bytes, kGranule);
  Books& books = driver().books();
  if (!books.charge(context.entry, Family::array, physical)) return kOutOfMemory;
  Array* made = g_arrays.make();
  if (made == nullptr) {
    books.release(context.entry, Family::array, physical);
    return kOutOfMemory;
  }
  made->context = &context;
  made->shape = shape;
  made->physical = physical;
  made->sparse = bare;
  link(context, *made);
  *array = made;
  return kSuccess;
}

void destroy_array(Array* array) {
  driver().books().release(array->context->entry, Family::array, array->physical);
  unlink(*array);
  g_arrays.destroy(array);
}

void drop_arrays(Context& context) {
  g_mipmaps.each([&](MipmappedArray* mipmap) {
    if (mipmap->context != &context) return;
    driver().books().release(context.entry, Family::array, mipmap->physical);
    g_mipmaps.destroy(mipmap);
  });
  while (context.arrays != nullptr)
    destroy_array(context.arrays);
}

}  // namespace berth::fake::cuda
