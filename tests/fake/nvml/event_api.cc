// Event sets: a program waits for Xid errors and ECC errors that `berth-fake-gpu xid` brings about.
#include <vector>

#include "fake/nvml/library.h"
#include "fake/state/faults.h"

namespace berth::fake::nvml {

// What a set waits for, and how many errors of each device it has already seen.
struct EventSet {
  struct Watched {
    Device* device;
    unsigned long long types;
    std::uint64_t seen;
    std::uint64_t ecc_seen;
  };
  std::vector<Watched> watched;
};

namespace {

constexpr unsigned long long kSingleBitEcc = 0x1;
constexpr unsigned long long kDoubleBitEcc = 0x2;
constexpr unsigned long long kXid = 0x8;
constexpr unsigned long long kSupported = kSingleBitEcc | kDoubleBitEcc | 0x4 | kXid | 0x10;

std::vector<EventSet*>& sets() {
  static auto& all = *new std::vector<EventSet*>;
  return all;
}

bool is_set(const EventSet* set) {
  for (const EventSet* known : sets()) {
    if (known == set) return true;
  }
  return false;
}

bool take_event(EventSet& set, EventData* data) {
  for (EventSet::Watched& watched : set.watched) {
    const DeviceEntry& entry = entry_of(watched.device);
    const std::uint64_t xids = entry.xid_count.load();
    if ((watched.types & kXid) != 0 && xids > watched.seen) {
      watched.seen = xids;
      *data = {.device = watched.device,
               .type = kXid,
               .data = entry.last_xid.load(),
               .gpu_instance = 0xFFFFFFFF,
               .compute_instance = 0xFFFFFFFF};
      return true;
    }
    const std::uint64_t errors = entry.ecc_uncorrected.load();
    if ((watched.types & kDoubleBitEcc) != 0 && errors > watched.ecc_seen) {
      watched.ecc_seen = errors;
      *data = {.device = watched.device,
               .type = kDoubleBitEcc,
               .data = errors,
               .gpu_instance = 0xFFFFFFFF,
               .compute_instance = 0xFFFFFFFF};
      return true;
    }
  }
  return false;
}

nvmlReturn_t wait_for_event(EventSet* set, EventData* data, unsigned int timeout_ms) {
  constexpr std::uint64_t kStep = 5'000'000;
  const std::uint64_t end = now_ns() + std::uint64_t{timeout_ms} * 1'000'000;
  while (true) {
    {
      const std::lock_guard<std::mutex> guard(library().lock);
      if (!is_set(set)) return kInvalidArgument;
      if (take_event(*set, data)) return kSuccess;
    }
    const std::uint64_t now = now_ns();
    if (now >= end) return kTimeout;
    sleep_until(now + (end - now < kStep ? end - now : kStep));
  }
}

}  // namespace

}  // namespace berth::fake::nvml

using namespace berth::fake::nvml;  // NOLINT(google-build-using-namespace): entry points are global

BERTH_NVML nvmlEventSetCreate(nvmlEventSet_t* set) {
  NVML_ENTER(nvmlEventSetCreate);
  if (set == nullptr) return kInvalidArgument;
  const std::lock_guard<std::mutex> guard(library().lock);
  auto* made = new EventSet;
  sets().push_back(made);
  *set = made;
  return kSuccess;
}

BERTH_NVML nvmlEventSetFree(nvmlEventSet_t set) {
  NVML_ENTER(nvmlEventSetFree);
  const std::lock_guard<std::mutex> guard(library().lock);
  if (!is_set(set)) return kInvalidArgument;
  std::erase(sets(), set);
  delete set;
  return kSuccess;
}

BERTH_NVML nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long* types) {
  NVML_ENTER_DEVICE(nvmlDeviceGetSupportedEventTypes, device);
  if (types == nullptr) return kInvalidArgument;
  *types = entry_of(device).parent < 0 ? kSupported : 0;
  return kSuccess;
}

BERTH_NVML nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                    nvmlEventSet_t set) {
  NVML_ENTER_DEVICE(nvmlDeviceRegisterEvents, device);
  const std::lock_guard<std::mutex> guard(library().lock);
  if (!is_set(set)) return kInvalidArgument;
  if ((types & ~kSupported) != 0 || entry_of(device).parent >= 0) return kNotSupported;
  set->watched.push_back({.device = device,
                          .types = types,
                          .seen = entry_of(device).xid_count.load(),
                          .ecc_seen = entry_of(device).ecc_uncorrected.load()});
  return kSuccess;
}

BERTH_NVML nvmlEventSetWait_v2(nvmlEventSet_t set, EventData* data, unsigned int timeout_ms) {
  NVML_ENTER(nvmlEventSetWait_v2);
  if (data == nullptr) return kInvalidArgument;
  return wait_for_event(set, data, timeout_ms);
}

BERTH_NVML nvmlEventSetWait(nvmlEventSet_t set, EventData* data, unsigned int timeout_ms) {
  NVML_ENTER(nvmlEventSetWait);
  if (data == nullptr) return kInvalidArgument;
  EventData whole{};
  const nvmlReturn_t code = wait_for_event(set, &whole, timeout_ms);
  // The first form ends before the instances.
  if (code == kSuccess) {
    data->device = whole.device;
    data->type = whole.type;
    data->data = whole.data;
  }
  return code;
}
