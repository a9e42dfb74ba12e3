// Limits of a context, access between devices, green contexts, and what changes nothing here.
#include <cstring>

#include "fake/cuda/context.h"
#include "fake/cuda/memory.h"
#include "fake/cuda/stream.h"

using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global
using berth::fake::DeviceEntry;
using berth::fake::Family;

namespace {

enum Limit : int { kStack = 0, kPrintf = 1, kHeap = 2, kLimitCount = 7 };
constexpr std::uint64_t kThreadsPerMultiprocessor = 2048;

// What a limit takes beyond what every context has from the start.
std::uint64_t bytes_for(const DeviceEntry& device, int limit, std::uint64_t value,
                        std::uint64_t initial) {
  if (limit > kHeap || value <= initial) return 0;
  std::uint64_t bytes = value - initial;
  if (limit == kStack) {
    const std::uint64_t threads = device.multiprocessors * kThreadsPerMultiprocessor;
    if (__builtin_mul_overflow(bytes, threads, &bytes)) return UINT64_MAX / 2;
  }
  return bytes > UINT64_MAX / 2 ? UINT64_MAX / 2 : rounded_up(bytes, kGranule);
}

std::uint64_t initial_of(int limit) {
  constexpr std::uint64_t kInitial[] = {1024, 1U << 20, 8U << 20};
  return limit <= kHeap ? kInitial[limit] : 0;
}

}  // namespace

BERTH_CUDA cuCtxSetLimit(int limit, std::size_t value) {
  ENTER(cuCtxSetLimit);
  BERTH_CONTEXT(context);
  if (limit < 0 || limit >= kLimitCount) return kInvalidValue;
  const Guard guard(driver().lock);
  const DeviceEntry& device = driver().entry(context->entry);
  const std::uint64_t before = bytes_for(device, limit, context->limits[limit], initial_of(limit));
  const std::uint64_t after = bytes_for(device, limit, value, initial_of(limit));
  if (after > before) {
    if (!driver().books().charge(context->entry, Family::heap, after - before)) return kOutOfMemory;
  } else {
    driver().books().release(context->entry, Family::heap, before - after);
  }
  context->limit_charged += after - before;
  context->limits[limit] = value;
  return kSuccess;
}

BERTH_CUDA cuCtxGetLimit(std::size_t* value, int limit) {
  ENTER(cuCtxGetLimit, value);
  if (value == nullptr || limit < 0 || limit >= kLimitCount) return kInvalidValue;
  BERTH_CONTEXT(context);
  *value = context->limits[limit];
  return kSuccess;
}

BERTH_CUDA cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  ENTER(cuCtxEnablePeerAccess);
  if (flags != 0) return kInvalidValue;
  BERTH_CONTEXT(context);
  if (!g_contexts.is_live(peer) || peer == context) return kInvalidContext;
  return kSuccess;
}

BERTH_CUDA cuCtxDisablePeerAccess(CUcontext peer) {
  ENTER(cuCtxDisablePeerAccess);
  return g_contexts.is_live(peer) ? kSuccess : kInvalidContext;
}

BERTH_CUDA cuCtxSetCacheConfig(int) {
  ENTER(cuCtxSetCacheConfig);
  return kSuccess;
}
BERTH_CUDA cuCtxGetCacheConfig(int* config) {
  ENTER(cuCtxGetCacheConfig, config);
  if (config == nullptr) return kInvalidValue;
  *config = 0;
  return kSuccess;
}
BERTH_CUDA cuCtxSetSharedMemConfig(int) {
  ENTER(cuCtxSetSharedMemConfig);
  return kSuccess;
}
BERTH_CUDA cuCtxGetSharedMemConfig(int* config) {
  ENTER(cuCtxGetSharedMemConfig, config);
  if (config == nullptr) return kInvalidValue;
  *config = 1;
  return kSuccess;
}
BERTH_CUDA cuCtxResetPersistingL2Cache() {
  ENTER(cuCtxResetPersistingL2Cache);
  return kSuccess;
}
BERTH_CUDA cuFlushGPUDirectRDMAWrites(int, int) {
  ENTER(cuFlushGPUDirectRDMAWrites);
  return kSuccess;
}
BERTH_CUDA cuProfilerStart() {
  ENTER(cuProfilerStart);
  return kSuccess;
}
BERTH_CUDA cuProfilerStop() {
  ENTER(cuProfilerStop);
  return kSuccess;
}

