#include "core/engine/reservations.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/engine/engine_impl.h"

namespace berth::core {

bool better_plan(const NodePlan& a, std::int64_t rank_a, const NodePlan& b, std::int64_t rank_b) {
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
  if (a.left_over != b.left_over) {
    return a.left_over < b.left_over;
  }
  return rank_a < rank_b;
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

void Engine::Impl::drop_reservation(PoolId pool) {
  const auto found = reservations_.find(pool);
  if (found == reservations_.end()) {
    return;
  }
  const NodeId node = found->second.node;
  reservations_.erase(found);
  if (!node.is_none()) {
    unguard(node);
  }
}

void Engine::Impl::update_reservations() {
  if (!config.reservations) {
    touched_pools_.clear();
    return;
  }
  StageBook::Scope stage(stages, StageId::reserve);
  std::set<PoolId> pools = std::move(touched_pools_);
  touched_pools_.clear();
  for (const auto& [pool, reservation] : reservations_) {
    if (waiting.head_of(pool, now) != reservation.holder) {
      pools.insert(pool);
    }
  }
  if (pools.empty() && reservations_.empty() && gang_reservations_.empty()) {
    return;
  }
  index.settle();
  std::set<PoolId> with_gangs = pools;
  for (const auto& [pool, reservation] : gang_reservations_) {
    with_gangs.insert(pool);
  }
  for (const PoolId pool : pools) {
    reserve_for(pool);
  }
  for (auto& [pool, reservation] : reservations_) {
    replan(reservation);
  }
  for (const PoolId pool : with_gangs) {
    update_gang_reservation(pool);
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

void Engine::Impl::reserve_for(PoolId pool) {
  const WorkloadId first = waiting.head_of(pool, now);
  const WorkloadId head = !first.is_none() && may_reserve(first) ? first : WorkloadId::none();
  const auto found = reservations_.find(pool);
  if (found != reservations_.end()) {
    Reservation& held = found->second;
    if (held.holder == head) {
      return;
    }
    if (!head.is_none() && held.shape == at(head).shape) {
      // Who asks for the same has the same plans; only who may pass it changes.
      held.holder = head;
      held.made_at_grant = grants_made_;
      if (!held.node.is_none()) {
        improved(held.node);
      }
      return;
    }
    drop_reservation(pool);
  }
  if (head.is_none()) {
    return;
  }
  Reservation& reservation = reservations_[pool];
  reservation.pool = pool;
  reservation.holder = head;
  reservation.shape = at(head).shape;
  reservation.made_at_grant = grants_made_;
}

namespace {

std::uint64_t mask_of(const std::vector<ContainerPlaces>& placed) {
  std::uint64_t mask = 0;
  for (const ContainerPlaces& container : placed) {
    for (int n = 0; n < container.places.count; ++n) {
      mask |= std::uint64_t{1} << container.places.at[static_cast<std::size_t>(n)];
    }
  }
  return mask;
}

// Takes what a reservation holds off a device.
void take_off(DeviceFace& face, const DeviceNeed& need) {
  face.headroom = need.exclusive ? 0 : std::max<std::int64_t>(0, face.headroom - need.request);
  face.limit_room = std::max<std::int64_t>(0, face.limit_room - need.limit);
  face.nano_left = std::max(0, face.nano_left - need.nano);
  face.compute_left = static_cast<std::int16_t>(std::max(0, face.compute_left - need.compute));
  face.free_milli = static_cast<std::int16_t>(std::max(0, face.free_milli - need.milli));
  face.use = need.exclusive ? DeviceUse::whole : DeviceUse::shared;
  face.mode = need.mode;
  face.idle = false;
  ++face.grants;
}

}  // namespace

// By device place: what reservations of workloads that are before this one hold on the node.
std::vector<std::vector<DeviceNeed>> Engine::Impl::needs_before(const Reservation& reservation,
                                                                NodeId node) const {
  std::vector<std::vector<DeviceNeed>> needs(fleet.devices_of(node).size());
  for (const auto& [pool, other] : reservations_) {
    const Shape& held = shapes.at(other.shape);
    if (other.node != node || other.holder == reservation.holder || !held.wants_gpu() ||
        !ordered_before(other.holder, reservation.holder)) {
      continue;
    }
    const AskFit& fit = shapes.fit(held.id, types, fleet, node).asks[0];
    for (std::size_t place = 0; place < needs.size(); ++place) {
      if ((other.plan.places >> place & 1U) != 0) {
        needs[place].push_back(fit.needs[place]);
      }
    }
  }
  return needs;
}

// Takes off what reservations of workloads that are before this one hold on the node.
void Engine::Impl::set_aside(const Reservation& reservation, NodeId node,
                             PlacementIndex::NodeState& state) const {
  for (const auto& [pool, other] : reservations_) {
    if (other.node != node || other.holder == reservation.holder ||
        !ordered_before(other.holder, reservation.holder)) {
      continue;
    }
    const Shape& held = shapes.at(other.shape);
    state.face.cpu_free -= held.cpu;
    state.face.ram_free -= held.ram;
    --state.face.slots_free;
  }
  const std::vector<std::vector<DeviceNeed>> needs = needs_before(reservation, node);
  for (std::size_t place = 0; place < needs.size(); ++place) {
    for (const DeviceNeed& need : needs[place]) {
      take_off(state.devices[place], need);
    }
  }
}

NodePlan Engine::Impl::plan_in(const Reservation& reservation, NodeId node,
                               PlacementIndex::NodeState state) const {
  set_aside(reservation, node, state);
  const Shape& shape = shapes.at(reservation.shape);
  NodePlan plan;
  const PlacementIndex::Judgement found = index.judge(shape.id, node, state, ~std::uint64_t{0});
  if (found.cause != Cause::none) {
    return plan;
  }
  plan.possible = true;
  plan.places = mask_of(found.places);
  for (std::size_t place = 0; place < state.devices.size(); ++place) {
    plan.left_over += (plan.places >> place & 1U) != 0 ? state.devices[place].free_milli : 0;
  }
  return plan;
}

// The earliest declared end after which the shape fits.
NodePlan Engine::Impl::plan_timed(const Reservation& reservation, NodeId node) const {
  std::vector<std::pair<Time, WorkloadId>> ends;
  for (const WorkloadId id : on_node_[node.index()]) {
    const Entry& entry = entries_[id.index()];
    if (entry.grant->state == GrantState::releasing) {
      ends.emplace_back(now, id);
    } else if (const std::optional<Time> end = entry.declared_end(); end.has_value()) {
      ends.emplace_back(std::max(*end, now), id);
    }
  }
  std::ranges::sort(ends);
  const auto after = [&](std::size_t count) {
    return plan_in(reservation, node, node_without(node, [&](WorkloadId id) {
                     const auto last = ends.begin() + static_cast<std::ptrdiff_t>(count);
                     return std::any_of(ends.begin(), last,
                                        [&](const auto& end) { return end.second == id; });
                   }));
  };
  NodePlan plan = after(ends.size());
  if (!plan.possible) {
    return plan;
  }
  // More ends never hurt, so the first count that fits is found by halving.
  std::size_t low = 0;
  std::size_t high = ends.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const NodePlan tried = after(middle);
    if (tried.possible) {
      plan = tried;
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  plan.timed = true;
  plan.at = low == 0 ? now : ends[low - 1].first;
  plan.releases = static_cast<std::int64_t>(low);
  return plan;
}

// Without declared ends: the devices whose fewest grants have to end.
NodePlan Engine::Impl::plan_untimed(const Reservation& reservation, NodeId node) const {
  const Shape& shape = shapes.at(reservation.shape);
  NodePlan plan = plan_in(reservation, node, node_without(node, [](WorkloadId) { return true; }));
  if (!plan.possible) {
    return plan;
  }
  plan.releases = static_cast<std::int64_t>(on_node_[node.index()].size());
  if (!shape.simple || !shape.wants_gpu()) {
    return plan;
  }

  struct Choice {
    std::int64_t releases = 0;
    std::int64_t left_over = 0;
    std::size_t place = 0;
    auto operator<=>(const Choice&) const = default;
  };

  std::vector<Choice> choices;
  const std::vector<std::vector<DeviceNeed>> aside = needs_before(reservation, node);
  const AskFit& fit = shapes.fit(shape.id, types, fleet, node).asks[0];
  const std::vector<DeviceId>& ids = fleet.devices_of(node);
  for (std::size_t place = 0; place < ids.size(); ++place) {
    if ((fit.eligible >> place & 1U) == 0) {
      continue;
    }
    std::vector<Holding> holders = ledger.book(ids[place]).holdings;
    std::ranges::sort(holders, [](const Holding& a, const Holding& b) {
      return a.request != b.request ? a.request > b.request : a.workload < b.workload;
    });
    for (std::size_t count = 0; count <= holders.size(); ++count) {
      DeviceFace face = ledger.face_without(ids[place], [&](const Holding& holding) {
        return std::any_of(holders.begin(), holders.begin() + static_cast<std::ptrdiff_t>(count),
                           [&](const Holding& h) { return h.workload == holding.workload; });
      });
      for (const DeviceNeed& need : aside[place]) {
        take_off(face, need);
      }
      if (device_refusal(fit.needs[place], face) == Cause::none) {
        choices.push_back({.releases = static_cast<std::int64_t>(count),
                           .left_over = face.free_milli - fit.needs[place].milli,
                           .place = place});
        break;
      }
    }
  }
  const auto count = static_cast<std::size_t>(shape.ask(0).count);
  if (choices.size() < count) {
    plan.possible = false;
    return plan;
  }
  std::ranges::sort(choices);
  plan.releases = plan.left_over = 0;
  plan.places = 0;
  for (std::size_t i = 0; i < count; ++i) {
    plan.releases += choices[i].releases;
    plan.left_over += choices[i].left_over;
    plan.places |= std::uint64_t{1} << choices[i].place;
  }
  return plan;
}

NodePlan Engine::Impl::plan_node(const Reservation& reservation, NodeId node) const {
  const Shape& shape = shapes.at(reservation.shape);
  if (!fleet.present(node) || ledger.node(node).blocked != Cause::none ||
      !shapes.fit(shape.id, types, fleet, node).could_ever) {
    return {};
  }
  if (node.index() >= on_node_.size()) {
    return plan_in(reservation, node, node_without(node, [](WorkloadId) { return false; }));
  }
  const NodePlan timed = plan_timed(reservation, node);
  return timed.possible ? timed : plan_untimed(reservation, node);
}

void Engine::Impl::move_to(Reservation& reservation, NodeId node) {
  if (reservation.node == node) {
    return;
  }
  const NodeId before = reservation.node;
  reservation.node = node;
  reservation.made_at_grant = grants_made_;
  if (!node.is_none()) {
    guard(node);
  }
  if (!before.is_none()) {
    unguard(before);
  }
}

void Engine::Impl::choose_node(Reservation& reservation) {
  NodeId best;
  for (std::size_t i = 0; i < reservation.plans.size(); ++i) {
    const NodeId node(i);
    if (!reservation.plans[i].possible || !fleet.present(node)) {
      continue;
    }
    if (best.is_none() || better_plan(reservation.plans[i], index.rank(node),
                                      reservation.plans[best.index()], index.rank(best))) {
      best = node;
    }
  }
  move_to(reservation, best);
  reservation.plan = best.is_none() ? NodePlan() : reservation.plans[best.index()];
}

// Looks again at the nodes that changed since the last time.
void Engine::Impl::replan(Reservation& reservation) {
  const ChangeLog& log = ledger.changes();
  const bool fresh = reservation.plans.size() < fleet.node_slots();
  if (fresh || reservation.seen < log.begin()) {
    reservation.plans.resize(fleet.node_slots());
    for (std::size_t i = 0; i < reservation.plans.size(); ++i) {
      reservation.plans[i] = plan_node(reservation, NodeId(i));
    }
    reservation.seen = log.end();
    choose_node(reservation);
    return;
  }
  bool choose = reservation.node.is_none();
  for (std::uint64_t at = reservation.seen; at < log.end(); ++at) {
    if (!log.is_latest(at)) {
      continue;
    }
    const NodeId node = log.at(at);
    NodePlan& plan = reservation.plans[node.index()];
    const NodePlan before = plan;
    plan = plan_node(reservation, node);
    ++wake_steps_;
    if (node == reservation.node) {
      choose = choose || better_plan(before, 0, plan, 0) || !plan.possible;
      reservation.plan = plan;
    } else if (!reservation.node.is_none() && fleet.present(node)) {
      choose = choose ||
               better_plan(plan, index.rank(node), reservation.plan, index.rank(reservation.node));
    }
  }
  reservation.seen = log.end();
  if (choose) {
    choose_node(reservation);
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

// Whose reservations bind is decided once: while a gang is being placed its queue holds more with
// each member, and what is before it must not change with the order in which nodes are tried.
GuardRule Engine::Impl::guard_for(WorkloadId id) const {
  if (guards_.empty()) {
    return {};
  }
  std::vector<const Reservation*> before;
  for (const auto& [pool, reservation] : reservations_) {
    if (!reservation.node.is_none() && reservation.holder != id &&
        !ordered_before(id, reservation.holder)) {
      before.push_back(&reservation);
    }
  }
  return [this, id, before = std::move(before),
          gangs = gangs_before(id)](NodeId node) -> std::optional<std::uint64_t> {
    std::uint64_t allowed = ~std::uint64_t{0};
    for (const Reservation* reservation : before) {
      if (reservation->node != node) {
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
