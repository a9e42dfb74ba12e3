// What becomes of a gang that has started: below its minimum, stale, evicted, ended.
#include <algorithm>

#include <fmt/format.h>

#include "core/engine/engine_impl.h"

namespace berth::core {

namespace {

constexpr Duration kStaleGrace{60'000};
constexpr std::int64_t kFirstBackOffMs = 60'000;
constexpr std::int64_t kMostBackOffMs = 3'600'000;

}  // namespace

void Engine::Impl::review_gangs() {
  const std::set<WorkloadId> touched = std::move(touched_gangs_);
  touched_gangs_.clear();
  for (const WorkloadId head : touched) {
    if (gangs_.contains(head)) {
      review_gang(head);
    }
  }
}

// After members came or went: is it whole, degraded, done, or wholly gone?
void Engine::Impl::review_gang(WorkloadId head) {
  GangState& state = gangs_.at(head);
  std::int64_t holding = 0;
  std::int64_t unconfirmed = 0;
  std::int64_t known = 0;
  for_members(head, [&](WorkloadId member) {
    const Entry& one = at(member);
    ++known;
    holding += one.holds() && !one.slot ? 1 : 0;
    unconfirmed += one.holds() && one.grant->state == GrantState::granted ? 1 : 0;
  });
  std::int64_t succeeded = 0;
  for (const GangNode& group : state.nodes) {
    succeeded += group.succeeded;
  }
  if (known == 0 && succeeded > 0) {
    end(head, Cause::none);
    return;
  }
  if (!state.started) {
    return;
  }
  if (unconfirmed == 0) {
    set_gang_timer(state.start_by, TimerKind::start, head, std::nullopt);
    state.failed_starts = has_minimum(state) ? 0 : state.failed_starts;
  }
  if (holding == 0 && (state.evicting || known > 0) && !has_minimum(state)) {
    fall_back(head);
    return;
  }
  if (has_minimum(state)) {
    if (state.degraded_since.has_value()) {
      state.degraded_since.reset();
      state.minimum_reached = now;
      set_gang_timer(state.stale_at, TimerKind::stale, head, std::nullopt);
    }
    return;
  }
  if (state.degraded_since.has_value() || state.evicting) {
    return;
  }
  state.degraded_since = now;
  const Duration grace = state.options.stale_grace.value_or(kStaleGrace);
  if (grace.count() == 0) {
    evict_stale(head);
  } else if (grace.count() > 0) {
    set_gang_timer(state.stale_at, TimerKind::stale, head, now + grace);
  }
}

// Nothing of it runs any more: it waits again as a whole, with its age.
void Engine::Impl::fall_back(WorkloadId head) {
  GangState& state = gangs_.at(head);
  set_gang_timer(state.stale_at, TimerKind::stale, head, std::nullopt);
  set_gang_timer(state.start_by, TimerKind::start, head, std::nullopt);
  state.started = false;
  state.evicting = false;
  state.degraded_since.reset();
  for_members(head, [&](WorkloadId member) {
    if (at(member).slot) {
      end(member, Cause::none);
      return;
    }
    if (waiting.contains(member)) {
      dequeue(member);
      take_hold(member, false);
    }
    set_state(member, EntryState::parked, Cause::gang_incomplete);
  });
  seat_all(state);
  retry_gang(head);
}

void Engine::Impl::evict_stale(WorkloadId head) {
  GangState& state = gangs_.at(head);
  if (granting_held_) {
    state.stale_at = now;  // as soon as it is lifted (catch_up)
    return;
  }
  evict_gang(
      head, Evicted::Rule::stale,
      fmt::format("gang {} has been below its minimum since {} ms: {} of {} {}; give it "
                  "another member within its stale_grace, or a longer one",
                  at(head).uid, state.degraded_since.value_or(now).ms(), present_in(state, 0),
                  state.nodes[0].min, state.nodes[0].is_leaf() ? "members" : "groups"));
}

void Engine::Impl::evict_gang(WorkloadId head, Evicted::Rule rule, const std::string& text) {
  GangState& state = gangs_.at(head);
  set_gang_timer(state.stale_at, TimerKind::stale, head, std::nullopt);
  set_gang_timer(state.start_by, TimerKind::start, head, std::nullopt);
  if (!config.evictions) {
    return;
  }
  leave_as_a_whole(head);
  for_members(head, [&](WorkloadId member) {
    if (at(member).holds() && !at(member).evicting) {
      start_eviction(member, rule, WorkloadId::none(), NodeId::none(), text);
    }
  });
  touched_gangs_.insert(head);
}

// All of it leaves, and it waits again as a whole: nothing of it is kept, promised or tried alone.
void Engine::Impl::leave_as_a_whole(WorkloadId head) {
  gangs_.at(head).evicting = true;
  for_members(head, [&](WorkloadId member) {
    if (at(member).slot) {
      end(member, Cause::none);
    } else if (at(member).state == EntryState::promised) {
      take_back(member, Cause::gang_incomplete, false, true);
    } else if (waiting.contains(member)) {
      dequeue(member);
      take_hold(member, false);
      set_state(member, EntryState::parked, Cause::gang_incomplete);
    }
  });
}

// Asks a workload to leave. Its grant counts until the harbour says that it is gone.
void Engine::Impl::start_eviction(WorkloadId id, Evicted::Rule rule, WorkloadId beneficiary,
                                  NodeId moves_to, std::string text) {
  Entry& entry = at(id);
  entry.evicting = true;
  entry.evictions.push_back(now);
  actions_.emplace_back(Evicted{.workload = id,
                                .grant = entry.grant->number,
                                .rule = rule,
                                .beneficiary = beneficiary,
                                .moves_to = moves_to,
                                .text = std::move(text)});
  begin_release(id);
  if (!entry.gang.is_none()) {
    touched_gangs_.insert(entry.gang);
  }
}

// A gang whose members were not all confirmed in time is evicted whole and waits longer each time.
void Engine::Impl::start_failed(WorkloadId head) {
  GangState& state = gangs_.at(head);
  if (granting_held_) {
    state.start_by = now;  // as soon as it is lifted (catch_up)
    return;
  }
  ++state.failed_starts;
  const std::int64_t doublings = std::min<std::int64_t>(state.failed_starts - 1, 6);
  const Duration pause(std::min(kMostBackOffMs, kFirstBackOffMs << doublings));
  set_gang_timer(state.not_before, TimerKind::back_off, head, now + pause);
  evict_gang(
      head, Evicted::Rule::start_timeout,
      fmt::format("gang {} was not running in time after its grant (attempt {}); it is tried "
                  "again in {} s at the earliest",
                  at(head).uid, state.failed_starts, pause.count() / 1000));
}

void Engine::Impl::end_gang(WorkloadId head, Cause why) {
  GangState& state = gangs_.at(head);
  set_gang_timer(state.stale_at, TimerKind::stale, head, std::nullopt);
  set_gang_timer(state.start_by, TimerKind::start, head, std::nullopt);
  set_gang_timer(state.not_before, TimerKind::back_off, head, std::nullopt);
  failed_gangs_.erase(gang_wish(head));
  for_members(head, [&](WorkloadId member) { end(member, why); });
  gangs_.erase(head);
  promised_gangs_.erase(head);
  touched_gangs_.erase(head);
}

}  // namespace berth::core
