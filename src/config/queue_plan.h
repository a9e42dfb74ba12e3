// What a quota tree comes to on a fleet: who deserves and may have how much when every leaf that is
// neither on hold nor stopped asks for everything, and what is left of it when half of the fleet is
// gone.
//
// Figures are those of core::QueueTree, the tree that decides. Thread-safety: pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/device.h"
#include "core/queue/queue_config.h"

namespace berth::config {

// Of a queue in a dimension, on one fleet.
struct Entitled {
  std::int64_t deserved = 0;  // D': deserved, scaled where not all of it can be kept
  std::int64_t share = 0;     // F: the entitlement, when every leaf asks for everything
  bool operator==(const Entitled&) const = default;
};

struct PlannedDimension {
  core::QueueDimension wanted;         // as configured; defaults where the queue does not name it
  std::int64_t children_deserved = 0;  // sum of those below it, without the unlimited
  Entitled whole;
  Entitled half;
};

struct PlannedQueue {
  std::string name;
  std::string parent;
  std::string path;  // "root/a/b"
  int depth = 0;     // 0 below the root
  bool leaf = false;
  std::string held;                              // why it is on hold; empty: it is not
  core::QueueStop stop = core::QueueStop::none;  // the strictest on its path
  std::vector<PlannedDimension> dimensions;      // in the order of QueuePlan::dimensions
};

struct DimensionPlan {
  std::string name;  // "*/devices"
  core::DimensionKind kind = core::DimensionKind::devices;
  std::int64_t capacity = 0;
  std::int64_t half_capacity = 0;
  std::int64_t deserved = 0;  // of the queues below the root, without the unlimited
};

struct QueuePlan {
  std::size_t nodes = 0;
  std::size_t devices = 0;        // that are offered: healthy, of known size, on ready nodes
  std::vector<std::string> lost;  // nodes of the half that is gone; "n0/g1" where there is one node
  std::vector<DimensionPlan> dimensions;  // that some queue names, by class and kind
  std::vector<PlannedQueue> queues;       // the tree in its order, without the root
};

// Requires a configuration without refusals for the fleet's device classes.
QueuePlan plan_queues(const core::QueueConfig& config, const std::vector<core::Node>& fleet);

}  // namespace berth::config
