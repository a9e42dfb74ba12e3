// Kernel memory limits by control group (driver 615 and later).
#include <cstring>
#include <unistd.h>

#include "fake/nvml/library.h"

using namespace berth::fake::nvml;  // NOLINT(google-build-using-namespace): entry points are global
using berth::fake::Books;
using berth::fake::MemoryLimit;

namespace {

constexpr std::uint32_t kFirstDriver = 615;
constexpr char kRoot[] = "/sys/fs/cgroup";

// "/sys/fs/cgroup/a/b" -> "/a/b"; null for what is no control group below the root.
const char* group_of(const char* name) {
  const std::size_t length = sizeof kRoot - 1;
  if (name == nullptr || std::strncmp(name, kRoot, length) != 0 || name[length] != '/' ||
      name[length + 1] == '\0' || std::strlen(name) >= sizeof(MemoryLimit::cgroup)) {
    return nullptr;
  }
  return name + length;
}

MemoryLimit* limit_of(const char* group, int entry) {
  for (MemoryLimit& limit : library().state().limits) {
    if (limit.used.load() == 2 && limit.device == static_cast<std::uint32_t>(entry) &&
        std::strcmp(limit.cgroup, group) == 0) {
      return &limit;
    }
  }
  return nullptr;
}

bool is_off() {
  const berth::fake::Header& header = library().header();
  return header.driver_major < kFirstDriver || (header.flags.load() & berth::fake::kNoLimits) != 0;
}

bool is_misc() { return (library().header().flags.load() & berth::fake::kMiscLimits) != 0; }

}  // namespace

BERTH_NVML nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, SetMemoryLimits* limits) {
  NVML_ENTER_DEVICE(nvmlDeviceSetMemoryLimits_v1, device);
  if (is_off() || entry_of(device).parent >= 0) return kNotSupported;
  if (limits == nullptr) return kInvalidArgument;
  const char* group = group_of(limits->name_space);
  if (group == nullptr || limits->soft > limits->hard) return kInvalidArgument;
  if (geteuid() != 0) return kNoPermission;
  Books& books = library().books();
  const std::uint64_t use = books.group_use(device->entry, group);
  if (is_misc() && limits->hard < use) return kInvalidArgument;
  const Books::Lock lock(books);
  MemoryLimit* limit = limit_of(group, device->entry);
  for (MemoryLimit& candidate : library().state().limits) {
    if (limit != nullptr) break;
    if (candidate.used.load() == 0) limit = &candidate;
  }
  if (limit == nullptr) return kInsufficientResources;
  if (limit->used.load() == 0) {
    std::strncpy(limit->cgroup, group, sizeof limit->cgroup - 1);
    limit->device = static_cast<std::uint32_t>(device->entry);
    // The misc controller never charges what was there before the limit.
    limit->uncharged.store(is_misc() ? use : 0);
  }
  limit->soft.store(limits->soft);
  limit->hard.store(limits->hard);
  const bool cleared = limits->soft == 0 && limits->hard == UINT64_MAX;
  limit->used.store(cleared ? 0 : 2, std::memory_order_release);
  library().header().charge_special.fetch_or(berth::fake::kChargeLimits);
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, GetMemoryLimits* limits) {
  NVML_ENTER_DEVICE(nvmlDeviceGetMemoryLimits_v1, device);
  if (is_off() || entry_of(device).parent >= 0) return kNotSupported;
  if (limits == nullptr) return kInvalidArgument;
  const char* group = group_of(limits->name_space);
  if (group == nullptr) return kInvalidArgument;
  const MemoryLimit* limit = limit_of(group, device->entry);
  if (limit == nullptr && is_misc()) return kNotSupported;
  limits->soft = limit == nullptr ? 0 : limit->soft.load();
  limits->hard = limit == nullptr ? UINT64_MAX : limit->hard.load();
  const std::uint64_t use = library().books().group_use(device->entry, group);
  const std::uint64_t uncharged = limit == nullptr ? 0 : limit->uncharged.load();
  limits->used = use > uncharged ? use - uncharged : 0;
  return kSuccess;
}
