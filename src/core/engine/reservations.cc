#include "core/engine/reservations.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/engine/engine_impl.h"

namespace berth::core {

bool better_plan(const NodePlan& a, const NodePlan& b) {
  if (a.possible != b.possible) {
    return a.possible;
  }
  if (a.timed != b.timed) {
    return a.timed;
  }
  if (a.timed && a.at != b.at) {
    return a.at < b.at;
  }
  if (a.releases != b.releases) {
    return a.releases < b.releases;
  }
  return a.left_over < b.left_over;
}

std::int64_t Engine::Impl::effective_priority(const Entry& entry) const {
  const std::int64_t waited = std::max<std::int64_t>(0, (now - entry.queued_at).count());
  const Aging aging = aging_of(entry);
  return entry.options.priority + std::min(waited / aging.step.count(), aging.max);
}

bool Engine::Impl::ordered_before(WorkloadId a, WorkloadId b) const {
  const Entry& left = entries_[a.index()];
  const Entry& right = entries_[b.index()];
  if (is_missed(a) != is_missed(b)) {
    return is_missed(a);
  }
  if (quotas.active() && left.leaf != right.leaf) {
    const std::array heads{QueueHead{left.leaf, &left.demand},
                           QueueHead{right.leaf, &right.demand}};
    return quotas.tree.first(heads) == 0;
  }
  const std::int64_t left_priority = effective_priority(left);
  const std::int64_t right_priority = effective_priority(right);
  if (left_priority != right_priority) {
    return left_priority > right_priority;
  }
  if (left.queued_at != right.queued_at) {
    return left.queued_at < right.queued_at;
  }
  return left.uid < right.uid;
}

void Engine::Impl::guard(NodeId node) {
  if (guards_[node]++ == 0) {
    index.set_guarded(node, true);
    ledger.touch(node);
  }
}

void Engine::Impl::unguard(NodeId node) {
  if (--guards_[node] == 0) {
    guards_.erase(node);
    index.set_guarded(node, false);
    ledger.touch(node);
    improved(node);
  }
}

// It lies on the node; others there may have to step aside.
void Engine::Impl::reserve_on(NodeId node, Reservation& reservation) {
  if (reserved_on_.size() <= node.index()) {
    reserved_on_.resize(fleet.node_slots());
  }
  for (Reservation* other : reserved_on_[node.index()]) {
    other->stale = true;
  }
  reserved_on_[node.index()].push_back(&reservation);
  guard(node);
}

void Engine::Impl::leave_reserved(NodeId node, Reservation& reservation) {
  std::vector<Reservation*>& there = reserved_on_[node.index()];
  std::erase(there, &reservation);
  for (Reservation* other : there) {
    other->stale = true;
  }
  vacated_.push_back(node);
  unguard(node);
}

void Engine::Impl::drop_reservation(PoolId pool) {
  const auto found = reservations_.find(pool);
  if (found == reservations_.end()) {
    return;
  }
  const NodeId node = found->second.node;
  if (!node.is_none()) {
    leave_reserved(node, found->second);
  }
  reservations_.erase(found);
}

void Engine::Impl::update_reservations() {
  if (!config.reservations) {
    touched_pools_.clear();
    return;
  }
  StageBook::Scope stage(stages, StageId::reserve);
  std::set<PoolId> pools = std::move(touched_pools_);
  touched_pools_.clear();
  if (heads_seen_ != now) {  // otherwise who left or came in front has touched the pool
    heads_seen_ = now;
    for (const PoolId pool : waiting.mixed_pools()) {
      const auto found = reservations_.find(pool);
      if (found != reservations_.end() && waiting.head_of(pool, now) != found->second.holder) {
        pools.insert(pool);
      }
    }
  }
  const std::uint64_t changes = ledger.lasting_changes().end();
  if (pools.empty() && vacated_.empty() && gang_reservations_.empty() && changes == plans_seen_) {
    return;
  }
  if (pools.empty() && reservations_.empty() && gang_reservations_.empty()) {
    return;
  }
  index.settle();
  for (const PoolId pool : pools) {
    replan_due_ |= reserve_for(pool);
  }
  if (replan_due_ || !vacated_.empty() || changes != plans_seen_) {
    replan_all(changes);
  }
  for (const auto& [pool, reservation] : gang_reservations_) {
    pools.insert(pool);
  }
  for (const PoolId pool : pools) {
    update_gang_reservation(pool);
  }
}

// `changes`: the lasting changes of nodes that this takes into account; what moves now is looked at
// the next time.
void Engine::Impl::replan_all(std::uint64_t changes) {
  update_plans();
  plans_seen_ = changes;
  const std::vector<NodeId> vacated = std::move(vacated_);
  vacated_.clear();
  ++order_round_;
  quotas.tree.settle();
  replan_due_ = false;
  for (auto& [pool, reservation] : reservations_) {
    replan(reservation, vacated);
  }
  // One that found no place looks again whenever it is asked.
  for (const auto& [pool, reservation] : reservations_) {
    replan_due_ = replan_due_ || reservation.stale || reservation.node.is_none();
  }
}

// A head that its quota holds up waits for that, not for a place.
bool Engine::Impl::may_reserve(WorkloadId id) const {
  const Entry& head = entry(id);
  if (is_head(id) || (is_member(id) && !is_missed(id))) {
    return false;
  }
  if (!quotas.active()) {
    return true;
  }
  return quotas.tree.spec(head.leaf).order != QueueOrder::best_effort &&
         !quotas.view(shapes.at(head.shape), head.leaf, head.preemptible, Counting::present).shut;
}

// True when it made a difference.
bool Engine::Impl::reserve_for(PoolId pool) {
  const WorkloadId first = waiting.head_of(pool, now);
  const WorkloadId head = !first.is_none() && may_reserve(first) ? first : WorkloadId::none();
  const auto found = reservations_.find(pool);
  const bool had_one = found != reservations_.end();
  if (had_one) {
    Reservation& held = found->second;
    if (held.holder == head) {
      return false;
    }
    if (!head.is_none() && held.shape == at(head).shape) {
      // Who asks for the same has the same plans; only who may pass it changes.
      held.holder = head;
      held.made_at_grant = grants_made_;
      held.stale = true;
      if (!held.node.is_none()) {
        improved(held.node);
      }
      return true;
    }
    drop_reservation(pool);
  }
  if (head.is_none()) {
    return had_one;
  }
  Reservation& reservation = reservations_[pool];
  reservation.pool = pool;
  reservation.holder = head;
  reservation.shape = at(head).shape;
  reservation.made_at_grant = grants_made_;
  return true;
}

void Engine::Impl::move_to(Reservation& reservation, NodeId node) {
  if (reservation.node == node) {
    return;
  }
  const NodeId before = reservation.node;
  reservation.node = node;
  reservation.made_at_grant = grants_made_;
  if (!node.is_none()) {
    reserve_on(node, reservation);
  }
  if (!before.is_none()) {
    leave_reserved(before, reservation);
  }
}

bool is_later(const NodePlan& plan, const NodePlan& before) {
  if (plan.possible != before.possible) {
    return before.possible;
  }
  if (plan.timed != before.timed) {
    return before.timed;
  }
  return plan.timed ? plan.at > before.at : plan.releases > before.releases;
}

namespace {

// Whether a place beside others is so much earlier that it is worth to push them aside.
bool is_much_later(const NodePlan& plan, const NodePlan& before) {
  constexpr Duration kWorthIt{60'000};
  if (plan.possible && before.possible && plan.timed && before.timed) {
    return plan.at - kWorthIt > before.at;
  }
  return is_later(plan, before);
}

}  // namespace

// The first place that nobody else has reserved, or one beside others that is much earlier.
void Engine::Impl::choose_node(Reservation& reservation) {
  constexpr int kMostBeside = 4;  // places beside others that are looked at once there is one
  const ShapePlans& plans = *reservation.plans;
  const auto is_taken = [&](NodeId node) {
    const std::span<Reservation* const> there = reserved_on(node);
    return !there.empty() && (there.size() > 1 || there.front() != &reservation);
  };
  const auto open = std::ranges::find_if_not(plans.order, is_taken, &ShapePlans::Key::node);
  NodeId best;
  NodePlan best_plan;
  if (open != plans.order.end()) {
    best = open->node;
    best_plan = plans.plans[best.index()];
  }
  int beside = 0;
  for (auto key = plans.order.begin(); key != open; ++key) {
    const NodePlan& bound = plans.plans[key->node.index()];
    if (!best.is_none() && (++beside > kMostBeside || !is_much_later(best_plan, bound))) {
      break;
    }
    const NodePlan plan = plan_for(reservation, key->node);
    if (plan.possible && (best.is_none() || is_much_later(best_plan, plan))) {
      best = key->node;
      best_plan = plan;
    }
  }
  move_to(reservation, best);
  reservation.plan = best_plan;
}

// Looks again at its own place if that changed, and at places that may have become better.
void Engine::Impl::replan(Reservation& reservation, const std::vector<NodeId>& vacated) {
  const ShapePlans& plans = *reservation.plans;
  bool choose = reservation.node.is_none() || plans.all_touched;
  if (!choose && (reservation.stale ||
                  std::ranges::find(plans.touched, reservation.node) != plans.touched.end())) {
    const NodePlan before = reservation.plan;
    reservation.plan = plan_for(reservation, reservation.node);
    choose = is_later(reservation.plan, before) || !reservation.plan.possible;
  }
  reservation.stale = false;
  if (choose) {
    choose_node(reservation);
    return;
  }
  NodeId better = reservation.node;
  NodePlan better_there = reservation.plan;
  const auto look = [&](NodeId node) {
    const auto later = reserved_on(node).empty() ? &is_later : &is_much_later;
    if (node == better || !fleet.present(node) || !later(better_there, plans.plans[node.index()])) {
      return;
    }
    const NodePlan plan = plan_for(reservation, node);
    if (later(better_there, plan)) {
      better = node;
      better_there = plan;
    }
  };
  std::ranges::for_each(plans.improved, look);
  std::ranges::for_each(vacated, look);
  if (better != reservation.node) {
    move_to(reservation, better);
    reservation.plan = better_there;
  }
}

// Whether a grant will still be there when the reservation becomes due.
bool Engine::Impl::stays(const Reservation& reservation, const Entry& holder) const {
  if (!holder.holds()) {
    return true;  // only supposed to run (scratch.h)
  }
  if (holder.grant->state == GrantState::releasing) {
    return false;
  }
  if (reservation.plan.timed) {
    const std::optional<Time> end = holder.declared_end();
    return !end.has_value() || std::max(*end, now) > reservation.plan.at;
  }
  return holder.grant->number > reservation.made_at_grant;
}

// The device places of the reserved node that `id` may use; empty = not this node.
std::optional<std::uint64_t> Engine::Impl::allowed_on(const Reservation& reservation, WorkloadId id,
                                                      NodeId node) const {
  const Entry& entry = entries_[id.index()];
  if (reservation.plan.timed && entry.options.max_run.has_value() &&
      now + *entry.options.max_run <= reservation.plan.at) {
    return ~std::uint64_t{0};
  }
  const Shape& asking = shapes.at(entry.shape);
  const Shape& held = shapes.at(reservation.shape);
  const PlacementIndex::NodeState then = node_without(
      node, [&](WorkloadId other) { return !stays(reservation, entries_[other.index()]); });
  if ((asking.cpu > 0 && then.face.cpu_free - held.cpu < asking.cpu) ||
      (asking.ram > 0 && then.face.ram_free - held.ram < asking.ram) || then.face.slots_free < 2) {
    return std::nullopt;
  }
  std::uint64_t allowed = ~reservation.plan.places;
  if (!asking.simple || !held.simple || !asking.wants_gpu() || !held.wants_gpu()) {
    return asking.wants_gpu() && held.wants_gpu() ? std::optional(allowed) : ~std::uint64_t{0};
  }
  const std::vector<DeviceNeed> theirs = shapes.fit(held.id, types, fleet, node).asks[0].needs;
  const std::vector<DeviceNeed>& ours = shapes.fit(asking.id, types, fleet, node).asks[0].needs;
  for (std::size_t place = 0; place < then.devices.size(); ++place) {
    const DeviceFace& face = then.devices[place];
    const bool beside = !theirs[place].exclusive && !ours[place].exclusive &&
                        theirs[place].mode == ours[place].mode &&
                        theirs[place].request + ours[place].request <= face.headroom &&
                        theirs[place].nano + ours[place].nano <= face.nano_left &&
                        theirs[place].limit + ours[place].limit <= face.limit_room &&
                        theirs[place].compute + ours[place].compute <= face.compute_left;
    allowed |= std::uint64_t{beside} << place;
  }
  return allowed;
}

// `decided`: whose reservations bind is decided now and for all nodes: while a gang is being placed
// its queue holds more with each member, and what is before it must not change with the order in
// which nodes are tried. Otherwise it is asked where a node matters, for each answer costs.
GuardRule Engine::Impl::guard_for(WorkloadId id, bool decided) const {
  if (guards_.empty()) {
    return {};
  }
  const auto binds = [this, id](const Reservation& reservation) {
    const WorkloadId holder = reservation.holder;
    const bool waits = !entry(holder).holds() && !entry(holder).supposed_started;
    return holder != id && waits && !ordered_before(id, holder);
  };
  std::set<PoolId> binding;
  if (decided) {
    for (const auto& [pool, reservation] : reservations_) {
      if (!reservation.node.is_none() && binds(reservation)) {
        binding.insert(pool);
      }
    }
  }
  return [this, id, decided, binds, binding = std::move(binding),
          gangs = gangs_before(id)](NodeId node) -> std::optional<std::uint64_t> {
    std::uint64_t allowed = ~std::uint64_t{0};
    for (const Reservation* reservation : reserved_on(node)) {
      if (!(decided ? binding.contains(reservation->pool) : binds(*reservation))) {
        continue;
      }
      const std::optional<std::uint64_t> part = allowed_on(*reservation, id, node);
      if (!part.has_value()) {
        return std::nullopt;
      }
      allowed &= *part;
    }
    for (const GangReservation* gang : gangs) {
      const auto held = gang->places.find(node);
      allowed &= held == gang->places.end() ? ~std::uint64_t{0} : ~held->second;
    }
    return allowed;
  };
}

}  // namespace berth::core
