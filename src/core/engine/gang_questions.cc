// What is asked about a gang: who exists, what its minimum takes, whether it could ever fit, and
// where its members may stand.
#include <algorithm>

#include <fmt/format.h>

#include "core/engine/engine_impl.h"
#include "core/engine/gang_never.h"

namespace berth::core {

// What a gang that has not started asks for, and on which terms: two with the same words get the
// same answer. Empty once it has started, for then much of it is its own.
const std::string& Engine::Impl::gang_wish(WorkloadId head) {
  static const std::string own;
  GangState& state = gangs_.at(head);
  if (state.started) {
    return own;
  }
  if (!state.wish.empty()) {
    return state.wish;
  }
  const Entry& one = entry(head);
  auto to = std::back_inserter(state.wish);
  fmt::format_to(to, "{} {} {} {} {} {} {}", one.leaf.value(), one.preemptible,
                 one.options.priority, one.options.backfill, state.options.whole_only,
                 one.options.preemption_delay.count(),
                 one.options.max_run.has_value() ? one.options.max_run->count() : -1);
  for (const GangNode& node : state.nodes) {
    fmt::format_to(to, "|{} {} {} {}/{}/{}/", node.parent, node.min, node.succeeded,
                   node.topology.topology, node.topology.required, node.topology.preferred);
    for (const SegmentRule& segment : node.topology.segments) {
      fmt::format_to(to, "{}:{}/", segment.level, segment.size);
    }
    ShapeId last;
    std::int64_t many = 0;
    const auto say = [&] { fmt::format_to(to, " {}x{}", many, last.value()); };
    for (const WorkloadId member : node.members) {
      if (entry(member).shape != last && many > 0) {
        say();
        many = 0;
      }
      last = entry(member).shape;
      ++many;
    }
    say();
  }
  return state.wish;
}

Charge Engine::Impl::wish_of(WorkloadId id) const {
  return quotas.counting() ? quotas.wish(shapes.at(entry(id).shape)) : Charge();
}

// The least that the minimum of a group takes of the queue: of its members, or groups, those that
// take least.
Charge Engine::Impl::minimum_charge(const GangState& state, std::size_t group) const {
  const GangNode& node = state.nodes[group];
  std::vector<Charge> parts;
  if (node.is_leaf()) {
    for (const WorkloadId member : node.members) {
      parts.push_back(quotas.least(shapes.at(entry(member).shape)));
    }
  }
  for (const std::size_t child : node.children) {
    parts.push_back(minimum_charge(state, child));
  }
  const auto size = [](const Charge& charge) {
    std::int64_t sum = 0;
    for (const ChargePart& part : charge.parts) {
      sum += part.mib;
    }
    return sum;
  };
  std::ranges::stable_sort(parts, {}, size);
  const std::int64_t needed = std::max<std::int64_t>(0, node.min - node.succeeded);
  parts.resize(std::min(parts.size(), static_cast<std::size_t>(needed)));
  Charge total;
  for (const Charge& part : parts) {
    merge(total, part);
  }
  return total;
}

// What is compared when the queues race: the task's own charge, or that of the gang's minimum.
const Charge& Engine::Impl::turn_charge(WorkloadId id) const {
  const auto found = gangs_.find(id);
  return found == gangs_.end() ? entry(id).demand : found->second.turn;
}

// Members of a leaf that exist, groups of an inner group that are complete.
std::int64_t Engine::Impl::existing_in(const GangState& state, std::size_t group) const {
  const GangNode& node = state.nodes[group];
  if (node.is_leaf()) {
    return node.succeeded + static_cast<std::int64_t>(node.members.size());
  }
  return std::ranges::count_if(node.children, [&](std::size_t child) {
    return existing_in(state, child) >= state.nodes[child].min;
  });
}

// How many members of the shape an empty fleet could hold.
std::int64_t Engine::Impl::most_members(const Shape& shape) const {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < fleet.node_slots(); ++i) {
    const NodeId node(i);
    if (fleet.present(node) &&
        constraint_refusal(shape.request.nodes(), fleet.node(node)) == Cause::none) {
      most += most_on(shape, node);
    }
  }
  return most;
}

// The node with nothing granted, used by others, cordoned or failed.
PlacementIndex::NodeState Engine::Impl::bare_node(NodeId node) const {
  const Node& is = fleet.node(node);
  PlacementIndex::NodeState state{.face = {.cpu_free = is.cpu.count(),
                                           .ram_free = is.ram.in_bytes(),
                                           .slots_free = is.pod_slots,
                                           .present = true},
                                  .devices = {}};
  for (const Device& device : is.devices) {
    const std::int64_t usable = Memory::mib(device.usable_mib()).in_bytes();
    state.devices.push_back({.headroom = usable,
                             .limit_room = limit_ceiling(usable, config.limit_overcommit_percent),
                             .usable = usable,
                             .nano_left = static_cast<std::int32_t>(kWholeNano.count()),
                             .compute_left = 1000,
                             .free_milli = 1000,
                             .idle = usable > 0});
  }
  return state;
}

