// Granting is held: the pass that only says so, and what happens when it is lifted.
#include <algorithm>
#include <utility>

#include "core/engine/engine_impl.h"

namespace berth::core {

void Engine::Impl::on(const GrantingHeld& event) {
  if (event.held == granting_held_) {
    return;
  }
  granting_held_ = event.held;
  for (const WorkloadId id : waiting.ordered(now)) {
    at(id).cause = Cause::none;  // the pass says why it waits from now on
    requeued_.insert(id);
  }
  if (!granting_held_) {
    catch_up();
  }
}

// What became due meanwhile and asks somebody to leave or keeps a promise.
void Engine::Impl::catch_up() {
  claims_changed();
  for (std::size_t i = 0; i < fleet.node_slots(); ++i) {
    if (fleet.present(NodeId(i))) {
      improved(NodeId(i));
    }
  }
  for (const WorkloadId id : waiting.ordered(now)) {
    take_hold(id, true);
  }
  drain_queues();
  const auto due = [this](const std::optional<Time>& time) {
    return time.has_value() && *time <= now;
  };
  std::vector<WorkloadId> heads;
  for (const auto& [head, state] : gangs_) {
    heads.push_back(head);
  }
  std::ranges::sort(heads, {}, [this](WorkloadId head) { return entry(head).uid; });
  for (const WorkloadId head : heads) {
    if (due(gangs_.at(head).stale_at)) {
      evict_stale(head);
    } else if (due(gangs_.at(head).start_by)) {
      start_failed(head);
    }
  }
}

// It could be tried, and is not.
void Engine::Impl::hold_back(WorkloadId id) {
  touched_pools_.insert(at(id).pool);
  if (is_head(id)) {
    say_of_gang(id, EntryState::waiting, Cause::granting_held);
  } else {
    set_state(id, EntryState::waiting, Cause::granting_held);
  }
}

// Instead of the pass: gangs end or fall back, promises that cannot be kept are taken back, and who
// waits is told why.
void Engine::Impl::run_held_pass() {
  constexpr int kMostRounds = 8;
  for (int round = 0; round < kMostRounds; ++round) {
    review_gangs();
    settle_improved();
    improved_.clear();  // all nodes are looked at when it is lifted
    for (const WorkloadId id : std::exchange(requeued_, {})) {
      if (waiting.contains(id)) {
        hold_back(id);
      }
    }
    if (touched_gangs_.empty() && requeued_.empty()) {
      break;
    }
  }
  update_reservations();
}

}  // namespace berth::core
