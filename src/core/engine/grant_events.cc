// The handlers of events about grants: what harbours and nodes say of work that was given a place.
#include <fmt/format.h>

#include "core/engine/engine_impl.h"

namespace berth::core {

namespace {

std::string not_held(std::string_view uid, std::string_view deed) {
  return fmt::format("workload {} holds no grant; nothing was {}", uid, deed);
}

}  // namespace

// Whether it holds a grant that is more than a promise. A gang that runs holds none of its own.
bool Engine::Impl::runs(WorkloadId id) const {
  return entry(id).state == EntryState::granted && entry(id).holds();
}

void Engine::Impl::on(const GrantConfirmed& event) {
  const WorkloadId id = id_of(event.uid);
  if (id.is_none() || !runs(id)) {
    refuse(not_held(event.uid, "confirmed"));
    return;
  }
  Entry& entry = at(id);
  if (entry.grant->state == GrantState::granted) {
    entry.grant->state = GrantState::active;
  }
  if (entry.confirm_by.has_value()) {
    timers_.clear({.due = *entry.confirm_by, .kind = TimerKind::confirm, .workload = id});
    entry.confirm_by.reset();
  }
  if (is_member(id)) {
    touched_gangs_.insert(entry.gang);
  }
}

void Engine::Impl::on(const GrantReleasing& event) {
  const WorkloadId id = id_of(event.uid);
  if (id.is_none() || !runs(id)) {
    refuse(not_held(event.uid, "marked as being released"));
    return;
  }
  at(id).leaving = true;
  begin_release(id);
}

// Its room is future room from now on (L3).
void Engine::Impl::begin_release(WorkloadId id) {
  Entry& entry = at(id);
  if (entry.grant->state == GrantState::releasing || entry.releasing_until.has_value()) {
    return;
  }
  if (entry.confirm_by.has_value()) {
    timers_.clear({.due = *entry.confirm_by, .kind = TimerKind::confirm, .workload = id});
    entry.confirm_by.reset();
  }
  if (config.releasing_horizon == Duration(0)) {
    return;  // no release is believed in
  }
  ledger.set_releasing(id, *entry.grant, true);
  entry.grant->state = GrantState::releasing;
  rebook_queue(id);
  entry.releasing_until = now + config.releasing_horizon;
  timers_.set({.due = *entry.releasing_until, .kind = TimerKind::releasing, .workload = id});
  releasing_nodes_.insert(entry.grant->node);
  improved(entry.grant->node);
}

void Engine::Impl::on(const GrantReleased& event) {
  const WorkloadId id = id_of(event.uid);
  if (id.is_none() || !at(id).holds()) {
    refuse(not_held(event.uid, "released"));
    return;
  }
  if (is_member(id) && is_present(id)) {
    ++gangs_.at(at(id).gang).nodes[at(id).group].succeeded;
  }
  end(id, Cause::none);
}

void Engine::Impl::on(const GrantLost& event) {
  const WorkloadId id = id_of(event.uid);
  // A promise does not run yet, so nothing of it can be lost; who gives it up cancels.
  if (id.is_none() || !runs(id)) {
    refuse(not_held(event.uid, "lost"));
    return;
  }
  if (!event.requeue && is_member(id) && at(id).grant->state != GrantState::releasing) {
    const GangState& state = gangs_.at(at(id).gang);
    if (state.started && present_in(state, at(id).group) <= state.nodes[at(id).group].min &&
        state.options.stale_grace != Duration(0)) {
      keep_slot(id);
      return;
    }
  }
  take_back(id, Cause::none, true, event.requeue);
}

void Engine::Impl::on(const WorkloadInitialized& event) {
  const WorkloadId id = id_of(event.uid);
  if (id.is_none() || !runs(id)) {
    refuse(not_held(event.uid, "shrunk to its running phase"));
    return;
  }
  Entry& entry = at(id);
  if (!entry.grant->starting) {
    return;
  }
  ledger.shrink(id, *entry.grant);
  entry.grant->starting = false;
  rebook_queue(id);
  improved(entry.grant->node);
}

}  // namespace berth::core
