// Sensors, clocks, links and modes: plausible constants, and what the state file says of health.
#include <cstring>

#include "fake/nvml/library.h"
#include "fake/nvml/usage.h"

using namespace berth::fake::nvml;  // NOLINT(google-build-using-namespace): entry points are global
using berth::fake::DeviceEntry;

namespace {

constexpr unsigned int kIdleTemperature = 34;
constexpr unsigned int kIdlePowerMw = 68'000;
constexpr unsigned int kMilliwattsPerWatt = 1000;

const DeviceEntry& gpu_of(const Device* device) {
  const DeviceEntry& entry = entry_of(device);
  return entry.parent >= 0 ? library().state().devices[entry.parent] : entry;
}

unsigned int power_of(const Device* device) {
  const DeviceEntry& gpu = gpu_of(device);
  const auto limit = static_cast<unsigned int>(gpu.power_limit_mw.load());
  const unsigned int span = limit > kIdlePowerMw ? limit - kIdlePowerMw : 0;
  return kIdlePowerMw + span / 100 * device_busy_percent(gpu);
}

}  // namespace

// A number that needs nothing but the device.
#define BERTH_NUMBER(name, type, expression)          \
  BERTH_NVML name(nvmlDevice_t device, type* value) { \
    NVML_ENTER_DEVICE(name, device);                  \
    if (value == nullptr) return kInvalidArgument;    \
    *value = static_cast<type>(expression);           \
    return kSuccess;                                  \
  }
// A number for one of several kinds, which do not matter.
#define BERTH_NUMBER_OF(name, kind, type, expression)       \
  BERTH_NVML name(nvmlDevice_t device, kind, type* value) { \
    NVML_ENTER_DEVICE(name, device);                        \
    if (value == nullptr) return kInvalidArgument;          \
    *value = static_cast<type>(expression);                 \
    return kSuccess;                                        \
  }

BERTH_NUMBER(nvmlDeviceGetPowerUsage, unsigned int, power_of(device))
BERTH_NUMBER(nvmlDeviceGetPowerManagementLimit, unsigned int, gpu_of(device).power_limit_mw.load())
BERTH_NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int,
             gpu_of(device).power_limit_mw.load())
BERTH_NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned int, gpu_of(device).power_limit_mw.load())
BERTH_NUMBER(nvmlDeviceGetPowerManagementMode, int, 1)
BERTH_NUMBER(nvmlDeviceGetPowerState, int, 0)
BERTH_NUMBER(nvmlDeviceGetPerformanceState, int, 0)
BERTH_NUMBER(nvmlDeviceGetPersistenceMode, int, gpu_of(device).persistence.load())
BERTH_NUMBER(nvmlDeviceGetComputeMode, int, gpu_of(device).compute_mode.load())
BERTH_NUMBER(nvmlDeviceGetDisplayMode, int, 0)
BERTH_NUMBER(nvmlDeviceGetDisplayActive, int, 0)
BERTH_NUMBER(nvmlDeviceGetVirtualizationMode, int, 0)
BERTH_NUMBER(nvmlDeviceGetMultiGpuBoard, unsigned int, 0)
BERTH_NUMBER(nvmlDeviceGetBoardId, unsigned int, gpu_of(device).index * 256)
BERTH_NUMBER(nvmlDeviceGetBrand, int, 14)
BERTH_NUMBER(nvmlDeviceGetArchitecture, unsigned int, gpu_of(device).major >= 9 ? 9 : 7)
BERTH_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, 5)
BERTH_NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned int, 5)
BERTH_NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, 5)
BERTH_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, 16)
BERTH_NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, 16)
BERTH_NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned int, 0)
BERTH_NUMBER(nvmlDeviceGetPcieSpeed, unsigned int, 32000)
BERTH_NUMBER(nvmlDeviceGetPcieLinkMaxSpeed, unsigned int, 5)
BERTH_NUMBER(nvmlDeviceGetMemoryBusWidth, unsigned int, 5120)
BERTH_NUMBER(nvmlDeviceGetNumGpuCores, unsigned int, gpu_of(device).multiprocessors * 128)
BERTH_NUMBER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long,
             gpu_of(device).busy_total.load() / 2'000'000)
