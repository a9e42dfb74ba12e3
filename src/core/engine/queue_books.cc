// The queue tree's bookings: what each workload takes of its queue, and whom a queue holds up.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/engine/engine_impl.h"

namespace berth::core {

namespace {

constexpr std::int64_t kFirstNonPreemptible = 100;  // queues page 4.1, interfaces.md 5

BookingState booking_of(const Grant& grant) {
  switch (grant.state) {
    case GrantState::promised: return BookingState::promised;
    case GrantState::releasing: return BookingState::releasing;
    case GrantState::granted:
    case GrantState::active: break;
  }
  return BookingState::running;
}

}  // namespace

bool Engine::Impl::is_preemptible(const WorkloadOptions& options) const {
  return quotas.priority_rule() == PriorityRule::kai ? options.priority < kFirstNonPreemptible
                                                     : options.preemptible;
}

// What a workload waits for or holds, as its queue's demand. It stays the same when it is granted
// what it asked for, so that grants and evictions change no entitlement.
void Engine::Impl::set_demand(WorkloadId id, Charge demand) {
  Entry& entry = at(id);
  if (!quotas.counting() || entry.options.foreign || entry.demand == demand) {
    return;
  }
  if (!entry.demand.parts.empty()) {
    quotas.tree.remove_demand(entry.leaf, entry.demand);
  }
  claims_changed();
  entry.demand = std::move(demand);
  entry.demanded = ++demands_;
  if (!entry.demand.parts.empty()) {
    quotas.tree.add_demand(entry.leaf, entry.demand);
  }
}

void Engine::Impl::book_queue(WorkloadId id, const Grant& grant) {
  if (!quotas.counting() || grant.foreign) {
    return;
  }
  Entry& entry = at(id);
  entry.charge = quotas.charge_of(grant);
  entry.booking = booking_of(grant);
  entry.booked = true;
  if (suppositions == 0) {
    claims_changed();
    if (entry.booking == BookingState::running && entry.held_for.is_none()) {
      runners_[entry.leaf].insert(runner_of(id, grant));
      backfillers_ += makes_way(entry) ? 1 : 0;
      may_be_asked_ += entry.preemptible ? 1 : 0;
    }
  }
  quotas.add(entry.leaf, entry.charge, entry.booking, entry.preemptible);
}

Runner Engine::Impl::runner_of(WorkloadId id, const Grant& grant) const {
  return {.priority = entry(id).options.priority,
          .age_order = -grant.granted_at.ms(),
          .uid = entry(id).uid,
          .id = id};
}

void Engine::Impl::unbook_queue(WorkloadId id) {
  Entry& entry = at(id);
  if (!quotas.counting() || entry.options.foreign) {
    return;
  }
  quotas.remove(entry.leaf, entry.charge, entry.booking, entry.preemptible);
  entry.charge = {};
  entry.booked = false;
  if (suppositions == 0) {
    freed_.insert(entry.leaf);
    claims_changed();
    if (const auto found = runners_.find(entry.leaf);
        found != runners_.end() && entry.holds() &&
        found->second.erase(runner_of(id, *entry.grant)) > 0) {
      backfillers_ -= makes_way(entry) ? 1 : 0;
      may_be_asked_ -= entry.preemptible ? 1 : 0;
      if (found->second.empty()) {
        runners_.erase(found);
      }
    }
  }
}

// The grant changed its state or its charge.
void Engine::Impl::rebook_queue(WorkloadId id) {
  if (quotas.counting()) {
    unbook_queue(id);
    book_queue(id, *at(id).grant);
  }
}

// A grant on a device that has another size now takes another part of its queue's quota.
void Engine::Impl::rebook_reshaped() {
  for (const NodeId node : std::exchange(reshaped_, {})) {
    const std::vector<WorkloadId> here =
        node.index() < on_node_.size() ? on_node_[node.index()] : std::vector<WorkloadId>();
    for (const WorkloadId id : here) {
      if (at(id).booked && at(id).charge != quotas.charge_of(*at(id).grant)) {
        rebook_queue(id);
        set_demand(id, at(id).held_for.is_none() ? at(id).charge : Charge());
      }
    }
  }
}

// Takes the workload's queue and terms from the configuration in force.
void Engine::Impl::read_queue(WorkloadId id) {
  Entry& entry = at(id);
  const bool waits = waiting.contains(id);
  if (waits) {
    dequeue(id);
  }
  if (entry.booked) {
    unbook_queue(id);
  }
  const bool asks = !entry.demand.parts.empty();
  set_demand(id, {});
  entry.leaf = quotas.tree.place_of(entry.options.queue);
  entry.demanded = ++demands_;
  entry.preemptible = is_preemptible(entry.options);
  read_terms(id);
  if (!entry.gang.is_none()) {
    gangs_.at(entry.gang).wish.clear();
  }
  entry.pool = pool_of(shapes.at(entry.shape), entry.leaf);
  if (entry.holds()) {
    book_queue(id, *entry.grant);
    set_demand(id, entry.held_for.is_none() ? entry.charge : Charge());
  } else if (asks || entry.state == EntryState::parked) {
    set_demand(id, wish_of(id));
  }
  if (waits) {
    enqueue(id);
    requeued_.insert(id);
  }
}

void Engine::Impl::reread_queues() {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const EntryState state = entries_[i].state;
    if (state != EntryState::free && state != EntryState::ended) {
      read_queue(WorkloadId(i));
    }
  }
  recheck_possible();
}

