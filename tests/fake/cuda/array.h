// Arrays: memory with a shape and without an address.
#pragma once

#include <vector>

#include "fake/cuda/memory.h"

namespace berth::fake::cuda {

struct Array {
  Context* context = nullptr;
  Array3dDescriptor shape{};
  std::uint64_t physical = 0;
  bool is_level = false;  // of a mipmapped array, or a plane: not destroyed by programs
  bool sparse = false;
  std::vector<unsigned char> content = {};  // made on the first copy
  Array* next = nullptr;
  Array* previous = nullptr;
};

struct MipmappedArray {
  Context* context = nullptr;
  Array3dDescriptor shape{};
  std::uint64_t physical = 0;
  std::vector<Array*> levels = {};
};

extern Slab<Array> g_arrays;
extern Slab<MipmappedArray> g_mipmaps;

// Bytes of one element of a format with its channels; 0 for a format that nobody knows.
std::uint64_t element_bytes(int format, unsigned int channels);
// What an array of that shape takes, before rounding; 0 for a wrong one.
std::uint64_t shape_bytes(const Array3dDescriptor& shape);

// With the driver's lock held.
CUresult make_array(Context& context, const Array3dDescriptor& shape, Array** array);
void destroy_array(Array* array);
void drop_arrays(Context& context);

}  // namespace berth::fake::cuda
