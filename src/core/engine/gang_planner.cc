#include "core/engine/gang_planner.h"

#include <algorithm>
#include <bit>

namespace berth::core {

namespace {

// How hard a shape is to place: devices for itself alone, then memory, then the host's resources.
auto hardness(const Shape& shape) {
  std::int64_t whole = 0;
  std::int64_t bytes = 0;
  std::int64_t devices = 0;
  for (std::size_t i = 0; i < shape.gpu_containers.size(); ++i) {
    const DeviceAsk& ask = shape.ask(i);
    devices += ask.count;
    whole += ask.is_exclusive() ? ask.count : 0;
    bytes = std::max({bytes, ask.mib, ask.nano});
  }
  return std::tuple(shape.constrained, whole, devices, bytes, shape.cpu, shape.ram);
}

}  // namespace

GangPlanner::GangPlanner(Engine::Impl& engine, WorkloadId head, Scratch& scratch,
                         std::vector<std::int64_t> want)
    : engine_(engine),
      gang_(engine.gang(head)),
      scratch_(scratch),
      guard_(engine.guard_for(head, true)),
      want_(std::move(want)),
      budget_(engine.config.search_budget) {}

std::int64_t GangPlanner::wanted(std::size_t node) const {
  return want_.empty() ? gang_.nodes[node].min : want_[node];
}

// It holds a grant, in the engine or on the scratch.
bool GangPlanner::stands(WorkloadId member) const {
  return engine_.entry(member).holds() && !scratch_.is_out(member);
}

// Members of a leaf that need no place: those that stand, and those that have ended well.
std::int64_t GangPlanner::standing(const GangNode& leaf) const {
  return leaf.succeeded +
         std::ranges::count_if(leaf.members, [this](WorkloadId member) { return stands(member); });
}

// Members that hold nothing yet, by what they ask for, hardest first. Those that hold a grant
// already (a gang that lost a member) count as placed and are not here.
std::vector<GangPlanner::MemberClass> GangPlanner::classes_of(const GangNode& node) const {
  std::vector<MemberClass> classes;
  for (const WorkloadId member : node.members) {
    const Entry& entry = engine_.entry(member);
    if (stands(member)) {
      continue;
    }
    auto found = std::ranges::find(classes, entry.shape, &MemberClass::shape);
    if (found == classes.end()) {
      classes.push_back({.shape = entry.shape, .members = {}});
      found = std::prev(classes.end());
    }
    found->members.push_back(member);
  }
  std::ranges::stable_sort(classes, [&](const MemberClass& a, const MemberClass& b) {
    return hardness(engine_.shapes.at(a.shape)) > hardness(engine_.shapes.at(b.shape));
  });
  return classes;
}

GangPlanner::Rule GangPlanner::rule_of(const GangNode& node) const {
  Rule rule;
  if (!node.topology.any()) {
    return rule;
  }
  const Domains* domains = engine_.domains_for(node.topology);
  ASSERT(domains != nullptr, node.name);
  const Result<LevelRule> levels = resolve_levels(domains->topology(), node.topology);
  ASSERT(levels.ok(), node.name);
  rule.domains = domains;
  rule.levels = *levels;
  rule.any = true;
  return rule;
}

bool GangPlanner::within(const NodeSet& set, NodeId node) const {
  return set.empty() || set[node.index()];
}

GangPlanner::NodeSet GangPlanner::narrowed(const NodeSet& set, const Domains& domains,
                                           DomainId domain) const {
  NodeSet inner(engine_.fleet.node_slots(), false);
  const auto visit = [&](const auto& self, DomainId at) -> void {
    for (const NodeId node : domains.nodes(at)) {
      inner[node.index()] = within(set, node);
    }
    for (const DomainId child : domains.children(at)) {
      self(self, child);
    }
  };
  visit(visit, domain);
  return inner;
}

std::optional<std::uint64_t> GangPlanner::allowed_on(WorkloadId member, NodeId node,
                                                     const NodeSet& set) const {
  if (!within(set, node)) {
    return std::nullopt;
  }
  std::uint64_t allowed = engine_.quota_places(member, node);
  if (allowed == 0) {
    return std::nullopt;
  }
  if (guard_ && engine_.index.is_guarded(node)) {
    const std::optional<std::uint64_t> open = guard_(node);
    if (!open.has_value()) {
      return std::nullopt;
    }
    allowed &= *open;
  }
  return allowed;
}

bool GangPlanner::put(WorkloadId member, NodeId node, std::uint64_t allowed) {
  ++steps_;
  const std::span<const DeviceFace> faces = engine_.ledger.faces(node);
  const PlacementIndex::NodeState state{.face = engine_.ledger.node(node),
                                        .devices = {faces.begin(), faces.end()}};
  const PlacementIndex::Judgement found =
      engine_.index.judge(engine_.entry(member).shape, node, state, allowed);
  if (found.cause != Cause::none) {
    return false;
  }
  scratch_.put(member, engine_.make_grant(member, node, faces, found.places));
  return true;
}

MemberCounts GangPlanner::count(const Rule& rule, const MemberClass& members, const NodeSet& set) {
  MemberCounts counts(*rule.domains);
  const Shape& shape = engine_.shapes.at(members.shape);
  for (std::size_t i = 0; i < engine_.fleet.node_slots(); ++i) {
    const NodeId node(i);
    if (!engine_.fleet.present(node) || !within(set, node)) {
      continue;
    }
    ++steps_;
    counts.set(node, engine_.room_on(shape, node,
                                     allowed_on(members.members.front(), node, set).value_or(0)));
    inexact_ = inexact_ || !shape.simple;
  }
  return counts;
}

void GangPlanner::note(const DomainShortage& shortage, const Rule& rule) {
  if (shortage_.need > 0 && shortage_.fits >= shortage.fits) {
    return;
  }
  shortage_.cause = Cause::no_topology_domain;
  shortage_.fits = shortage.fits;
  shortage_.need = shortage.need;
  shortage_.domains = shortage.domains;
  shortage_.all_equal = shortage.all_equal;
  shortage_.outside = shortage.outside;
  shortage_.level = shortage.level == kNoLevel
                        ? ""
                        : rule.domains->topology().levels[static_cast<std::size_t>(shortage.level)];
  shortage_.best_domain = shortage.best.is_none() ? "" : rule.domains->name(shortage.best);
  shortage_.segment = 0;
  if (shortage.level == kNoLevel && !rule.levels.segments.empty()) {
    const LevelRule::Segment& widest = rule.levels.segments.front();
    shortage_.level = rule.domains->topology().levels[static_cast<std::size_t>(widest.level)];
    shortage_.segment = widest.size;
    shortage_.best_domain.clear();
  }
}

bool GangPlanner::place_node(std::size_t node, const NodeSet& set) {
  const GangNode& group = gang_.nodes[node];
  const Rule rule = rule_of(group);
  if (!rule.any) {
    return place_inside(node, set);
  }
  const std::vector<MemberClass> classes =
      group.is_leaf() ? classes_of(group) : std::vector<MemberClass>();
  if (group.is_leaf() && classes.size() == 1) {
    return place_by_counts(node, rule, classes.front(), set);
  }
  return place_in_domains(node, rule, set);
}

// Equal members: the counts say which node takes how many.
bool GangPlanner::place_by_counts(std::size_t node, const Rule& rule, const MemberClass& members,
                                  const NodeSet& set) {
  const GangNode& group = gang_.nodes[node];
  NodeSet inner = set;
  // Members that run already say where the group is (a required level keeps the rest there).
  for (const WorkloadId member : group.members) {
    if (!stands(member)) {
      continue;
    }
    if (rule.levels.required != kNoLevel) {
      const DomainId home =
          rule.domains->of_node(engine_.entry(member).grant->node, rule.levels.required);
      if (!home.is_none()) {
        inner = narrowed(inner, *rule.domains, home);
      }
    }
  }
  const std::int64_t missing = wanted(node) - standing(group);
  if (missing <= 0) {
    return true;
  }
  if (static_cast<std::int64_t>(members.members.size()) < missing) {
    return false;
  }
  const MemberCounts counts = count(rule, members, inner);
  const DomainChoice choice = choose_domains(counts, rule.levels, {.members = missing});
  if (!choice.fits) {
    note(choice.shortage, rule);
    return false;
  }
  std::size_t next = 0;
  for (const NodeShare& share : choice.nodes) {
    for (std::int64_t i = 0; i < share.members; ++i) {
      const WorkloadId member = members.members[next];
      const std::optional<std::uint64_t> allowed = allowed_on(member, share.node, inner);
      if (!allowed.has_value() || !put(member, share.node, *allowed)) {
        return false;
      }
      ++next;
    }
  }
  return true;
}

// Unequal members, or a group of groups: domain by domain, the tightest first.
bool GangPlanner::place_in_domains(std::size_t node, const Rule& rule, const NodeSet& set) {
  const std::size_t mark = scratch_.mark();
  const auto try_level = [&](int level) {
    struct Tried {
      std::int64_t nodes = 0;
      DomainId domain;
    };
    std::vector<Tried> order;
    for (const DomainId domain : rule.domains->of_level(level)) {
      if (rule.domains->node_count(domain) > 0) {
        order.push_back(
            {.nodes = engine_.free_devices_in(*rule.domains, domain), .domain = domain});
      }
    }
    std::ranges::stable_sort(order, {}, &Tried::nodes);
    for (const Tried& tried : order) {
      const NodeSet inner = narrowed(set, *rule.domains, tried.domain);
      if (enough_room(node, inner) && place_inside(node, inner)) {
        return true;
      }
      scratch_.undo_to(mark);
    }
    if (level != kNoLevel && shortage_.cause == Cause::none) {
      shortage_.cause = Cause::no_topology_domain;
      shortage_.level = rule.domains->topology().levels[static_cast<std::size_t>(level)];
      shortage_.domains = static_cast<std::int64_t>(order.size());
      shortage_.need = wanted(node);
      shortage_.outside = rule.domains->outside(level);
    }
    return false;
  };
  if (rule.levels.preferred != kNoLevel) {
    const int stop = rule.levels.required == kNoLevel ? 0 : rule.levels.required;
    for (int level = rule.levels.preferred; level >= stop; --level) {
      if (try_level(level)) {
        return true;
      }
    }
    if (rule.levels.required == kNoLevel) {
      return place_inside(node, set);
    }
    return false;
  }
  return try_level(rule.levels.required);
}

bool GangPlanner::place_inside(std::size_t node, const NodeSet& set) {
  const GangNode& group = gang_.nodes[node];
  if (group.is_leaf()) {
    return place_leaf(node, set);
  }
  std::int64_t placed = 0;
  for (const std::size_t child : group.children) {
    if (placed == group.min) {
      break;
    }
    const std::size_t mark = scratch_.mark();
    if (place_node(child, set)) {
      ++placed;
    } else {
      scratch_.undo_to(mark);
    }
  }
  return placed >= group.min;
}

// One after the other, each where the policy would put it.
bool GangPlanner::place_leaf(std::size_t node, const NodeSet& set) {
  const GangNode& group = gang_.nodes[node];
  std::int64_t placed = standing(group);
  for (const MemberClass& members : classes_of(group)) {
    for (const WorkloadId member : members.members) {
      if (placed >= wanted(node)) {
        return true;
      }
      ++steps_;
      const bool open = set.empty() && engine_.quota_open(member);
      const Selection found = open ? engine_.index.select(members.shape, guard_)
                                   : engine_.index.select_among(members.shape, [&](NodeId at) {
                                       return allowed_on(member, at, set);
                                     });
      if (found.node.is_none()) {
        break;  // no other of the same shape will fit either
      }
      scratch_.put(member, engine_.make_grant(member, found.node, engine_.ledger.faces(found.node),
                                              engine_.index.places(members.shape, found)));
      ++placed;
    }
  }
  shortage_.placeable = std::max(shortage_.placeable, placed);
  return placed >= wanted(node);
}

// Whether no group could fail for want of room alone: each class by itself, as if the others were
// not there. False is a proof.
bool GangPlanner::enough_room(std::size_t node, const NodeSet& set) {
  const GangNode& group = gang_.nodes[node];
  if (!group.is_leaf()) {
    std::int64_t possible = 0;
    for (const std::size_t child : group.children) {
      possible += enough_room(child, set) ? 1 : 0;
    }
    return possible >= group.min;
  }
  std::int64_t room = standing(group);
  for (const MemberClass& members : classes_of(group)) {
    const auto most = static_cast<std::int64_t>(members.members.size());
    std::int64_t here = 0;
    const Shape& shape = engine_.shapes.at(members.shape);
    for (std::size_t i = 0; i < engine_.fleet.node_slots() && here < most; ++i) {
      const NodeId at(i);
      if (!engine_.fleet.present(at) || !within(set, at)) {
        continue;
      }
      ++steps_;
      const WorkloadId first = members.members.front();
      const std::optional<std::uint64_t> allowed = allowed_on(first, at, set);
      if (allowed.has_value()) {
        here += engine_.room_on(shape, at, *allowed).members;
      }
    }
    room += std::min(here, most);
  }
  shortage_.placeable = std::max(shortage_.placeable, std::min(room, wanted(node)));
  return room >= wanted(node);
}

bool GangPlanner::place() {
  shortage_ = {};
  const std::size_t mark = scratch_.mark();
  if (!enough_room(0, {})) {
    shortage_.steps = steps_;
    return false;
  }
  if (place_node(0, {})) {
    shortage_.steps = steps_;
    return true;
  }
  scratch_.undo_to(mark);
  const std::int64_t greedy_steps = steps_;
  budget_ += greedy_steps;
  order_nodes();
  const bool found = search_node(0, {}, [] { return true; });
  shortage_.steps = steps_;
  if (!found) {
    scratch_.undo_to(mark);
    shortage_.proved = !out_of_steps() && !inexact_;
    if (!shortage_.proved && shortage_.cause == Cause::none) {
      shortage_.cause = Cause::search_budget;
    }
  }
  return found;
}

}  // namespace berth::core
