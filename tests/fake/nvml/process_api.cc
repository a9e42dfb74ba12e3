// Which processes use a device, and how much each holds.
#include <cstring>

#include "fake/nvml/library.h"
#include "fake/nvml/processes.h"

namespace berth::fake::nvml {

namespace {

bool has_context(const Owner& owner, int entry) {
  const std::uint64_t bits = (entry < 64 ? owner.contexts : owner.contexts_high).load();
  return (bits >> (static_cast<unsigned>(entry) % 64U) & 1U) != 0;
}

void add_device(std::vector<Process>& found, int entry, bool graphics) {
  Books& books = library().books();
  const DeviceEntry& device = library().state().devices[entry];
  const bool instance = device.parent >= 0;
  for (int slot = 0; !graphics && slot < books.slots_high(); ++slot) {
    const Owner& owner = library().state().owners[slot];
    if (owner.ready.load() == 0 || !has_context(owner, entry) || !books.lives(slot)) continue;
    Process process{.pid = books.pid_of(slot),
                    .used = books.held(slot, entry),
                    .gpu_instance = instance ? device.gpu_instance : kNoInstance,
                    .compute_instance = instance ? device.compute_instance : kNoInstance,
                    .slot = slot};
    (void)std::snprintf(process.command, sizeof process.command, "%s", owner.command);
    found.push_back(process);
  }
  for (const Foreign& foreign : library().state().foreign) {
    if (foreign.used.load() != 2 || foreign.device != static_cast<std::uint32_t>(entry) ||
        (foreign.graphics != 0) != graphics) {
      continue;
    }
    Process process{.pid = foreign.pid, .used = foreign.bytes.load()};
    (void)std::snprintf(process.command, sizeof process.command, "%s", foreign.command);
    found.push_back(process);
  }
}

}  // namespace

std::vector<Process> processes_on(int entry, bool graphics) {
  std::vector<Process> found;
  add_device(found, entry, graphics);
  // A GPU in MIG mode lists what its instances carry.
  for (int other = 0; other < library().books().device_count(); ++other) {
    if (library().state().devices[other].used != 0 &&
        library().state().devices[other].parent == entry) {
      add_device(found, other, graphics);
    }
  }
  return found;
}

}  // namespace berth::fake::nvml

using namespace berth::fake::nvml;  // NOLINT(google-build-using-namespace): entry points are global

namespace {

enum class Kind : int { compute, graphics, mps };

// The contract of every list: `count` says how many fit; too few is an error that says how many
// there are. No list at all is a question for that number.
template <class Info, class Fill>
nvmlReturn_t give_list(const Device* device, Kind kind, unsigned int* count, Info* infos,
                       Fill fill) {
  if (count == nullptr) return kInvalidArgument;
  std::vector<Process> found;
  if (kind != Kind::mps) found = processes_on(device->entry, kind == Kind::graphics);
  const unsigned int room = *count;
  *count = static_cast<unsigned int>(found.size());
  if (found.empty()) return kSuccess;
  if (room < found.size()) return kInsufficientSize;
  if (infos == nullptr) return kInvalidArgument;
  for (std::size_t place = 0; place < found.size(); ++place)
    fill(found[place], infos[place]);
  return kSuccess;
}

nvmlReturn_t give_v1(const Device* device, Kind kind, unsigned int* count, ProcessInfoV1* infos) {
  return give_list(device, kind, count, infos, [](const Process& process, ProcessInfoV1& info) {
    info = {.pid = process.pid, .used = process.used};
  });
}

nvmlReturn_t give(const Device* device, Kind kind, unsigned int* count, ProcessInfo* infos) {
  return give_list(device, kind, count, infos, [](const Process& process, ProcessInfo& info) {
    info = {.pid = process.pid,
            .used = process.used,
            .gpu_instance = process.gpu_instance,
            .compute_instance = process.compute_instance};
  });
}

}  // namespace

#define BERTH_PROCESS_LISTS(name, kind)                                                \
  BERTH_NVML name(nvmlDevice_t device, unsigned int* count, ProcessInfoV1* infos) {    \
    NVML_ENTER_DEVICE(name, device);                                                   \
    return give_v1(device, kind, count, infos);                                        \
  }                                                                                    \
  BERTH_NVML name##_v2(nvmlDevice_t device, unsigned int* count, ProcessInfo* infos) { \
    NVML_ENTER_DEVICE(name##_v2, device);                                              \
    return give(device, kind, count, infos);                                           \
  }                                                                                    \
  BERTH_NVML name##_v3(nvmlDevice_t device, unsigned int* count, ProcessInfo* infos) { \
    NVML_ENTER_DEVICE(name##_v3, device);                                              \
    return give(device, kind, count, infos);                                           \
  }
BERTH_PROCESS_LISTS(nvmlDeviceGetComputeRunningProcesses, Kind::compute)
BERTH_PROCESS_LISTS(nvmlDeviceGetGraphicsRunningProcesses, Kind::graphics)
BERTH_PROCESS_LISTS(nvmlDeviceGetMPSComputeRunningProcesses, Kind::mps)
#undef BERTH_PROCESS_LISTS

BERTH_NVML nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, ProcessDetailList* list) {
  NVML_ENTER_DEVICE(nvmlDeviceGetRunningProcessDetailList, device);
  if (list == nullptr) return kInvalidArgument;
  if (list->version != version_of<ProcessDetailList>(1)) return kArgumentVersionMismatch;
  if (list->mode > 2) return kInvalidArgument;
  return give_list(device, static_cast<Kind>(list->mode), &list->count, list->processes,
                   [](const Process& process, ProcessDetail& detail) {
                     detail = {.pid = process.pid,
                               .used = process.used,
                               .gpu_instance = process.gpu_instance,
                               .compute_instance = process.compute_instance,
                               .protected_used = 0};
                   });
}

BERTH_NVML nvmlSystemGetProcessName(unsigned int pid, char* name, unsigned int length) {
  NVML_ENTER(nvmlSystemGetProcessName);
  if (name == nullptr || length == 0) return kInvalidArgument;
  for (int entry = 0; entry < library().books().device_count(); ++entry) {
    if (library().state().devices[entry].used == 0) continue;
    for (const bool graphics : {false, true}) {
      for (const Process& process : processes_on(entry, graphics)) {
        if (process.pid != pid) continue;
        (void)std::snprintf(name, length, "%s", process.command);
        return kSuccess;
      }
    }
  }
  return kNotFound;
}
