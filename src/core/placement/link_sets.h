// Link sets: which devices of a node are joined, and which of them an ask for joined devices gets.
//
// Two devices are joined when NVSwitch connects them (the same Device::link_set) or when their pair
// score counts at least one NVLink (100). A link set is a set of devices that are all joined to
// each other. Source: queues-gangs-topology.md 8.1. Thread-safety: values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ledger/books.h"
#include "core/model/device.h"
#include "core/placement/rules.h"

namespace berth::core {

// The least score of a pair with an NVLink between them.
inline constexpr std::int64_t kLinkedScore = 100;
// What NVSwitch between two devices adds: as much as the most NVLinks that a pair can have.
inline constexpr std::int64_t kSwitchScore = 1800;

class LinkGraph {
 public:
  explicit LinkGraph(const Node& node);

  std::uint64_t joined_to(std::size_t place) const { return joined_[place]; }
  std::int64_t score(std::size_t a, std::size_t b) const { return scores_[a * count_ + b]; }
  // Sum over all pairs of the set.
  std::int64_t score(std::uint64_t set) const;
  bool is_joined(std::uint64_t set) const;
  // Being joined is transitive: link sets do not overlap.
  bool is_disjoint() const { return disjoint_; }
  // The most devices of `among` that form a link set. Exact up to a step budget that graphs of real
  // machines do not reach, then at least so many.
  int largest_set(std::uint64_t among) const;

 private:
  std::size_t count_ = 0;
  std::vector<std::int64_t> scores_;  // count_ x count_
  std::array<std::uint64_t, kMaxDevicesPerNode> joined_{};
  bool disjoint_ = true;
};

struct LinkAsk {
  std::uint64_t fits = 0;  // device places to choose from
  int count = 0;
  bool required = false;           // a link set, or nothing
  std::span<const int> numa = {};  // by place: all of one node; empty = no such rule
  std::span<const DeviceFace> faces;
  std::span<const DeviceNeed> needs;
  bool one_suffices = false;  // the caller looks at the first choice only
};

struct LinkChoices {
  std::vector<std::uint64_t> sets;  // best first
  bool complete = true;             // false: there may be more
};

// The sets of places that the ask may take: highest sum of pair scores, then the one that leaves
// the largest link set of unused devices, the largest free memory on one device, the fullest
// devices taken, the lowest places. Every set when at most eight places fit; above, the best that a
// greedy choice with swaps finds comes first, and the list is bounded.
LinkChoices link_choices(const LinkGraph& graph, const LinkAsk& ask);

}  // namespace berth::core
