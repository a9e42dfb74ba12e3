// The pages of the books, as everybody may read them. Plain values; the ledger alone writes them.
//
// DeviceFace and NodeFace are what a placement decision reads: small, contiguous, derived.
// DeviceBook has the sums behind a face.
#pragma once

#include <cstdint>
#include <vector>

#include "base/quantity.h"
#include "core/model/ids.h"
#include "core/model/request.h"
#include "core/model/verdict.h"

namespace berth::core {

enum class DeviceUse : std::uint8_t { free, whole, shared };

struct DeviceFace {
  std::int64_t headroom = 0;      // bytes that may still be promised, never negative
  std::int64_t limit_room = 0;    // bytes of burst limit that may still be promised (L4)
  std::int64_t usable = 0;        // bytes
  std::int32_t nano_left = 0;     // of 10^9
  std::int16_t compute_left = 0;  // milli, of 1000
  std::int16_t free_milli = 0;  // 0 … 1000: floor(1000 headroom / usable), 1000 if idle; ranks only
  std::int16_t grants = 0;      // saturating
  DeviceUse use = DeviceUse::free;
  SharingMode mode = SharingMode::time_slicing;  // meaningful while shared
  bool closed = false;          // nobody joins: both modes here, or a promise that must start alone
  Cause blocked = Cause::none;  // why nothing new may come here at all
  bool idle = false;            // a whole-device request may take it
  bool operator==(const DeviceFace&) const = default;
};

struct NodeFace {
  std::int64_t cpu_free = 0;  // millicores; negative while capacity shrank under running work
  std::int64_t ram_free = 0;  // bytes
  std::int64_t slots_free = 0;
  std::uint32_t first = 0;  // of its devices in the ledger's row of faces
  std::uint32_t count = 0;
  Cause blocked = Cause::none;  // absent, not ready, cordoned
  bool present = false;
  bool unbooked = true;  // nothing runs here and nothing is promised
};

// One workload's part of one device.
struct Holding {
  WorkloadId workload;
  std::int64_t request = 0;   // bytes that count now
  std::int64_t limit = 0;     // bytes
  std::int64_t measured = 0;  // bytes, last attributed sample; 0 = not known
  std::int64_t nano = 0;
  std::int32_t compute = 0;  // milli
  SharingMode mode = SharingMode::time_slicing;
  bool exclusive = false;
  bool promised = false;
  bool mutex = false;  // it starts only on a device without grants
  bool adopted = false;
  bool foreign = false;  // another allocator's
  bool releasing = false;
};

struct DeviceBook {
  std::int64_t usable = 0;    // bytes
  std::int64_t requests = 0;  // sum of requests that count now, promises included
  std::int64_t charged = 0;   // sum of max(request, measured)
  std::int64_t limits = 0;
  std::int64_t nano = 0;
  std::int64_t compute = 0;
  std::int64_t releasing = 0;  // part of `charged` that is about to end (L3)
  bool known = false;          // total memory is known
  bool observed = false;
  bool must_observe =
      false;  // it was observed before it went away: nothing new before a sample (B36)
  bool attributed = false;
  bool used_known = false;
  std::int64_t used = 0;     // last sample
  std::int64_t floor = 0;    // used while nothing was granted (samples without attribution)
  std::int64_t foreign = 0;  // bytes that no grant explains
  Time sampled_at;
  std::vector<Holding> holdings;  // in order of booking

  std::int64_t committed() const { return foreign + charged; }
};

// What a node will have when everything that is being released is gone.
struct NodeFuture {
  std::int64_t cpu = 0;
  std::int64_t ram = 0;
  std::int64_t slots = 0;
};

}  // namespace berth::core
