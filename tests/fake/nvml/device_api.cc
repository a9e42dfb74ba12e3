// Start, versions, which devices there are and what they are called.
#include <cstdlib>
#include <cstring>

#include "fake/nvml/library.h"

using namespace berth::fake::nvml;  // NOLINT(google-build-using-namespace): entry points are global
using berth::fake::DeviceEntry;

BERTH_NVML nvmlInit_v2() { return library().init(); }
BERTH_NVML nvmlInit() { return library().init(); }
BERTH_NVML nvmlInitWithFlags(unsigned int) { return library().init(); }
BERTH_NVML nvmlShutdown() { return library().shut_down(); }

extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(nvmlReturn_t code) {
  switch (code) {
    case kSuccess: return "Success";
    case kUninitialized: return "Uninitialized";
    case kInvalidArgument: return "Invalid Argument";
    case kNotSupported: return "Not Supported";
    case kNoPermission: return "Insufficient Permissions";
    case kNotFound: return "Not Found";
    case kInsufficientSize: return "Insufficient Size";
    case kDriverNotLoaded: return "Driver Not Loaded";
    case kTimeout: return "Timeout";
    case kFunctionNotFound: return "Function Not Found";
    case kGpuIsLost: return "GPU is lost";
    case kVersionMismatch: return "Driver/library version mismatch";
    case kInUse: return "In use by another client";
    case kArgumentVersionMismatch: return "Argument version mismatch";
    default: return "Unknown Error";
  }
}

BERTH_NVML nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  NVML_ENTER(nvmlSystemGetDriverVersion);
  return give_text(library().header().driver, version, length);
}

BERTH_NVML nvmlSystemGetNVMLVersion(char* version, unsigned int length) {
  NVML_ENTER(nvmlSystemGetNVMLVersion);
  char text[64];
  (void)std::snprintf(text, sizeof text, "%u.%s", library().header().cuda_version / 1000,
                      library().header().driver);
  return give_text(text, version, length);
}

BERTH_NVML nvmlSystemGetCudaDriverVersion_v2(int* version) {
  NVML_ENTER(nvmlSystemGetCudaDriverVersion_v2);
  if (version == nullptr) return kInvalidArgument;
  *version = static_cast<int>(library().header().cuda_version);
  return kSuccess;
}

BERTH_NVML nvmlSystemGetCudaDriverVersion(int* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}

BERTH_NVML nvmlDeviceGetCount_v2(unsigned int* count) {
  NVML_ENTER(nvmlDeviceGetCount_v2);
  if (count == nullptr) return kInvalidArgument;
  *count = static_cast<unsigned int>(library().count());
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetCount(unsigned int* count) { return nvmlDeviceGetCount_v2(count); }

BERTH_NVML nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  NVML_ENTER(nvmlDeviceGetHandleByIndex_v2);
  if (device == nullptr) return kInvalidArgument;
  Device* found = library().by_index(index);
  if (found == nullptr) return kInvalidArgument;
  if (entry_of(found).lost.load() != 0) return kGpuIsLost;
  *device = found;
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

BERTH_NVML nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  NVML_ENTER(nvmlDeviceGetHandleByUUID);
  if (uuid == nullptr || device == nullptr) return kInvalidArgument;
  for (int entry = 0; entry < static_cast<int>(library().header().device_count); ++entry) {
    const DeviceEntry& candidate = library().state().devices[entry];
    if (candidate.used == 0 || std::strcmp(candidate.uuid_text, uuid) != 0) continue;
    if (!library().sees(entry)) break;
    if (candidate.lost.load() != 0) return kGpuIsLost;
    *device = library().by_entry(entry);
    return kSuccess;
  }
  return kNotFound;
}