void Engine::Impl::report(const std::vector<QueueProblem>& problems) {
  for (const QueueProblem& problem : problems) {
    actions_.emplace_back(Notice{
        .kind = Notice::Kind::queue_problem,
        .device = DeviceId::none(),
        .workload = WorkloadId::none(),
        .bytes = 0,
        .text = fmt::format("queue {}: {}{}", problem.queue, problem.text,
                            problem.holds ? "; it starts nothing until that is mended" : "")});
  }
}

Aging Engine::Impl::aging_of(const Entry& entry) const {
  if (!quotas.active() || !quotas.tree.is_listed(entry.leaf)) {
    return {.step = config.aging_step, .max = config.aging_max};
  }
  const QueueAging& aging = quotas.tree.spec(entry.leaf).aging;
  return {.step = aging.step, .max = aging.max};
}

// What no release of running work can change about its queue; none = nothing.
Cause Engine::Impl::quota_never(const Entry& entry) const {
  if (!quotas.counting()) {
    return entry.options.queue == "default" ? Cause::none : Cause::unknown_queue;
  }
  const Cause cause = quotas.tree.queue_refusal(entry.options.queue);
  if (cause != Cause::none || !quotas.active()) {
    return cause;
  }
  return quotas.tree.never_fits(entry.leaf, quotas.least(shapes.at(entry.shape))).cause;
}

Cause Engine::Impl::never_cause(WorkloadId id) const {
  if (is_head(id)) {
    return gang_never(id);
  }
  const Entry& one = entry(id);
  if (fleet_changed_ || !quotas.active()) {
    return find_never_cause(one);
  }
  KnownNever& known = known_nevers_[(one.leaf.index() * 31 + one.shape.index()) % kKnownNevers];
  if (known.shape != one.shape || known.leaf != one.leaf || known.fleet != fleet_version_ ||
      known.capacity != quotas.capacity_version()) {
    known = {.shape = one.shape,
             .leaf = one.leaf,
             .capacity = quotas.capacity_version(),
             .fleet = fleet_version_,
             .cause = find_never_cause(one)};
  }
  return known.cause;
}

Cause Engine::Impl::find_never_cause(const Entry& entry) const {
  const Cause quota = quota_never(entry);
  return quota != Cause::none ? quota : possible(shapes.at(entry.shape));
}

// It can never run as things are. It leaves the line and asks for nothing.
void Engine::Impl::give_up(WorkloadId id, Cause cause) {
  if (waiting.contains(id)) {
    dequeue(id);
  }
  take_hold(id, false);
  never_.insert(id);
  set_demand(id, {});
  set_state(id, EntryState::never, cause);
  if (is_head(id)) {
    for_members(id, [&](WorkloadId member) {
      set_demand(member, {});
      set_state(member, EntryState::never, cause);
    });
  }
}

// Whether what a grant takes may be added to its queue. Its own booking is not there.
bool Engine::Impl::queue_admits(const Entry& entry, Counting counting) const {
  return !quotas.active() ||
         !quotas.tree.may_start(entry.leaf, entry.charge, entry.preemptible, counting).refused();
}

// Remembers which queues refused the kind, so that it is tried again when they hold less.
void Engine::Impl::note_blocked(WorkloadId id) {
  if (!quotas.active()) {
    return;
  }
  const KindId kind = at(id).kind;
  if (blocked_by_.empty()) {
    quota_waits_.erase(kind);
  } else {
    quota_waits_[kind] = blocked_by_;
  }
  blocked_by_.clear();
}

void Engine::Impl::wake_by_quota(std::set<KindId>& woken) {
  if (!quotas.counting()) {
    return;
  }
  quotas.sync();
  const bool everybody = capacity_seen_ != quotas.capacity_version();
  capacity_seen_ = quotas.capacity_version();
  std::set<QueueId> lighter;
  for (const QueueId leaf : freed_) {
    for (QueueId at = leaf; !at.is_none() && lighter.insert(at).second;) {
      at = quotas.tree.parent(at);
    }
  }
  freed_.clear();
  if (!everybody && lighter.empty()) {
    return;
  }
  for (const auto& [kind, queues] : quota_waits_) {
    ++wake_steps_;
    if (everybody || std::ranges::any_of(queues, [&](QueueId q) { return lighter.contains(q); })) {
      woken.insert(kind);
    }
  }
}

}  // namespace berth::core
