// The table of private functions that nvidia-smi asks for (enforcement.md 2.6): handles by index
// and the process lists. What is not known writes a zero count, or the tool would walk an array
// nobody filled.
#include <cstring>

#include "fake/nvml/library.h"
#include "fake/nvml/processes.h"

namespace berth::fake::nvml {

namespace {

constexpr std::size_t kSlots = 256;
constexpr std::size_t kHandleByIndex = 81;
constexpr std::size_t kFirstProcessList = 213;
constexpr std::size_t kLastProcessList = 215;
constexpr std::size_t kHostLinkGeneration = 230;
// 6c3efec4-8fc9-4e6c-a327-ee696e12f7c4 as it lies in memory.
constexpr unsigned char kTableId[16] = {0xC4, 0xFE, 0x3E, 0x6C, 0xC9, 0x8F, 0x6C, 0x4E,
                                        0xA3, 0x27, 0xEE, 0x69, 0x6E, 0x12, 0xF7, 0xC4};

// A process in the private lists.
struct PrivateProcess {
  unsigned int pid;
  unsigned long long used;
  unsigned int gpu_instance;
  unsigned int compute_instance;
  unsigned long long protected_used;
  char name[4096];
};
static_assert(sizeof(PrivateProcess) == 4128 && offsetof(PrivateProcess, name) == 32);

bool is_device(const void* argument) {
  return library().is_up() && library().is_handle(static_cast<const Device*>(argument));
}

// The second argument is a count for most slots; for some it is a number (seen: 1), never a low
// address.
nvmlReturn_t unknown_slot(void* first, unsigned int* count) {
  constexpr std::uintptr_t kLowestAddress = 1U << 16U;
  if (!is_device(first)) return kSuccess;
  if (reinterpret_cast<std::uintptr_t>(count) < kLowestAddress) return kNotSupported;
  *count = 0;
  return kSuccess;
}

nvmlReturn_t handle_by_index(std::uintptr_t index, Device** device) {
  if (device == nullptr || index >= kMaxGpus) return kSuccess;
  Device* found = library().by_index(static_cast<unsigned int>(index));
  if (found == nullptr) return kInvalidArgument;
  if (entry_of(found).lost.load() != 0) return kGpuIsLost;
  *device = found;
  return kSuccess;
}

nvmlReturn_t give_processes(Device* device, unsigned int* count, PrivateProcess* out,
                            bool graphics) {
  if (!is_device(device) || count == nullptr || out == nullptr) {
    return unknown_slot(device, count);
  }
  const std::vector<Process> found = processes_on(device->entry, graphics);
  const unsigned int room = *count;
  unsigned int given = 0;
  for (const Process& process : found) {
    if (given == room) break;
    PrivateProcess& entry = out[given++];
    entry.pid = process.pid;
    entry.used = process.used;
    entry.gpu_instance = process.gpu_instance;
    entry.compute_instance = process.compute_instance;
    entry.protected_used = 0;
    (void)std::snprintf(entry.name, sizeof entry.name, "%s", process.command);
  }
  *count = given;
  return kSuccess;
}

nvmlReturn_t compute_processes(Device* device, unsigned int* count, PrivateProcess* out) {
  return give_processes(device, count, out, false);
}
nvmlReturn_t graphics_processes(Device* device, unsigned int* count, PrivateProcess* out) {
  return give_processes(device, count, out, true);
}
nvmlReturn_t mps_processes(Device* device, unsigned int* count) {
  return unknown_slot(device, count);
}

nvmlReturn_t host_link_generation(Device* device, unsigned int* generation) {
  if (is_device(device) && generation != nullptr) *generation = 5;
  return kSuccess;
}

template <class Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

const void* const* table() {
  static const void* words[kSlots];
  static const bool filled = [] {
    words[0] = reinterpret_cast<const void*>(sizeof words);
    for (std::size_t slot = 1; slot < kSlots; ++slot)
      words[slot] = address_of(unknown_slot);
    words[kHandleByIndex] = address_of(handle_by_index);
    words[kFirstProcessList] = address_of(compute_processes);
    words[kFirstProcessList + 1] = address_of(graphics_processes);
    words[kLastProcessList] = address_of(mps_processes);
    words[kHostLinkGeneration] = address_of(host_link_generation);
    return true;
  }();
  (void)filled;
  return words;
}

}  // namespace

}  // namespace berth::fake::nvml

using namespace berth::fake::nvml;  // NOLINT(google-build-using-namespace): entry points are global

BERTH_NVML nvmlInternalGetExportTable(const void** out, const void* id) {
  if (out == nullptr || id == nullptr) return kInvalidArgument;
  if (std::memcmp(id, kTableId, sizeof kTableId) != 0) return kNotSupported;
  *out = table();
  return kSuccess;
}
