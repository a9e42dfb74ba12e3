// Entry points for arrays, mipmapped arrays, and the objects and references that read them.
#include <algorithm>
#include <bit>
#include <cstring>

#include "fake/cuda/array.h"
#include "fake/cuda/stream.h"

using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global
using berth::fake::Family;

namespace {

CUresult create(CUarray* array, const Array3dDescriptor& shape) {
  BERTH_CONTEXT(context);
  const Guard guard(driver().lock);
  Array* made = nullptr;
  const CUresult code = make_array(*context, shape, &made);
  if (code == kSuccess) *array = made;
  return code;
}

Array3dDescriptor flat(const ArrayDescriptor& shape) {
  return {.width = shape.width,
          .height = shape.height,
          .depth = 0,
          .format = shape.format,
          .channels = shape.channels,
          .flags = 0};
}

CUresult describe(CUarray array, Array3dDescriptor* shape) {
  const Guard guard(driver().lock);
  if (!g_arrays.is_live(array)) return kInvalidHandle;
  *shape = array->shape;
  return kSuccess;
}

}  // namespace

BERTH_CUDA cuArrayCreate_v2(CUarray* array, const ArrayDescriptor* shape) {
  ENTER(cuArrayCreate_v2, array);
  if (array == nullptr || shape == nullptr) return kInvalidValue;
  return create(array, flat(*shape));
}

BERTH_CUDA cuArrayCreate(CUarray* array, const ArrayDescriptorV1* shape) {
  ENTER(cuArrayCreate, array);
  if (array == nullptr || shape == nullptr) return kInvalidValue;
  return create(array, {.width = shape->width,
                        .height = shape->height,
                        .depth = 0,
                        .format = shape->format,
                        .channels = shape->channels,
                        .flags = 0});
}

BERTH_CUDA cuArray3DCreate_v2(CUarray* array, const Array3dDescriptor* shape) {
  ENTER(cuArray3DCreate_v2, array);
  if (array == nullptr || shape == nullptr) return kInvalidValue;
  return create(array, *shape);
}

BERTH_CUDA cuArray3DCreate(CUarray* array, const Array3dDescriptorV1* shape) {
  ENTER(cuArray3DCreate, array);
  if (array == nullptr || shape == nullptr) return kInvalidValue;
  return create(array, {.width = shape->width,
                        .height = shape->height,
                        .depth = shape->depth,
                        .format = shape->format,
                        .channels = shape->channels,
                        .flags = shape->flags});
}

BERTH_CUDA cuArrayDestroy(CUarray array) {
  ENTER(cuArrayDestroy);
  const Guard guard(driver().lock);
  if (!g_arrays.is_live(array) || array->is_level) return kInvalidHandle;
  destroy_array(array);
  return kSuccess;
}

BERTH_CUDA cuArray3DGetDescriptor_v2(Array3dDescriptor* shape, CUarray array) {
  ENTER(cuArray3DGetDescriptor_v2, shape);
  return shape == nullptr ? kInvalidValue : describe(array, shape);
}

BERTH_CUDA cuArrayGetDescriptor_v2(ArrayDescriptor* shape, CUarray array) {
  ENTER(cuArrayGetDescriptor_v2, shape);
  if (shape == nullptr) return kInvalidValue;
  Array3dDescriptor whole{};
  if (const CUresult code = describe(array, &whole); code != kSuccess) return code;
  *shape = {.width = whole.width,
            .height = whole.height,
            .format = whole.format,
            .channels = whole.channels};
  return kSuccess;
}

namespace {

struct MemoryRequirements {
  std::size_t bytes;
  std::size_t alignment;
  unsigned int reserved[4];
};

struct SparseProperties {
  unsigned int tile[3];
  unsigned int first_tail_level;
  unsigned long long tail_bytes;
  unsigned int flags;
  unsigned int reserved[4];
};

void fill_requirements(const Array3dDescriptor& shape, MemoryRequirements* requirements) {
  *requirements = {};
  constexpr std::size_t kTile = 64U << 10;
  requirements->bytes = rounded_up(shape_bytes(shape), kTile);
  requirements->alignment = kTile;
}

SparseProperties tiles_of(const Array3dDescriptor& shape) {
  SparseProperties properties{};
  properties.tile[0] = static_cast<unsigned int>(
      256 / std::max<std::uint64_t>(element_bytes(shape.format, shape.channels), 1));
  properties.tile[1] = 256;
  properties.tile[2] = 1;
  properties.first_tail_level = 4;
  properties.tail_bytes = 64U << 10;
  return properties;
}

}  // namespace

BERTH_CUDA cuArrayGetMemoryRequirements(MemoryRequirements* requirements, CUarray array,
                                        CUdevice device) {
  ENTER(cuArrayGetMemoryRequirements, requirements);
  if (requirements == nullptr || !driver().is_device(device)) return kInvalidValue;
  Array3dDescriptor shape{};
  if (const CUresult code = describe(array, &shape); code != kSuccess) return code;
  fill_requirements(shape, requirements);
  return kSuccess;
}

BERTH_CUDA cuArrayGetSparseProperties(SparseProperties* properties, CUarray array) {
  ENTER(cuArrayGetSparseProperties, properties);
  if (properties == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_arrays.is_live(array) || !array->sparse) return kInvalidValue;
  *properties = tiles_of(array->shape);
  return kSuccess;
}

