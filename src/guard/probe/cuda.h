// The driver as a program sees it: one table of functions, loaded by a road of choice. Shared by
// the probe and by the programs of the guard's tests.
//
//   Cuda cu;
//   if (!cu.load(Road::dlsym)) …
//   cu.cuInit(0);
//
// Types are our own, from the public documentation of the driver API.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace berth::guard_probe {

using Ptr = unsigned long long;
using Handle = void*;

struct Location {
  int type = 1;
  int id = 0;
};
struct Prop {
  int type = 1, handles = 0;
  Location location;
  void* meta = nullptr;
  unsigned char flags[8] = {};
};
struct PoolProps {
  int type = 1, handles = 0;
  Location location;
  void* attributes = nullptr;
  std::size_t max_size = 0;
  unsigned char rest[56] = {};
};
struct AllocNode {
  PoolProps pool;
  const void* access = nullptr;
  std::size_t access_count = 0;
  std::size_t bytes = 0;
  Ptr pointer = 0;
};
struct Array2d {
  std::size_t width = 0, height = 0;
  unsigned format = 1, channels = 1;
};
struct Array3d {
  std::size_t width = 0, height = 0, depth = 0;
  unsigned format = 1, channels = 1, flags = 0;
};
struct AccessDescription {
  Location location;
  int flags = 3;
};

#define GUARD_PROBE_FUNCTIONS(X)                                                                   \
  X(cuInit, (unsigned))                                                                            \
  X(cuDeviceGet, (int*, int))                                                                      \
  X(cuDeviceGetCount, (int*))                                                                      \
  X(cuDeviceTotalMem_v2, (std::size_t*, int))                                                      \
  X(cuCtxCreate_v2, (Handle*, unsigned, int))                                                      \
  X(cuCtxDestroy_v2, (Handle))                                                                     \
  X(cuCtxSetCurrent, (Handle))                                                                     \
  X(cuCtxSynchronize, ())                                                                          \
  X(cuCtxSetLimit, (int, std::size_t))                                                             \
  X(cuDevicePrimaryCtxRetain, (Handle*, int))                                                      \
  X(cuDevicePrimaryCtxRelease_v2, (int))                                                           \
  X(cuDevicePrimaryCtxReset_v2, (int))                                                             \
  X(cuMemGetInfo_v2, (std::size_t*, std::size_t*))                                                 \
  X(cuMemAlloc_v2, (Ptr*, std::size_t))                                                            \
  X(cuMemFree_v2, (Ptr))                                                                           \
  X(cuMemAllocPitch_v2, (Ptr*, std::size_t*, std::size_t, std::size_t, unsigned))                  \
  X(cuMemAllocManaged, (Ptr*, std::size_t, unsigned))                                              \
  X(cuMemAllocHost_v2, (void**, std::size_t))                                                      \
  X(cuMemFreeHost, (void*))                                                                        \
  X(cuArrayCreate_v2, (Handle*, const Array2d*))                                                   \
  X(cuArray3DCreate_v2, (Handle*, const Array3d*))                                                 \
  X(cuArrayDestroy, (Handle))                                                                      \
  X(cuMipmappedArrayCreate, (Handle*, const Array3d*, unsigned))                                   \
  X(cuMipmappedArrayDestroy, (Handle))                                                             \
  X(cuMemCreate, (Ptr*, std::size_t, const Prop*, unsigned long long))                             \
  X(cuMemRelease, (Ptr))                                                                           \
  X(cuMemRetainAllocationHandle, (Ptr*, void*))                                                    \
  X(cuMemAddressReserve, (Ptr*, std::size_t, std::size_t, Ptr, unsigned long long))                \
  X(cuMemAddressFree, (Ptr, std::size_t))                                                          \
  X(cuMemMap, (Ptr, std::size_t, std::size_t, Ptr, unsigned long long))                            \
  X(cuMemUnmap, (Ptr, std::size_t))                                                                \
  X(cuMemSetAccess, (Ptr, std::size_t, const AccessDescription*, std::size_t))                     \
  X(cuMemAllocAsync, (Ptr*, std::size_t, Handle))                                                  \
  X(cuMemAllocFromPoolAsync, (Ptr*, std::size_t, Handle, Handle))                                  \
  X(cuMemFreeAsync, (Ptr, Handle))                                                                 \
  X(cuMemPoolCreate, (Handle*, const PoolProps*))                                                  \
  X(cuMemPoolDestroy, (Handle))                                                                    \
  X(cuMemPoolTrimTo, (Handle, std::size_t))                                                        \
  X(cuMemPoolSetAttribute, (Handle, int, void*))                                                   \
  X(cuDeviceGetDefaultMemPool, (Handle*, int))                                                     \
  X(cuStreamCreate, (Handle*, unsigned))                                                           \
  X(cuStreamSynchronize, (Handle))                                                                 \
  X(cuStreamDestroy_v2, (Handle))                                                                  \
  X(cuStreamBeginCapture_v2, (Handle, int))                                                        \
  X(cuStreamEndCapture, (Handle, Handle*))                                                         \
  X(cuGraphCreate, (Handle*, unsigned))                                                            \
  X(cuGraphDestroy, (Handle))                                                                      \
  X(cuGraphAddMemAllocNode, (Handle*, Handle, const Handle*, std::size_t, AllocNode*))             \
  X(cuGraphAddMemFreeNode, (Handle*, Handle, const Handle*, std::size_t, Ptr))                     \
  X(cuGraphInstantiateWithFlags, (Handle*, Handle, unsigned long long))                            \
  X(cuGraphLaunch, (Handle, Handle))                                                               \
  X(cuGraphExecDestroy, (Handle))                                                                  \
  X(cuDeviceGraphMemTrim, (int))                                                                   \
  X(cuModuleLoadData, (Handle*, const void*))                                                      \
  X(cuModuleGetFunction, (Handle*, Handle, const char*))                                           \
  X(cuLaunchKernel, (Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                     Handle, void**, void**))

enum class Road : std::uint8_t { dlsym, dlvsym, get_proc_address };

struct Cuda {
  // NOLINTBEGIN(readability-identifier-naming): named as the driver names its functions
#define GUARD_PROBE_MEMBER(name, types) int(*name) types = nullptr;
  GUARD_PROBE_FUNCTIONS(GUARD_PROBE_MEMBER)
#undef GUARD_PROBE_MEMBER
  // NOLINTEND(readability-identifier-naming)

  // Loads libcuda.so.1. False: it is not there, or lacks a function (named on standard error).
  bool load(Road road = Road::dlsym);

  // Init and a context on a device. Returns the first code that is not 0.
  int start(int device = 0);

  Handle context = nullptr;
};

// A decimal number of a command line; 0 for anything else.
std::uint64_t number(const char* text);

}  // namespace berth::guard_probe
