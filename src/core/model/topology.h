// Topology: the order in which the labels of nodes divide a fleet, widest level first.
//
//   Topology racks{.name = "racks", .levels = {"zone", "rack", "kubernetes.io/hostname"}};
//   TRY(LevelRule rule, resolve_levels(racks, group.topology));   // names to places in `levels`
//
// Source: queues-gangs-topology.md 8. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/model/gang.h"

namespace berth::core {

struct Topology {
  std::string name;
  std::vector<std::string> levels;  // node label keys, 1 … kMostLevels, widest first
  bool operator==(const Topology&) const = default;
};

inline constexpr std::size_t kMostLevels = 16;
inline constexpr int kNoLevel = -1;

struct TopologyProblem {
  std::string topology;
  std::string text;  // field, value, rule and fix
  bool operator==(const TopologyProblem&) const = default;
};

// Every breach of the rules, in the order given: names missing or doubled, no level, more than
// kMostLevels, a level that is empty or listed twice.
std::vector<TopologyProblem> check_topologies(const std::vector<Topology>& topologies);

// A TopologyRule with its levels as places in Topology::levels; kNoLevel = not asked for.
struct LevelRule {
  struct Segment {
    int level = kNoLevel;
    std::int64_t size = 0;
    bool operator==(const Segment&) const = default;
  };

  int required = kNoLevel;
  int preferred = kNoLevel;
  std::vector<Segment> segments = {};  // widest first, sizes divide each other
  bool operator==(const LevelRule&) const = default;
};

// The topology that the rule means: the one it names, or the only one there is. Error
// invalid_argument naming the nearest known one.
Result<std::size_t> find_topology(const std::vector<Topology>& topologies,
                                  const TopologyRule& rule);

// Errors, invalid_argument: a level that the topology lacks (naming the nearest), a preferred level
// wider than the required one, segments that are not nested or lie above the required level.
Result<LevelRule> resolve_levels(const Topology& topology, const TopologyRule& rule);

}  // namespace berth::core
