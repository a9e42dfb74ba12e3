// Charge: what a grant, or a request on a given kind of device, takes from the quota of its queue.
// Values.
#pragma once

#include <cstdint>
#include <vector>

#include "base/id.h"
#include "core/queue/queue_config.h"

namespace berth::core {

struct QueueTag;
struct DeviceClassTag;
struct QuotaDimensionTag;

using QueueId = Id<QueueTag>;                    // one name keeps its id for ever; the root is 0
using DeviceClassId = Id<DeviceClassTag>;        // one model keeps its id for ever; "*" is 0
using QuotaDimensionId = Id<QuotaDimensionTag>;  // dense; new ones at every configuration

inline constexpr QueueId kRootQueue{std::uint32_t{0}};
inline constexpr DeviceClassId kEveryClass{std::uint32_t{0}};

// On devices of one class and one size. Amounts are sums over all devices: k devices of m MiB take
// k·m. A part counts for its class and for "*"; one of class "*" (the class is not known yet) for
// "*" alone.
struct ChargePart {
  DeviceClassId device_class = kEveryClass;
  std::int64_t mib = 0;            // to the memory dimension
  std::int64_t compute_milli = 0;  // to the compute dimension
  // To the devices dimension: whole + nano/10^9 + shares_mib/usable_mib.
  std::int64_t whole = 0;       // whole devices and MIG instances
  std::int64_t nano = 0;        // fractions, in 10^-9 of a device
  std::int64_t shares_mib = 0;  // shares asked for in MiB …
  std::int64_t usable_mib = 0;  // … of devices that hold so much each; > 0 if shares_mib is
  bool operator==(const ChargePart&) const = default;
};

struct Charge {
  std::vector<ChargePart> parts;
  bool operator==(const Charge&) const = default;
};

// Of a booked charge. Running and promised count the same for shares; what is releasing counts
// until it is gone, but no longer as its queue's (queues-gangs-topology.md 5, I15).
enum class BookingState : std::uint8_t { running, releasing, promised };

// Which bookings a question counts: everything (may it start now?), or all but what is releasing
// (may it start once that is gone? what does a queue hold, when shares are compared?).
enum class Counting : std::uint8_t { present, future };

// A queue's entitlement: D' for a claim of guarantee, F for a claim of fair share.
enum class Entitlement : std::uint8_t { deserved, fair };

struct Booking {
  QueueId leaf;
  Charge charge;
  BookingState state = BookingState::running;
  bool preemptible = true;
};

}  // namespace berth::core
