// Verdict v1: the explained answer to a workload: granted, waiting (why, how much is missing, what
// would help), or never (why). Format: queues-gangs-topology.md 9.1.
//
// A verdict is computed as counters during the search and turned into words only when somebody
// asks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "core/model/ids.h"

namespace berth::core {

enum class Outcome : std::uint8_t { granted, waiting, never, ended };

// In pipeline order: of several nodes the most advanced stage counts.
enum class Stage : std::uint8_t { none, gated, gang, quota, node, device, topology, binding };

// Every reason code of annotations.md 4.1 and queues-gangs-topology.md 9.1 that the engine can
// give, in the order in which the rules are asked. Of several nodes, and of several devices of one,
// the later reason is the one told: what refused there had passed everything before it, so it is
// nearest to a yes (a cordoned node that the workload could use, not one whose taint shuts it out).
// A test holds the order against the tables of rules (core/placement/rules.h).
enum class Cause : std::uint8_t {
  none,
  // node stage: what the workload asks of nodes, what the operator and the node say, room
  no_node_matches,  // names or labels
  untolerated_taint,
  node_not_ready,
  node_cordoned,
  insufficient_node_resource,  // cpu or ram
  no_pod_slot,
  // device stage: what a device is
  no_devices,  // the node has no GPU at all
  resource_kind_mismatch,
  no_such_profile,
  type_mismatch,
  uuid_mismatch,
  replicas_unknown,
  device_not_owned,
  device_held_by_peer,
  sharing_not_ready,
  backend_cannot_enforce,
  // device stage: how it is, and what is promised on it
  no_usable_memory,
  device_unhealthy,
  device_cordoned,
  stale_observation,
  share_below_minimum,
  device_exclusive,
  foreign_use,  // a whole device with more foreign use than is tolerated
  device_cap,
  compute_mode_conflict,
  insufficient_compute,
  insufficient_memory,
  limit_overcommit,
  // device stage: each of them could serve, but too few together
  unequal_devices,
  insufficient_devices,
  numa_unfit,
  // engine
  waiting_for_release,
  reserved_for_other,
  backfill_too_long,
  search_budget,
  wait_timed_out,
  largest_device_too_small,
  exceeds_fleet,
  unknown_queue,
  contradictory_constraint,
  // before anything is looked at
  gated,
  granting_held,  // the harbour lets nothing be granted: it starts, or cannot write its books
  back_off,       // evicted for not starting: waits before it is tried again
  gang_incomplete,
  // quota stage
  not_a_leaf_queue,
  queue_held,
  over_limit,
  non_preemptible_over_quota,
  // of the whole request against the whole fleet
  unknown_resource,
  unsupported_constraint,
  no_topology_domain,
  no_link_set,
  preempting,  // what stands in its way is being evicted
  preemption_delay,
  internal,
  kCount,
};
inline constexpr std::size_t kCauseCount = static_cast<std::size_t>(Cause::kCount);

std::string_view outcome_name(Outcome outcome);  // "granted"
std::string_view stage_name(Stage stage);        // "device"
std::string_view cause_name(Cause cause);        // "InsufficientMemory"
std::optional<Cause> cause_from_name(std::string_view name);
Stage cause_stage(Cause cause);

struct EtaEstimate {
  enum class Basis : std::uint8_t { unknown, declared };
  Basis basis = Basis::unknown;
  Time at;
};

// One set of changes that alone suffices; each was tried before it is said.
struct Unblock {
  enum class Kind : std::uint8_t {
    free_memory,  // so much of the device that is in use comes free
    evict,        // these leave, one after the other
    wait          // until then, when the last of what is needed has ended by its own declaration
  };
  Kind kind = Kind::free_memory;
  std::int64_t mib = 0;                     // free_memory
  std::string node = {};                    // free_memory, wait
  std::string device = {};                  // free_memory
  std::vector<std::string> workloads = {};  // evict; wait: whose end is the last needed
  Time until = {};                          // wait
};

struct ChosenDevice {
  std::string container;
  std::string uuid;
  std::int64_t request_mib = 0;
  std::int64_t limit_mib = 0;
};

struct Verdict {
  Outcome outcome = Outcome::waiting;
  Cause cause = Cause::none;
  Stage stage = Stage::none;
  std::string reason;   // pod reason: Unschedulable, SchedulerError, …
  std::string summary;  // first sentence, at most 200 characters
  Time since;
  Time last_evaluated;
  std::int64_t attempts = 0;
  std::int64_t effective_priority = 0;

  struct Position {
    std::string queue;
    std::string pool;
    std::int64_t index = 0;
    std::int64_t jobs_ahead = 0;
    std::int64_t devices_ahead = 0;
  };

  std::optional<Position> position;

  struct Nodes {
    std::int64_t total = 0;
    std::array<std::int64_t, kCauseCount> by_reason{};
  };

  Nodes nodes;

  struct Devices {
    std::int64_t need_mib = 0;
    std::int64_t largest_free_mib = 0;
    std::string largest_free_node;
    std::string largest_free_uuid;
    std::int64_t free_total_mib = 0;
    std::int64_t scanned = 0;
    std::int64_t fragmentation = 0;  // 1000 - floor(1000 largest / total)
  };

  std::optional<Devices> devices;

  // One queue of the path, in one dimension; amounts in MiB or milli.
  struct QuotaRow {
    std::string queue;
    std::string resource;  // "a100-80g/memory"
    std::int64_t deserved = 0;
    std::int64_t limit = 0;
    std::int64_t used = 0;
    std::int64_t need = 0;
    std::int64_t short_of = 0;
  };

  std::vector<QuotaRow> quota_chain;  // leaf to root, every dimension looked at

  struct GangCounts {
    std::int64_t min = 0;
    std::int64_t exist = 0;
    std::int64_t placeable = 0;
  };

  std::optional<GangCounts> gang;

  struct TopologyFit {
    std::string level;
    std::string best_domain;
    std::int64_t fits = 0;  // members in the best domain
    std::int64_t need = 0;
  };

  std::optional<TopologyFit> topology;

  // Running work that was looked at as a victim, and what protected it.
  struct Preemption {
    std::int64_t considered = 0;
    std::int64_t priority = 0;
    std::int64_t min_runtime = 0;
    std::int64_t pdb = 0;
    std::int64_t non_preemptible = 0;
    std::int64_t fair_share = 0;
    std::int64_t eviction_cap = 0;
  };

  std::optional<Preemption> preemption;

  std::optional<EtaEstimate> eta;
  bool search_complete = true;   // false: a budget ended, not "impossible"
  std::int64_t steps = 0;        // node and device visits of the last evaluation
  std::vector<Unblock> unblock;  // at most 3; only in a verdict in full

  // granted
  std::string node;
  std::vector<ChosenDevice> chosen;
};

// "0/24 nodes: 20 InsufficientMemory, 4 Other." Largest first, then name; empty: no node said no.
std::string reason_histogram(const Verdict::Nodes& nodes);
// The message of a pod condition: summary, then histogram, at most 1024 bytes (9.2).
std::string pod_message(const Verdict& verdict);

}  // namespace berth::core
