// Pitched and managed memory, 32-bit forms, and what is known of an address.
#include <cstring>

#include "fake/cuda/graph.h"
#include "fake/cuda/host.h"
#include "fake/cuda/physical.h"
#include "fake/cuda/pool.h"

using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global
using berth::fake::Family;

namespace {

CUresult pitch_of(std::size_t width, std::size_t height, unsigned int element, std::size_t* pitch,
                  std::uint64_t* bytes) {
  if (width == 0 || height == 0 || (element != 4 && element != 8 && element != 16)) {
    return kInvalidValue;
  }
  if (width > UINT64_MAX - kPitchUnit) return kOutOfMemory;
  *pitch = rounded_up(width, kPitchUnit);
  if (__builtin_mul_overflow(*pitch, height, bytes)) return kOutOfMemory;
  return kSuccess;
}

// Both forms of the call; `take` says where in the address space.
template <class Take, class Pointer, class Size>
CUresult allocate_pitched(Take&& take, Pointer* pointer, Size* pitch, std::size_t width,
                          std::size_t height, unsigned int element) {
  BERTH_CONTEXT(context);
  if (pointer == nullptr || pitch == nullptr) return kInvalidValue;
  std::size_t row = 0;
  std::uint64_t bytes = 0;
  if (const CUresult code = pitch_of(width, height, element, &row, &bytes); code != kSuccess) {
    return code;
  }
  const Guard guard(driver().lock);
  Block* block = nullptr;
  const CUresult code = take(*context, BlockKind::pitched, Family::pitched, bytes, &block);
  if (code != kSuccess) return code;
  *pointer = static_cast<Pointer>(block->base);
  *pitch = static_cast<Size>(row);
  return kSuccess;
}

constexpr unsigned int kAttachGlobal = 1;
constexpr unsigned int kAttachSingle = 4;

}  // namespace

BERTH_CUDA cuMemAllocPitch_v2(CUdeviceptr* pointer, std::size_t* pitch, std::size_t width,
                              std::size_t height, unsigned int element) {
  ENTER(cuMemAllocPitch_v2, pointer, pitch);
  return allocate_pitched(allocate, pointer, pitch, width, height, element);
}

BERTH_CUDA cuMemAllocPitch(CUdeviceptr_v1* pointer, unsigned int* pitch, unsigned int width,
                           unsigned int height, unsigned int element) {
  ENTER(cuMemAllocPitch, pointer, pitch);
  return allocate_pitched(allocate_low, pointer, pitch, width, height, element);
}

BERTH_CUDA cuMemAllocManaged(CUdeviceptr* pointer, std::size_t bytes, unsigned int flags) {
  ENTER(cuMemAllocManaged, pointer);
  BERTH_CONTEXT(context);
  if (pointer == nullptr || bytes == 0 ||
      (flags != kAttachGlobal && flags != 2 && flags != kAttachSingle)) {
    return kInvalidValue;
  }
  const Guard guard(driver().lock);
  Block* block = nullptr;
  const CUresult code = allocate(*context, BlockKind::managed, Family::managed, bytes, &block);
  if (code != kSuccess) return code;
  block->touched = true;  // the program may write there without telling us
  *pointer = block->base;
  return kSuccess;
}

BERTH_CUDA cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr pointer) {
  ENTER(cuMemGetAddressRange_v2, base, bytes);
  const Guard guard(driver().lock);
  const Block* block = driver().find(pointer);
  if (block == nullptr) return kInvalidValue;
  if (base != nullptr) *base = block->base;
  if (bytes != nullptr) *bytes = block->asked;
  return kSuccess;
}

BERTH_CUDA cuMemGetAddressRange(CUdeviceptr_v1* base, unsigned int* bytes, CUdeviceptr_v1 pointer) {
  CUdeviceptr whole = 0;
  std::size_t size = 0;
  const CUresult code = cuMemGetAddressRange_v2(&whole, &size, pointer);
  if (code != kSuccess) return code;
  if (base != nullptr) *base = static_cast<CUdeviceptr_v1>(whole);
  if (bytes != nullptr) *bytes = saturated(size);
  return kSuccess;
}

