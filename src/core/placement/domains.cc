#include "core/placement/domains.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/assert.h"

namespace berth::core {

namespace {

// The whole pool, level -1, is row 0.
std::size_t row_of(int level) { return static_cast<std::size_t>(level) + 1; }

}  // namespace

Domains::Domains(Topology topology)
    : topology_(std::move(topology)), domains_(1), by_level_(topology_.levels.size() + 1) {
  by_level_[0].push_back(kWholePool);
}

DomainId Domains::home(NodeId node) const {
  return node.index() < places_.size() ? places_[node.index()].home : DomainId::none();
}

DomainId Domains::of_node(NodeId node, int level) const {
  DomainId id = home(node);
  if (id.is_none() || at(id).level < level) {
    return DomainId::none();
  }
  while (at(id).level > level) {
    id = at(id).parent;
  }
  return id;
}

bool Domains::is_within(DomainId id, DomainId outer) const {
  while (!id.is_none() && at(id).level > at(outer).level) {
    id = at(id).parent;
  }
  return id == outer;
}

std::span<const DomainId> Domains::of_level(int level) const { return by_level_[row_of(level)]; }

std::int64_t Domains::outside(int level) const {
  std::int64_t inside = 0;
  for (const DomainId id : of_level(level)) {
    inside += at(id).node_count;
  }
  return at(kWholePool).node_count - inside;
}

DomainId Domains::child_named(DomainId parent, const std::string& value) {
  const auto by_value = [&](DomainId id) -> const std::string& { return at(id).value; };
  const std::vector<DomainId>& known = at(parent).children;
  const auto found = std::ranges::lower_bound(known, value, {}, by_value);
  if (found != known.end() && at(*found).value == value) {
    return *found;
  }
  const auto place = found - known.begin();
  const DomainId id(domains_.size());
  Domain domain;
  domain.parent = parent;
  domain.level = at(parent).level + 1;
  domain.value = value;
  domain.name = parent == kWholePool ? value : at(parent).name + "/" + value;
  domains_.push_back(std::move(domain));
  std::vector<DomainId>& siblings = domains_[parent.index()].children;
  siblings.insert(siblings.begin() + place, id);
  std::vector<DomainId>& level = by_level_[row_of(at(id).level)];
  // Equal names on different paths ("a/b" + "c", "a" + "b/c") go by the parent's place.
  const auto before = [&](DomainId a, DomainId b) {
    return std::tie(at(a).name, at(a).value) < std::tie(at(b).name, at(b).value);
  };
  level.insert(std::ranges::upper_bound(level, id, before), id);
  return id;
}

DomainId Domains::domain_for(const Node& node) {
  DomainId id = kWholePool;
  for (const std::string& level : topology_.levels) {
    const auto label = node.labels.find(level);
    if (label == node.labels.end()) {
      break;
    }
    id = child_named(id, label->second);
  }
  return id;
}

void Domains::count(DomainId home, std::int64_t by) {
  for (DomainId id = home; !id.is_none(); id = at(id).parent) {
    domains_[id.index()].node_count += by;
  }
}

bool Domains::sync(const Fleet& fleet, NodeId node) {
  if (places_.size() <= node.index()) {
    places_.resize(node.index() + 1);
  }
  Place& place = places_[node.index()];
  const bool present = fleet.present(node);
  const Place before = place;
  place = {.home = present ? domain_for(fleet.node(node)) : DomainId::none(),
           .tie_rank = present ? fleet.node(node).tie_rank : 0};
  if (place.home == before.home && place.tie_rank == before.tie_rank) {
    return false;
  }
  if (!before.home.is_none()) {
    const std::size_t gone = std::erase(domains_[before.home.index()].nodes, node);
    ASSERT(gone == 1, node.value(), gone);
    count(before.home, -1);
  }
  if (!place.home.is_none()) {
    const auto order = [&](NodeId a, NodeId b) {
      return std::tie(places_[a.index()].tie_rank, fleet.node(a).name) <
             std::tie(places_[b.index()].tie_rank, fleet.node(b).name);
    };
    std::vector<NodeId>& nodes = domains_[place.home.index()].nodes;
    nodes.insert(std::ranges::upper_bound(nodes, node, order), node);
    count(place.home, 1);
  }
  return place.home != before.home;
}

}  // namespace berth::core
