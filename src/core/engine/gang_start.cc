// A gang is tried: who exists, what its queue allows, where all of it fits; then all of it starts.
#include <algorithm>

#include <fmt/format.h>

#include "core/engine/engine_impl.h"
#include "core/engine/gang_never.h"
#include "core/engine/gang_planner.h"

namespace berth::core {

// Tries the gang whose head this is. True when all that it needs was granted or promised.
bool Engine::Impl::try_gang(WorkloadId head) {
  GangState& state = gangs_.at(head);
  state.shortage = {};
  const auto wait = [&](Cause cause) {
    touched_pools_.insert(at(head).pool);
    say_of_gang(head, EntryState::waiting, cause);
    if (waiting.contains(head)) {
      note_blocked(head);
    }
    return false;
  };
  if (existing_in(state, 0) < state.nodes[0].min) {
    return wait(Cause::gang_incomplete);
  }
  if (state.not_before.has_value() && *state.not_before > now) {
    return wait(Cause::back_off);
  }
  if (quotas.active()) {
    StageBook::Scope stage(stages, StageId::quota);
    quotas.sync();
    state.turn = minimum_charge(state, 0);
    const QuotaRefusal refusal =
        quotas.tree.may_start(at(head).leaf, state.turn, at(head).preemptible, Counting::present);
    if (refusal.refused()) {
      stage.rejected();
      blocked_by_ = {refusal.queue};
    }
  }
  if (blocked_by_.empty()) {
    if (std::optional<GangShortage> lack = GangProof(*this, state).lack_of_domains()) {
      state.shortage = std::move(*lack);
      return wait(Cause::no_topology_domain);
    }
  }
  if (behind_head(head)) {
    return wait(Cause::reserved_for_other);
  }
  if (blocked_by_.empty() && start_gang(head, false)) {
    return true;
  }
  if (!releasing_nodes_.empty() && start_gang(head, true)) {
    return true;
  }
  if (try_claim(head)) {
    return true;
  }
  const QuotaRefusal refusal = quotas.active()
                                   ? quotas.tree.may_start(at(head).leaf, state.turn,
                                                           at(head).preemptible, Counting::present)
                                   : QuotaRefusal();
  return wait(refusal.refused() ? refusal.cause : gang_waiting_cause(head));
}

// Plans and, where the minimum fits, grants; `later`: counts what is being released as gone, and
// promises.
bool Engine::Impl::start_gang(WorkloadId head, bool later) {
  StageBook::Scope stage(stages, later ? StageId::promise : StageId::place);
  const std::int64_t before = index.steps();
  std::vector<Planned> plan;
  {
    Scratch scratch(*this);
    if (later) {
      take_out_releasing(scratch);
    }
    if (plan_gang(head, scratch)) {
      plan = scratch.take_planned();
    }
  }
  stage.stepped(index.steps() - before);
  if (plan.empty()) {
    stage.rejected();
    return false;
  }
  commit_gang(head, std::move(plan), later);
  return true;
}

void Engine::Impl::take_out_releasing(Scratch& scratch) {
  for (const NodeId node : releasing_nodes_) {
    const std::vector<WorkloadId> here = on_node_[node.index()];
    for (const WorkloadId id : here) {
      if (at(id).grant->state == GrantState::releasing && !scratch.is_out(id)) {
        scratch.take_out(id);
      }
    }
  }
}

// The minimum first, for that decides; then as many as fit, all subgroups growing in proportion.
bool Engine::Impl::plan_gang(WorkloadId head, Scratch& scratch) {
  GangState& state = gangs_.at(head);
  const std::size_t mark = scratch.mark();
  const auto plan = [&](std::vector<std::int64_t> want) {
    GangPlanner planner(*this, head, scratch, std::move(want));
    const bool placed = planner.place();
    state.shortage = planner.shortage();
    return placed;
  };
  if (!plan({})) {
    return false;
  }
  std::int64_t most = 0;
  for (const GangNode& group : state.nodes) {
    if (group.is_leaf()) {
      most =
          std::max(most, existing_in(state, static_cast<std::size_t>(&group - state.nodes.data())) -
                             group.min);
    }
  }
  const auto want_at = [&](std::int64_t scale) {
    std::vector<std::int64_t> want;
    for (std::size_t i = 0; i < state.nodes.size(); ++i) {
      const GangNode& group = state.nodes[i];
      const std::int64_t more = group.is_leaf() ? existing_in(state, i) - group.min : 0;
      want.push_back(group.min + (most > 0 && more > 0 ? more * scale / most : 0));
    }
    return want;
  };
  std::int64_t fits = 0;
  std::int64_t fails = most + 1;
  std::int64_t tried = most;  // all of it, then halves
  while (fits + 1 < fails) {
    scratch.undo_to(mark);
    (plan(want_at(tried)) ? fits : fails) = tried;
    tried = (fits + fails) / 2;
  }
  if (most > 0) {
    scratch.undo_to(mark);
    const bool placed = plan(want_at(fits));
    ASSERT(placed, head.value());
  }
  return true;
}

void Engine::Impl::commit_gang(WorkloadId head, std::vector<Planned> plan, bool later) {
  GangState& state = gangs_.at(head);
  if (waiting.contains(head)) {
    dequeue(head);
  }
  for (Planned& planned : plan) {
    if (later) {
      promise(planned.workload, std::move(planned.grant));
    } else {
      commit(planned.workload, std::move(planned.grant));
    }
  }
  if (later) {
    promised_gangs_.insert(head);
    set_state(head, EntryState::promised, Cause::waiting_for_release);
    return;
  }
  gang_started(head);
  (void)state;
}

// Its minimum holds grants.
void Engine::Impl::gang_started(WorkloadId head) {
  GangState& state = gangs_.at(head);
  promised_gangs_.erase(head);
  clear_wait_timer(head);
  state.started = true;
  state.minimum_reached = now;
  state.degraded_since.reset();
  const std::optional<Duration> limit = state.failed_starts > 0 && state.options.recovery_timeout
                                            ? state.options.recovery_timeout
                                        : state.options.start_timeout ? state.options.start_timeout
                                                                      : config.start_timeout;
  if (limit.has_value()) {
    set_gang_timer(state.start_by, TimerKind::start, head, now + *limit);
  }
  set_state(head, EntryState::granted, Cause::none);
  actions_.emplace_back(Granted{.workload = head, .grant = 0, .node = NodeId::none()});
  // What found no place is surplus from now on, and takes what becomes free.
  for_members(head, [&](WorkloadId member) {
    Entry& one = at(member);
    if (one.state == EntryState::parked &&
        present_in(state, one.group) >= state.nodes[one.group].min) {
      set_state(member, EntryState::waiting, Cause::insufficient_devices);
      enqueue(member);
      requeued_.insert(member);
    }
  });
}

// Room of the promised gangs has come, or will not come: all of it or nothing.
void Engine::Impl::settle_gang_promises() {
  const std::set<WorkloadId> heads = promised_gangs_;
  for (const WorkloadId head : heads) {
    std::vector<WorkloadId> promised;
    for_members(head, [&](WorkloadId member) {
      if (at(member).state == EntryState::promised && !at(member).slot) {
        promised.push_back(member);
      }
    });
    const bool broken =
        promised.empty() ||
        std::ranges::any_of(promised,
                            [&](WorkloadId member) { return !promise_holds(at(member), true); }) ||
        !has_minimum(gangs_.at(head));
    if (broken) {
      withdraw_gang(head);
      continue;
    }
    const bool come = !granting_held_ && std::ranges::all_of(promised, [&](WorkloadId member) {
      return promise_holds(at(member), false) && queue_has_room_for(at(member));
    });
    if (come) {
      for (const WorkloadId member : promised) {
        keep_promise(member);
      }
      gang_started(head);
    }
  }
}

// Its promises are taken back; it waits again as a whole.
void Engine::Impl::withdraw_gang(WorkloadId head) {
  promised_gangs_.erase(head);
  for_members(head, [&](WorkloadId member) {
    if (at(member).state == EntryState::promised && !at(member).slot) {
      take_back(member, Cause::waiting_for_release, false, true);
    }
  });
  retry_gang(head);
}

// What is said of a gang is said of each member that waits with it.
void Engine::Impl::say_of_gang(WorkloadId head, EntryState state, Cause cause) {
  set_state(head, state, cause);
  for_members(head, [&](WorkloadId member) {
    if (at(member).state == EntryState::parked) {
      set_state(member, EntryState::parked, cause);
    }
  });
}

Cause Engine::Impl::gang_waiting_cause(WorkloadId head) const {
  const GangState& state = gangs_.at(head);
  if (state.shortage.cause != Cause::none) {
    return state.shortage.cause;
  }
  Cause cause = Cause::none;
  for (const GangNode& group : state.nodes) {
    std::set<ShapeId> seen;
    for (const WorkloadId member : group.members) {
      if (entry(member).state == EntryState::parked && seen.insert(entry(member).shape).second) {
        cause = more_advanced(cause, waiting_cause(shapes.at(entry(member).shape), head));
      }
    }
  }
  return cause == Cause::none ? Cause::insufficient_devices : cause;
}

}  // namespace berth::core
