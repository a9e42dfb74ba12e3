// Actions: what an engine answers to an event, in order. Values; a harbour carries them out.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/quantity.h"
#include "core/model/ids.h"
#include "core/model/verdict.h"
#include "core/model/workload.h"

namespace berth::core {

// The workload may run: its grant is booked. Engine::grant(uid) has the devices. Of a gang, after
// those of its members, without a node: its minimum runs.
struct Granted {
  WorkloadId workload;
  std::uint64_t grant = 0;
  NodeId node;
  bool operator==(const Granted&) const = default;
};

// Room being freed is booked for it (L3); it becomes Granted when the room is there.
struct Promised {
  WorkloadId workload;
  std::uint64_t grant = 0;
  NodeId node;
  bool operator==(const Promised&) const = default;
};

// A grant or promise that the engine takes back (unconfirmed, device gone, promise broken).
struct Retracted {
  WorkloadId workload;
  std::uint64_t grant = 0;
  Cause why = Cause::none;
  bool lost = false;  // the device went away under it
  bool operator==(const Retracted&) const = default;
};

// The workload has to leave: its grant counts until the harbour says that it is gone. Always after
// a whole placement of the beneficiary was found without it.
struct Evicted {
  enum class Rule : std::uint8_t {
    guarantee,      // another queue takes its deserved share back
    fair_share,     // another queue is below its fair share, this one above
    priority,       // work of higher priority in the same queue
    consolidation,  // moved to make a hole large enough; nothing is lost
    stale,          // its gang stayed below its minimum
    start_timeout,  // its gang did not start in time
    backfill,       // the reservation whose gap it filled is due
    drain,          // its queue is being emptied
  };

  WorkloadId workload;
  std::uint64_t grant = 0;
  Rule rule = Rule::guarantee;
  WorkloadId beneficiary;  // none: stale, start_timeout, drain
  NodeId moves_to;         // none unless it is re-placed in the same decision
  std::string text;        // who, why, the shares before and after, and how to avoid it
  bool operator==(const Evicted&) const = default;
};

// The workload waits or can never run, for a reason that differs from the last one given.
struct VerdictChanged {
  WorkloadId workload;
  Outcome outcome = Outcome::waiting;
  Cause cause = Cause::none;
  bool operator==(const VerdictChanged&) const = default;
};

// The workload is no longer known: cancelled, released, lost or timed out.
struct Ended {
  WorkloadId workload;
  Cause why = Cause::none;
  bool operator==(const Ended&) const = default;
};

// Nothing will change before this time unless an event comes.
struct WakeAt {
  Time time;
  bool operator==(const WakeAt&) const = default;
};

// The books and the device differ: said, never shrugged off.
struct Notice {
  enum class Kind : std::uint8_t {
    overuse,          // a grant uses more than it asked for
    foreign_changed,  // memory that no grant explains rose or fell
    promise_at_risk,  // requests and foreign use together exceed what is usable
    clock_skew,       // a sample from the future, clamped
    queue_problem,    // a queue of the configuration breaks a rule; `text` says which
    refused_event,    // the event named something unknown or broke a rule; `text` says which
  };
  Kind kind = Kind::overuse;
  DeviceId device;
  WorkloadId workload;
  std::int64_t bytes = 0;
  std::string text;
  bool operator==(const Notice&) const = default;
};

using Action =
    std::variant<Granted, Promised, Retracted, Evicted, VerdictChanged, Ended, WakeAt, Notice>;

}  // namespace berth::core
