// MIG: which instances there are, and what belongs to them.
#include "fake/nvml/library.h"

using namespace berth::fake::nvml;  // NOLINT(google-build-using-namespace): entry points are global
using berth::fake::DeviceEntry;

namespace {

constexpr unsigned int kMostInstances = 7;

bool can_be_cut(const DeviceEntry& entry) {
  return entry.parent < 0 && (entry.major > 8 || (entry.major == 8 && entry.minor == 0));
}

}  // namespace

BERTH_NVML nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* count) {
  NVML_ENTER_DEVICE(nvmlDeviceGetMaxMigDeviceCount, device);
  if (count == nullptr) return kInvalidArgument;
  *count = can_be_cut(entry_of(device)) ? kMostInstances : 0;
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* current, unsigned int* pending) {
  NVML_ENTER_DEVICE(nvmlDeviceGetMigMode, device);
  if (current == nullptr || pending == nullptr) return kInvalidArgument;
  if (!can_be_cut(entry_of(device))) return kNotSupported;
  *current = entry_of(device).mig_mode.load();
  *pending = entry_of(device).mig_pending.load();
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                               nvmlDevice_t* instance) {
  NVML_ENTER_DEVICE(nvmlDeviceGetMigDeviceHandleByIndex, device);
  if (instance == nullptr) return kInvalidArgument;
  if (!can_be_cut(entry_of(device))) return kNotSupported;
  if (index >= kMostInstances) return kInvalidArgument;
  for (int entry = 0; entry < library().books().device_count(); ++entry) {
    const DeviceEntry& candidate = library().state().devices[entry];
    if (candidate.used == 0 || candidate.parent != device->entry || candidate.index != index) {
      continue;
    }
    *instance = library().by_entry(entry);
    return kSuccess;
  }
  return kNotFound;
}

BERTH_NVML nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int* is_instance) {
  NVML_ENTER_DEVICE(nvmlDeviceIsMigDeviceHandle, device);
  if (is_instance == nullptr) return kInvalidArgument;
  *is_instance = entry_of(device).parent >= 0 ? 1 : 0;
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t instance,
                                                        nvmlDevice_t* device) {
  NVML_ENTER_DEVICE(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, instance);
  if (device == nullptr || entry_of(instance).parent < 0) return kInvalidArgument;
  *device = library().by_entry(entry_of(instance).parent);
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int* id) {
  NVML_ENTER_DEVICE(nvmlDeviceGetGpuInstanceId, device);
  if (id == nullptr) return kInvalidArgument;
  if (entry_of(device).parent < 0) return kNotSupported;
  *id = entry_of(device).gpu_instance;
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int* id) {
  NVML_ENTER_DEVICE(nvmlDeviceGetComputeInstanceId, device);
  if (id == nullptr) return kInvalidArgument;
  if (entry_of(device).parent < 0) return kNotSupported;
  *id = entry_of(device).compute_instance;
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetAttributes_v2(nvmlDevice_t device, DeviceAttributes* attributes) {
  NVML_ENTER_DEVICE(nvmlDeviceGetAttributes_v2, device);
  if (attributes == nullptr) return kInvalidArgument;
  const DeviceEntry& entry = entry_of(device);
  if (entry.parent < 0) return kNotSupported;
  const auto slices = static_cast<unsigned int>(entry.profile[0] - '0');
  *attributes = {.multiprocessors = entry.multiprocessors,
                 .copy_engines = slices,
                 .decoders = 0,
                 .encoders = 0,
                 .jpegs = 0,
                 .flows = 0,
                 .gpu_slices = slices,
                 .compute_slices = slices,
                 .memory_mib = entry.total >> 20U};
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetAttributes(nvmlDevice_t device, DeviceAttributes* attributes) {
  return nvmlDeviceGetAttributes_v2(device, attributes);
}
