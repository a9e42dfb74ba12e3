// Reservations: the concrete place that the blocked head of each pool will get, and what may pass
// it.
//
// The place is the earliest instant at which it exists: a node's running work is taken away in the
// order of its declared ends until the head fits (basis `declared`). Where ends are not declared
// there is no time; the head then holds the place that needs the fewest releases, and everything
// that was running when the reservation was made is assumed to end some day. Either way another
// workload may use reserved capacity only if the head still fits beside it at that instant, so that
// a stream of small work cannot starve it (queues-gangs-topology.md 7).
//
// Plans are kept per shape (reservation_plans.cc); a reservation looks again only where something
// changed that could make its place worse or another one better.
//
// Thread-safety: none; owned by one engine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/quantity.h"
#include "core/model/ids.h"
#include "core/placement/shape.h"
#include "core/queue/queue_tree.h"
#include "core/queue/waiting_room.h"

namespace berth::core {

// What a node could do for a head. Ordered: the first is taken.
struct NodePlan {
  bool possible = false;
  bool timed = false;
  Time at;                     // when timed
  std::int64_t releases = 0;   // grants that must end first
  std::int64_t left_over = 0;  // milli left on the chosen devices, for a tight fit
  std::uint64_t places = 0;    // device places that the head would take
};

// Whether `a` is the better plan; of equal ones the node of the lower rank is taken.
bool better_plan(const NodePlan& a, const NodePlan& b);

// Whether what the holder waits for comes later than it did. How tight the place is, and what else
// ends there meanwhile, is no reason to look for another.
bool is_later(const NodePlan& plan, const NodePlan& before);

struct ShapePlans;

// How a queue above a holder stands with it as its next.
struct HolderStanding {
  QueueId queue;
  std::uint64_t changes = 0;  // QueueTree::changes then
  std::uint64_t round = 0;    // of replanning, in which it was last found to be so
  QueueStanding standing;
  QueueRank rank;
};

struct Reservation {
  PoolId pool;
  WorkloadId holder;
  ShapeId shape;
  NodeId node;  // none: no node could ever do
  NodePlan plan;
  std::uint64_t made_at_grant = 0;  // grants up to this number may end before the head starts
  bool stale = true;                // its plan may no longer be so
  ShapePlans* plans = nullptr;      // of its shape, as of the last round of replanning
  // The queues above the holder from the root's child down; empty where queues decide nothing.
  std::vector<HolderStanding> path = {};
  std::uint64_t path_of = 0;  // Entry::demanded of the holder for whom it was made
};

// What another reservation holds of a node.
struct HeldPlaces {
  ShapeId shape;
  std::uint64_t places = 0;
  auto operator<=>(const HeldPlaces&) const = default;
};

// The plans of one shape, as if nothing else were reserved. What is reserved makes a plan worse,
// never better, so they bound every reservation's own. Shared by all that ask for the shape.
struct ShapePlans {
  // As better_plan() ranks, then the nodes; the node's own plan is plans[node].
  struct Key {
    bool untimed = false;
    Time at;
    std::int64_t releases = 0;
    std::int64_t left_over = 0;
    std::int64_t rank = 0;
    NodeId node;
    auto operator<=>(const Key&) const = default;
  };

  // The plan beside what others hold.
  struct Beside {
    std::vector<HeldPlaces> ahead;  // in order
    NodePlan plan;
  };

  std::vector<NodePlan> plans;                   // by node
  std::map<NodeId, std::vector<Beside>> beside;  // that were asked for since the node changed
  std::vector<std::optional<Key>> keys;          // by node, as they stand in `order`
  std::set<Key> order;                           // possible ones, the best first
  std::uint64_t seen = 0;                        // position in the log of lasting changes
  bool used = false;                             // somebody has a reservation for the shape
  std::uint64_t last_used = 0;                   // in rounds of replanning
  std::vector<NodeId> touched;                   // by the last update: nodes that changed at all
  std::vector<NodeId> improved;  // of them, those where something may come earlier now
  bool all_touched = false;
};

}  // namespace berth::core