BERTH_NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, 1)
BERTH_NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, 1)
BERTH_NUMBER(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long, 0x1FF)
BERTH_NUMBER(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, 0x1FF)
BERTH_NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, int, 0)
BERTH_NUMBER(nvmlDeviceGetDefaultEccMode, int, 1)
BERTH_NUMBER(nvmlDeviceGetNumaNodeId, unsigned int, gpu_of(device).numa)
BERTH_NUMBER(nvmlDeviceGetModuleId, unsigned int, gpu_of(device).index)
BERTH_NUMBER(nvmlDeviceGetIrqNum, unsigned int, 100 + gpu_of(device).index)
BERTH_NUMBER(nvmlDeviceGetBusType, unsigned int, 2)
BERTH_NUMBER_OF(nvmlDeviceGetTemperature, int, unsigned int,
                kIdleTemperature + device_busy_percent(gpu_of(device)) / 3)
BERTH_NUMBER_OF(nvmlDeviceGetTemperatureThreshold, int kind, unsigned int, kind == 0 ? 92 : 87)
BERTH_NUMBER_OF(nvmlDeviceGetClockInfo, int kind, unsigned int, kind == 2 ? 2619 : 1755)
BERTH_NUMBER_OF(nvmlDeviceGetMaxClockInfo, int kind, unsigned int, kind == 2 ? 2619 : 1980)
BERTH_NUMBER_OF(nvmlDeviceGetApplicationsClock, int kind, unsigned int, kind == 2 ? 2619 : 1980)
BERTH_NUMBER_OF(nvmlDeviceGetDefaultApplicationsClock, int kind, unsigned int,
                kind == 2 ? 2619 : 1980)
BERTH_NUMBER_OF(nvmlDeviceGetMaxCustomerBoostClock, int kind, unsigned int, kind == 2 ? 2619 : 1980)
BERTH_NUMBER_OF(nvmlDeviceGetPcieThroughput, int, unsigned int, 0)
BERTH_NUMBER_OF(nvmlDeviceGetAPIRestriction, int, int, 0)
BERTH_NUMBER_OF(nvmlDeviceGetEncoderCapacity, int, unsigned int, 100)

BERTH_NVML nvmlDeviceGetClock(nvmlDevice_t device, int kind, int, unsigned int* value) {
  return nvmlDeviceGetClockInfo(device, kind, value);
}

// Cards for servers have no fan.
// NOLINTNEXTLINE(readability-non-const-parameter): the driver's prototype
BERTH_NVML nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int* speed) {
  NVML_ENTER_DEVICE(nvmlDeviceGetFanSpeed, device);
  return speed == nullptr ? kInvalidArgument : kNotSupported;
}
BERTH_NVML nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned int* count) {
  NVML_ENTER_DEVICE(nvmlDeviceGetNumFans, device);
  if (count == nullptr) return kInvalidArgument;
  *count = 0;
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int* least,
                                                        unsigned int* most) {
  NVML_ENTER_DEVICE(nvmlDeviceGetPowerManagementLimitConstraints, device);
  if (least == nullptr || most == nullptr) return kInvalidArgument;
  *most = static_cast<unsigned int>(gpu_of(device).power_limit_mw.load());
  *least = *most / 4 / kMilliwattsPerWatt * kMilliwattsPerWatt;
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetEccMode(nvmlDevice_t device, int* current, int* pending) {
  NVML_ENTER_DEVICE(nvmlDeviceGetEccMode, device);
  if (current == nullptr || pending == nullptr) return kInvalidArgument;
  *current = 1;
  *pending = 1;
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int type, int,
                                       unsigned long long* count) {
  NVML_ENTER_DEVICE(nvmlDeviceGetTotalEccErrors, device);
  if (count == nullptr) return kInvalidArgument;
  const DeviceEntry& gpu = gpu_of(device);
  *count = type == 0 ? gpu.ecc_corrected.load() : gpu.ecc_uncorrected.load();
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, int type, int counter, int location,
                                           unsigned long long* count) {
  constexpr int kDeviceMemory = 2;
  const nvmlReturn_t code = nvmlDeviceGetTotalEccErrors(device, type, counter, count);
  if (code == kSuccess && location != kDeviceMemory) *count = 0;
  return code;
}

BERTH_NVML nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int* corrected,
                                     unsigned int* uncorrected, unsigned int* pending,
                                     unsigned int* failed) {
  NVML_ENTER_DEVICE(nvmlDeviceGetRemappedRows, device);
  if (corrected == nullptr || uncorrected == nullptr || pending == nullptr || failed == nullptr) {
    return kInvalidArgument;
  }
  *corrected = 0;
  *uncorrected = 0;
  *pending = 0;
  *failed = 0;
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  NVML_ENTER_DEVICE(nvmlDeviceGetCudaComputeCapability, device);
  if (major == nullptr || minor == nullptr) return kInvalidArgument;
  *major = static_cast<int>(gpu_of(device).major);
  *minor = static_cast<int>(gpu_of(device).minor);
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetSerial(nvmlDevice_t device, char* serial, unsigned int length) {
  NVML_ENTER_DEVICE(nvmlDeviceGetSerial, device);
  char text[32];
  (void)std::snprintf(text, sizeof text, "16500%08u", gpu_of(device).index + 1);
  return give_text(text, serial, length);
}

BERTH_NVML nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char* version, unsigned int length) {
  NVML_ENTER_DEVICE(nvmlDeviceGetVbiosVersion, device);
  return give_text("96.00.5E.00.01", version, length);
}

