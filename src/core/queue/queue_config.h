// QueueConfig: the quota tree as somebody wrote it, before it is checked against anything.
//
// Amounts are integers in the unit of their dimension: MiB of memory, thousandths of a device,
// thousandths of a device's compute. Source: queues-gangs-topology.md 4.1. Plain values.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"

namespace berth::core {

inline constexpr std::int64_t kUnlimited = -1;
inline constexpr std::int64_t kMostWeight = 10'000;
inline constexpr std::int64_t kMostHistoryK = 10'000;         // thousandths
inline constexpr std::int64_t kMostPriority = 1'000'000'000;  // of a queue, and as far below 0
inline constexpr std::int64_t kNoCap = -1;
inline constexpr std::int64_t kMostDeviceCap = 10'000;
// Quotas lie below this, so that sums over a tree stay inside 63 bits.
inline constexpr std::int64_t kMostQuota = std::int64_t{1} << 53;

enum class DimensionKind : std::uint8_t { memory, devices, compute };
inline constexpr std::size_t kDimensionKinds = 3;

struct QueueDimension {
  std::string device_class = "*";  // a device model, or "*" for all devices together
  DimensionKind kind = DimensionKind::devices;
  std::int64_t deserved = 0;        // guaranteed when demanded; kUnlimited: never a victim here
  std::int64_t limit = kUnlimited;  // hard ceiling
  std::int64_t reserved = 0;        // part of deserved that is kept even when idle
  std::int64_t weight = 1;          // share of surplus, 0 … kMostWeight; 0: never above deserved
  auto operator<=>(const QueueDimension&) const = default;
};

enum class QueueOrder : std::uint8_t { fifo, strict, best_effort };
enum class ReclaimRight : std::uint8_t { never, guarantee, fair_share };
enum class PreemptRight : std::uint8_t { never, lower_priority };
enum class QueueStop : std::uint8_t { none, hold, hold_and_drain };

// How long a running workload is protected once its minimum has been reached.
struct MinRuntime {
  struct ByPriority {
    std::int64_t at_least = 0;  // base priority; of several the highest that applies counts
    Duration reclaim{0};
    Duration preempt{0};
    bool operator==(const ByPriority&) const = default;
  };

  Duration reclaim{0};
  Duration preempt{0};
  std::vector<ByPriority> by_priority;
  bool operator==(const MinRuntime&) const = default;
};

struct QueueHistory {
  Duration half_life{0};  // at least 1 s
  std::int64_t k = 1000;  // thousandths
  bool operator==(const QueueHistory&) const = default;
};

struct QueueAging {
  Duration step{600'000};
  std::int64_t max = 10;
  bool operator==(const QueueAging&) const = default;
};

struct EvictionCaps {
  std::int64_t per_workload_per_hour = 3;  // kNoCap: none
  std::int64_t per_claim = kNoCap;
  bool operator==(const EvictionCaps&) const = default;
};

struct QueueSpec {
  std::string name;
  std::string parent = "root";  // the root itself is implicit; it may be named once, to set fields
  std::int64_t priority = 100;
  std::vector<QueueDimension> dimensions;
  QueueOrder order = QueueOrder::fifo;
  ReclaimRight reclaim = ReclaimRight::fair_share;
  PreemptRight preempt = PreemptRight::lower_priority;
  MinRuntime min_runtime;
  Duration preemption_delay{0};
  std::optional<QueueHistory> history;
  QueueAging aging;
  EvictionCaps evictions;
  QueueStop stop = QueueStop::none;
  // How places are chosen for its work that says nothing itself; "" = as above it, and in the end
  // the engine's.
  std::string policy;
  // Its work joins a shared device only while that holds fewer grants than this, of whatever
  // queue; the least on the way up counts.
  std::optional<std::int64_t> device_cap;
  Time created;  // earlier first where everything else is equal
  bool operator==(const QueueSpec&) const = default;
};

// Where a workload's preemptibility comes from (interfaces.md 5).
enum class PriorityRule : std::uint8_t { as_said, kai };

struct QueueConfig {
  PriorityRule priority_rule = PriorityRule::as_said;
  std::vector<QueueSpec> queues;  // in any order; no decision depends on it
  bool operator==(const QueueConfig&) const = default;
};

inline constexpr std::string_view kRootQueueName = "root";

// What nobody configured: the leaf `default` that may take everything and claims nothing.
QueueConfig default_queues();

// "a100-80g/memory", "*/devices".
std::string dimension_name(const QueueDimension& dimension);
std::string_view dimension_kind_name(DimensionKind kind);  // "memory"

// Of two entries of one name, the one that counts in front: earlier created, then by content. An
// order for entries of one name only; it keeps the order of a file from mattering.
bool counts_before(const QueueSpec& a, const QueueSpec& b);

struct QueueProblem {
  std::string queue;
  std::string text;    // field, value, rule and fix
  bool holds = false;  // true: the queue and all below it are put on hold; false: to be refused
  bool operator==(const QueueProblem&) const = default;
};

// Every breach of the rules, in order of queue names, then of texts: names missing or doubled,
// parents unknown, cycles, a second root, quantities out of range, deserved above limit, reserved
// above deserved, a dimension named twice. `classes`: models of the fleet; empty = not known,
// classes are not checked. What `policy` may say is the placement's to check.
std::vector<QueueProblem> check_queues(const QueueConfig& config,
                                       const std::vector<std::string>& classes);

}  // namespace berth::core
