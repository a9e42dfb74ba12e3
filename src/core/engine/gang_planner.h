// GangPlanner: a place for every member that a gang needs, all together or none.
//
// First greedily, as the policy and the topology rules lead; where that fails, by an exact search
// over groups, domains, nodes and devices in a fixed order. The search ends by itself or with its
// budget of steps (places tried), and says which: an ended search is a proof that nothing fits.
// Works on a Scratch; what it placed stays there when it succeeds. Thread-safety: none.
//
// Source: queues-gangs-topology.md 6, 8.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/engine_impl.h"
#include "core/engine/gang_state.h"
#include "core/engine/scratch.h"
#include "core/placement/choose_domains.h"

namespace berth::core {

class GangPlanner {
 public:
  // `want`: how many members each leaf gets, by place in GangState::nodes; empty = the minima.
  GangPlanner(Engine::Impl& engine, WorkloadId head, Scratch& scratch,
              std::vector<std::int64_t> want = {});

  // True: every member that is needed stands on the scratch.
  bool place();
  const GangShortage& shortage() const { return shortage_; }

 private:
  using NodeSet = std::vector<bool>;  // by node; empty = all
  using Next = std::function<bool()>;

  struct MemberClass {
    ShapeId shape;
    std::vector<WorkloadId> members;
  };

  struct Rule {
    const Domains* domains = nullptr;
    LevelRule levels;
    bool any = false;
  };

  // --- both
  bool stands(WorkloadId member) const;
  std::int64_t standing(const GangNode& leaf) const;
  std::vector<MemberClass> classes_of(const GangNode& node) const;
  std::int64_t wanted(std::size_t node) const;
  Rule rule_of(const GangNode& node) const;
  bool within(const NodeSet& set, NodeId node) const;
  NodeSet narrowed(const NodeSet& set, const Domains& domains, DomainId domain) const;
  std::optional<std::uint64_t> allowed_on(WorkloadId member, NodeId node, const NodeSet& set) const;
  bool put(WorkloadId member, NodeId node, std::uint64_t allowed);
  MemberCounts count(const Rule& rule, const MemberClass& members, const NodeSet& set);
  void note(const DomainShortage& shortage, const Rule& rule);

  // --- greedy (gang_planner.cc)
  bool place_node(std::size_t node, const NodeSet& set);
  bool place_leaf(std::size_t node, const NodeSet& set);
  bool place_by_counts(std::size_t node, const Rule& rule, const MemberClass& members,
                       const NodeSet& set);
  bool place_in_domains(std::size_t node, const Rule& rule, const NodeSet& set);
  bool place_inside(std::size_t node, const NodeSet& set);

  // --- bounds: a proof without a search
  bool enough_room(std::size_t node, const NodeSet& set);

  // --- exact (gang_search.cc)
  void order_nodes();
  bool search_node(std::size_t node, const NodeSet& set, const Next& next);
  bool search_inside(std::size_t node, const NodeSet& set, const Next& next);
  bool search_children(std::size_t node, std::size_t child, std::int64_t placed, const NodeSet& set,
                       const Next& next);
  // Where the search through a leaf's members stands.
  struct Position {
    std::size_t of_class = 0;
    std::size_t member = 0;    // of the class
    std::int64_t missing = 0;  // members still needed
    std::size_t node = 0;      // members of a class go to ascending (place in order_, places)
    std::uint64_t places = 0;
  };
  bool search_members(const std::vector<MemberClass>& classes, Position at, const NodeSet& set,
                      const Next& next);
  bool search_places(const std::vector<MemberClass>& classes, Position at, NodeId node,
                     std::uint64_t allowed, const NodeSet& set, const Next& next);
  bool try_places(WorkloadId member, NodeId node, std::uint64_t mask);
  bool out_of_steps() const;

  Engine::Impl& engine_;
  const GangState& gang_;
  Scratch& scratch_;
  GuardRule guard_;
  std::vector<std::int64_t> want_;
  GangShortage shortage_;
  std::int64_t steps_ = 0;
  std::int64_t budget_ = 0;
  std::vector<NodeId> order_;  // of the exact search: present nodes, by tie rank
  bool inexact_ = false;       // a shape was met whose every placement is not enumerated
};

}  // namespace berth::core
