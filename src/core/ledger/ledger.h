// Ledger: all grants against capacity and observation. The only owner of "how much is promised".
//
// For a device with usable memory U (device.h):
//
//     committed = foreign + sum over grants of max(request, measured use)      (attributed samples)
//     committed = floor + max(sum of requests, used - floor)                   (device totals only)
//     headroom  = max(0, U - committed)
//
// (design.md 4, leases.md 4). A grant is booked through a Transaction, which leaves nothing behind
// unless it is committed. Every figure is kept incrementally per device and per node: no call costs
// more than the node it touches.
//
// Invariants (checked always where cheap, wholly by check()):
//   1. sum of requests on a device <= U for every grant the ledger itself admitted;
//   2. an exclusive grant is alone on its device; a shared device has one sharing mode (L1, L5);
//   3. sum of fraction shares <= 10^9 nano (annotations.md 1.4);
//   4. sum of limits <= U x overcommit / 100 (L4);
//   5. a device without grants has every sum at zero.
// Thread-safety: none; owned by one engine.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "core/model/fleet.h"
#include "core/model/ids.h"
#include "core/model/verdict.h"
#include "core/model/workload.h"

namespace berth::core {

enum class DeviceUse : std::uint8_t { free, whole, shared };

// One device's page of the books, as everybody may read it.
struct DeviceBook {
  // capacity and fitness
  std::int64_t usable = 0;     // bytes
  std::int64_t total = 0;      // bytes, 0 = unknown
  Cause blocked = Cause::none;  // why nothing new may come here at all (health, cordon, age, owner …)
  // promises
  std::int64_t requests = 0;   // sum of requests that count now, bytes, promises included
  std::int64_t charged = 0;    // sum of max(request, measured use), bytes
  std::int64_t limits = 0;     // sum of limits, bytes
  std::int64_t nano = 0;       // sum of fraction shares
  std::int64_t compute = 0;    // sum of compute shares, milli
  std::int32_t grants = 0;
  std::int32_t promised = 0;   // of these, promises (L3)
  DeviceUse use = DeviceUse::free;
  SharingMode mode = SharingMode::time_slicing;  // meaningful while shared
  // future room (L3): what grants being released will give back
  std::int64_t releasing = 0;        // bytes of charge
  std::int32_t releasing_grants = 0;
  // observation
  bool observed = false;
  bool attributed = false;
  std::int64_t used = 0;       // bytes, last sample
  std::int64_t floor = 0;      // used while no grant was active (no attribution)
  std::int64_t foreign = 0;    // bytes that no grant explains
  Time sampled_at;
  // derived
  std::int64_t headroom = 0;   // bytes, never negative
  std::int16_t free_milli = 0;  // floor(1000 x headroom / usable), for ranking only
  bool idle = false;           // a whole-device request may take it

  std::int64_t committed() const { return usable - headroom; }
};

struct NodeBook {
  std::int64_t cpu_free = 0;   // millicores
  std::int64_t ram_free = 0;   // bytes
  std::int64_t slots_free = 0;
  Cause blocked = Cause::none;  // not ready, cordoned
  std::vector<DeviceBook> devices;  // order of Fleet::devices_of
};

struct LedgerRules {
  std::int64_t limit_overcommit_percent = 200;
  std::int64_t device_cap = 0;          // 0 = none
  std::optional<Duration> max_sample_age;
  std::optional<Memory> whole_foreign_max;
};

}  // namespace berth::core
