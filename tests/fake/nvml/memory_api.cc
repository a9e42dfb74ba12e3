// Memory of a device.
#include "fake/nvml/library.h"

using namespace berth::fake::nvml;  // NOLINT(google-build-using-namespace): entry points are global
using berth::fake::DeviceEntry;

namespace {

struct Figures {
  std::uint64_t total = 0;
  std::uint64_t reserved = 0;
  std::uint64_t used = 0;
  std::uint64_t free = 0;
};

Figures memory_of(const Device* device) {
  const DeviceEntry& entry = entry_of(device);
  Figures figures{.total = entry.total, .reserved = entry.reserved};
  figures.used = library().books().used(device->entry);
  const std::uint64_t room = entry.total - entry.reserved;
  if (figures.used > room) figures.used = room;  // foreign use of more than there is
  figures.free = room - figures.used;
  return figures;
}

}  // namespace

// The first form has no `reserved`: there it is part of `used`.
BERTH_NVML nvmlDeviceGetMemoryInfo(nvmlDevice_t device, Memory* memory) {
  NVML_ENTER_DEVICE(nvmlDeviceGetMemoryInfo, device);
  if (memory == nullptr) return kInvalidArgument;
  const Figures figures = memory_of(device);
  *memory = {.total = figures.total, .free = figures.free, .used = figures.used + figures.reserved};
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, MemoryV2* memory) {
  NVML_ENTER_DEVICE(nvmlDeviceGetMemoryInfo_v2, device);
  if (memory == nullptr) return kInvalidArgument;
  if (memory->version != version_of<MemoryV2>(2)) return kArgumentVersionMismatch;
  const Figures figures = memory_of(device);
  memory->total = figures.total;
  memory->reserved = figures.reserved;
  memory->free = figures.free;
  memory->used = figures.used;
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, Bar1Memory* memory) {
  NVML_ENTER_DEVICE(nvmlDeviceGetBAR1MemoryInfo, device);
  if (memory == nullptr) return kInvalidArgument;
  constexpr unsigned long long kTotal = 256ULL << 20U;
  constexpr unsigned long long kUsed = 2ULL << 20U;
  *memory = {.total = kTotal, .free = kTotal - kUsed, .used = kUsed};
  return kSuccess;
}