namespace {

struct DeviceProperties {
  int threads_per_block;
  int block[3];
  int grid[3];
  int shared_per_block;
  int constant;
  int simd_width;
  int pitch;
  int registers;
  int clock;
  int texture_alignment;
};
static_assert(sizeof(DeviceProperties) == 56);

}  // namespace

BERTH_CUDA cuDeviceGetProperties(DeviceProperties* properties, CUdevice device) {
  ENTER(cuDeviceGetProperties, properties);
  if (properties == nullptr) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  *properties = {.threads_per_block = 1024,
                 .block = {1024, 1024, 64},
                 .grid = {2147483647, 65535, 65535},
                 .shared_per_block = 49152,
                 .constant = 65536,
                 .simd_width = 32,
                 .pitch = 2147483647,
                 .registers = 65536,
                 .clock = 1755000,
                 .texture_alignment = 512};
  return kSuccess;
}

BERTH_CUDA cuDeviceGetExecAffinitySupport(int* supported, int, CUdevice device) {
  ENTER(cuDeviceGetExecAffinitySupport, supported);
  if (supported == nullptr) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  *supported = 0;
  return kSuccess;
}

// A green context is a part of the device's primary context: it holds that one for as long as it
// lives.
namespace berth::fake::cuda {

struct GreenContext {
  CUdevice device = 0;
  Context* primary = nullptr;
};

namespace {
Slab<GreenContext> g_green;
}

}  // namespace berth::fake::cuda

extern "C" CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
extern "C" CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);

BERTH_CUDA cuGreenCtxCreate(CUgreenCtx* green, void*, CUdevice device, unsigned int) {
  ENTER(cuGreenCtxCreate, green);
  if (green == nullptr) return kInvalidValue;
  Context* primary = nullptr;
  if (const CUresult code = cuDevicePrimaryCtxRetain(&primary, device); code != kSuccess) {
    return code;
  }
  const Guard guard(driver().lock);
  GreenContext* made = g_green.make();
  if (made == nullptr) return kOutOfMemory;
  *made = {.device = device, .primary = primary};
  *green = made;
  return kSuccess;
}

BERTH_CUDA cuGreenCtxDestroy(CUgreenCtx green) {
  ENTER(cuGreenCtxDestroy);
  CUdevice device = 0;
  {
    const Guard guard(driver().lock);
    if (!g_green.is_live(green)) return kInvalidHandle;
    device = green->device;
    g_green.destroy(green);
  }
  return cuDevicePrimaryCtxRelease_v2(device);
}

BERTH_CUDA cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx green) {
  ENTER(cuCtxFromGreenCtx, context);
  const Guard guard(driver().lock);
  if (context == nullptr || !g_green.is_live(green)) return kInvalidHandle;
  *context = green->primary;
  return kSuccess;
}

extern "C" CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device);

BERTH_CUDA cuGLCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  ENTER(cuGLCtxCreate_v2, context);
  return cuCtxCreate_v2(context, flags, device);
}
BERTH_CUDA cuGLCtxCreate(CUcontext* context, unsigned int flags, CUdevice device) {
  ENTER(cuGLCtxCreate, context);
  return cuCtxCreate_v2(context, flags, device);
}
BERTH_CUDA cuVDPAUCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device,
                               unsigned int, void*) {
  ENTER(cuVDPAUCtxCreate_v2, context);
  return cuCtxCreate_v2(context, flags, device);
}
BERTH_CUDA cuVDPAUCtxCreate(CUcontext* context, unsigned int flags, CUdevice device, unsigned int,
                            void*) {
  ENTER(cuVDPAUCtxCreate, context);
  return cuCtxCreate_v2(context, flags, device);
}
