// The place that a waiting gang will get: the earliest instant at which all of its minimum fits,
// and the devices that it takes then (queues-gangs-topology.md 7). Others may use them until then
// only if they end in time, or are marked to make way.
//
// Where ends are declared, running work is taken away in their order until the gang fits. Where
// they are not, the nodes with the fewest grants are emptied in thought; the reservation then has
// no time.
#include <algorithm>

#include "core/engine/engine_impl.h"
#include "core/engine/gang_planner.h"

namespace berth::core {

// The head of the pool, if it is a gang that waits for room and for nothing else.
WorkloadId Engine::Impl::reserving_gang(PoolId pool) const {
  const WorkloadId head = waiting.head_of(pool, now);
  if (head.is_none() || !is_head(head)) {
    return WorkloadId::none();
  }
  const Stage stage = cause_stage(entry(head).cause);
  if (stage < Stage::node ||
      (quotas.active() && quotas.tree.spec(entry(head).leaf).order == QueueOrder::best_effort)) {
    return WorkloadId::none();
  }
  return head;
}

void Engine::Impl::update_gang_reservation(PoolId pool) {
  const WorkloadId head = reserving_gang(pool);
  const auto found = gang_reservations_.find(pool);
  if (head.is_none()) {
    if (found != gang_reservations_.end()) {
      drop_gang_reservation(pool);
    }
    return;
  }
  const bool fresh = found == gang_reservations_.end() || found->second.holder != head;
  if (!fresh) {
    const GangReservation& held = found->second;
    const bool old =
        now >= held.planned_at + kReplanGangAfter && ledger.lasting_changes().end() != held.seen;
    if (!old && !(held.timed && held.at <= now && held.planned_at < held.at)) {
      return;
    }
  }
  GangReservation plan = plan_gang_ahead(head);
  for (const auto& [node, places] : plan.places) {
    guard(node);
  }
  if (found != gang_reservations_.end()) {
    // Only what the new plan leaves to others is news to anybody: one that stays as it is must not
    // wake those who would then have it planned again, and so on for ever.
    const GangReservation& before = found->second;
    const bool later = before.holder != head || before.timed != plan.timed ||
                       (before.at < plan.at && now < plan.at);
    for (const auto& [node, places] : before.places) {
      const auto kept = plan.places.find(node);
      if (kept != plan.places.end() && (later || (places & ~kept->second) != 0)) {
        improved(node);
      }
    }
  }
  drop_gang_reservation(pool);
  plan.seen = ledger.lasting_changes().end();
  gang_reservations_[pool] = std::move(plan);
}

void Engine::Impl::drop_gang_reservation(PoolId pool) {
  const auto found = gang_reservations_.find(pool);
  if (found == gang_reservations_.end()) {
    return;
  }
  const std::map<NodeId, std::uint64_t> places = std::move(found->second.places);
  gang_reservations_.erase(found);
  for (const auto& [node, mask] : places) {
    unguard(node);
  }
}

// What runs and says when it ends, in the order of its ends.
std::vector<std::pair<Time, WorkloadId>> Engine::Impl::declared_ends() const {
  std::vector<std::pair<Time, WorkloadId>> ends;
  for (const std::vector<WorkloadId>& here : on_node_) {
    for (const WorkloadId id : here) {
      const std::optional<Time> end = entry(id).declared_end();
      if (end.has_value() && !entry(id).supposed_gone &&
          entry(id).grant->state != GrantState::releasing) {
        ends.emplace_back(std::max(*end, now), id);
      }
    }
  }
  std::ranges::sort(ends, [this](const auto& a, const auto& b) {
    return std::tie(a.first, entry(a.second).uid) < std::tie(b.first, entry(b.second).uid);
  });
  return ends;
}

// What runs, node by node, those with the fewest grants first.
std::vector<WorkloadId> Engine::Impl::by_emptiest_node() const {
  std::map<std::pair<std::size_t, std::int64_t>, std::vector<WorkloadId>> by_number;
  for (std::size_t i = 0; i < on_node_.size(); ++i) {
    std::vector<WorkloadId> here = on_node_[i];
    std::erase_if(here, [this](WorkloadId id) {
      return entry(id).supposed_gone || entry(id).grant->state == GrantState::releasing;
    });
    if (!here.empty()) {
      const auto key = std::pair(here.size(), index.rank(NodeId(i)));
      by_number.emplace(key, std::move(here));
    }
  }
  std::vector<WorkloadId> order;
  for (const auto& [number, here] : by_number) {
    order.insert(order.end(), here.begin(), here.end());
  }
  return order;
}

// The earliest instant known at which the minimum fits.
Engine::Impl::GangReservation Engine::Impl::plan_gang_ahead(WorkloadId head) {
  GangReservation plan{.holder = head, .planned_at = now};
  const auto fits = [&](const std::vector<WorkloadId>& gone, bool keep) {
    Scratch scratch(*this);
    for (const WorkloadId id : gone) {
      scratch.take_out(id);
    }
    take_out_releasing(scratch);
    const std::size_t mark = scratch.mark();
    const bool placed = plan_minimum(head, scratch);
    for (const WorkloadId id :
         keep&& placed ? scratch.planned_since(mark) : std::vector<WorkloadId>()) {
      const Grant& grant = *scratch.planned_for(id);
      for (const DeviceCharge& charge : grant.charges) {
        plan.places[grant.node] |= std::uint64_t{1} << fleet.place_of(charge.device);
      }
    }
    return placed;
  };
  const auto first = [&](const std::vector<WorkloadId>& order, const auto& cut) -> std::size_t {
    std::size_t low = 0;
    std::size_t high = order.size();
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (fits(cut(middle), false)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  };
  const std::vector<std::pair<Time, WorkloadId>> ends = declared_ends();
  std::vector<WorkloadId> order;
  for (const auto& [end, id] : ends) {
    order.push_back(id);
  }
  const auto prefix = [&](std::size_t count) {
    return std::vector<WorkloadId>(order.begin(),
                                   order.begin() + static_cast<std::ptrdiff_t>(count));
  };
  if (!order.empty() && fits(order, false)) {
    const std::size_t count = first(order, prefix);
    (void)fits(prefix(count), true);
    plan.timed = true;
    plan.at = count == 0 ? now : ends[count - 1].first;
    return plan;
  }
  order = by_emptiest_node();  // no time
  if (fits(order, false)) {
    (void)fits(prefix(first(order, prefix)), true);
  }
  return plan;
}

// The reservations of gangs that keep the workload out.
std::vector<const Engine::Impl::GangReservation*> Engine::Impl::gangs_before(WorkloadId id) const {
  std::vector<const GangReservation*> before;
  const Entry& asking = entry(id);
  for (const auto& [pool, reservation] : gang_reservations_) {
    if (reservation.places.empty() || reservation.holder == id ||
        asking.gang == reservation.holder || makes_way(asking) ||
        !waiting.contains(reservation.holder) || ordered_before(id, reservation.holder)) {
      continue;
    }
    const bool over_in_time = reservation.timed && asking.options.max_run.has_value() &&
                              now + *asking.options.max_run <= reservation.at;
    if (!over_in_time) {
      before.push_back(&reservation);
    }
  }
  return before;
}

// Marked as backfill: it leaves, without any further right, when the reservation becomes due.
bool Engine::Impl::makes_way(const Entry& asking) const {
  return asking.options.backfill && asking.preemptible;
}

// The answer of the nodes that gangs have reserved, for they are not on the page. Where one could
// take it and does not, that is the reason.
Cause Engine::Impl::cause_beside_gangs(ShapeId shape, WorkloadId id, Cause cause) const {
  for (const auto& [pool, reservation] : gang_reservations_) {
    const bool own = reservation.holder == id || entry(id).gang == reservation.holder;
    for (const auto& [node, places] : reservation.places) {
      const Cause there = index.refusal(shape, node);
      if (there != Cause::none) {
        cause = more_advanced(cause, there);
      } else if (!own) {
        const bool declared = entry(id).options.max_run.has_value() && reservation.timed;
        return declared ? Cause::backfill_too_long : Cause::reserved_for_other;
      }
    }
  }
  return cause;
}

std::optional<EtaEstimate> Engine::Impl::eta_of_gang(WorkloadId head) const {
  for (const auto& [pool, reservation] : gang_reservations_) {
    if (reservation.holder == head && !reservation.places.empty()) {
      const bool believed = reservation.timed && reservation.at > now;
      return EtaEstimate{
          .basis = believed ? EtaEstimate::Basis::declared : EtaEstimate::Basis::unknown,
          .at = believed ? reservation.at : Time()};
    }
  }
  return std::nullopt;
}

}  // namespace berth::core
