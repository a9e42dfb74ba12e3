#include "fake/cuda/copy.h"

#include <cstring>

#include "fake/cuda/array.h"
#include "fake/cuda/host.h"
#include "fake/cuda/physical.h"

namespace berth::fake::cuda {

namespace {

constexpr int kHost = 1;
constexpr int kDevice = 2;
constexpr int kArray = 3;
constexpr int kUnified = 4;

// One side of a copy with a shape.
struct Side {
  int type = 0;
  void* host = nullptr;
  CUdeviceptr device = 0;
  Array* array = nullptr;
  std::size_t pitch = 0;
  std::size_t rows = 0;
  std::size_t x = 0;
  std::size_t y = 0;
  std::size_t z = 0;
};

struct Extent {
  std::size_t width;
  std::size_t height;
  std::size_t depth;
};

struct Surface {
  unsigned char* first = nullptr;
  std::size_t row = 0;
  std::size_t slice = 0;
};

CUresult array_surface(const Side& side, const Extent& extent, Surface* surface) {
  const Guard guard(driver().lock);
  if (!g_arrays.is_live(side.array)) return kInvalidHandle;
  Array& array = *side.array;
  const std::size_t rows = array.shape.height == 0 ? 1 : array.shape.height;
  const std::size_t slices = array.shape.depth == 0 ? 1 : array.shape.depth;
  const std::size_t row =
      element_bytes(array.shape.format, array.shape.channels) * array.shape.width;
  if (side.x + extent.width > row || side.y + extent.height > rows ||
      side.z + extent.depth > slices) {
    return kInvalidValue;
  }
  if (array.content.empty()) array.content.resize(row * rows * slices);
  *surface = {.first = array.content.data() + side.z * row * rows + side.y * row + side.x,
              .row = row,
              .slice = row * rows};
  return kSuccess;
}

CUresult surface_of(const Side& side, const Extent& extent, bool writes, Surface* surface) {
  if (side.type == kArray) return array_surface(side, extent, surface);
  const std::size_t row = side.pitch == 0 ? extent.width : side.pitch;
  if (row < extent.width && extent.height > 1) return kInvalidValue;
  const std::size_t slice = row * (side.rows == 0 ? extent.height : side.rows);
  const std::size_t offset = side.z * slice + side.y * row + side.x;
  const std::size_t bytes = (extent.depth - 1) * slice + (extent.height - 1) * row + extent.width;
  unsigned char* first = nullptr;
  if (side.type == kHost) {
    first = static_cast<unsigned char*>(side.host);
    if (first != nullptr) first += offset;
  } else if (side.type == kDevice) {
    first = device_memory(side.device + offset, bytes, writes);
  } else if (side.type == kUnified) {
    first = any_memory(side.device + offset, bytes, writes);
  }
  if (first == nullptr) return kInvalidValue;
  *surface = {.first = first, .row = row, .slice = slice};
  return kSuccess;
}

}  // namespace

unsigned char* device_memory(CUdeviceptr pointer, std::uint64_t bytes, bool writes) {
  const Guard guard(driver().lock);
  Block* block = driver().find(pointer);
  if (block == nullptr || pointer - block->base + bytes > block->bytes) {
    return is_host_memory(pointer, bytes) ? reinterpret_cast<unsigned char*>(pointer) : nullptr;
  }
  if (block->kind == BlockKind::reserved && !is_mapped(*block, pointer, bytes)) return nullptr;
  if (writes) block->touched = true;
  return reinterpret_cast<unsigned char*>(pointer);
}

unsigned char* any_memory(CUdeviceptr pointer, std::uint64_t bytes, bool writes) {
  if (pointer == 0) return nullptr;
  const bool ours = driver().space.contains(pointer) || driver().low_space.contains(pointer);
  return ours ? device_memory(pointer, bytes, writes) : reinterpret_cast<unsigned char*>(pointer);
}

CUresult copy_linear(unsigned char* target, const unsigned char* source, std::uint64_t bytes) {
  if (bytes == 0) return kSuccess;
  if (target == nullptr || source == nullptr) return kInvalidValue;
  std::memmove(target, source, bytes);
  return kSuccess;
}

CUresult copy_shape(const Copy3d& copy) {
  const Extent extent{.width = copy.width, .height = copy.height, .depth = copy.depth};
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return kSuccess;
  const Side from{.type = copy.source_type,
                  .host = const_cast<void*>(copy.source_host),
                  .device = copy.source_device,
                  .array = copy.source_array,
                  .pitch = copy.source_pitch,
                  .rows = copy.source_height,
                  .x = copy.source_x,
                  .y = copy.source_y,
                  .z = copy.source_z};
  const Side to{.type = copy.target_type,
                .host = copy.target_host,
                .device = copy.target_device,
                .array = copy.target_array,
                .pitch = copy.target_pitch,
                .rows = copy.target_height,
                .x = copy.target_x,
                .y = copy.target_y,
                .z = copy.target_z};
  Surface source;
  Surface target;
  if (const CUresult code = surface_of(from, extent, false, &source); code != kSuccess) return code;
  if (const CUresult code = surface_of(to, extent, true, &target); code != kSuccess) return code;
  for (std::size_t z = 0; z < extent.depth; ++z) {
    for (std::size_t y = 0; y < extent.height; ++y) {
      std::memmove(target.first + z * target.slice + y * target.row,
                   source.first + z * source.slice + y * source.row, extent.width);
    }
  }
  return kSuccess;
}

Copy3d widened(const Copy2d& copy) {
  Copy3d whole{};
  whole.source_x = copy.source_x;
  whole.source_y = copy.source_y;
  whole.source_type = copy.source_type;
  whole.source_host = copy.source_host;
  whole.source_device = copy.source_device;
  whole.source_array = copy.source_array;
  whole.source_pitch = copy.source_pitch;
  whole.target_x = copy.target_x;
  whole.target_y = copy.target_y;
  whole.target_type = copy.target_type;
  whole.target_host = copy.target_host;
  whole.target_device = copy.target_device;
  whole.target_array = copy.target_array;
  whole.target_pitch = copy.target_pitch;
  whole.width = copy.width;
  whole.height = copy.height;
  whole.depth = 1;
  return whole;
}

CUresult fill(CUdeviceptr target, std::size_t pitch, unsigned int value, unsigned int element,
              std::size_t width, std::size_t height) {
  if (width == 0 || height == 0) return kSuccess;
  const std::size_t row = width * element;
  if (target % element != 0 || (height > 1 && pitch < row)) return kInvalidValue;
  unsigned char* first = device_memory(target, (height - 1) * pitch + row, true);
  if (first == nullptr) return kInvalidValue;
  for (std::size_t y = 0; y < height; ++y) {
    unsigned char* at = first + y * pitch;
    if (element == 1) {
      std::memset(at, static_cast<int>(value & 0xFFU), width);
      continue;
    }
    for (std::size_t x = 0; x < width; ++x)
      std::memcpy(at + x * element, &value, element);
  }
  return kSuccess;
}

}  // namespace berth::fake::cuda
