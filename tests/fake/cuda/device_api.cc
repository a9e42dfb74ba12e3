// Start, version, devices and contexts.
#include <algorithm>
#include <cstdio>

#include "fake/cuda/attributes.h"
#include "fake/cuda/context.h"
#include "fake/cuda/memory.h"
#include "fake/state/faults.h"

using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global
using berth::fake::Books;
using berth::fake::DeviceEntry;

BERTH_CUDA cuInit(unsigned int flags) {
  if (flags != 0) return kInvalidValue;
  if (driver().is_up()) {
    ENTER(cuInit);
    return kSuccess;
  }
  Books* books = driver().books_if_any();
  if (books != nullptr &&
      (books->state().header.special.load() & berth::fake::kSpecialFaults) != 0) {
    const berth::fake::FaultOutcome outcome = berth::fake::apply_faults(books->state(), "cuInit");
    if (outcome.hit) return outcome.code;
  }
  return driver().start();
}

BERTH_CUDA cuDriverGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  Books* books = driver().books_if_any();
  if (books == nullptr) return kNoDevice;
  *version = static_cast<int>(books->state().header.cuda_version);
  return kSuccess;
}

BERTH_CUDA cuDeviceGet(CUdevice* device, int ordinal) {
  ENTER(cuDeviceGet, device);
  if (device == nullptr) return kInvalidValue;
  if (!driver().is_device(ordinal)) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

BERTH_CUDA cuDeviceGetCount(int* count) {
  ENTER(cuDeviceGetCount, count);
  if (count == nullptr) return kInvalidValue;
  *count = driver().count();
  return kSuccess;
}

BERTH_CUDA cuDeviceGetName(char* name, int length, CUdevice device) {
  ENTER(cuDeviceGetName, name);
  if (name == nullptr || length <= 0) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  (void)std::snprintf(name, static_cast<std::size_t>(length), "%s", driver().device(device).name);
  return kSuccess;
}

BERTH_CUDA cuDeviceGetUuid(Uuid* uuid, CUdevice device) {
  ENTER(cuDeviceGetUuid, uuid);
  if (uuid == nullptr) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  // The first form knows nothing of instances: it names the GPU.
  const DeviceEntry* entry = &driver().device(device);
  if (entry->parent >= 0) entry = &driver().entry(entry->parent);
  std::copy_n(entry->uuid, sizeof uuid->bytes, uuid->bytes);
  return kSuccess;
}

BERTH_CUDA cuDeviceGetUuid_v2(Uuid* uuid, CUdevice device) {
  ENTER(cuDeviceGetUuid_v2, uuid);
  if (uuid == nullptr) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  std::copy_n(driver().device(device).uuid, sizeof uuid->bytes, uuid->bytes);
  return kSuccess;
}

BERTH_CUDA cuDeviceGetLuid(char* luid, unsigned int* mask, CUdevice device) {
  ENTER(cuDeviceGetLuid, luid, mask);
  if (luid == nullptr || mask == nullptr) return kInvalidValue;
  return driver().is_device(device) ? kNotSupported : kInvalidDevice;
}

BERTH_CUDA cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice device) {
  ENTER(cuDeviceTotalMem_v2, bytes);
  if (bytes == nullptr) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  std::size_t free_bytes = 0;
  memory_info(driver().entry_of(device), &free_bytes, bytes);
  return kSuccess;
}

BERTH_CUDA cuDeviceTotalMem(unsigned int* bytes, CUdevice device) {
  ENTER(cuDeviceTotalMem, bytes);
  if (bytes == nullptr) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  memory_info(driver().entry_of(device), &free_bytes, &total);
  *bytes = saturated(total);
  return kSuccess;
}

BERTH_CUDA cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
  ENTER(cuDeviceGetAttribute, value);
  if (value == nullptr) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  return device_attribute(driver().header(), driver().device(device), attribute, value);
}

BERTH_CUDA cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  ENTER(cuDeviceComputeCapability, major, minor);
  if (major == nullptr || minor == nullptr) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  *major = static_cast<int>(driver().device(device).major);
  *minor = static_cast<int>(driver().device(device).minor);
  return kSuccess;
}

BERTH_CUDA cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  ENTER(cuDeviceGetPCIBusId, text);
  if (text == nullptr || length <= 0) return kInvalidValue;
  if (!driver().is_device(device)) return kInvalidDevice;
  // The state has the management library's form, "00000000:0A:00.0"; this one has four digits
  // first.
  const char* whole = driver().device(device).bus_id;
  const int size = std::snprintf(text, static_cast<std::size_t>(length), "%s",
                                 std::strlen(whole) > 4 ? whole + 4 : whole);
  return size < length ? kSuccess : kInvalidValue;
}

BERTH_CUDA cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  ENTER(cuDeviceGetByPCIBusId, device);
  if (device == nullptr || text == nullptr) return kInvalidValue;
  for (CUdevice candidate = 0; candidate < driver().count(); ++candidate) {
    const char* whole = driver().device(candidate).bus_id;
    if (strcasecmp(text, whole) == 0 || strcasecmp(text, whole + 4) == 0 ||
        strcasecmp(text, whole + 9) == 0) {
      *device = candidate;
      return kSuccess;
    }
  }
  return kInvalidDevice;
}

BERTH_CUDA cuDeviceGetP2PAttribute(int* value, int attribute, CUdevice from, CUdevice to) {
  ENTER(cuDeviceGetP2PAttribute, value);
  if (value == nullptr || attribute < 1 || attribute > 5) return kInvalidValue;
  if (!driver().is_device(from) || !driver().is_device(to) || from == to) return kInvalidDevice;
  *value = 1;
  return kSuccess;
}

BERTH_CUDA cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  ENTER(cuDeviceCanAccessPeer, can);
  if (can == nullptr) return kInvalidValue;
  if (!driver().is_device(device) || !driver().is_device(peer)) return kInvalidDevice;
  *can = device != peer ? 1 : 0;
  return kSuccess;
}
