// choose_domains: on which nodes the equal members of a group stand, so that the group's topology
// rule holds.
//
//   const DomainChoice choice = choose_domains(counts, rule, {.members = 7});
//   if (choice.fits)  for (NodeShare share : choice.nodes)  …   // members in order of their index
//   else              choice.shortage                           // "best rack: r2, 2 of 4"
//
// Exact on the counts it is given: it says no only when no domain that the rule allows has room.
//   required   all in one domain of the level: the tightest that fits; ties spare the largest hole,
//              then go by name
//   preferred  start at the level, climb until one domain fits (at most to the required level);
//   then
//              several domains of the top level: largest first, the last one the tightest that
//              holds the rest
//   neither    the whole pool, least free first
//   segments   member index / size = segment; each segment lies in one domain of its level; the
//              last segment may be shorter
// Inside a domain the same order applies down to nodes. Source: queues-gangs-topology.md 8, 8.3.
// Cost: O(nodes + domains), at most a sort of the children of a domain on top.
// Thread-safety: pure functions over const counts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/placement/member_counts.h"

namespace berth::core {

struct NodeShare {
  NodeId node;
  std::int64_t members = 0;
  bool operator==(const NodeShare&) const = default;
};

struct DomainAsk {
  std::int64_t members = 0;
  bool leader = false;           // one leader besides, on a node with NodeRoom::with_leader
  DomainId within = kWholePool;  // only nodes at or below this domain
};

// Why nothing fits: what the widest level that may be used offers.
struct DomainShortage {
  int level = kNoLevel;      // the required level; kNoLevel: the whole pool is too small
  DomainId best;             // the first of those that hold the most; none: no domain at all
  std::int64_t fits = 0;     // members that `best` holds, in whole segments if there are any
  std::int64_t need = 0;     // members
  std::int64_t domains = 0;  // of the level, with nodes
  bool all_equal = false;    // each of them holds `fits`: "each rack 2 of 4"
  bool leader_fits = true;   // false: no domain has room for the leader
  std::int64_t outside = 0;  // nodes whose labels name no domain of the level
  bool operator==(const DomainShortage&) const = default;
};

struct DomainChoice {
  bool fits = false;
  int level = kNoLevel;           // of the one domain that holds all; kNoLevel: several do
  std::vector<DomainId> domains;  // that one; or the several of the top level
  // In order of member index: the first share holds members 0 … members - 1. A node may come twice.
  std::vector<NodeShare> nodes;
  NodeId leader;            // none: no leader asked for
  DomainShortage shortage;  // when it does not fit
};

DomainChoice choose_domains(const MemberCounts& counts, const LevelRule& rule,
                            const DomainAsk& ask);

// All domains of one level that can hold the ask, in the order in which they are to be tried:
// tightest first. For callers that must try a whole tree of groups in each.
std::vector<DomainId> fitting_domains(const MemberCounts& counts, const LevelRule& rule,
                                      const DomainAsk& ask, int level);

}  // namespace berth::core