BERTH_NVML nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char* number, unsigned int length) {
  NVML_ENTER_DEVICE(nvmlDeviceGetBoardPartNumber, device);
  return give_text("692-2G520-0200-000", number, length);
}

BERTH_NVML nvmlDeviceGetInforomImageVersion(nvmlDevice_t device, char* version,
                                            unsigned int length) {
  NVML_ENTER_DEVICE(nvmlDeviceGetInforomImageVersion, device);
  return give_text("G520.0200.00.05", version, length);
}

BERTH_NVML nvmlDeviceGetInforomVersion(nvmlDevice_t device, int, char* version,
                                       unsigned int length) {
  NVML_ENTER_DEVICE(nvmlDeviceGetInforomVersion, device);
  return give_text("2.1", version, length);
}

BERTH_NVML nvmlDeviceValidateInforom(nvmlDevice_t device) {
  NVML_ENTER_DEVICE(nvmlDeviceValidateInforom, device);
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetGpuOperationMode(nvmlDevice_t device, int*, int*) {
  NVML_ENTER_DEVICE(nvmlDeviceGetGpuOperationMode, device);
  return kNotSupported;
}

BERTH_NVML nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned int* sessions,
                                     unsigned int* frames, unsigned int* latency) {
  NVML_ENTER_DEVICE(nvmlDeviceGetEncoderStats, device);
  if (sessions == nullptr || frames == nullptr || latency == nullptr) return kInvalidArgument;
  *sessions = 0;
  *frames = 0;
  *latency = 0;
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words, unsigned long* set) {
  NVML_ENTER_DEVICE(nvmlDeviceGetCpuAffinity, device);
  if (set == nullptr || words == 0) return kInvalidArgument;
  std::memset(set, 0, words * sizeof *set);
  set[0] = 3;
  return kSuccess;
}

BERTH_NVML nvmlDeviceOnSameBoard(nvmlDevice_t device, nvmlDevice_t other, int* same) {
  NVML_ENTER_DEVICE(nvmlDeviceOnSameBoard, device);
  if (same == nullptr || !library().is_handle(other)) return kInvalidArgument;
  *same = device == other ? 1 : 0;
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other,
                                               int* level) {
  NVML_ENTER_DEVICE(nvmlDeviceGetTopologyCommonAncestor, device);
  if (level == nullptr || !library().is_handle(other)) return kInvalidArgument;
  constexpr int kSameNode = 40;
  constexpr int kOtherNode = 50;
  *level = device == other ? 0 : gpu_of(device).numa == gpu_of(other).numa ? kSameNode : kOtherNode;
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t other, int, int* status) {
  NVML_ENTER_DEVICE(nvmlDeviceGetP2PStatus, device);
  if (status == nullptr || !library().is_handle(other)) return kInvalidArgument;
  *status = 0;
  return kSuccess;
}

BERTH_NVML nvmlDeviceSetPersistenceMode(nvmlDevice_t device, int mode) {
  NVML_ENTER_DEVICE(nvmlDeviceSetPersistenceMode, device);
  if (mode != 0 && mode != 1) return kInvalidArgument;
  entry_of(device).persistence.store(static_cast<std::uint32_t>(mode));
  return kSuccess;
}

BERTH_NVML nvmlDeviceSetComputeMode(nvmlDevice_t device, int mode) {
  NVML_ENTER_DEVICE(nvmlDeviceSetComputeMode, device);
  if (mode != 0 && mode != 2 && mode != 3) return kInvalidArgument;
  entry_of(device).compute_mode.store(static_cast<std::uint32_t>(mode));
  return kSuccess;
}

BERTH_NVML nvmlUnitGetCount(unsigned int* count) {
  NVML_ENTER(nvmlUnitGetCount);
  if (count == nullptr) return kInvalidArgument;
  *count = 0;
  return kSuccess;
}

BERTH_NVML nvmlGetExcludedDeviceCount(unsigned int* count) {
  NVML_ENTER(nvmlGetExcludedDeviceCount);
  if (count == nullptr) return kInvalidArgument;
  *count = 0;
  return kSuccess;
}
