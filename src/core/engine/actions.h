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

// The workload may run: its grant is booked. Engine::grant(uid) has the devices.
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
    refused_event,    // the event named something unknown or broke a rule; `text` says which
  };
  Kind kind = Kind::overuse;
  DeviceId device;
  WorkloadId workload;
  std::int64_t bytes = 0;
  std::string text;
  bool operator==(const Notice&) const = default;
};

using Action = std::variant<Granted, Promised, Retracted, VerdictChanged, Ended, WakeAt, Notice>;

}  // namespace berth::core
