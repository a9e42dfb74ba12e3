// Entry points for contexts.
#include "fake/cuda/context.h"
#include "fake/cuda/memory.h"

using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global

namespace {

constexpr unsigned int kContextFlags = 0xFF;

CUresult create(CUcontext* context, unsigned int flags, CUdevice device) {
  if (context == nullptr || (flags & ~kContextFlags) != 0) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  const Guard guard(driver().lock);
  Context* made = nullptr;
  const CUresult code = make_context(device, flags, false, &made);
  if (code != kSuccess) return code;
  push_current(made);
  *context = made;
  return kSuccess;
}

bool is_live(const Context* context) { return g_contexts.is_live(context); }

}  // namespace

BERTH_CUDA cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  ENTER(cuCtxCreate_v2, context);
  return create(context, flags, device);
}

BERTH_CUDA cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice device) {
  ENTER(cuCtxCreate, context);
  return create(context, flags, device);
}

BERTH_CUDA cuCtxCreate_v3(CUcontext* context, void* affinities, int count, unsigned int flags,
                          CUdevice device) {
  ENTER(cuCtxCreate_v3, context);
  if (count < 0 || (count > 0 && affinities == nullptr)) return kInvalidValue;
  return create(context, flags, device);
}

BERTH_CUDA cuCtxCreate_v4(CUcontext* context, void*, unsigned int flags, CUdevice device) {
  ENTER(cuCtxCreate_v4, context);
  return create(context, flags, device);
}

BERTH_CUDA cuCtxDestroy_v2(CUcontext context) {
  ENTER(cuCtxDestroy_v2);
  const Guard guard(driver().lock);
  if (!is_live(context)) return kInvalidContext;
  if (context->primary) return kInvalidContext;
  destroy_context(context);
  return kSuccess;
}

BERTH_CUDA cuCtxDestroy(CUcontext context) { return cuCtxDestroy_v2(context); }

BERTH_CUDA cuCtxPushCurrent_v2(CUcontext context) {
  ENTER(cuCtxPushCurrent_v2);
  if (!is_live(context)) return kInvalidContext;
  push_current(context);
  return kSuccess;
}

BERTH_CUDA cuCtxPushCurrent(CUcontext context) { return cuCtxPushCurrent_v2(context); }

BERTH_CUDA cuCtxPopCurrent_v2(CUcontext* context) {
  ENTER(cuCtxPopCurrent_v2);
  Context* popped = nullptr;
  if (!pop_current(&popped)) return kInvalidContext;
  if (context != nullptr) *context = popped;
  return kSuccess;
}

BERTH_CUDA cuCtxPopCurrent(CUcontext* context) { return cuCtxPopCurrent_v2(context); }

BERTH_CUDA cuCtxSetCurrent(CUcontext context) {
  ENTER(cuCtxSetCurrent);
  if (context != nullptr && !is_live(context)) return kInvalidContext;
  set_current(context);
  return kSuccess;
}

BERTH_CUDA cuCtxGetCurrent(CUcontext* context) {
  ENTER(cuCtxGetCurrent, context);
  if (context == nullptr) return kInvalidValue;
  *context = current_or_null();
  return kSuccess;
}

BERTH_CUDA cuCtxGetDevice(CUdevice* device) {
  ENTER(cuCtxGetDevice, device);
  if (device == nullptr) return kInvalidValue;
  Context* context = nullptr;
  if (const CUresult code = current_context(&context); code != kSuccess) return code;
  *device = context->device;
  return kSuccess;
}

BERTH_CUDA cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  if (context == nullptr) return cuCtxGetDevice(device);
  ENTER(cuCtxGetDevice_v2, device);
  if (device == nullptr) return kInvalidValue;
  if (!is_live(context)) return kInvalidContext;
  *device = context->device;
  return kSuccess;
}

BERTH_CUDA cuCtxGetFlags(unsigned int* flags) {
  ENTER(cuCtxGetFlags, flags);
  if (flags == nullptr) return kInvalidValue;
  Context* context = nullptr;
  if (const CUresult code = current_context(&context); code != kSuccess) return code;
  *flags = context->flags;
  return kSuccess;
}

