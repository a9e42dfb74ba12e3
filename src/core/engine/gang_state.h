// GangState: what the engine keeps about one gang beside the entries of its members.
//
// The tree of groups lies flat, parents before children. The gang's own entry (its head) waits in
// line; members have entries of their own, which hold the grants. Thread-safety: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "core/model/gang.h"
#include "core/model/ids.h"
#include "core/model/verdict.h"
#include "core/queue/charge.h"

namespace berth::core {

// Why a gang found no place.
struct GangShortage {
  Cause cause = Cause::none;
  std::string level;        // topology level that failed; empty: none did
  std::string best_domain;  // the domain of it that holds the most
  std::int64_t fits = 0;    // members that it holds
  std::int64_t need = 0;
  std::int64_t domains = 0;    // of the level
  bool all_equal = false;      // each domain holds as many
  std::int64_t segment = 0;    // size of the segments for which there are no domains; 0: not those
  bool for_ever = false;       // counted on the machines as they are when nothing runs
  std::int64_t outside = 0;    // nodes without the level's label
  std::int64_t placeable = 0;  // members that fit at once without the topology rules
  bool proved = true;          // false: the budget of steps ended
  std::int64_t steps = 0;
};

struct GangNode {
  std::string name;
  int parent = -1;
  std::vector<std::size_t> children;  // places in GangState::nodes
  std::int64_t min = 0;               // members, or groups, that must run
  std::int64_t declared = 0;          // members
  std::int64_t succeeded = 0;         // members that ended well; they count as present
  TopologyRule topology;
  std::vector<WorkloadId> members;  // of a leaf, by priority, then in order of arrival

  bool is_leaf() const { return children.empty(); }
};

struct GangState {
  std::vector<GangNode> nodes;  // the root first
  GangOptions options;
  std::string problem;                 // of its topology rules; empty = none
  bool started = false;                // its minimum holds grants, or did until it was evicted
  bool evicting = false;               // all of it has been asked to leave
  Time minimum_reached;                // when the minimum last came together
  std::int64_t joined = 0;             // members that ever came, for their order
  std::optional<Time> degraded_since;  // started, and below the minimum
  std::optional<Time> stale_at;        // timer: evicted whole unless it is whole again by then
  std::optional<Time> start_by;        // timer: evicted whole unless confirmed by then
  std::optional<Time> not_before;      // timer: back-off after a failed start
  std::int64_t failed_starts = 0;
  GangShortage shortage;  // of the last attempt
  Charge turn;            // of its minimum: what is compared when queues race
  std::string wish;       // Impl::gang_wish(); empty: to be made anew
};

}  // namespace berth::core