BERTH_CUDA cuMipmappedArrayCreate(CUmipmappedArray* mipmap, const Array3dDescriptor* shape,
                                  unsigned int levels) {
  ENTER(cuMipmappedArrayCreate, mipmap);
  if (mipmap == nullptr || shape == nullptr || shape_bytes(*shape) == 0) return kInvalidValue;
  BERTH_CONTEXT(context);
  const Guard guard(driver().lock);
  std::vector<Array3dDescriptor> shapes;
  std::uint64_t bytes = 0;
  Array3dDescriptor level = *shape;
  const bool layered = (shape->flags & 5U) != 0;  // in layers, or the faces of cubes
  // As documented: clamped to 1 … 1 + log2 of the longest side.
  const std::size_t longest = std::max({shape->width, shape->height, layered ? 1 : shape->depth});
  levels = std::clamp<unsigned int>(levels, 1, static_cast<unsigned int>(std::bit_width(longest)));
  for (unsigned int number = 0; number < levels; ++number) {
    shapes.push_back(level);
    bytes += shape_bytes(level);
    level.width = std::max<std::size_t>(level.width / 2, 1);
    if (level.height != 0) level.height = std::max<std::size_t>(level.height / 2, 1);
    if (level.depth != 0 && !layered) level.depth = std::max<std::size_t>(level.depth / 2, 1);
  }
  const bool bare = (shape->flags & 0xC0U) != 0;
  const std::uint64_t physical = bare ? 0 : rounded_up(bytes, kGranule);
  if (!driver().books().charge(context->entry, Family::array, physical)) return kOutOfMemory;
  MipmappedArray* made = g_mipmaps.make();
  if (made == nullptr) return kOutOfMemory;
  made->context = context;
  made->shape = *shape;
  made->physical = physical;
  for (const Array3dDescriptor& one : shapes) {
    Array3dDescriptor part = one;
    part.flags |= 0x80U;  // charged with the whole
    Array* array = nullptr;
    if (make_array(*context, part, &array) != kSuccess) break;
    array->shape.flags = one.flags;
    array->is_level = true;
    made->levels.push_back(array);
  }
  *mipmap = made;
  return kSuccess;
}

BERTH_CUDA cuMipmappedArrayGetLevel(CUarray* array, CUmipmappedArray mipmap, unsigned int level) {
  ENTER(cuMipmappedArrayGetLevel, array);
  if (array == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_mipmaps.is_live(mipmap)) return kInvalidHandle;
  if (level >= mipmap->levels.size()) return kInvalidValue;
  *array = mipmap->levels[level];
  return kSuccess;
}

BERTH_CUDA cuMipmappedArrayDestroy(CUmipmappedArray mipmap) {
  ENTER(cuMipmappedArrayDestroy);
  const Guard guard(driver().lock);
  if (!g_mipmaps.is_live(mipmap)) return kInvalidHandle;
  for (Array* level : mipmap->levels)
    destroy_array(level);
  driver().books().release(mipmap->context->entry, Family::array, mipmap->physical);
  g_mipmaps.destroy(mipmap);
  return kSuccess;
}

BERTH_CUDA cuMipmappedArrayGetMemoryRequirements(MemoryRequirements* requirements,
                                                 CUmipmappedArray mipmap, CUdevice device) {
  ENTER(cuMipmappedArrayGetMemoryRequirements, requirements);
  if (requirements == nullptr || !driver().is_device(device)) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_mipmaps.is_live(mipmap)) return kInvalidHandle;
  fill_requirements(mipmap->shape, requirements);
  return kSuccess;
}

BERTH_CUDA cuMipmappedArrayGetSparseProperties(SparseProperties* properties,
                                               CUmipmappedArray mipmap) {
  ENTER(cuMipmappedArrayGetSparseProperties, properties);
  if (properties == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_mipmaps.is_live(mipmap)) return kInvalidHandle;
  *properties = tiles_of(mipmap->shape);
  return kSuccess;
}

// Texture and surface objects are numbers here: nothing ever reads through them.
BERTH_CUDA cuTexObjectCreate(unsigned long long* object, const void* resource, const void* texture,
                             const void*) {
  ENTER(cuTexObjectCreate, object);
  static std::atomic<unsigned long long> numbers{0};
  if (object == nullptr || resource == nullptr || texture == nullptr) return kInvalidValue;
  *object = ++numbers;
  return kSuccess;
}

BERTH_CUDA cuTexObjectDestroy(unsigned long long object) {
  ENTER(cuTexObjectDestroy);
  return object == 0 ? kInvalidValue : kSuccess;
}

BERTH_CUDA cuSurfObjectCreate(unsigned long long* object, const void* resource) {
  ENTER(cuSurfObjectCreate, object);
  static std::atomic<unsigned long long> numbers{0};
  if (object == nullptr || resource == nullptr) return kInvalidValue;
  *object = ++numbers;
  return kSuccess;
}

BERTH_CUDA cuSurfObjectDestroy(unsigned long long object) {
  ENTER(cuSurfObjectDestroy);
  return object == 0 ? kInvalidValue : kSuccess;
}