// Why no release of running work can help; none = it may.
Cause Engine::Impl::gang_never(WorkloadId head) const {
  const Entry& one = entry(head);
  const GangState& state = gangs_.at(head);
  const Cause queue = quotas.counting() ? quotas.tree.queue_refusal(one.options.queue)
                      : one.options.queue == "default" ? Cause::none
                                                       : Cause::unknown_queue;
  if (queue != Cause::none) {
    return queue;
  }
  if (!state.problem.empty()) {
    return Cause::unsupported_constraint;
  }
  if (existing_in(state, 0) < state.nodes[0].min) {
    return Cause::none;  // nobody knows yet what the others ask for
  }
  if (quotas.active()) {
    const Cause limit = quotas.tree.never_fits(one.leaf, minimum_charge(state, 0)).cause;
    if (limit != Cause::none) {
      return limit;
    }
  }
  return GangProof(*this, state).never();
}

std::uint64_t Engine::Impl::quota_places(WorkloadId member, NodeId node) const {
  if (!quotas.active()) {
    return ~std::uint64_t{0};
  }
  const Entry& one = entry(member);
  const Shape& shape = shapes.at(one.shape);
  return quotas.places(quotas.view(shape, one.leaf, one.preemptible, Counting::present), shape,
                       node);
}

bool Engine::Impl::quota_open(WorkloadId member) const {
  if (!quotas.active()) {
    return true;
  }
  const Entry& one = entry(member);
  return quotas.view(shapes.at(one.shape), one.leaf, one.preemptible, Counting::present).open;
}

// How many members like this one the node takes now.
NodeRoom Engine::Impl::room_on(const Shape& shape, NodeId node, std::uint64_t allowed) const {
  NodeRoom room;
  const NodeFace& face = ledger.node(node);
  if (allowed == 0 || !fleet.present(node) || face.blocked != Cause::none ||
      ((shape.constrained || !fleet.node(node).taints.empty()) &&
       constraint_refusal(shape.request.nodes(), fleet.node(node)) != Cause::none)) {
    return room;
  }
  const StaticFit& fit = shapes.fit(shape.id, types, fleet, node);
  room.members = count_on_node(shape, face, ledger.faces(node), fit, allowed).members;
  for (const DeviceFace& device : ledger.faces(node)) {
    room.hole = std::max(room.hole, device.headroom);
  }
  return room;
}

std::int64_t Engine::Impl::free_devices_in(const Domains& domains, DomainId domain) const {
  std::int64_t free = 0;
  for (const NodeId node : domains.nodes(domain)) {
    for (const DeviceFace& face : ledger.faces(node)) {
      free += face.blocked == Cause::none ? face.free_milli : 0;
    }
  }
  for (const DomainId child : domains.children(domain)) {
    free += free_devices_in(domains, child);
  }
  return free;
}

// Where a member that comes later may stand: in the domain of those that run, if a level is
// required, and in that of its segment. Empty: anywhere.
std::vector<bool> Engine::Impl::nodes_for_member(WorkloadId member) const {
  const Entry& one = entry(member);
  std::vector<bool> nodes;
  if (one.gang.is_none() || one.gang == member) {
    return nodes;
  }
  // `home` none: any domain of the level.
  const auto keep = [&](const Domains& domains, int level, DomainId home) {
    const bool first = nodes.empty();
    nodes.resize(fleet.node_slots(), true);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const DomainId here =
          fleet.present(NodeId(i)) ? domains.of_node(NodeId(i), level) : DomainId::none();
      nodes[i] = (first || nodes[i]) && !here.is_none() && (home.is_none() || here == home);
    }
  };
  const GangState& state = gangs_.at(one.gang);
  for (int group = static_cast<int>(one.group); group >= 0;
       group = state.nodes[static_cast<std::size_t>(group)].parent) {
    const auto place = static_cast<std::size_t>(group);
    const TopologyRule& rule = state.nodes[place].topology;
    const Domains* domains = rule.any() ? domains_for(rule) : nullptr;
    if (domains == nullptr) {
      continue;
    }
    const Result<LevelRule> levels = resolve_levels(domains->topology(), rule);
    if (!levels.ok()) {
      continue;
    }
    if (levels->required != kNoLevel) {
      keep(*domains, levels->required, home_of_group(state, place, *domains, levels->required));
    }
    for (const LevelRule::Segment& segment : levels->segments) {
      if (state.nodes[place].is_leaf()) {
        keep(*domains, segment.level, home_of_segment(member, *domains, segment));
      }
    }
  }
  return nodes;
}

// The domain in which the others of the member's segment run; none while none does.
DomainId Engine::Impl::home_of_segment(WorkloadId member, const Domains& domains,
                                       const LevelRule::Segment& segment) const {
  const Entry& one = entry(member);
  for (const WorkloadId other : gangs_.at(one.gang).nodes[one.group].members) {
    if (other != member && entry(other).holds() &&
        entry(other).seat / segment.size == one.seat / segment.size) {
      return domains.of_node(entry(other).grant->node, segment.level);
    }
  }
  return DomainId::none();
}

// The domain in which the group's members run; none while none does.
DomainId Engine::Impl::home_of_group(const GangState& state, std::size_t group,
                                     const Domains& domains, int level) const {
  const GangNode& node = state.nodes[group];
  for (const WorkloadId member : node.members) {
    if (entry(member).holds()) {
      return domains.of_node(entry(member).grant->node, level);
    }
  }
  for (const std::size_t child : node.children) {
    const DomainId home = home_of_group(state, child, domains, level);
    if (!home.is_none()) {
      return home;
    }
  }
  return DomainId::none();
}

}  // namespace berth::core
