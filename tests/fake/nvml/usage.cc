#include "fake/nvml/usage.h"

#include <ctime>

#include "fake/state/faults.h"

namespace berth::fake::nvml {

namespace {

constexpr std::uint64_t kWindowBuckets = 20;  // one second

}  // namespace

std::uint64_t now_us() {
  timespec now{};
  (void)clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000;
}

unsigned int device_busy_percent(const DeviceEntry& device) {
  const std::uint64_t now = now_ns();
  const std::uint64_t epoch = now / kBucketNs;
  std::uint64_t busy = 0;
  for (std::uint64_t back = 0; back < kWindowBuckets; ++back) {
    const Bucket& bucket = device.buckets[(epoch - back) % kUtilisationBuckets];
    if (bucket.epoch.load() == epoch - back) busy += bucket.busy_ns.load();
  }
  const std::uint64_t window = (kWindowBuckets - 1) * kBucketNs + now % kBucketNs;
  const std::uint64_t percent = busy * 100 / window;
  return static_cast<unsigned int>(percent > 100 ? 100 : percent);
}

unsigned int memory_busy_percent(int entry) {
  const DeviceEntry& device = library().state().devices[entry];
  return static_cast<unsigned int>(library().books().used(entry) / (device.total / 100 + 1));
}

unsigned int process_busy_percent(int slot, int entry) {
  const Figures& figures = library().state().figures[entry][slot];
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const std::uint64_t last = figures.last_busy.load();
  if (last == 0 || last + kSecond < now_ns()) return 0;
  const std::uint64_t all = library().state().devices[entry].busy_total.load();
  const std::uint64_t own = figures.busy_ns.load();
  if (all == 0) return 0;
  const unsigned int device = device_busy_percent(library().state().devices[entry]);
  return static_cast<unsigned int>(own * device / all);
}

}  // namespace berth::fake::nvml
