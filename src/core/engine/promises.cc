// Promises (L3): room that is being freed is booked for a workload before it is free.
#include <algorithm>
#include <bit>

#include "core/engine/engine_impl.h"

namespace berth::core {

PlacementIndex::NodeState Engine::Impl::node_without(NodeId node, const GrantRule& gone) const {
  PlacementIndex::NodeState state{.face = ledger.node(node), .devices = {}};
  for (const WorkloadId id :
       on_node_.size() > node.index() ? on_node_[node.index()] : std::vector<WorkloadId>()) {
    if (!entries_[id.index()].supposed_gone && gone(id)) {
      state.face.cpu_free += entries_[id.index()].grant->cpu.count();
      state.face.ram_free += entries_[id.index()].grant->ram.in_bytes();
      ++state.face.slots_free;
    }
  }
  for (const DeviceId device : fleet.devices_of(node)) {
    state.devices.push_back(ledger.face_without(
        device, [&](const Holding& holding) { return gone(holding.workload); }));
  }
  return state;
}

// As the node will be when all that is being released there is gone.
PlacementIndex::NodeState Engine::Impl::node_once_released(NodeId node) const {
  const NodeOutlook& outlook = outlook_of(node);
  const std::size_t released = outlook.released();
  const NodeOutlook::Room& room = outlook.room_after(released);
  PlacementIndex::NodeState state{.face = ledger.node(node), .devices = {}};
  state.face.cpu_free = room.cpu;
  state.face.ram_free = room.ram;
  state.face.slots_free = room.slots;
  for (std::size_t place = 0; place < fleet.devices_of(node).size(); ++place) {
    state.devices.push_back(outlook.face_after(place, released));
  }
  return state;
}

namespace {

// Whether a node will have devices enough for the shape once so many of its ends have come. Cheap,
// and right when it says no.
bool may_take(const Shape& shape, const StaticFit& fit, const NodeOutlook& outlook,
              std::size_t ends) {
  if (!shape.simple || !shape.wants_gpu()) {
    return true;
  }
  int open = 0;
  for (std::uint64_t left = fit.asks[0].eligible; left != 0; left &= left - 1) {
    const auto place = static_cast<std::size_t>(std::countr_zero(left));
    open += device_refusal(fit.asks[0].needs[place], outlook.face_after(place, ends)) == Cause::none
                ? 1
                : 0;
  }
  return open >= shape.ask(0).count;
}

}  // namespace

// Whether the shape would fit on the node once what is being released there is gone, whoever has
// reserved it and whatever its queue may have.
bool Engine::Impl::may_take_once_released(ByNode<bool>& answers, ShapeId id, NodeId node) {
  ByNode<bool>::Known* known = nullptr;
  if (answers.is_old(node, ledger.lasting_changes(), known)) {
    const NodeOutlook& outlook = outlook_of(node);
    known->answer =
        may_take(shapes.at(id), shapes.fit(id, types, fleet, node), outlook, outlook.released()) &&
        index.judge(id, node, node_once_released(node), ~std::uint64_t{0}).cause == Cause::none;
  }
  return known->answer;
}

// Books room that is being released, if that is better than what there is now: when nothing fits,
// or when a packing policy would open an unused device although a used one is about to have room
// (F8).
bool Engine::Impl::try_promise(WorkloadId id, const Selection& now_best) {
  Entry& entry = at(id);
  const std::optional<Duration>& patience = entry.options.wait_timeout;
  if (patience.has_value() && entry.queued_at + *patience <= now) {
    return false;  // it does not wait any more
  }
  const bool have_place = !now_best.node.is_none();
  if (have_place && !(now_best.opens_idle && index.policy(entry.shape).packs() &&
                      shapes.at(entry.shape).ask(0).is_share())) {
    return false;
  }
  StageBook::Scope stage(stages, StageId::promise);
  const GuardRule rule = guard_for(id);
  const Shape& shape = shapes.at(entry.shape);
  const std::vector<bool> home = nodes_for_member(id);
  const QuotaView* quota =
      quotas.active() ? &quotas.view(shape, entry.leaf, entry.preemptible, Counting::future)
                      : nullptr;
  PlacementIndex::Judgement best{
      .cause = Cause::waiting_for_release, .selection = {}, .rank = 0, .places = {}};
  PlacementIndex::NodeState best_state;
  ByNode<bool>& answers = open_once_released_[entry.shape];
  for (const NodeId node : releasing_nodes_) {
    if (!may_take_once_released(answers, entry.shape, node)) {
      continue;
    }
    std::optional<std::uint64_t> allowed =
        rule && index.is_guarded(node) ? rule(node) : ~std::uint64_t{0};
    if (!home.empty() && !home[node.index()]) {
      continue;
    }
    if (allowed.has_value() && quota != nullptr) {
      *allowed &= quotas.places(*quota, shape, node);
    }
    if (!allowed.has_value() || *allowed == 0) {
      continue;
    }
    PlacementIndex::NodeState state = node_once_released(node);
    PlacementIndex::Judgement found = index.judge(entry.shape, node, state, *allowed);
    if (found.cause != Cause::none || (have_place && found.selection.opens_idle)) {
      continue;
    }
    const bool better = best.cause != Cause::none || found.selection.cost < best.selection.cost ||
                        (found.selection.cost == best.selection.cost && found.rank < best.rank);
    if (better) {
      best = std::move(found);
      best_state = std::move(state);
    }
  }
  if (best.cause != Cause::none) {
    stage.rejected();
    return false;
  }
  const NodeId node = best.selection.node;
  std::unique_ptr<Grant> grant = make_grant(id, node, best_state.devices, best.places);
  promise(id, std::move(grant));
  entry.preferred_promise = have_place;
  return true;
}

void Engine::Impl::promise(WorkloadId id, std::unique_ptr<Grant> grant) {
  const NodeId node = grant->node;
  grant->state = GrantState::promised;
  grant->number = ++grants_made_;
  book_grant(id, std::move(grant));
  if (waiting.contains(id)) {
    dequeue(id);
  }
  promised_.insert(id);
  quota_promises_.insert(node);
  at(id).preferred_promise = false;
  set_wait_timer(id);
  set_state(id, EntryState::promised, Cause::waiting_for_release);
  actions_.emplace_back(Promised{.workload = id, .grant = at(id).grant->number, .node = node});
}

// Its room is there: it may run.
void Engine::Impl::keep_promise(WorkloadId id) {
  Entry& entry = at(id);
  entry.grant->state = GrantState::granted;
  entry.grant->granted_at = now;
  ledger.keep_promise(id, *entry.grant);
  rebook_queue(id);
  promised_.erase(id);
  clear_wait_timer(id);
  set_state(id, EntryState::granted, Cause::none);
  if (entry.options.confirm_within.has_value()) {
    entry.confirm_by = now + *entry.options.confirm_within;
    timers_.set({.due = *entry.confirm_by, .kind = TimerKind::confirm, .workload = id});
  }
  if (is_member(id)) {
    touched_gangs_.insert(entry.gang);
  }
  actions_.emplace_back(
      Granted{.workload = id, .grant = entry.grant->number, .node = entry.grant->node});
}

// Whether the promise's room exists now, or will once everything that is being released is gone.
// Promises made later do not count against it.
bool Engine::Impl::promise_holds(const Entry& entry, bool after_releases) const {
  const Grant& grant = *entry.grant;
  const std::vector<ContainerAsk>& asks = shapes.at(entry.shape).request.containers();
  const auto gone = [&](WorkloadId id) {
    const Grant& other = *entries_[id.index()].grant;
    return (other.state == GrantState::promised && other.number >= grant.number) ||
           (after_releases && other.state == GrantState::releasing);
  };
  const PlacementIndex::NodeState state = node_without(grant.node, gone);
  if ((grant.cpu > Milli() && state.face.cpu_free < grant.cpu.count()) ||
      (grant.ram > Memory() && state.face.ram_free < grant.ram.in_bytes()) ||
      state.face.slots_free < 1 || state.face.blocked != Cause::none) {
    return false;
  }
  const auto wants_mutex = [&](DeviceId device) {
    return std::ranges::any_of(grant.containers, [&](const ContainerGrant& container) {
      return asks[container.container].gpu.mutex &&
             std::ranges::find(container.shares, device, &DeviceShare::device) !=
                 container.shares.end();
    });
  };
  return std::ranges::all_of(grant.charges, [&](const DeviceCharge& charge) {
    const DeviceFace& face = state.devices[fleet.place_of(charge.device)];
    const std::int64_t mib = grant.starting ? charge.starting_mib : charge.running_mib;
    const std::int64_t limit =
        grant.starting ? charge.starting_limit_mib : charge.running_limit_mib;
    const std::int64_t nano = grant.starting ? charge.starting_nano : charge.running_nano;
    DeviceNeed need{.request = Memory::mib(mib).in_bytes(),
                    .limit = Memory::mib(limit).in_bytes(),
                    .nano = static_cast<std::int32_t>(nano),
                    .compute = static_cast<std::int16_t>(charge.compute_milli),
                    .milli = 0,
                    .mode = charge.mode,
                    .exclusive = charge.exclusive,
                    .mutex = wants_mutex(charge.device),
                    .cap = static_cast<std::int16_t>(shapes.at(entry.shape).terms.device_cap)};
    return device_refusal(need, face) == Cause::none && need.request <= face.headroom;
  });
}

std::vector<WorkloadId> Engine::Impl::promises_on(NodeId node) const {
  std::vector<WorkloadId> here;
  if (promised_.empty() || node.index() >= on_node_.size()) {
    return here;
  }
  for (const WorkloadId id : on_node_[node.index()]) {
    if (entries_[id.index()].state == EntryState::promised) {
      here.push_back(id);
    }
  }
  std::ranges::sort(here, {}, [&](WorkloadId id) { return entries_[id.index()].grant->number; });
  return here;
}

// What was promised for want of a place is tried again where there may be one now: fitting now
// comes before fitting later.
void Engine::Impl::retry_promised(const std::set<NodeId>& nodes) {
  if (nodes.empty()) {
    return;
  }
  const std::vector<WorkloadId> promised(promised_.begin(), promised_.end());
  for (const WorkloadId id : promised) {
    const Entry& entry = at(id);
    if (entry.slot || !entry.held_for.is_none() || waits_with_gang(id) || entry.preferred_promise ||
        entry.grant->number > grants_before_) {
      continue;  // it had a place and preferred this, or it was decided in this very call
    }
    const auto is_open = [&](NodeId node) {
      if (!index.is_guarded(node)) {
        return true;
      }
      const GuardRule rule = guard_for(id);
      return !rule || rule(node).has_value();
    };
    const bool place_now = std::ranges::any_of(nodes, [&](NodeId node) {
      return node != entry.grant->node && fleet.present(node) &&
             index.refusal(entry.shape, node) == Cause::none && is_open(node) &&
             queue_has_room_for(entry);
    });
    if (place_now) {
      take_back(id, Cause::waiting_for_release, false, true);
    }
  }
}

// Whether the queue has room for a promise that would be kept now.
bool Engine::Impl::queue_has_room_for(const Entry& entry) const {
  return !quotas.active() ||
         quotas.without(entry.leaf, entry.charge, entry.booking, entry.preemptible,
                        [&] { return queue_admits(entry, Counting::present); });
}

// All promises on the node are taken back and decided anew.
void Engine::Impl::withdraw_promises(NodeId node) {
  for (const WorkloadId id : promises_on(node)) {
    if (!at(id).holds()) {
      continue;  // it went with its gang
    }
    if (at(id).slot) {
      end(id, Cause::none);
    } else if (!at(id).held_for.is_none()) {
      take_hold(at(id).held_for, false);
    } else if (waits_with_gang(id)) {
      withdraw_gang(at(id).gang);
    } else {
      take_back(id, Cause::waiting_for_release, false, true);
    }
  }
}

// Promises on a node whose room has come become grants; those whose room will not come any more are
// taken back and wait again.
void Engine::Impl::settle_promises(NodeId node) {
  for (const WorkloadId id : promises_on(node)) {
    const Entry& entry = at(id);
    if (entry.slot || waits_with_gang(id)) {
      continue;  // a gang's promises are kept together (settle_gang_promises)
    }
    if (!entry.held_for.is_none()) {
      if (!promise_holds(entry, true)) {
        take_hold(entry.held_for, false);  // who moves waits again when it is gone
      }
      continue;
    }
    const bool has_come = promise_holds(entry, false);
    if (has_come && !granting_held_ && queue_has_room_for(entry)) {
      keep_promise(id);
    } else if (has_come) {
      quota_promises_.insert(node);
    } else if (!promise_holds(entry, true)) {
      take_back(id, Cause::waiting_for_release, false, true);
    }
  }
}

}  // namespace berth::core
