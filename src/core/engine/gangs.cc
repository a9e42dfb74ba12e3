// Gangs come, members join, take their seats and leave (queues-gangs-topology.md 6).
#include <algorithm>

#include <fmt/format.h>

#include "core/engine/engine_impl.h"

namespace berth::core {

namespace {

// Flattens the tree, parents first.
void flatten(const Group& group, int parent, std::vector<GangNode>& nodes) {
  const std::size_t place = nodes.size();
  nodes.push_back({.name = group.name,
                   .parent = parent,
                   .children = {},
                   .min = group.is_leaf() ? group.minimum() : group.min_groups,
                   .declared = group.is_leaf() ? group.declared() : 0,
                   .topology = group.topology,
                   .members = {}});
  if (!group.is_leaf() && group.min_groups == 0) {
    nodes[place].min = static_cast<std::int64_t>(group.groups.size());
  }
  for (const Group& inner : group.groups) {
    nodes[place].children.push_back(nodes.size());
    flatten(inner, static_cast<int>(place), nodes);
  }
}

// Leaves in the order of flatten(), with what they are made of.
void for_leaves(const Group& group, const auto& visit) {
  if (group.is_leaf()) {
    visit(group);
  }
  for (const Group& inner : group.groups) {
    for_leaves(inner, visit);
  }
}

}  // namespace

void Engine::Impl::submit_gang(const Workload& workload) {
  GangState state;
  flatten(workload.gang()->root, -1, state.nodes);
  state.options = workload.gang()->options;
  std::string known;
  for_leaves(workload.gang()->root, [&](const Group& leaf) {
    for (const MemberSet& set : leaf.members) {
      for (std::int64_t i = 0; i < set.count && known.empty(); ++i) {
        const std::string uid = workload.uid() + "/" + member_name(set, i);
        known = id_of(uid).is_none() ? "" : uid;
      }
    }
  });
  if (!known.empty()) {
    refuse(fmt::format("gang {}: its member {} is known already; end it first or use another uid",
                       workload.uid(), known));
    return;
  }
  const WorkloadId head = new_entry(workload);
  at(head).gang = head;
  gangs_.emplace(head, std::move(state));
  std::size_t place = 0;
  for_leaves(workload.gang()->root, [&](const Group& leaf) {
    while (!gangs_.at(head).nodes[place].is_leaf()) {
      ++place;
    }
    for (const MemberSet& set : leaf.members) {
      add_members(head, place, set);
    }
    ++place;
  });
  seat_all(gangs_.at(head));
  check_topology(head);
  if (try_workload(head)) {
    return;
  }
  if (at(head).state == EntryState::waiting) {
    if (at(head).options.wait_timeout == Duration(0)) {
      end(head, Cause::wait_timed_out);
      return;
    }
    enqueue(head);
  }
}

// New entries for the members of a set, each waiting with its gang.
std::vector<WorkloadId> Engine::Impl::add_members(WorkloadId head, std::size_t group,
                                                  const MemberSet& set) {
  gangs_.at(head).wish.clear();
  std::vector<WorkloadId> added;
  WorkloadOptions options = at(head).options;
  options.priority = set.priority.value_or(options.priority);
  options.queued_at = std::min(at(head).queued_at, now);
  options.wait_timeout.reset();
  for (std::int64_t i = 0; i < set.count; ++i) {
    const std::string uid = at(head).uid + "/" + member_name(set, i);
    const WorkloadId id = new_entry(Workload::task(uid, set.request, options));
    Entry& entry = at(id);
    entry.gang = head;
    entry.group = group;
    entry.member_index = gangs_.at(head).joined++;
    set_demand(id, wish_of(id));
    entry.state = EntryState::parked;
    added.push_back(id);
    std::vector<WorkloadId>& members = gangs_.at(head).nodes[group].members;
    // Higher priority first; equals in order of arrival.
    const auto behind = std::ranges::upper_bound(
        members, options.priority, std::greater<>(),
        [this](WorkloadId member) { return entries_[member.index()].options.priority; });
    members.insert(behind, id);
  }
  return added;
}

// Numbers the members of each group anew: nobody stands yet.
void Engine::Impl::seat_all(GangState& state) {
  for (GangNode& group : state.nodes) {
    std::int64_t next = 0;
    for (const WorkloadId member : group.members) {
      at(member).seat = next++;
    }
  }
}

// The first seat of its group that nobody has: that of the one it replaces, if it does.
void Engine::Impl::seat(WorkloadId member) {
  const std::vector<WorkloadId>& members =
      gangs_.at(at(member).gang).nodes[at(member).group].members;
  std::set<std::int64_t> taken;
  for (const WorkloadId other : members) {
    if (other != member) {
      taken.insert(at(other).seat);
    }
  }
  std::int64_t& seat = at(member).seat;
  for (seat = 0; taken.contains(seat);) {
    ++seat;
  }
}

// Whether its topology rules can be read against the topologies that there are.
void Engine::Impl::check_topology(WorkloadId head) {
  GangState& state = gangs_.at(head);
  state.problem.clear();
  for (const GangNode& group : state.nodes) {
    if (!group.topology.any() || !state.problem.empty()) {
      continue;
    }
    const Result<std::size_t> found = find_topology(topologies_, group.topology);
    if (!found.ok()) {
      state.problem = found.error().message();
      continue;
    }
    const Result<LevelRule> levels = resolve_levels(topologies_[*found], group.topology);
    state.problem = levels.ok() ? "" : levels.error().message();
  }
}

const Domains* Engine::Impl::domains_for(const TopologyRule& rule) const {
  const Result<std::size_t> found = find_topology(topologies_, rule);
  return found.ok() ? &domains_[*found] : nullptr;
}

void Engine::Impl::on(const TopologiesChanged& event) {
  const std::vector<TopologyProblem> problems = check_topologies(event.topologies);
  if (!problems.empty()) {
    refuse(fmt::format("topology {}: {}", problems.front().topology, problems.front().text));
    return;
  }
  topologies_ = event.topologies;
  domains_.clear();
  for (const Topology& topology : topologies_) {
    Domains& domains = domains_.emplace_back(topology);
    for (std::size_t i = 0; i < fleet.node_slots(); ++i) {
      (void)domains.sync(fleet, NodeId(i));
    }
  }
  for (const auto& [head, state] : gangs_) {
    check_topology(head);
    if (waiting.contains(head)) {
      requeued_.insert(head);
    }
  }
  recheck_possible();
}

void Engine::Impl::sync_domains(NodeId node) {
  for (Domains& domains : domains_) {
    (void)domains.sync(fleet, node);
  }
}

void Engine::Impl::on(const MembersJoined& event) {
  const WorkloadId head = id_of(event.uid);
  if (head.is_none() || at(head).gang != head) {
    refuse(fmt::format("members {} joined {}, which is no gang that is known", event.members.name,
                       event.uid));
    return;
  }
  GangState& state = gangs_.at(head);
  const auto group = std::ranges::find_if(state.nodes, [&](const GangNode& node) {
    return node.is_leaf() && (node.name == event.group || (event.group.empty() && node.parent < 0));
  });
  if (group == state.nodes.end()) {
    refuse(
        fmt::format("members {} joined group '{}' of gang {}, which has no such group of members",
                    event.members.name, event.group, event.uid));
    return;
  }
  for (std::int64_t i = 0; i < event.members.count; ++i) {
    const std::string uid = at(head).uid + "/" + member_name(event.members, i);
    const WorkloadId same = id_of(uid);
    if (!same.is_none() && !at(same).slot) {
      refuse(fmt::format("gang {}: its member {} is known already; end it first", event.uid, uid));
      return;
    }
    if (!same.is_none()) {
      end(same, Cause::none);  // its replacement has the same name
    }
  }
  const auto place = static_cast<std::size_t>(group - state.nodes.begin());
  const std::vector<WorkloadId> added = add_members(head, place, event.members);
  group->declared = std::max(group->declared,
                             static_cast<std::int64_t>(group->members.size()) + group->succeeded);
  if (!state.started) {
    seat_all(state);
    retry_gang(head);
    return;
  }
  for (const WorkloadId id : added) {
    give_slot(id);
    seat(id);
    enqueue(id);
    at(id).state = EntryState::waiting;
    requeued_.insert(id);
  }
}

// A lost member's place goes to its replacement: it is free again, and the replacement is the first
// to be tried.
void Engine::Impl::give_slot(WorkloadId replacement) {
  const Entry& entry = at(replacement);
  for (const WorkloadId member : gangs_.at(entry.gang).nodes[entry.group].members) {
    if (at(member).slot && at(member).shape == entry.shape) {
      end(member, Cause::none);
      return;
    }
  }
}

// The head is tried again in this pass, with what the gang is now.
void Engine::Impl::retry_gang(WorkloadId head) {
  if (waiting.contains(head)) {
    dequeue(head);
  }
  never_.erase(head);
  for_members(head, [&](WorkloadId member) {
    never_.erase(member);
    if (!at(member).holds()) {
      set_demand(member, wish_of(member));
      at(member).state = EntryState::parked;
    }
  });
  set_state(head, EntryState::waiting, at(head).cause);
  enqueue(head);
  requeued_.insert(head);
}

void Engine::Impl::for_members(WorkloadId head,
                               const std::function<void(WorkloadId)>& visit) const {
  const GangState& state = gangs_.at(head);
  for (const GangNode& group : state.nodes) {
    const std::vector<WorkloadId> members = group.members;  // visits may take members out
    for (const WorkloadId member : members) {
      visit(member);
    }
  }
}

// Whether the member runs, will, or has ended well.
bool Engine::Impl::is_present(WorkloadId member) const {
  const Entry& one = entry(member);
  return one.holds() && !one.slot && (!one.evicting || !one.hold.is_none());
}

// Members of a leaf that are present; groups of an inner group that have their minimum.
std::int64_t Engine::Impl::present_in(const GangState& state, std::size_t group) const {
  const GangNode& node = state.nodes[group];
  if (node.is_leaf()) {
    return node.succeeded + std::ranges::count_if(node.members, [this](WorkloadId member) {
             return is_present(member);
           });
  }
  return std::ranges::count_if(node.children, [&](std::size_t child) {
    return present_in(state, child) >= state.nodes[child].min;
  });
}

bool Engine::Impl::has_minimum(const GangState& state) const {
  return present_in(state, 0) >= state.nodes[0].min;
}

// The member is one of those that its group cannot do without.
bool Engine::Impl::is_missed(WorkloadId member) const {
  const Entry& one = entry(member);
  if (one.gang.is_none() || one.gang == member) {
    return false;
  }
  const GangState& state = gangs_.at(one.gang);
  return state.started && !state.evicting &&
         present_in(state, one.group) < state.nodes[one.group].min;
}

// A member without a grant whose gang does not run: it waits with the others.
bool Engine::Impl::waits_with_gang(WorkloadId id) const {
  if (!is_member(id)) {
    return false;
  }
  const GangState& state = gangs_.at(entry(id).gang);
  return !state.started || state.evicting;
}

// The place of a member that was lost stays booked until its replacement comes or the gang is given
// up.
void Engine::Impl::keep_slot(WorkloadId member) {
  Entry& one = at(member);
  if (one.confirm_by.has_value()) {
    timers_.clear({.due = *one.confirm_by, .kind = TimerKind::confirm, .workload = member});
    one.confirm_by.reset();
  }
  Grant kept = *one.grant;
  const std::uint64_t number = kept.number;
  drop_grant(member);
  kept.state = GrantState::promised;
  book_grant(member, std::make_unique<Grant>(std::move(kept)));
  one.slot = true;
  promised_.insert(member);
  set_state(member, EntryState::promised, Cause::gang_incomplete);
  actions_.emplace_back(
      Retracted{.workload = member, .grant = number, .why = Cause::none, .lost = true});
  touched_gangs_.insert(one.gang);
}

// A member's grant is gone and it does not come back by itself.
void Engine::Impl::leave_gang(WorkloadId member, bool succeeded) {
  gangs_.at(at(member).gang).wish.clear();
  const Entry& one = at(member);
  GangNode& group = gangs_.at(one.gang).nodes[one.group];
  std::erase(group.members, member);
  group.succeeded += succeeded ? 1 : 0;
  touched_gangs_.insert(one.gang);
}

void Engine::Impl::set_gang_timer(std::optional<Time>& due, TimerKind kind, WorkloadId head,
                                  std::optional<Time> to) {
  if (due.has_value()) {
    timers_.clear({.due = *due, .kind = kind, .workload = head});
  }
  due = to;
  if (due.has_value()) {
    timers_.set({.due = *due, .kind = kind, .workload = head});
  }
}

}  // namespace berth::core
