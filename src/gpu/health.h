// HealthBook: which GPUs have had a critical error, and when they may be used again.
//
//   HealthBook book(Duration(300'000));
//   book.note({.uuid = gpu, .xid = 79}, now);
//   book.of({.gpu = gpu, …}).lost                     // true
//   book.settle(gpu, {.answers = true}, later);       // healthy again after the quiet period
//
// Rules of nvidia-node.md 7: an error of a whole GPU is one of all its MIG instances, an error of
// an instance is its own (X1); there is a way back, after a quiet period in which the GPU answers
// and its error counter stands still (X2). Thread-safety: none; owned by one source.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"

namespace berth::gpu {

inline constexpr std::uint32_t kWholeGpu = 0xFFFFFFFF;

struct XidEvent {
  std::string uuid;  // of the GPU, also for an instance
  std::uint32_t gpu_instance = kWholeGpu;
  std::uint32_t compute_instance = kWholeGpu;
  int xid = 0;
};

// Where a device is: a GPU, or an instance of it.
struct DevicePlace {
  std::string_view gpu;
  std::uint32_t gpu_instance = kWholeGpu;
  std::uint32_t compute_instance = kWholeGpu;
};

struct DeviceFaults {
  bool lost = false;
  int cause = 0;              // the XID that lost it
  std::vector<int> xids;      // critical, since begin()
  std::vector<int> app_xids;  // the others, since begin()
};

// What a look at a GPU has shown.
struct GpuProbe {
  bool answers = false;
  std::optional<std::uint64_t> errors = {};  // uncorrected, where counted
};

class HealthBook {
 public:
  explicit HealthBook(Duration quiet) : quiet_(quiet) {}

  // A new reading begins: events told before are forgotten, faults are not.
  void begin() { fresh_.clear(); }

  void note(XidEvent event, Time now);
  // A GPU was looked at. Faults of it end when they have been quiet for long enough.
  void settle(std::string_view gpu, const GpuProbe& probe, Time now);
  // The driver was loaded anew, which resets GPUs.
  void clear() { faults_.clear(); }

  DeviceFaults of(const DevicePlace& place) const;

 private:
  struct Fault {
    XidEvent event;
    Time quiet_since;
    std::optional<std::uint64_t> errors;
  };

  Duration quiet_;
  std::vector<XidEvent> fresh_;
  std::vector<Fault> faults_;
};

}  // namespace berth::gpu
