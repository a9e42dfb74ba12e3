// Domains: the tree into which one topology divides the present nodes.
//
//   whole pool (level kNoLevel)
//     zone-a                level 0
//       zone-a/rack1        level 1
//         node, node        nodes hang from the deepest domain that their labels name
//
// A node that lacks a level's label lies outside the topology from that level on: it hangs from the
// last domain that its labels do name, from the whole pool if there is none, and outside(level)
// counts it. Equal values under different parents are different domains.
//
// Invariants: ids are dense and stay for ever, also of domains that are empty now; a domain's
// parent, level and name never change. Children, nodes and of_level() are in the order of ties:
// domains by name, nodes by tie rank and name. No decision depends on the order of arrival.
// Thread-safety: none; owned by one engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/id.h"
#include "core/model/fleet.h"
#include "core/model/ids.h"
#include "core/model/topology.h"

namespace berth::core {

struct DomainTag;
using DomainId = Id<DomainTag>;
inline constexpr DomainId kWholePool{std::uint32_t{0}};

class Domains {
 public:
  explicit Domains(Topology topology);  // requires one that check_topologies() accepts

  // The node came, went, or is described anew. True: it lies in another domain than before, so
  // every MemberCounts over this tree must set() it. O(levels + nodes and domains beside it).
  bool sync(const Fleet& fleet, NodeId node);

  const Topology& topology() const { return topology_; }
  int levels() const { return static_cast<int>(topology_.levels.size()); }
  std::size_t slots() const { return domains_.size(); }  // ids ever given out

  // The deepest domain of the node; none = absent.
  DomainId home(NodeId node) const;
  // The node's domain of that level; none: it lies in none.
  DomainId of_node(NodeId node, int level) const;

  DomainId parent(DomainId id) const { return at(id).parent; }  // none: the whole pool
  int level(DomainId id) const { return at(id).level; }
  const std::string& name(DomainId id) const { return at(id).name; }  // "zone-a/rack1"
  std::span<const DomainId> children(DomainId id) const { return at(id).children; }
  // Those that hang from the domain itself, not from its children.
  std::span<const NodeId> nodes(DomainId id) const { return at(id).nodes; }
  std::int64_t node_count(DomainId id) const { return at(id).node_count; }  // at or below
  bool is_within(DomainId id, DomainId outer) const;

  // Domains of the level, empty ones too; kNoLevel: the whole pool.
  std::span<const DomainId> of_level(int level) const;
  // Present nodes that lie in no domain of the level: their labels do not name one.
  std::int64_t outside(int level) const;

 private:
  struct Domain {
    DomainId parent;
    int level = kNoLevel;
    std::string value;
    std::string name;
    std::vector<DomainId> children;
    std::vector<NodeId> nodes;
    std::int64_t node_count = 0;
  };

  struct Place {
    DomainId home;
    std::int64_t tie_rank = 0;
  };

  const Domain& at(DomainId id) const { return domains_[id.index()]; }
  DomainId child_named(DomainId parent, const std::string& value);
  DomainId domain_for(const Node& node);
  void count(DomainId home, std::int64_t by);

  Topology topology_;
  std::vector<Domain> domains_;
  std::vector<std::vector<DomainId>> by_level_;  // [level + 1]
  std::vector<Place> places_;                    // by NodeId
};

}  // namespace berth::core
