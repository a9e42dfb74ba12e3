// The driver's binary interface, as far as the guard touches it: our own names for its types, with
// sizes and offsets asserted. Facts from cuda.h and nvml.h of CUDA 13.0 and
// enforcement.md 2.3, 2.4. The vendor's headers are never included: their macros rename functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace berth::guard {

using CuPtr = unsigned long long;
using CuHandle = void*;
using CuAllocation = unsigned long long;
using CuDevice = int;
using Size = std::size_t;
using Flags64 = unsigned long long;

inline constexpr int kCudaSuccess = 0;
inline constexpr int kCudaInvalidValue = 1;
inline constexpr int kCudaOutOfMemory = 2;
inline constexpr int kCudaNotFound = 500;
inline constexpr int kCudaNotPermitted = 800;

struct CuUuid {
  std::uint8_t bytes[16];
};

struct MemLocation {
  int type;  // 1: device
  int id;
};
inline constexpr int kLocationDevice = 1;

struct AllocationProp {
  int type;
  int handle_types;
  MemLocation location;
  void* metadata;
  std::uint8_t flags[8];
};
static_assert(sizeof(AllocationProp) == 32 && offsetof(AllocationProp, location) == 8);

struct PoolProps {
  int type;
  int handle_types;
  MemLocation location;
  void* attributes;
  Size max_size;
  std::uint8_t rest[56];
};
static_assert(sizeof(PoolProps) == 88);

struct AllocNodeParams {
  PoolProps pool;
  const void* access;
  Size access_count;
  Size bytes;
  CuPtr pointer;
};
static_assert(sizeof(AllocNodeParams) == 120 && offsetof(AllocNodeParams, bytes) == 104);

struct ArrayDescriptorV1 {
  unsigned width, height;
  unsigned format, channels;
};
struct ArrayDescriptor {
  Size width, height;
  unsigned format, channels;
};
static_assert(sizeof(ArrayDescriptor) == 24);
struct Array3dDescriptorV1 {
  unsigned width, height, depth;
  unsigned format, channels, flags;
};
struct Array3dDescriptor {
  Size width, height, depth;
  unsigned format, channels, flags;
};
static_assert(sizeof(Array3dDescriptor) == 40);

struct ArrayMapInfo {
  int resource_type;
  CuHandle resource;
  int subresource_type;
  struct alignas(8) {
    unsigned level, layer, x, y, z, width, height, depth;
  } subresource;
  int operation;  // 1 map, 2 unmap
  int handle_type;
  CuAllocation handle;
  unsigned long long offset;
  unsigned device_mask, flags, reserved[2];
};
static_assert(sizeof(ArrayMapInfo) == 96 && offsetof(ArrayMapInfo, operation) == 56 &&
              offsetof(ArrayMapInfo, handle) == 64);

struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared;
  CuHandle stream;
  const void* attributes;
  unsigned n_attributes;
};
static_assert(sizeof(LaunchConfig) == 56 && offsetof(LaunchConfig, stream) == 32);

struct LaunchParams {
  CuHandle function;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared;
  CuHandle stream;
  void** params;
};
static_assert(sizeof(LaunchParams) == 56 && offsetof(LaunchParams, stream) == 40);

// Values of enumerations.
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr int kPointerPool = 17;
inline constexpr int kPoolThreshold = 4;
inline constexpr int kPoolReserved = 5;
inline constexpr int kPoolUsed = 7;
inline constexpr int kGraphUsed = 0;
inline constexpr int kGraphReserved = 2;
inline constexpr int kNodeChildGraph = 4;
inline constexpr int kNodeAlloc = 10;
inline constexpr int kAttributeProcessors = 16;
inline constexpr int kAttributeThreads = 39;  // per multiprocessor, at most
inline constexpr int kLimitStack = 0;
inline constexpr int kLimitPrintf = 1;
inline constexpr int kLimitHeap = 2;
inline constexpr unsigned kArraySparse = 0x40;
inline constexpr unsigned kArrayDeferred = 0x80;

// NVML
using NvmlDevice = void*;
inline constexpr int kNvmlSuccess = 0;
inline constexpr int kNvmlInsufficientSize = 7;

struct NvmlMemory {
  unsigned long long total, free, used;
};
static_assert(sizeof(NvmlMemory) == 24);

struct NvmlMemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
static_assert(sizeof(NvmlMemoryV2) == 40);
inline constexpr unsigned kNvmlMemoryV2 = 0x2000028;

struct NvmlProcessV1 {
  unsigned pid;
  unsigned long long used;
};
static_assert(sizeof(NvmlProcessV1) == 16);

struct NvmlProcess {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(NvmlProcess) == 24);

struct NvmlProcessDetail {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
  unsigned long long protected_used;
};
static_assert(sizeof(NvmlProcessDetail) == 32);

struct NvmlProcessDetailList {
  unsigned version;
  unsigned mode;
  unsigned count;
  NvmlProcessDetail* list;
};
static_assert(sizeof(NvmlProcessDetailList) == 24);
inline constexpr unsigned kNvmlDetailListV1 = 0x1000018;

struct NvmlProcessSample {
  unsigned pid;
  unsigned long long time_stamp;
  unsigned sm, memory, encoder, decoder;
};
static_assert(sizeof(NvmlProcessSample) == 32);

struct NvmlProcessUtilization {
  unsigned long long time_stamp;
  unsigned pid;
  unsigned sm, memory, encoder, decoder, jpeg, ofa;
};
static_assert(sizeof(NvmlProcessUtilization) == 40);

struct NvmlProcessesUtilization {
  unsigned version;
  unsigned count;
  unsigned long long since;
  NvmlProcessUtilization* list;
};
static_assert(sizeof(NvmlProcessesUtilization) == 24);
inline constexpr unsigned kNvmlProcessesUtilizationV1 = 0x1000018;

struct NvmlUtilization {
  unsigned gpu, memory;
};
static_assert(sizeof(NvmlUtilization) == 8);

}  // namespace berth::guard
