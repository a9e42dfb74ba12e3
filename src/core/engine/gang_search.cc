// The exact half of the planner: every choice of groups, domains, nodes and devices, in a fixed
// order, until something fits, nothing is left, or the budget of steps ends.
#include <algorithm>
#include <bit>

#include "core/engine/gang_planner.h"

namespace berth::core {

void GangPlanner::order_nodes() {
  engine_.index.settle();
  order_.clear();
  for (std::size_t i = 0; i < engine_.fleet.node_slots(); ++i) {
    if (engine_.fleet.present(NodeId(i))) {
      order_.emplace_back(i);
    }
  }
  std::ranges::sort(order_, {}, [this](NodeId node) { return engine_.index.rank(node); });
}

bool GangPlanner::out_of_steps() const { return steps_ >= budget_; }

bool GangPlanner::search_node(std::size_t node, const NodeSet& set, const Next& next) {
  const GangNode& group = gang_.nodes[node];
  const Rule rule = rule_of(group);
  if (!rule.any || (rule.levels.required == kNoLevel && rule.levels.segments.empty())) {
    return search_inside(node, set, next);  // a preference forbids nothing
  }
  const std::size_t mark = scratch_.mark();
  if (!rule.levels.segments.empty()) {
    // Segments of equal members are exact on counts; what else the gang needs is not looked at.
    const std::vector<MemberClass> classes = classes_of(group);
    inexact_ = inexact_ || node != 0;
    if (classes.size() == 1 && place_by_counts(node, rule, classes.front(), set) && next()) {
      return true;
    }
    scratch_.undo_to(mark);
    return false;
  }
  for (const DomainId domain : rule.domains->of_level(rule.levels.required)) {
    if (out_of_steps()) {
      return false;
    }
    const NodeSet inner = narrowed(set, *rule.domains, domain);
    if (rule.domains->node_count(domain) > 0 && enough_room(node, inner) &&
        search_inside(node, inner, next)) {
      return true;
    }
    scratch_.undo_to(mark);
  }
  return false;
}

bool GangPlanner::search_inside(std::size_t node, const NodeSet& set, const Next& next) {
  const GangNode& group = gang_.nodes[node];
  if (!group.is_leaf()) {
    return search_children(node, 0, 0, set, next);
  }
  return search_members(classes_of(group), {.missing = wanted(node) - standing(group)}, set, next);
}

bool GangPlanner::search_children(std::size_t node, std::size_t child, std::int64_t placed,
                                  const NodeSet& set, const Next& next) {
  const GangNode& group = gang_.nodes[node];
  if (placed >= group.min) {
    return next();
  }
  const auto left = static_cast<std::int64_t>(group.children.size() - child);
  if (placed + left < group.min || out_of_steps()) {
    return false;
  }
  const std::size_t mark = scratch_.mark();
  if (search_node(group.children[child], set,
                  [&] { return search_children(node, child + 1, placed + 1, set, next); })) {
    return true;
  }
  scratch_.undo_to(mark);
  return search_children(node, child + 1, placed, set, next);
}

bool GangPlanner::search_members(const std::vector<MemberClass>& classes, Position at,
                                 const NodeSet& set, const Next& next) {
  if (at.missing <= 0) {
    return next();
  }
  if (at.of_class == classes.size() || out_of_steps()) {
    return false;
  }
  const MemberClass& members = classes[at.of_class];
  if (at.member < members.members.size()) {
    for (std::size_t i = at.node; i < order_.size(); ++i) {
      const NodeId node = order_[i];
      ++steps_;
      const std::optional<std::uint64_t> allowed =
          allowed_on(members.members[at.member], node, set);
      if (!allowed.has_value() || engine_.index.refusal(members.shape, node) != Cause::none) {
        continue;
      }
      Position here = at;
      here.places = i == at.node ? at.places : 0;
      here.node = i;
      if (search_places(classes, here, node, *allowed, set, next)) {
        return true;
      }
      if (out_of_steps()) {
        return false;
      }
    }
  }
  // The rest of this class is left out.
  return search_members(classes, {.of_class = at.of_class + 1, .missing = at.missing}, set, next);
}

// Every way to put the member on this node, places ascending as numbers.
bool GangPlanner::search_places(const std::vector<MemberClass>& classes, Position at, NodeId node,
                                std::uint64_t allowed, const NodeSet& set, const Next& next) {
  const MemberClass& members = classes[at.of_class];
  const WorkloadId member = members.members[at.member];
  const Shape& shape = engine_.shapes.at(members.shape);
  const std::size_t mark = scratch_.mark();
  Position after = at;
  ++after.member;
  --after.missing;
  if (!shape.wants_gpu() || !shape.simple) {
    inexact_ = inexact_ || !shape.simple;
    if (put(member, node, allowed) && search_members(classes, after, set, next)) {
      return true;
    }
    scratch_.undo_to(mark);
    return false;
  }
  const std::span<const DeviceFace> faces = engine_.ledger.faces(node);
  const AskFit& fit = engine_.shapes.fit(shape.id, engine_.types, engine_.fleet, node).asks[0];
  std::uint64_t open = 0;
  for (std::size_t place = 0; place < faces.size(); ++place) {
    const bool fits = (allowed >> place & 1U) != 0 && (fit.eligible >> place & 1U) != 0 &&
                      device_refusal(fit.needs[place], faces[place]) == Cause::none;
    open |= std::uint64_t{fits} << place;
  }
  const auto count = static_cast<int>(shape.ask(0).count);
  // Subsets of `open` with `count` places, ascending as numbers, from the last one's on: equal
  // members are not tried in every order.
  const auto visit = [&](const auto& self, std::uint64_t chosen, std::uint64_t rest) -> bool {
    if (out_of_steps()) {
      return false;
    }
    if (std::popcount(chosen) == count) {
      ++steps_;
      if (chosen < at.places || !try_places(member, node, chosen)) {
        return false;
      }
      after.places = chosen;
      if (search_members(classes, after, set, next)) {
        return true;
      }
      scratch_.undo_to(mark);
      return false;
    }
    while (rest != 0 && std::popcount(chosen) + std::popcount(rest) >= count) {
      const std::uint64_t lowest = rest & (~rest + 1);
      rest ^= lowest;
      if (self(self, chosen | lowest, rest)) {
        return true;
      }
    }
    return false;
  };
  return visit(visit, 0, open);
}

bool GangPlanner::try_places(WorkloadId member, NodeId node, std::uint64_t mask) {
  const Shape& shape = engine_.shapes.at(engine_.entry(member).shape);
  const std::span<const DeviceFace> faces = engine_.ledger.faces(node);
  const AskFit& fit = engine_.shapes.fit(shape.id, engine_.types, engine_.fleet, node).asks[0];
  if (places_for(shape.ask(0), fit, faces, mask).cause != Cause::none ||
      node_refusal(shape, engine_.ledger.node(node)) != Cause::none) {
    return false;
  }
  ContainerPlaces places{.container = shape.gpu_containers[0], .places = {}};
  for (std::size_t place = 0; place < faces.size(); ++place) {
    if ((mask >> place & 1U) != 0) {
      places.places.add(place);
    }
  }
  scratch_.put(member, engine_.make_grant(member, node, faces, {places}));
  return true;
}

}  // namespace berth::core
