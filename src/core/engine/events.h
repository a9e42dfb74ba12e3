// Events: the only way into an engine. Each carries its time; nothing else changes anything.
//
// Names (node name, device UUID, workload UID) are the outside world's. An event that names
// something unknown is answered, never asserted on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/quantity.h"
#include "core/model/device.h"
#include "core/model/topology.h"
#include "core/model/workload.h"
#include "core/queue/queue_config.h"

namespace berth::core {

struct NodeUpserted {
  Node node;
  bool operator==(const NodeUpserted&) const = default;
};

struct NodeRemoved {
  std::string name;
  bool operator==(const NodeRemoved&) const = default;
};

struct DeviceCordoned {
  std::string uuid;
  bool cordoned = true;
  bool operator==(const DeviceCordoned&) const = default;
};

// What a source saw on a device. `used` empty = unknown: nothing new is granted there.
struct DeviceObserved {
  struct Use {
    // The workload whose processes were measured. What is no workload with a grant on the device is
    // foreign; verdicts name it by this word, for example "pid 4711 (python)".
    std::string uid;
    Memory used;
    bool operator==(const Use&) const = default;
  };

  std::string uuid;
  Time sampled_at;             // the sample's own time, in engine time
  std::optional<Memory> used;  // everything in use on the device, driver reserve not included
  bool attributed = false;     // `uses` is complete: what it does not explain is foreign
  std::vector<Use> uses;
  std::optional<DeviceHealth> health;
  // The source takes back what it said of the device before: this sample counts even if that one
  // was newer. Else the newest wins.
  bool restated = false;
  bool operator==(const DeviceObserved&) const = default;
};

struct WorkloadSubmitted {
  Workload workload;
  bool operator==(const WorkloadSubmitted&) const = default;
};

// Leaves the queue, or gives the grant back, whatever its state.
struct WorkloadCancelled {
  std::string uid;
  bool operator==(const WorkloadCancelled&) const = default;
};

struct GrantConfirmed {
  std::string uid;
  bool operator==(const GrantConfirmed&) const = default;
};

// The end has been asked for (a pod being deleted); its room is future room for two minutes (L3).
struct GrantReleasing {
  std::string uid;
  bool operator==(const GrantReleasing&) const = default;
};

// It is gone: the claim ends. Also the ordinary end of a task.
struct GrantReleased {
  std::string uid;
  bool operator==(const GrantReleased&) const = default;
};

// The harbour says the grant is no longer there (device gone, process gone, binding failed).
struct GrantLost {
  std::string uid;
  std::string why;
  bool requeue = false;  // wait again with the old age instead of ending
  bool operator==(const GrantLost&) const = default;
};

// The init containers are done: the charge shrinks to the running phase.
struct WorkloadInitialized {
  std::string uid;
  bool operator==(const WorkloadInitialized&) const = default;
};

// A grant that exists already (found after a restart, or adopted). Booked as it is, also where the
// books then exceed the device: what runs is left alone. Shares are listed in the start order of
// their containers; while init containers are among them the grant is starting.
struct GrantAdopted {
  struct Share {
    std::uint32_t container = 0;
    std::string uuid;
    std::int64_t request_mib = 0;
    std::int64_t limit_mib = 0;
    bool operator==(const Share&) const = default;
  };

  Workload workload;
  std::string node;
  std::vector<Share> shares;
  bool confirmed = true;
  bool operator==(const GrantAdopted&) const = default;
};

// Replaces the placement policy between decisions. `spec` as in `berth policies`.
struct PolicyChanged {
  std::string spec;
  std::uint64_t seed = 0;  // for `random`
  bool operator==(const PolicyChanged&) const = default;
};

// The history a value-guided policy may know: counts per class, never order (placement.md, rules).
struct HistoryChanged {
  struct Class {
    std::int64_t cpu_milli = 0;
    std::int64_t memory_mib = 0;
    int gpu_milli = 0;  // per device, 1000 = whole
    int num_gpu = 0;
    std::string gpu_spec;  // models joined by '|', empty = any
    std::int64_t count = 0;
    bool operator==(const Class&) const = default;
  };

  std::vector<Class> classes;
  bool operator==(const HistoryChanged&) const = default;
};

// Replaces the quota tree. A queue that breaks a rule is put on hold and named in a notice; the
// rest of the tree works.
struct QueuesChanged {
  QueueConfig config;
  bool operator==(const QueuesChanged&) const = default;
};

// Replaces the topologies that groups may name. What runs stays where it is.
struct TopologiesChanged {
  std::vector<Topology> topologies;
  bool operator==(const TopologiesChanged&) const = default;
};

// More members of a known gang exist. Its minima and counts stay as declared.
struct MembersJoined {
  std::string uid;    // of the gang
  std::string group;  // name of the leaf; empty = the root, where it is the only group
  MemberSet members;
  bool operator==(const MembersJoined&) const = default;
};

struct TimeReached {
  bool operator==(const TimeReached&) const = default;
};

// While granting is held nothing is granted, promised or told to leave, and whoever waits is told
// so; everything else goes on. For a harbour that finds out after a restart what runs, or that
// cannot write down what it would be told. Lifting it decides everything that came meanwhile.
struct GrantingHeld {
  bool held = true;
  bool operator==(const GrantingHeld&) const = default;
};

using EventBody =
    std::variant<NodeUpserted, NodeRemoved, DeviceCordoned, DeviceObserved, WorkloadSubmitted,
                 WorkloadCancelled, GrantConfirmed, GrantReleasing, GrantReleased, GrantLost,
                 WorkloadInitialized, GrantAdopted, PolicyChanged, HistoryChanged, QueuesChanged,
                 TopologiesChanged, MembersJoined, TimeReached, GrantingHeld>;

struct Event {
  Time time;
  EventBody body;
  bool operator==(const Event&) const = default;
};

}  // namespace berth::core