BERTH_CUDA cuCtxSetFlags(unsigned int flags) {
  ENTER(cuCtxSetFlags);
  Context* context = nullptr;
  if (const CUresult code = current_context(&context); code != kSuccess) return code;
  context->flags = flags;
  return kSuccess;
}

BERTH_CUDA cuCtxGetId(CUcontext context, unsigned long long* id) {
  ENTER(cuCtxGetId, id);
  if (id == nullptr) return kInvalidValue;
  Context* meant = context;
  if (meant == nullptr) {
    if (const CUresult code = current_context(&meant); code != kSuccess) return code;
  }
  if (!is_live(meant)) return kInvalidContext;
  *id = meant->id;
  return kSuccess;
}

BERTH_CUDA cuCtxGetApiVersion(CUcontext context, unsigned int* version) {
  ENTER(cuCtxGetApiVersion, version);
  if (version == nullptr) return kInvalidValue;
  if (context != nullptr && !is_live(context)) return kInvalidContext;
  *version = 3020;
  return kSuccess;
}

BERTH_CUDA cuCtxAttach(CUcontext* context, unsigned int flags) {
  ENTER(cuCtxAttach, context);
  if (context == nullptr || flags != 0) return kInvalidValue;
  Context* current = nullptr;
  if (const CUresult code = current_context(&current); code != kSuccess) return code;
  if (current->primary) return kInvalidContext;
  const Guard guard(driver().lock);
  ++current->attached;
  *context = current;
  return kSuccess;
}

// The last user's detach destroys the context.
BERTH_CUDA cuCtxDetach(CUcontext context) {
  ENTER(cuCtxDetach);
  const Guard guard(driver().lock);
  if (!is_live(context) || context->primary) return kInvalidContext;
  if (--context->attached < 0) destroy_context(context);
  return kSuccess;
}

BERTH_CUDA cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  ENTER(cuDevicePrimaryCtxRetain, context);
  if (context == nullptr) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  const Guard guard(driver().lock);
  Context*& primary = driver().primary[driver().entry_of(device)];
  if (primary == nullptr) {
    Context* made = nullptr;
    const CUresult code = make_context(device, primary_flags(device), true, &made);
    if (code != kSuccess) return code;
    primary = made;
  }
  ++primary->retained;
  *context = primary;
  return kSuccess;
}

BERTH_CUDA cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  ENTER(cuDevicePrimaryCtxRelease_v2);
  if (!driver().is_device(device)) return kInvalidDevice;
  const Guard guard(driver().lock);
  Context*& primary = driver().primary[driver().entry_of(device)];
  if (primary == nullptr) return kInvalidContext;
  if (--primary->retained > 0) return kSuccess;
  destroy_context(primary);
  primary = nullptr;
  return kSuccess;
}

BERTH_CUDA cuDevicePrimaryCtxRelease(CUdevice device) {
  return cuDevicePrimaryCtxRelease_v2(device);
}

BERTH_CUDA cuDevicePrimaryCtxReset_v2(CUdevice device) {
  ENTER(cuDevicePrimaryCtxReset_v2);
  if (!driver().is_device(device)) return kInvalidDevice;
  const Guard guard(driver().lock);
  Context*& primary = driver().primary[driver().entry_of(device)];
  if (primary == nullptr) return kSuccess;
  destroy_context(primary);
  primary = nullptr;
  return kSuccess;
}

BERTH_CUDA cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }

BERTH_CUDA cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  ENTER(cuDevicePrimaryCtxGetState, flags, active);
  if (flags == nullptr || active == nullptr) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  const Guard guard(driver().lock);
  const Context* primary = driver().primary[driver().entry_of(device)];
  *flags = primary != nullptr ? primary->flags : primary_flags(device);
  *active = primary != nullptr ? 1 : 0;
  return kSuccess;
}

BERTH_CUDA cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  ENTER(cuDevicePrimaryCtxSetFlags_v2);
  if ((flags & ~kContextFlags) != 0) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  const Guard guard(driver().lock);
  primary_flags(device) = flags;
  Context* primary = driver().primary[driver().entry_of(device)];
  if (primary != nullptr) primary->flags = flags;
  return kSuccess;
}

BERTH_CUDA cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}
