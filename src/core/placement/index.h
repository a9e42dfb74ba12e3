// PlacementIndex: the cheapest feasible node for a shape, without looking at every node.
//
// For every shape that was asked for lately it keeps, per node, the costs that the policy gave (or
// the reason why the node cannot serve), and refreshes only the nodes that changed since the shape
// was last asked for. Nodes lie in (domain, tie rank, name) order, split into groups of equal
// domain and equal lost hosts: inside a group every cost moves by the same offset, so a tree of
// minima per group finds the best node whatever the offsets are now, and the first one among
// equals.
//
// Cost: per selection O(changed nodes since the shape's last selection x log n + groups).
// Guarded nodes (reservations) are left out of the trees and judged one by one by the caller's
// rule.
//
// Invariant: select() equals select_by_scan(), which asks every node anew (verify(), tests).
// Thread-safety: none; owned by one engine.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/mt19937.h"
#include "core/ledger/ledger.h"
#include "core/model/fleet.h"
#include "core/placement/container_search.h"
#include "core/placement/policy.h"
#include "core/placement/shape.h"
#include "core/placement/shape_page.h"

namespace berth::core {

struct Selection {
  NodeId node;  // none: nothing fits
  int way = 0;  // which of the policy's candidates
  bool opens_idle = false;
  std::int64_t cost = 0;                      // rounded
  std::uint64_t allowed = ~std::uint64_t{0};  // device places that the guard left
  std::uint32_t drawn = 0;                    // policies that draw: which of the places that fit
};

// Which device places of a guarded node the asking workload may use; empty = the node not at all.
using GuardRule = std::function<std::optional<std::uint64_t>(NodeId)>;

class PlacementIndex {
  // What nodes answered when they were asked one by one (refusal()).
  struct KnownRefusal {
    std::uint64_t asked_at = 0;  // the node's last change then, counted from 1; 0: never asked
    Cause cause = Cause::none;
  };
  struct KnownRefusals {
    std::uint64_t age = 0;
    std::vector<KnownRefusal> nodes;  // by node
  };

 public:
  PlacementIndex(const Fleet& fleet, const Ledger& ledger, const NodeTypes& types, Shapes& shapes)
      : fleet_(fleet), ledger_(ledger), types_(types), shapes_(shapes) {}

  // Forgets everything, other policies too, and ranks by this one from now on.
  void set_policy(std::unique_ptr<Policy> policy, std::uint64_t seed);
  // What shapes with such terms are ranked by: a policy of its own, or the engine's where that is
  // the same one, with all that is kept for it. Needed before such a shape is asked for.
  void add_policy(PolicyId id, std::unique_ptr<Policy> policy, std::uint64_t seed);
  void share_policy(PolicyId id);
  const Policy& policy() const { return *rankings_.front()->policy; }
  const Policy& policy(ShapeId shape) const { return *ranking_of(shapes_.at(shape)).policy; }
  // Whether some policy in use draws.
  bool draws() const;
  // The set of nodes, their tie ranks, or the devices of one changed.
  void fleet_changed();
  // Brings what is kept for the engine's policy up to date; rank() needs it after any change.
  void settle() { settle(*rankings_.front()); }
  // The shape is gone.
  void forget(ShapeId shape);

  Selection select(ShapeId shape, const GuardRule& guard);
  // Among the nodes that the rule lets pass, guarded or not; the rule answers for every node. Looks
  // at each feasible node once. Policies that draw take the first of the cheapest here.
  Selection select_among(ShapeId shape, const GuardRule& rule);
  // The same answer from scratch: every node asked, nothing kept. For tests, verify() and `why`.
  Selection select_by_scan(ShapeId shape, const GuardRule& guard) const;

  // Why present nodes refuse the shape, as of now.
  const RefusalCounts& refusals(ShapeId shape);
  // The node's answer to the shape, as of now: none = it could take it. Asked of the rules only
  // where the node has changed since.
  Cause refusal(ShapeId shape, NodeId node);

  // The same for many nodes; until the next call for another shape.
  class Refusals {
   public:
    Cause operator()(NodeId node) { return index_.refusal(shape_, known_, node); }

   private:
    friend class PlacementIndex;
    Refusals(PlacementIndex& index, const Shape& shape)
        : index_(index), shape_(shape), known_(index.known_refusals(shape.id)) {}
    PlacementIndex& index_;
    const Shape& shape_;
    KnownRefusals& known_;
  };
  Refusals asking(ShapeId shape) { return {*this, shapes_.at(shape)}; }

