// Claims: a workload that found no place asks whether others have to leave or move for it, and the
// answer is carried out. The search is in claim_search.cc.
#include <algorithm>

#include <fmt/format.h>

#include "core/engine/claim_search.h"
#include "core/engine/engine_impl.h"
#include "core/engine/gang_planner.h"

namespace berth::core {

namespace {

constexpr std::int64_t kCheapSearch = 24;           // steps
constexpr std::int64_t kMostStepsPerEvent = 4'000;  // of all searches of one event together
constexpr std::int64_t kStepsPerSearch = 4;
// Where much runs no search is cheap, whatever it finds out first: with it goes a try of its place.
constexpr std::int64_t kStepsAmongMany = kCheapSearch + 1;
constexpr Duration kNextTurn{1000};
constexpr std::int64_t kPausePerStepMs = 5;
constexpr std::int64_t kLeastPauseMs = 500;
constexpr int kMostDoublings = 8;
constexpr std::int64_t kLongestPauseMs = 120'000;

}  // namespace

bool Engine::Impl::plan_task(WorkloadId id, Scratch& scratch) {
  const Entry& one = entry(id);
  const QuotaView* quota = quotas.active() ? &quotas.view(shapes.at(one.shape), one.leaf,
                                                          one.preemptible, Counting::present)
                                           : nullptr;
  const Selection selection = select_for(id, quota);
  if (selection.node.is_none()) {
    return false;
  }
  scratch.put(id, make_grant(id, selection.node, ledger.faces(selection.node),
                             index.places(one.shape, selection)));
  return true;
}

bool Engine::Impl::plan_minimum(WorkloadId head, Scratch& scratch) {
  GangPlanner planner(*this, head, scratch);
  return planner.place();
}

// Whether it may cause evictions yet.
bool Engine::Impl::is_delayed(const Entry& one) const {
  return now < one.queued_at + claim_delay(one);
}

Duration Engine::Impl::claim_delay(const Entry& one) const {
  return std::max(one.options.preemption_delay, quotas.tree.spec(one.leaf).preemption_delay);
}

bool Engine::Impl::has_rights(const Entry& one) const {
  const QueueSpec& spec = quotas.tree.spec(one.leaf);
  return spec.reclaim != ReclaimRight::never || spec.preempt != PreemptRight::never;
}

// Whether as much as it takes is free, in whatever pieces.
bool Engine::Impl::would_fit_in_pieces(const Charge& charge) const {
  const QueueTree& tree = quotas.tree;
  return std::ranges::all_of(tree.dimensions_of(charge), [&](QuotaDimensionId d) {
    return !tree.lacks(charge, d, Counting::future);
  });
}

// Whether its queue and its kind may ask anybody at all.
bool Engine::Impl::can_claim(const Entry& one) const {
  const QueueTree& tree = quotas.tree;
  return tree.is_listed(one.leaf) && tree.held_because(one.leaf).empty() &&
         tree.stop(one.leaf) == QueueStop::none;
}

// Whether a search could find anything: cheap, and right when it says no.
bool Engine::Impl::may_claim(WorkloadId id) const {
  const Entry& one = entry(id);
  if (is_member(id) || !can_claim(one)) {
    return false;
  }
  if (one.preemptible && !runners_.empty() && would_fit_in_pieces(turn_charge(id))) {
    return true;
  }
  return may_claim_by_share(id);
}

// What of it depends on its own queue alone.
bool Engine::Impl::may_claim_by_share(WorkloadId id) const {
  const Entry& one = entry(id);
  const QueueTree& tree = quotas.tree;
  const QueueSpec& spec = tree.spec(one.leaf);
  const Charge& charge = turn_charge(id);
  const auto within = [&](Entitlement share) {
    return !tree.within(one.leaf, tree.parent(one.leaf), charge, share, one.preemptible).refused();
  };
  if (spec.reclaim != ReclaimRight::never && within(Entitlement::deserved)) {
    return true;
  }
  if (spec.reclaim == ReclaimRight::fair_share && within(Entitlement::fair)) {
    return true;
  }
  if (spec.preempt == PreemptRight::never) {
    return false;
  }
  const auto inside = runners_.find(one.leaf);
  return inside != runners_.end() && inside->second.begin()->priority < one.options.priority;
}

// True when others were asked to leave and their room is promised to it.
bool Engine::Impl::try_claim(WorkloadId id) {
  if (!quotas.active() || suppositions > 0) {
    return false;
  }
  Entry& one = at(id);
  const bool in_line = waiting.contains(id);
  // Of a kind whose first found nothing no later one does.
  const KindId kind = in_line ? one.kind : kinds.find(kind_key(id));
  if ((!kind.is_none() && failed_before(kind)) || failed_for_another(id)) {
    return false;  // and what it met then still stands in its way
  }
  one.blocked.reset();
  one.searched_fully = true;
  const std::optional<Duration>& patience = one.options.wait_timeout;
  if ((patience.has_value() && one.queued_at + *patience <= now) || !may_claim(id)) {
    return false;
  }
  if (is_delayed(one)) {
    wake_claims_at(one.queued_at + claim_delay(one), TimerKind::rest);
    return false;
  }
  if (claim_steps_ > kMostStepsPerEvent) {
    wake_claims_at(now + kNextTurn, TimerKind::rest);
    return false;
  }
  std::int64_t steps = 0;
  std::optional<ClaimPlan> plan;
  {
    StageBook::Scope stage(stages, StageId::claim);
    ClaimSearch search(*this, id);
    plan = search.find();
    steps = search.steps() + (search.many_run() ? kStepsAmongMany : kStepsPerSearch);
    claim_steps_ += steps;
    stage.stepped(steps);
    if (!plan.has_value()) {
      one.blocked = search.blocked_by();
      one.searched_fully = search.complete();
      stage.rejected();
    } else if (!config.evictions) {
      const auto leavers = static_cast<std::int64_t>(plan->leavers.size());
      one.blocked = Verdict::Preemption{.considered = leavers, .eviction_cap = leavers};
      plan.reset();
      stage.rejected();
    }
  }
  if (!plan.has_value()) {
    if (is_head(id) && !gang_wish(id).empty()) {
      note_failed(failed_gangs_[gang_wish(id)], steps);
    }
    if (in_line) {
      std::optional<FailedSearch>& failed = claims_of(one.kind).failed;
      note_failed(failed.has_value() ? *failed : failed.emplace(), steps);
    }
    return false;
  }
  carry_out(id, std::move(*plan));
  return true;
}

void Engine::Impl::carry_out(WorkloadId claimant, ClaimPlan plan) {
  if (waiting.contains(claimant)) {
    dequeue(claimant);
  }
  for (ClaimPlan::Leaver& leaver : plan.leavers) {
    const NodeId to = leaver.moves_to != nullptr ? leaver.moves_to->node : NodeId::none();
    start_eviction(leaver.workload, leaver.rule, claimant, to, std::move(leaver.text));
    if (leaver.rule == Evicted::Rule::guarantee || leaver.rule == Evicted::Rule::fair_share) {
      const WorkloadId head = at(leaver.workload).gang;
      displaced_for_[head.is_none() ? leaver.workload : head].insert(at(claimant).leaf);
    }
  }
  for (Planned& planned : plan.places) {
    const NodeId node = planned.grant->node;
    promise(planned.workload, std::move(planned.grant));
    set_state(planned.workload, EntryState::promised, Cause::preempting);
    improved(node);
  }
  if (is_head(claimant)) {
    promised_gangs_.insert(claimant);
    set_state(claimant, EntryState::promised, Cause::preempting);
    set_wait_timer(claimant);
  }
  for (ClaimPlan::Leaver& leaver : plan.leavers) {
    if (leaver.moves_to != nullptr) {
      hold_for(leaver.workload, std::move(leaver.moves_to));
    }
  }
  for (const ClaimPlan::Leaver& leaver : plan.leavers) {
    const WorkloadId head = at(leaver.workload).gang;
    if (!head.is_none() && !gangs_.at(head).evicting && !has_minimum(gangs_.at(head))) {
      leave_as_a_whole(head);
    }
  }
}

// Books the place to which a workload moves, until it is gone from the old one.
void Engine::Impl::hold_for(WorkloadId mover, std::unique_ptr<Grant> grant) {
  const std::string uid = fmt::format("{} (moving)", at(mover).uid);
  if (!id_of(uid).is_none()) {
    return;  // it waits again like any other
  }
  WorkloadOptions options = at(mover).options;
  options.wait_timeout.reset();
  options.confirm_within.reset();
  const WorkloadId hold =
      new_entry(Workload::task(uid, shapes.at(at(mover).shape).request, options));
  Entry& held = at(hold);
  held.preemptible = at(mover).preemptible;
  held.held_for = mover;
  held.state = EntryState::promised;
  held.cause = Cause::waiting_for_release;
  grant->state = GrantState::promised;
  grant->number = ++grants_made_;
  improved(grant->node);
  book_grant(hold, std::move(grant));
  promised_.insert(hold);
  at(mover).hold = hold;
}

// The workload is gone from its old place: it is promised the one that was held, or it has ended
// and the hold with it.
void Engine::Impl::take_hold(WorkloadId mover, bool moves) {
  const WorkloadId hold = at(mover).hold;
  if (hold.is_none()) {
    return;
  }
  at(mover).hold = WorkloadId::none();
  auto grant = std::make_unique<Grant>(*at(hold).grant);
  drop_grant(hold);
  set_demand(hold, {});
  forget_entry(hold);
  if (moves) {
    const NodeId node = grant->node;
    set_state(mover, EntryState::waiting, Cause::waiting_for_release);
    promise(mover, std::move(grant));
    improved(node);
  }
}

// Something happened by which a claim could come to succeed.
void Engine::Impl::claims_changed() {
  claims_dirty_ = true;
  ++claim_changes_;
}

KindClaims& Engine::Impl::claims_of(KindId kind) {
  if (kind_claims_.size() <= kind.index()) {
    kind_claims_.resize(kind.index() + 1);
  }
  return kind_claims_[kind.index()];
}

bool Engine::Impl::failed_before(KindId kind) {
  std::optional<FailedSearch>& failed = claims_of(kind).failed;
  return failed.has_value() && would_fail_again(*failed);
}

// Whether it is a gang like another one for which a search found nothing.
bool Engine::Impl::failed_for_another(WorkloadId head) {
  if (!is_head(head) || failed_gangs_.empty()) {
    return false;
  }
  const auto failed = failed_gangs_.find(gang_wish(head));
  return failed != failed_gangs_.end() && would_fail_again(failed->second);
}

// Whether nothing happened since then. A search that took long is not repeated at every event
// either, and the less often the more often it failed: who has a reason to ask meanwhile is woken
// when it has rested.
bool Engine::Impl::would_fail_again(FailedSearch& failed) {
  if (failed.changes == claim_changes_) {
    return true;
  }
  if (failed.rests_until <= now) {
    return false;
  }
  if (!failed.told) {
    wake_claims_at(failed.rests_until, TimerKind::rest);
    failed.told = trials == 0;
  }
  return true;
}

void Engine::Impl::note_failed(FailedSearch& failed, std::int64_t steps) const {
  failed.changes = claim_changes_;
  failed.rests_until = now;
  failed.told = false;
  if (steps > kCheapSearch) {
    const std::int64_t rest = std::max(kLeastPauseMs, steps * kPausePerStepMs);
    failed.rests_until =
        now + Duration(std::min(kLongestPauseMs, rest << std::min(failed.times, kMostDoublings)));
    ++failed.times;
  }
}

// `claims`: by then somebody may leave who may not yet. `rest`: only who asks is let do so.
void Engine::Impl::wake_claims_at(Time time, TimerKind kind) {
  if (time > now && trials == 0) {  // one that is due already would fire for ever
    timers_.set({.due = time, .kind = kind, .workload = WorkloadId::none()});
  }
}

// As would_fit_in_pieces(), which many kinds ask of few charges between two bookings.
bool Engine::Impl::fits_in_pieces(const Charge& charge) {
  constexpr std::size_t kMostKnown = 64;
  const std::uint64_t standing = quotas.tree.changes(kRootQueue);
  const std::uint64_t capacity = quotas.capacity_version();
  auto known = std::ranges::find(known_pieces_, charge, &KnownPieces::charge);
  if (known != known_pieces_.end() && known->standing == standing && known->capacity == capacity) {
    return known->fits;
  }
  if (known == known_pieces_.end()) {
    if (known_pieces_.size() >= kMostKnown) {
      known_pieces_.clear();
    }
    known_pieces_.push_back({.charge = charge});
    known = known_pieces_.end() - 1;
  }
  known->standing = standing;
  known->capacity = capacity;
  known->fits = would_fit_in_pieces(charge);
  return known->fits;
}

// May the first of the kind claim? The shares of all queues are settled.
bool Engine::Impl::first_may_claim(KindId kind) {
  KindClaims& known = kind_claims_[kind.index()];
  if (!known.known || known.standing != quotas.tree.changes(known.leaf) ||
      known.capacity != quotas.capacity_version()) {
    const WorkloadId first = waiting.first_of(kind, now);
    const Entry& one = entry(first);
    if (is_head(first) || is_member(first)) {
      return !failed_for_another(first) && may_claim(first);
    }
    known.known = true;
    known.leaf = one.leaf;
    known.standing = quotas.tree.changes(one.leaf);
    known.capacity = quotas.capacity_version();
    const bool can = can_claim(one);
    known.by_share = can && may_claim_by_share(first);
    known.by_pieces = can && one.preemptible;
    known.charge = turn_charge(first);
  }
  return known.by_share || (known.by_pieces && !runners_.empty() && fits_in_pieces(known.charge));
}

// Kinds that wait and might have a claim now.
void Engine::Impl::wake_claimants(std::set<KindId>& woken) {
  if (!claims_dirty_ || !quotas.active()) {
    return;
  }
  claims_dirty_ = false;
  if (may_be_asked_ == 0) {
    return;  // nobody could leave
  }
  quotas.tree.settle();
  wake_steps_ += std::ssize(waiting.kinds());
  for (const KindId kind : waiting.kinds()) {
    std::optional<FailedSearch>& failed = kind_claims_[kind.index()].failed;
    if (!(failed.has_value() && would_fail_again(*failed)) && first_may_claim(kind)) {
      woken.insert(kind);
    }
  }
}

// Queues that are being emptied: what runs there has to leave.
void Engine::Impl::drain_queues() {
  if (granting_held_ || !config.evictions) {
    return;  // when it is lifted, or never
  }
  std::vector<WorkloadId> leaving;
  for (const auto& [leaf, runners] : runners_) {
    if (quotas.tree.stop(leaf) != QueueStop::hold_and_drain) {
      continue;
    }
    for (const Runner& runner : runners) {
      if (!at(runner.id).evicting) {
        leaving.push_back(runner.id);
      }
    }
  }
  for (const WorkloadId id : leaving) {
    start_eviction(id, Evicted::Rule::drain, WorkloadId::none(), NodeId::none(),
                   fmt::format("queue {} is being emptied (stop: holdAndDrain); another queue, or "
                               "stop: none, keeps the work",
                               quotas.tree.path_name(at(id).leaf)));
  }
}

}  // namespace berth::core
