// Utilisation of devices and processes, and samples of it.
#include <cstring>

#include "fake/nvml/processes.h"
#include "fake/nvml/usage.h"

using namespace berth::fake::nvml;  // NOLINT(google-build-using-namespace): entry points are global

namespace {

constexpr unsigned int kSamplingPeriodUs = 1'000'000;

}  // namespace

BERTH_NVML nvmlDeviceGetUtilizationRates(nvmlDevice_t device, Utilization* rates) {
  NVML_ENTER_DEVICE(nvmlDeviceGetUtilizationRates, device);
  if (rates == nullptr) return kInvalidArgument;
  if (entry_of(device).mig_mode.load() != 0) return kNotSupported;
  const unsigned int busy = device_busy_percent(entry_of(device));
  *rates = {.gpu = busy, .memory = busy / 2};
  return kSuccess;
}

#define BERTH_ENGINE(name)                                                            \
  BERTH_NVML name(nvmlDevice_t device, unsigned int* percent, unsigned int* period) { \
    NVML_ENTER_DEVICE(name, device);                                                  \
    if (percent == nullptr || period == nullptr) return kInvalidArgument;             \
    *percent = 0;                                                                     \
    *period = kSamplingPeriodUs;                                                      \
    return kSuccess;                                                                  \
  }
BERTH_ENGINE(nvmlDeviceGetEncoderUtilization)
BERTH_ENGINE(nvmlDeviceGetDecoderUtilization)
BERTH_ENGINE(nvmlDeviceGetJpgUtilization)
BERTH_ENGINE(nvmlDeviceGetOfaUtilization)
#undef BERTH_ENGINE

// Both lists by process follow the size contract: too little room is an error that says how much.
BERTH_NVML nvmlDeviceGetProcessUtilization(nvmlDevice_t device, ProcessSample* samples,
                                           unsigned int* count, unsigned long long last_seen) {
  NVML_ENTER_DEVICE(nvmlDeviceGetProcessUtilization, device);
  if (count == nullptr) return kInvalidArgument;
  const std::uint64_t now = now_us();
  if (last_seen > now) return kNotFound;
  const std::vector<Process> found = processes_on(device->entry, false);
  const unsigned int room = *count;
  *count = static_cast<unsigned int>(found.size());
  if (samples == nullptr || room < found.size()) return kInsufficientSize;
  if (found.empty()) return kNotFound;
  for (std::size_t place = 0; place < found.size(); ++place) {
    const Process& process = found[place];
    samples[place] = {
        .pid = process.pid,
        .time_stamp = now,
        .multiprocessors = process.slot < 0 ? 0 : process_busy_percent(process.slot, device->entry),
        .memory = 0,
        .encoder = 0,
        .decoder = 0};
  }
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, ProcessesUtilization* info) {
  NVML_ENTER_DEVICE(nvmlDeviceGetProcessesUtilizationInfo, device);
  if (info == nullptr) return kInvalidArgument;
  if (info->version != version_of<ProcessesUtilization>(1)) return kArgumentVersionMismatch;
  const std::vector<Process> found = processes_on(device->entry, false);
  const unsigned int room = info->count;
  info->count = static_cast<unsigned int>(found.size());
  if (info->processes == nullptr || room < found.size()) return kInsufficientSize;
  const std::uint64_t now = now_us();
  for (std::size_t place = 0; place < found.size(); ++place) {
    const Process& process = found[place];
    info->processes[place] = {
        .time_stamp = now,
        .pid = process.pid,
        .multiprocessors = process.slot < 0 ? 0 : process_busy_percent(process.slot, device->entry),
        .memory = 0,
        .encoder = 0,
        .decoder = 0,
        .jpeg = 0,
        .flow = 0};
  }
  return kSuccess;
}

namespace {

union Value {
  double number;
  unsigned int word;
  unsigned long long wide;
};

struct Sample {
  unsigned long long time_stamp;
  Value value;
};
static_assert(sizeof(Sample) == 16);

enum SampleType : int { kPower = 0, kGpu = 1, kMemory = 2 };
constexpr unsigned int kSampleCount = 20;

}  // namespace

// One sample per time slice of the last second, oldest first.
BERTH_NVML nvmlDeviceGetSamples(nvmlDevice_t device, int type, unsigned long long last_seen,
                                int* value_type, unsigned int* count, Sample* samples) {
  NVML_ENTER_DEVICE(nvmlDeviceGetSamples, device);
  if (count == nullptr || value_type == nullptr) return kInvalidArgument;
  if (type != kGpu && type != kMemory) return kNotSupported;
  *value_type = 1;  // unsigned int
  if (samples == nullptr) {
    *count = kSampleCount;
    return kSuccess;
  }
  const std::uint64_t now = now_us();
  const unsigned int busy = device_busy_percent(entry_of(device));
  unsigned int given = 0;
  for (unsigned int back = kSampleCount; back > 0 && given < *count; --back) {
    const std::uint64_t when = now - std::uint64_t{back} * 50'000;
    if (when <= last_seen) continue;
    samples[given].time_stamp = when;
    samples[given].value.wide = 0;
    samples[given].value.word = type == kGpu ? busy : busy / 2;
    ++given;
  }
  *count = given;
  return given == 0 ? kNotFound : kSuccess;
}

BERTH_NVML nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int* count, unsigned int*) {
  NVML_ENTER_DEVICE(nvmlDeviceGetAccountingPids, device);
  if (count == nullptr) return kInvalidArgument;
  *count = 0;
  return kSuccess;
}
