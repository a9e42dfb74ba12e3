// The driver's entry points as a program sees them, with prototypes of our own: what tests and the
// client kit call. Handles are plain pointers, so that nothing is shared with whoever implements
// them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace berth::client {

using Code = int;
using Device = int;
using Pointer = unsigned long long;
using Handle = void*;  // context, stream, event, module, function, array, pool, graph, node

struct ArrayShape {
  std::size_t width;
  std::size_t height;
  int format;
  unsigned int channels;
};

struct Array3dShape {
  std::size_t width;
  std::size_t height;
  std::size_t depth;
  int format;
  unsigned int channels;
  unsigned int flags;
};

struct Location {
  int type;
  int id;
};

struct AllocationProperties {
  int type = 1;
  int handle_types = 0;
  Location location{.type = 1, .id = 0};
  void* meta = nullptr;
  unsigned char flags[8] = {};
};

struct PoolProperties {
  int type = 1;
  int handle_types = 0;
  Location location{.type = 1, .id = 0};
  void* attributes = nullptr;
  std::size_t max_size = 0;
  unsigned char reserved[56] = {};
};

struct AllocationNode {
  PoolProperties pool{};
  const void* access = nullptr;
  std::size_t access_count = 0;
  std::size_t bytes = 0;
  Pointer pointer = 0;
};

struct Access {
  Location location{.type = 1, .id = 0};
  int flags = 3;
};

struct Uuid {
  unsigned char bytes[16];
};

struct IpcHandle {
  char bytes[64];
};

struct ExternalMemory {
  int type = 1;
  union {
    int fd;
    const void* pointers[2];
  } handle{};
  unsigned long long bytes = 0;
  unsigned int flags = 0;
  unsigned int reserved[16] = {};
};

struct ExternalBuffer {
  unsigned long long offset = 0;
  unsigned long long bytes = 0;
  unsigned int flags = 0;
  unsigned int reserved[16] = {};
};

static_assert(sizeof(AllocationProperties) == 32 && sizeof(PoolProperties) == 88);
static_assert(sizeof(AllocationNode) == 120 && sizeof(Array3dShape) == 40);