  // A node's answer in a state other than the present one (`state` replaces its books).
  struct NodeState {
    NodeFace face;
    std::vector<DeviceFace> devices;
  };
  struct Judgement {
    Cause cause = Cause::none;
    Selection selection;    // when cause is none
    std::int64_t rank = 0;  // of the node in tie order
    std::vector<ContainerPlaces> places;
  };
  Judgement judge(ShapeId shape, NodeId node, const NodeState& state, std::uint64_t allowed);
  std::int64_t rank(NodeId node) const { return rank_[node.index()]; }

  // Containers and devices on the selected node.
  std::vector<ContainerPlaces> places(ShapeId shape, const Selection& selection) const;

  // The caller marks the node as changed too (Ledger::touch).
  void set_guarded(NodeId node, bool guarded);
  bool is_guarded(NodeId node) const;

  std::int64_t steps() const { return steps_; }  // node visits so far

 private:
  struct Best {
    std::int64_t cost = kNoCost;
    std::int64_t rank = 0;
    Selection selection;
  };

  // A policy in use and what is kept for it.
  struct Ranking {
    std::unique_ptr<Policy> policy;
    std::unique_ptr<Policy> by_level;  // for requests with hints; null: the policy reads them
    std::uint64_t seed = 0;
    std::vector<NodeValue> values;  // by node
    std::uint64_t values_seen = 0;
    std::vector<bool> pristine;  // by node: as its type describes it, nothing booked or used
    bool order_known = false;
    std::vector<NodeId> order;            // by position; present nodes only
    std::vector<std::uint32_t> position;  // by node
    std::vector<Span> domains;            // by domain: range of positions
    std::vector<NodeId> by_name;          // present nodes; only for policies that draw
    std::optional<Mt19937> draw;          // of policies that draw
  };

  static std::unique_ptr<Ranking> ranking_by(std::unique_ptr<Policy> policy, std::uint64_t seed);
  Ranking& ranking_of(const Shape& shape) const { return *used_[shape.terms.policy.index()]; }
  void settle(Ranking& ranking);
  void rank_nodes();
  void order_nodes(Ranking& ranking);
  void rank_uuids();
  // The one that ranks this shape: its policy, or the order by level that the request asks for.
  const Policy& policy_for(const Shape& shape) const;
  void sync_values(Ranking& ranking);
  NodeInput input_of(NodeId node) const;
  NodeAnswer answer(const Shape& shape, const NodeInput& on, const NodeValue& value,
                    std::uint64_t allowed) const;
  std::vector<ContainerPlaces> places_on(const Shape& shape, const NodeInput& on,
                                         const NodeValue& value, const Selection& selection) const;
  ShapePage& refreshed(ShapeId shape);
  void refresh_node(const Shape& shape, ShapePage& page, NodeId node);
  void refresh_many(const Shape& shape, ShapePage& page, bool all);
  const NodeAnswer& remembered(const Shape& shape, NodeId node);
  bool is_pristine(NodeId node) const;
  void make_room_for(ShapeId shape);
  void best_on_page(const Shape& shape, const ShapePage& page, Best& best);
  void consider_guarded(const Shape& shape, const GuardRule& guard, Best& best);
  KnownRefusals& known_refusals(ShapeId shape);
  Cause refusal(const Shape& shape, KnownRefusals& known, NodeId node);
  void forget_refusals() { ++refusals_age_; }
  void consider(const Shape& shape, NodeId node, const NodeAnswer& answer, const NodeValue& value,
                std::uint64_t allowed, Best& best) const;
  Selection draw(const Shape& shape, const ShapePage& page, const GuardRule& guard);
  void draw_place(const Shape& shape, Selection& selection);

  const Fleet& fleet_;
  const Ledger& ledger_;
  const NodeTypes& types_;
  Shapes& shapes_;
  std::vector<std::unique_ptr<Ranking>> rankings_;  // the engine's first
  std::vector<Ranking*> used_;                      // by PolicyId; null: not in use
  bool ranks_known_ = false;
  std::vector<NodeId> by_rank_;     // present nodes in tie order
  std::vector<std::int64_t> rank_;  // by node: place in tie order
  bool uuid_ranks_known_ = false;
  std::vector<std::uint32_t> uuid_ranks_;  // by device; only for policies that rank UUIDs
  std::vector<bool> guarded_;              // by node
  std::vector<NodeId> guarded_list_;
  std::vector<ShapePage> pages_;                    // by shape
  std::vector<KnownRefusals> known_refusals_;       // by shape
  std::uint64_t refusals_age_ = 1;                  // those of another age are worth nothing
  std::vector<std::int64_t> offsets_;               // scratch, by group
  std::vector<std::optional<NodeAnswer>> of_type_;  // scratch: pristine nodes' answers, by type
  std::size_t pages_built_ = 0;
  std::uint64_t uses_ = 0;
  mutable std::int64_t steps_ = 0;
};

}  // namespace berth::core