namespace {

enum PointerAttribute : int {
  kContext = 1,
  kMemoryType = 2,
  kDevicePointer = 3,
  kHostPointer = 4,
  kSyncMemops = 6,
  kBufferId = 7,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kIpcCapable = 10,
  kRangeStart = 11,
  kRangeSize = 12,
  kMapped = 13,
  kHandleTypes = 14,
  kRdmaCapable = 15,
  kAccessFlags = 16,
  kPoolHandle = 17,
  kMappingSize = 18,
  kMappingBase = 19,
  kBlockId = 20,
};

template <class T>
CUresult give(void* out, T value) {
  std::memcpy(out, &value, sizeof(T));  // NOLINT(bugprone-sizeof-expression): also of handles
  return kSuccess;
}

// Of an address that is no device memory: page-locked host memory has attributes, other memory has
// not.
CUresult host_attribute(void* data, int attribute, CUdeviceptr pointer) {
  if (!is_host_memory(pointer, 1)) return kInvalidValue;
  switch (attribute) {
    case kContext: return give(data, current_or_null());
    case kMemoryType: return give<unsigned int>(data, 1);
    case kDevicePointer: return give(data, pointer);
    case kHostPointer: return give(data, reinterpret_cast<void*>(pointer));
    case kIsManaged: return give<unsigned int>(data, 0);
    case kMapped: return give<unsigned int>(data, 1);
    default: return kInvalidValue;
  }
}

CUresult block_attribute(void* data, int attribute, const Block& block, CUdeviceptr pointer) {
  const Mapping* mapping = block.kind == BlockKind::reserved ? mapping_at(pointer) : nullptr;
  if (block.kind == BlockKind::reserved && mapping == nullptr && attribute != kRangeStart) {
    return kInvalidValue;
  }
  const int entry = mapping != nullptr ? mapping->physical->entry : block.device;
  Context* context = g_contexts.is_live(block.context) ? block.context : nullptr;
  switch (attribute) {
    case kContext: return give(data, context);
    case kMemoryType: return give<unsigned int>(data, 2);
    case kDevicePointer: return give(data, pointer);
    case kHostPointer:
      if (block.kind != BlockKind::managed) return kInvalidValue;
      return give(data, reinterpret_cast<void*>(pointer));
    case kSyncMemops: return give<unsigned int>(data, 0);
    case kBufferId: return give<unsigned long long>(data, block.serial);
    case kIsManaged: return give<unsigned int>(data, block.kind == BlockKind::managed ? 1U : 0U);
    case kDeviceOrdinal: return give<int>(data, driver().device_of(entry));
    case kIpcCapable: return give<unsigned int>(data, block.kind == BlockKind::linear ? 1U : 0U);
    case kRangeStart: return give(data, mapping != nullptr ? mapping->base : block.base);
    case kRangeSize:
      return give<std::size_t>(data, mapping != nullptr ? mapping->bytes : block.asked);
    case kMapped: return give<unsigned int>(data, 1);
    case kHandleTypes:
      return give<unsigned long long>(
          data, mapping != nullptr
                    ? static_cast<unsigned long long>(mapping->physical->properties.handle_types)
                    : 0);
    case kRdmaCapable: return give<unsigned int>(data, 1);
    case kAccessFlags: return give<unsigned int>(data, 3);
    case kPoolHandle: return give(data, block.kind == BlockKind::pool ? block.pool : nullptr);
    case kMappingSize:
      return give<std::size_t>(data, mapping != nullptr ? mapping->bytes : block.bytes);
    case kMappingBase: return give(data, mapping != nullptr ? mapping->base : block.base);
    case kBlockId: return give<unsigned long long>(data, block.serial);
    default: return kInvalidValue;
  }
}

CUresult pointer_attribute(void* data, int attribute, CUdeviceptr pointer) {
  if (data == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  const Block* block = driver().find(pointer);
  return block == nullptr ? host_attribute(data, attribute, pointer)
                          : block_attribute(data, attribute, *block, pointer);
}

}  // namespace

BERTH_CUDA cuPointerGetAttribute(void* data, int attribute, CUdeviceptr pointer) {
  ENTER(cuPointerGetAttribute);
  return pointer_attribute(data, attribute, pointer);
}

BERTH_CUDA cuPointerGetAttributes(unsigned int count, const int* attributes, void** data,
                                  CUdeviceptr pointer) {
  ENTER(cuPointerGetAttributes);
  if (count == 0 || attributes == nullptr || data == nullptr) return kInvalidValue;
  for (unsigned int place = 0; place < count; ++place) {
    const CUresult code = pointer_attribute(data[place], attributes[place], pointer);
    if (code == kSuccess || data[place] == nullptr) continue;
    // By this road what is not known is null, not an error.
    const bool word = attributes[place] == kMemoryType || attributes[place] == kIsManaged ||
                      attributes[place] == kSyncMemops || attributes[place] == kMapped;
    if (attributes[place] == kDeviceOrdinal) {
      (void)give<int>(data[place], -2);
    } else if (word) {
      (void)give<unsigned int>(data[place], 0);
    } else {
      (void)give<unsigned long long>(data[place], 0);
    }
  }
  return kSuccess;
}

BERTH_CUDA cuPointerSetAttribute(const void* value, int attribute, CUdeviceptr pointer) {
  ENTER(cuPointerSetAttribute);
  if (value == nullptr || attribute != kSyncMemops) return kInvalidValue;
  const Guard guard(driver().lock);
  return driver().find(pointer) == nullptr ? kInvalidValue : kSuccess;
}

// Where managed memory is does not matter here: it counts on the device it was allocated on.
static CUresult cuMemPrefetchAsync_body(const char* entry, bool per_thread, CUdeviceptr pointer,
                                        std::size_t bytes, CUdevice, CUstream handle) {
  ENTER_AS(entry);
  BERTH_RESOLVE(handle, per_thread, stream);
  (void)stream;
  const Guard guard(driver().lock);
  const Block* block = driver().find(pointer);
  return block == nullptr || block->kind != BlockKind::managed || bytes == 0 ? kInvalidValue
                                                                             : kSuccess;
}
BERTH_STREAM_CALL(cuMemPrefetchAsync, ptsz,
                  (CUdeviceptr pointer, std::size_t bytes, CUdevice device, CUstream stream),
                  (pointer, bytes, device, stream))

static CUresult cuMemPrefetchAsync_v2_body(const char* entry, bool per_thread, CUdeviceptr pointer,
                                           std::size_t bytes, MemLocation, unsigned int flags,
                                           CUstream handle) {
  if (flags != 0) return kInvalidValue;
  return cuMemPrefetchAsync_body(entry, per_thread, pointer, bytes, 0, handle);
}
BERTH_STREAM_CALL(cuMemPrefetchAsync_v2, ptsz,
                  (CUdeviceptr pointer, std::size_t bytes, MemLocation location, unsigned int flags,
                   CUstream stream),
                  (pointer, bytes, location, flags, stream))

BERTH_CUDA cuMemAdvise(CUdeviceptr pointer, std::size_t bytes, int advice, CUdevice) {
  ENTER(cuMemAdvise);
  const Guard guard(driver().lock);
  const Block* block = driver().find(pointer);
  const bool managed = block != nullptr && block->kind == BlockKind::managed;
  return managed && bytes != 0 && advice >= 1 && advice <= 6 ? kSuccess : kInvalidValue;
}

BERTH_CUDA cuMemAdvise_v2(CUdeviceptr pointer, std::size_t bytes, int advice, MemLocation) {
  return cuMemAdvise(pointer, bytes, advice, 0);
}