// X(exported name, name for cuGetProcAddress, its CUDA version, parameters)
#define BERTH_CALLS(X)                                                                             \
  X(cuInit, cuInit, 2000, (unsigned int))                                                          \
  X(cuDriverGetVersion, cuDriverGetVersion, 2020, (int*))                                          \
  X(cuDeviceGet, cuDeviceGet, 2000, (Device*, int))                                                \
  X(cuDeviceGetCount, cuDeviceGetCount, 2000, (int*))                                              \
  X(cuDeviceGetName, cuDeviceGetName, 2000, (char*, int, Device))                                  \
  X(cuDeviceGetUuid_v2, cuDeviceGetUuid, 11040, (Uuid*, Device))                                   \
  X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, (int*, int, Device))                         \
  X(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, (std::size_t*, Device))                           \
  X(cuCtxCreate_v2, cuCtxCreate, 3020, (Handle*, unsigned int, Device))                            \
  X(cuCtxDestroy_v2, cuCtxDestroy, 4000, (Handle))                                                 \
  X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, (Handle))                                              \
  X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, (Handle*))                                             \
  X(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000, (Handle))                                         \
  X(cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000, (Handle*))                                          \
  X(cuCtxSynchronize, cuCtxSynchronize, 2000, ())                                                  \
  X(cuCtxSetLimit, cuCtxSetLimit, 3010, (int, std::size_t))                                        \
  X(cuCtxGetLimit, cuCtxGetLimit, 3010, (std::size_t*, int))                                       \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, (Handle*, Device))                   \
  X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, (Device))                      \
  X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, (Device))                          \
  X(cuMemGetInfo_v2, cuMemGetInfo, 3020, (std::size_t*, std::size_t*))                             \
  X(cuMemAlloc_v2, cuMemAlloc, 3020, (Pointer*, std::size_t))                                      \
  X(cuMemFree_v2, cuMemFree, 3020, (Pointer))                                                      \
  X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020,                                                     \
    (Pointer*, std::size_t*, std::size_t, std::size_t, unsigned int))                              \
  X(cuMemAllocManaged, cuMemAllocManaged, 6000, (Pointer*, std::size_t, unsigned int))             \
  X(cuMemHostAlloc, cuMemHostAlloc, 2020, (void**, std::size_t, unsigned int))                     \
  X(cuMemFreeHost, cuMemFreeHost, 2000, (void*))                                                   \
  X(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020, (Pointer*, std::size_t*, Pointer))        \
  X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, (void*, int, Pointer))                     \
  X(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, (Pointer, const void*, std::size_t))                      \
  X(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, (void*, Pointer, std::size_t))                            \
  X(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, (Pointer, Pointer, std::size_t))                          \
  X(cuMemsetD8_v2, cuMemsetD8, 3020, (Pointer, unsigned char, std::size_t))                        \
  X(cuMemsetD32_v2, cuMemsetD32, 3020, (Pointer, unsigned int, std::size_t))                       \
  X(cuArrayCreate_v2, cuArrayCreate, 3020, (Handle*, const ArrayShape*))                           \
  X(cuArray3DCreate_v2, cuArray3DCreate, 3020, (Handle*, const Array3dShape*))                     \
  X(cuArrayDestroy, cuArrayDestroy, 2000, (Handle))                                                \
  X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000,                                          \
    (Handle*, const Array3dShape*, unsigned int))                                                  \
  X(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000, (Handle))                              \
  X(cuStreamCreate, cuStreamCreate, 2000, (Handle*, unsigned int))                                 \
  X(cuStreamDestroy_v2, cuStreamDestroy, 4000, (Handle))                                           \
  X(cuStreamSynchronize, cuStreamSynchronize, 2000, (Handle))                                      \
  X(cuStreamQuery, cuStreamQuery, 2000, (Handle))                                                  \
  X(cuStreamWaitEvent, cuStreamWaitEvent, 3020, (Handle, Handle, unsigned int))                    \
  X(cuEventCreate, cuEventCreate, 2000, (Handle*, unsigned int))                                   \
  X(cuEventDestroy_v2, cuEventDestroy, 4000, (Handle))                                             \
  X(cuEventRecord, cuEventRecord, 2000, (Handle, Handle))                                          \
  X(cuEventQuery, cuEventQuery, 2000, (Handle))                                                    \
  X(cuEventSynchronize, cuEventSynchronize, 2000, (Handle))                                        \
  X(cuEventElapsedTime, cuEventElapsedTime, 2000, (float*, Handle, Handle))                        \
  X(cuModuleLoadData, cuModuleLoadData, 2000, (Handle*, const void*))                              \
  X(cuModuleUnload, cuModuleUnload, 2000, (Handle))                                                \
  X(cuModuleGetFunction, cuModuleGetFunction, 2000, (Handle*, Handle, const char*))                \
  X(cuLaunchKernel, cuLaunchKernel, 4000,                                                          \
    (Handle, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,   \
     unsigned int, Handle, void**, void**))                                                        \
  X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 10020,                           \
    (std::size_t*, const AllocationProperties*, int))                                              \
  X(cuMemCreate, cuMemCreate, 10020,                                                               \
    (Pointer*, std::size_t, const AllocationProperties*, unsigned long long))                      \
  X(cuMemRelease, cuMemRelease, 10020, (Pointer))                                                  \
  X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000, (Pointer*, void*))            \
  X(cuMemAddressReserve, cuMemAddressReserve, 10020,                                               \
    (Pointer*, std::size_t, std::size_t, Pointer, unsigned long long))                             \
  X(cuMemAddressFree, cuMemAddressFree, 10020, (Pointer, std::size_t))                             \
  X(cuMemMap, cuMemMap, 10020, (Pointer, std::size_t, std::size_t, Pointer, unsigned long long))   \
  X(cuMemUnmap, cuMemUnmap, 10020, (Pointer, std::size_t))                                         \
  X(cuMemSetAccess, cuMemSetAccess, 10020, (Pointer, std::size_t, const Access*, std::size_t))     \
  X(cuMemExportToShareableHandle, cuMemExportToShareableHandle, 10020,                             \
    (void*, Pointer, int, unsigned long long))                                                     \
  X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, 10020, (Pointer*, void*, int)) \
  X(cuMemAllocAsync, cuMemAllocAsync, 11020, (Pointer*, std::size_t, Handle))                      \
  X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020,                                       \
    (Pointer*, std::size_t, Handle, Handle))                                                       \
  X(cuMemFreeAsync, cuMemFreeAsync, 11020, (Pointer, Handle))                                      \
  X(cuMemPoolCreate, cuMemPoolCreate, 11020, (Handle*, const PoolProperties*))                     \
  X(cuMemPoolDestroy, cuMemPoolDestroy, 11020, (Handle))                                           \
  X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, (Handle, std::size_t))                                \
  X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, (Handle, int, void*))                     \
  X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, (Handle, int, void*))                     \
  X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, (Handle*, Device))                \
  X(cuGraphCreate, cuGraphCreate, 10000, (Handle*, unsigned int))                                  \
  X(cuGraphDestroy, cuGraphDestroy, 10000, (Handle))                                               \
  X(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040,                                         \
    (Handle*, Handle, const Handle*, std::size_t, AllocationNode*))                                \
  X(cuGraphAddMemFreeNode, cuGraphAddMemFreeNode, 11040,                                           \
    (Handle*, Handle, const Handle*, std::size_t, Pointer))                                        \
  X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040,                               \
    (Handle*, Handle, unsigned long long))                                                         \
  X(cuGraphLaunch, cuGraphLaunch, 10000, (Handle, Handle))                                         \
  X(cuGraphExecDestroy, cuGraphExecDestroy, 10000, (Handle))                                       \
  X(cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute, 11040, (Device, int, void*))       \
  X(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 11040, (Device))                                   \
  X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, (Handle, int))                           \
  X(cuStreamEndCapture, cuStreamEndCapture, 10000, (Handle, Handle*))                              \
  X(cuStreamIsCapturing, cuStreamIsCapturing, 10000, (Handle, int*))                               \
  X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, (IpcHandle*, Pointer))                             \
  X(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, 11000, (Pointer*, IpcHandle, unsigned int))         \
  X(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, (Pointer))                                     \
  X(cuImportExternalMemory, cuImportExternalMemory, 10000, (Handle*, const ExternalMemory*))       \
  X(cuExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedBuffer, 10000,                       \
    (Pointer*, Handle, const ExternalBuffer*))                                                     \
  X(cuDestroyExternalMemory, cuDestroyExternalMemory, 10000, (Handle))

struct Calls {
  // NOLINTBEGIN(readability-identifier-naming): named as the driver names its functions
#define BERTH_MEMBER(name, base, version, parameters) Code(*name) parameters = nullptr;
  BERTH_CALLS(BERTH_MEMBER)
#undef BERTH_MEMBER
  // NOLINTEND(readability-identifier-naming)
};

// How a program comes by its functions.
enum class Road { dlsym_handle, dlsym_default, dlsym_next, dlvsym, proc, proc_per_thread };

// Loads the driver ("libcuda.so.1" unless `library` names another) and finds every call that it
// has; the others stay null. False with a reason if the driver itself is not there.
bool load(Road road, Calls* calls, const char** why, const char* library = nullptr);
const char* road_name(Road road);
bool road_named(const char* name, Road* road);

}  // namespace berth::client