BERTH_NVML nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device) {
  NVML_ENTER(nvmlDeviceGetHandleByPciBusId_v2);
  if (bus_id == nullptr || device == nullptr) return kInvalidArgument;
  for (int index = 0; index < library().count(); ++index) {
    Device* candidate = library().by_index(static_cast<unsigned int>(index));
    const char* whole = entry_of(candidate).bus_id;
    if (strcasecmp(bus_id, whole) != 0 && strcasecmp(bus_id, whole + 4) != 0 &&
        strcasecmp(bus_id, whole + 9) != 0) {
      continue;
    }
    if (entry_of(candidate).lost.load() != 0) return kGpuIsLost;
    *device = candidate;
    return kSuccess;
  }
  return kNotFound;
}

BERTH_NVML nvmlDeviceGetHandleByPciBusId(const char* bus_id, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

BERTH_NVML nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length) {
  NVML_ENTER_DEVICE(nvmlDeviceGetName, device);
  const DeviceEntry& entry = entry_of(device);
  if (entry.parent < 0) return give_text(entry.name, name, length);
  char text[128];
  (void)std::snprintf(text, sizeof text, "%s MIG %s", library().state().devices[entry.parent].name,
                      entry.profile);
  return give_text(text, name, length);
}

BERTH_NVML nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  NVML_ENTER_DEVICE(nvmlDeviceGetUUID, device);
  return give_text(entry_of(device).uuid_text, uuid, length);
}

BERTH_NVML nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* index) {
  NVML_ENTER_DEVICE(nvmlDeviceGetIndex, device);
  if (index == nullptr) return kInvalidArgument;
  const DeviceEntry& entry = entry_of(device);
  *index = entry.index;
  if (entry.parent >= 0) return kSuccess;
  // A container sees the devices it has, numbered from 0.
  for (int place = 0; place < library().count(); ++place) {
    if (library().by_index(static_cast<unsigned int>(place)) == device) {
      *index = static_cast<unsigned int>(place);
    }
  }
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int* minor) {
  NVML_ENTER_DEVICE(nvmlDeviceGetMinorNumber, device);
  if (minor == nullptr) return kInvalidArgument;
  if (entry_of(device).parent >= 0) return kNotSupported;
  *minor = entry_of(device).index;
  return kSuccess;
}

namespace {

constexpr unsigned int kDeviceId = 0x233010DE;
constexpr unsigned int kSubsystemId = 0x16C110DE;

void fill_pci(const DeviceEntry& entry, PciInfo* info) {
  *info = PciInfo{};
  char* end = nullptr;
  info->domain = static_cast<unsigned int>(std::strtoul(entry.bus_id, &end, 16));
  info->bus = static_cast<unsigned int>(std::strtoul(entry.bus_id + 9, nullptr, 16));
  info->device = static_cast<unsigned int>(std::strtoul(entry.bus_id + 12, nullptr, 16));
  info->device_id = kDeviceId;
  info->subsystem_id = kSubsystemId;
  (void)std::snprintf(info->bus_id, sizeof info->bus_id, "%s", entry.bus_id);
  (void)std::snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "%.12s", entry.bus_id + 4);
}

}  // namespace

BERTH_NVML nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, PciInfo* info) {
  NVML_ENTER_DEVICE(nvmlDeviceGetPciInfo_v3, device);
  if (info == nullptr) return kInvalidArgument;
  const DeviceEntry& entry = entry_of(device);
  fill_pci(entry.parent >= 0 ? library().state().devices[entry.parent] : entry, info);
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, PciInfoV1* info) {
  NVML_ENTER_DEVICE(nvmlDeviceGetPciInfo_v2, device);
  if (info == nullptr) return kInvalidArgument;
  PciInfo whole;
  if (const nvmlReturn_t code = nvmlDeviceGetPciInfo_v3(device, &whole); code != kSuccess) {
    return code;
  }
  *info = PciInfoV1{};
  std::memcpy(info->bus_id, whole.bus_id_legacy, sizeof info->bus_id);
  info->domain = whole.domain;
  info->bus = whole.bus;
  info->device = whole.device;
  info->device_id = whole.device_id;
  info->reserved[0] = whole.subsystem_id;
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetPciInfo(nvmlDevice_t device, PciInfoV1* info) {
  return nvmlDeviceGetPciInfo_v2(device, info);
}
