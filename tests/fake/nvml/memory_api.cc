// Memory of a device.
#include "fake/nvml/library.h"

using namespace berth::fake::nvml;  // NOLINT(google-build-using-namespace): entry points are global
using berth::fake::DeviceEntry;

namespace {

struct Shown {
  std::uint64_t total = 0;
  std::uint64_t reserved = 0;
  std::uint64_t used = 0;
  std::uint64_t free = 0;
};

// Inside a control group with a limit of its own the card looks as large as the limit, without the
// driver's reserve.
Shown memory_of(const Device* device) {
  const DeviceEntry& entry = entry_of(device);
  const berth::fake::Books::View view = library().books().view(device->entry, library().cgroup());
  const bool limited = view.total < library().books().room(device->entry);
  return {.total = limited ? view.total : entry.total,
          .reserved = limited ? 0 : entry.reserved,
          .used = view.total - view.free,
          .free = view.free};
}

}  // namespace

// The first form has no `reserved`: there it is part of `used`.
BERTH_NVML nvmlDeviceGetMemoryInfo(nvmlDevice_t device, Memory* memory) {
  NVML_ENTER_DEVICE(nvmlDeviceGetMemoryInfo, device);
  if (memory == nullptr) return kInvalidArgument;
  const Shown figures = memory_of(device);
  *memory = {.total = figures.total, .free = figures.free, .used = figures.used + figures.reserved};
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, MemoryV2* memory) {
  NVML_ENTER_DEVICE(nvmlDeviceGetMemoryInfo_v2, device);
  if (memory == nullptr) return kInvalidArgument;
  if (memory->version != version_of<MemoryV2>(2)) return kArgumentVersionMismatch;
  const Shown figures = memory_of(device);
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
