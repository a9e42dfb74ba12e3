#include "core/engine/trial.h"

#include <algorithm>
#include <tuple>

#include "core/engine/claim_search.h"

namespace berth::core {

namespace {

constexpr std::int64_t kMostTurns = 4'000;    // in all passes of a trial
constexpr int kMostClaims = 16;               // that are looked for
constexpr std::int64_t kClaimBudget = 1'000;  // steps of each

}  // namespace

bool Trial::Key::operator<(const Key& other) const {
  return std::tie(other.priority, queued_at, uid) < std::tie(priority, other.queued_at, other.uid);
}

Trial::Trial(Engine::Impl& engine, WorkloadId who)
    : engine_(engine),
      who_(who),
      now_(engine.now),
      stages_(engine.stages),
      search_budget_(engine.config.search_budget),
      gang_reservations_(engine.gang_reservations_),
      freed_(engine.ledger),
      scratch_(engine) {
  ++engine_.trials;
}

Trial::~Trial() {
  --engine_.trials;
  scratch_.undo_to(0);
  for (const WorkloadId id : asks_no_more_) {
    engine_.quotas.tree.add_demand(engine_.entry(id).leaf, engine_.entry(id).demand);
  }
  engine_.now = now_;
  engine_.stages = stages_;
  for (const WorkloadId id : placed_) {
    engine_.at(id).supposed_started = false;
  }
  engine_.gang_reservations_ = std::move(gang_reservations_);
  for (auto& [head, before] : gangs_) {
    GangState& state = engine_.gangs_.at(head);
    state.shortage = std::move(before.first);
    state.turn = std::move(before.second);
  }
}

void Trial::free_memory(DeviceId device, std::int64_t bytes) {
  freed_.free_memory(device, bytes);
  touched_.insert(engine_.fleet.node_of(device));
  improved_.insert(engine_.fleet.node_of(device));
  more_capacity_ = true;
}

void Trial::end(WorkloadId workload, bool comes_back) {
  comes_back = comes_back && engine_.never_cause(workload) == Cause::none;
  touched_.insert(engine_.entry(workload).grant->node);
  improved_.insert(engine_.entry(workload).grant->node);
  scratch_.take_out(workload);
  for (QueueId at = engine_.entry(workload).leaf;
       engine_.quotas.counting() && !at.is_none() && lighter_.insert(at).second;) {
    at = engine_.quotas.tree.parent(at);
  }
  const WorkloadId gang = engine_.entry(workload).gang;
  const WorkloadId waits_again = gang.is_none() ? workload : gang;
  if (!comes_back) {
    ask_no_more(workload);
  }
  if (comes_back && std::ranges::find(back_, waits_again) == back_.end()) {
    back_.push_back(waits_again);
  }
}

void Trial::end_rest_of(WorkloadId gang) {
  ended_gangs_.insert(gang);
  engine_.for_members(gang, [&](WorkloadId member) { ask_no_more(member); });
}

void Trial::ask_no_more(WorkloadId workload) {
  const Entry& one = engine_.entry(workload);
  if (engine_.quotas.counting() && !one.demand.parts.empty() &&
      asks_no_more_.insert(workload).second) {
    engine_.quotas.tree.remove_demand(one.leaf, one.demand);
  }
}

bool Trial::waits_no_more(WorkloadId id) const {
  return placed_.contains(id) || ended_gangs_.contains(engine_.entry(id).gang);
}

Trial::Key Trial::key_of(WorkloadId id) const {
  const Entry& one = engine_.entry(id);
  return {.priority = engine_.waiting.contains(id)
                          ? engine_.waiting.effective_priority(id, engine_.now)
                          : engine_.effective_priority(one),
          .queued_at = one.queued_at,
          .uid = one.uid};
}

// Whom the pass would look at (Impl::woken_kinds): those whom a node that improved could help,
// those whom a queue held up that holds less now, and those who may have a claim.
std::set<KindId> Trial::woken() {
  std::set<KindId> woken;
  std::int64_t steps = 0;
  for (const NodeId node : improved_) {
    engine_.add_helped_by(node, woken, steps);
  }
  if (!engine_.quotas.active()) {
    return woken;
  }
  for (const auto& [kind, queues] : engine_.quota_waits_) {
    if (more_capacity_ ||
        std::ranges::any_of(queues, [&](QueueId queue) { return lighter_.contains(queue); })) {
      woken.insert(kind);
    }
  }
  for (const KindId kind : engine_.waiting.kinds()) {
    const std::optional<FailedSearch>& failed = engine_.claims_of(kind).failed;
    const bool rests = failed.has_value() && failed->rests_until > engine_.now;
    if (engine_.may_be_asked_ > 0 && !rests &&
        engine_.may_claim(engine_.waiting.first_of(kind, engine_.now))) {
      woken.insert(kind);
    }
  }
  return woken;
}

std::map<QueueId, Trial::Line> Trial::lines() {
  const std::set<KindId> woken = this->woken();
  std::map<QueueId, std::vector<std::pair<Key, WorkloadId>>> keyed;
  const auto add = [&](WorkloadId id) {
    const bool is_back = !engine_.waiting.contains(id);
    if (!waits_no_more(id) && (is_back || woken.contains(engine_.entry(id).kind))) {
      const QueueId leaf = engine_.quotas.active() ? engine_.entry(id).leaf : kRootQueue;
      keyed[leaf].emplace_back(key_of(id), id);
    }
  };
  std::ranges::for_each(engine_.waiting.ordered(engine_.now), add);
  std::ranges::for_each(back_, add);
  std::map<QueueId, Line> lines;
  for (auto& [leaf, line] : keyed) {
    std::ranges::stable_sort(line, [](const auto& a, const auto& b) { return b.first < a.first; });
    for (const auto& [key, id] : line) {
      lines[leaf].push_back(id);
    }
  }
  return lines;
}

QueueId Trial::next_leaf(const std::map<QueueId, Line>& lines) const {
  for (const auto& [leaf, line] : lines) {
    if (!line.empty() && engine_.is_missed(line.back())) {
      return leaf;
    }
  }
  return engine_.quotas.active() ? engine_.quotas.tree.next().value_or(QueueId::none())
                                 : kRootQueue;
}

// After a pass they plan anew where they will start, and what they leave may go to anybody.
bool Trial::others_wait_as_gangs() const {
  return std::ranges::any_of(engine_.waiting.ordered(engine_.now), [this](WorkloadId id) {
    return id != who_ && engine_.is_head(id) && !waits_no_more(id);
  });
}

Trial::Answer Trial::pass(bool last) {
  stayed_.clear();
  kept_.clear();
  all_kept_ = false;
  last_ = last;
  if (unsure_ || promises_would_move() || (passes_++ > 0 && others_wait_as_gangs())) {
    return Answer::unknown;
  }
  std::map<QueueId, Line> all = lines();
  const Answer answer = play(all);
  for (const auto& [leaf, line] : all) {
    if (engine_.quotas.active()) {
      engine_.quotas.tree.clear_head(leaf);
    }
  }
  lighter_.clear();
  improved_.clear();
  return answer;
}

Trial::Answer Trial::play(std::map<QueueId, Line>& lines) {
  const bool race = engine_.quotas.active();
  const auto announce = [&](QueueId leaf) {
    if (!race) {
      return;
    }
    if (lines[leaf].empty()) {
      engine_.quotas.tree.clear_head(leaf);
    } else {
      engine_.quotas.tree.set_head(leaf, engine_.turn_charge(lines[leaf].back()));
    }
  };
  for (const auto& [leaf, line] : lines) {
    announce(leaf);
  }
  std::set<KindId> failed;
  while (true) {
    const QueueId leaf = next_leaf(lines);
    if (leaf.is_none() || lines[leaf].empty()) {
      return Answer::waits;
    }
    const WorkloadId id = lines[leaf].back();
    lines[leaf].pop_back();
    announce(leaf);
    const KindId kind = engine_.waiting.contains(id) ? engine_.entry(id).kind
                                                     : engine_.kinds.find(engine_.kind_key(id));
    if (!kind.is_none() && failed.contains(kind)) {
      if (id == who_ && last_) {
        return Answer::waits;
      }
      continue;
    }
    if (++steps_ > kMostTurns) {
      return Answer::unknown;
    }
    const Turn turn = try_one(id);
    if (turn == Turn::unknown) {
      return Answer::unknown;
    }
    if (id == who_ && (turn == Turn::started || last_)) {
      return turn == Turn::started ? Answer::starts : Answer::waits;
    }
    if (turn == Turn::stays && !kind.is_none()) {
      failed.insert(kind);
    }
    announce(leaf);  // who started there counts now
  }
}

Trial::Turn Trial::try_one(WorkloadId id) {
  const Entry& one = engine_.entry(id);
  const bool is_gang = engine_.is_head(id);
  if (is_gang && std::ranges::find(back_, id) != back_.end()) {
    return Turn::unknown;  // a gang that has run comes back with its past
  }
  if (engine_.is_strict(one)) {
    const WorkloadId head = engine_.waiting.head_of(one.pool, engine_.now);
    if (!head.is_none() && waits_no_more(head)) {
      return Turn::unknown;  // who is the first there now?
    }
    if (engine_.behind_head(id)) {
      return stays(id);
    }
  }
  if (id == who_ && !stayed_.empty()) {
    expect_reservations();
  }
  const std::size_t mark = scratch_.mark();
  const Turn turn = is_gang ? try_gang(id) : try_task(id);
  if (turn != Turn::started) {
    scratch_.undo_to(mark);
    return turn == Turn::stays ? stays(id) : turn;
  }
  if (id == who_ && is_kept_from(mark)) {
    return Turn::unknown;
  }
  started(id, mark);
  return turn;
}

Trial::Turn Trial::stays(WorkloadId id) {
  stayed_.push_back(id);
  return Turn::stays;
}

Trial::Turn Trial::try_task(WorkloadId id) {
  const Entry& one = engine_.entry(id);
  const Shape& shape = engine_.shapes.at(one.shape);
  const QuotaView* quota =
      engine_.quotas.active()
          ? &engine_.quotas.view(shape, one.leaf, one.preemptible, Counting::present)
          : nullptr;
  const Selection selection = engine_.select_for(id, quota);
  if (would_be_promised(id, selection)) {
    return Turn::unknown;
  }
  if (selection.node.is_none()) {
    return would_claim(id) ? Turn::unknown : Turn::stays;
  }
  scratch_.put(id, engine_.make_grant(id, selection.node, engine_.ledger.faces(selection.node),
                                      engine_.index.places(one.shape, selection)));
  return Turn::started;
}

Trial::Turn Trial::try_gang(WorkloadId head) {
  GangState& state = engine_.gangs_.at(head);
  gangs_.try_emplace(head, state.shortage, state.turn);
  if (engine_.existing_in(state, 0) < state.nodes[0].min ||
      (state.not_before.has_value() && *state.not_before > engine_.now)) {
    return Turn::stays;
  }
  const Entry& one = engine_.entry(head);
  bool open = true;
  if (engine_.quotas.active()) {
    state.turn = engine_.minimum_charge(state, 0);
    open = !engine_.quotas.tree.may_start(one.leaf, state.turn, one.preemptible, Counting::present)
                .refused();
  }
  if (open && engine_.plan_gang(head, scratch_)) {
    return Turn::started;
  }
  if (!engine_.releasing_nodes_.empty()) {
    Scratch later(engine_);
    engine_.take_out_releasing(later);
    if (engine_.plan_gang(head, later)) {
      return Turn::unknown;
    }
  }
  return would_claim(head) ? Turn::unknown : Turn::stays;
}

void Trial::started(WorkloadId id, std::size_t mark) {
  placed_.insert(id);
  for (const WorkloadId planned : scratch_.planned_since(mark)) {
    touched_.insert(scratch_.planned_for(planned)->node);
    const std::optional<Duration>& run = engine_.entry(planned).options.max_run;
    const std::optional<Duration>& confirm = engine_.entry(planned).options.confirm_within;
    for (const std::optional<Duration>& span : {run, confirm}) {
      const Time ends = engine_.now + span.value_or(Duration(0));
      first_new_end_ =
          span.has_value() ? std::min(first_new_end_.value_or(ends), ends) : first_new_end_;
    }
  }
  drop_reservations_of(id);
  if (engine_.is_head(id)) {
    engine_.for_members(id, [&](WorkloadId member) {
      unsure_ = unsure_ || (engine_.entry(member).state == EntryState::parked &&
                            scratch_.planned_for(member) == nullptr);
    });
  }
}

// What those had reserved who have their place is nobody's any more (Impl::guard_for).
void Trial::drop_reservations_of(WorkloadId id) {
  engine_.at(id).supposed_started = true;
  for (const auto& [pool, reservation] : engine_.reservations_) {
    if (reservation.holder == id && !reservation.node.is_none()) {
      touched_.insert(reservation.node);
    }
  }
  std::erase_if(engine_.gang_reservations_,
                [&](const auto& one) { return one.second.holder == id; });
}

// Whether it would be given room that is being released, with or without a place at once.
bool Trial::would_be_promised(WorkloadId id, const Selection& now_best) {
  const Entry& one = engine_.entry(id);
  const bool have_place = !now_best.node.is_none();
  if (have_place && !(now_best.opens_idle && engine_.index.policy(one.shape).packs() &&
                      engine_.shapes.at(one.shape).ask(0).is_share())) {
    return false;
  }
  return std::ranges::any_of(engine_.releasing_nodes_, [&](NodeId node) {
    const PlacementIndex::NodeState state = engine_.node_without(node, [&](WorkloadId other) {
      const Entry& holder = engine_.entry(other);
      return holder.holds() && holder.grant->state == GrantState::releasing;
    });
    return engine_.index.judge(one.shape, node, state, ~std::uint64_t{0}).cause == Cause::none;
  });
}

bool Trial::would_claim(WorkloadId id) {
  const Entry& one = engine_.entry(id);
  if (id == who_ && last_) {
    return false;  // not by what was changed
  }
  if (!engine_.quotas.active() || !engine_.config.evictions || !engine_.may_claim(id) ||
      engine_.is_delayed(one)) {
    return false;
  }
  if (!placed_.empty() || ++claims_asked_ > kMostClaims) {
    return true;  // it could ask those who are only supposed to run, too
  }
  engine_.config.search_budget = std::min(search_budget_, kClaimBudget);
  ClaimSearch search(engine_, id);
  engine_.config.search_budget = search_budget_;
  return search.find().has_value() || !search.complete();
}

// What was promised elsewhere is tried again where room came (retry_promised).
bool Trial::promises_would_move() {
  return std::ranges::any_of(engine_.promised_, [&](WorkloadId id) {
    const Entry& one = engine_.entry(id);
    return !one.slot && one.held_for.is_none() && !engine_.waits_with_gang(id) &&
           !one.preferred_promise && std::ranges::any_of(touched_, [&](NodeId node) {
             return node != one.grant->node && engine_.fleet.present(node) &&
                    engine_.index.refusal(one.shape, node) == Cause::none;
           });
  });
}

// All reservations are looked at again once somebody found no place.
void Trial::expect_reservations() {
  std::set<WorkloadId> holders(stayed_.begin(), stayed_.end());
  for (const auto& [pool, reservation] : engine_.reservations_) {
    holders.insert(reservation.holder);
  }
  for (const auto& [pool, reservation] : engine_.gang_reservations_) {
    holders.insert(reservation.holder);
  }
  holders.erase(who_);
  std::erase_if(holders, [&](WorkloadId holder) { return placed_.contains(holder); });
  for (const WorkloadId holder : holders) {
    if (!engine_.ordered_before(who_, holder)) {
      expect_reservation(holder);
    }
  }
}

// Where a workload that stays would have its place kept from the rest of the pass.
void Trial::expect_reservation(WorkloadId id) {
  const PoolId pool = engine_.entry(id).pool;
  const WorkloadId first = engine_.waiting.head_of(pool, engine_.now);
  const bool leads = first == id || first.is_none() || waits_no_more(first) ||
                     std::ranges::find(back_, id) != back_.end();
  if (!engine_.config.reservations || !leads) {
    return;
  }
  if (std::ranges::find(back_, id) != back_.end()) {
    all_kept_ = true;  // it has none yet
    return;
  }
  if (engine_.is_head(id)) {
    expect_reservation_of_gang(id);
  } else if (engine_.may_reserve(id)) {
    expect_reservation_of_task(id);
  }
}

void Trial::expect_reservation_of_task(WorkloadId id) {
  const auto held = engine_.reservations_.find(engine_.entry(id).pool);
  if (held == engine_.reservations_.end() || held->second.holder != id ||
      held->second.node.is_none()) {
    all_kept_ = true;
    return;
  }
  const Reservation& own = held->second;
  for (const NodeId node : touched_) {
    const NodePlan plan = engine_.plan_node(own.shape, node, {});
    if (plan.possible && (node == own.node || better_plan(plan, own.plan))) {
      kept_[node] = ~std::uint64_t{0};
    }
  }
}

void Trial::expect_reservation_of_gang(WorkloadId head) {
  const auto held = engine_.gang_reservations_.find(engine_.entry(head).pool);
  if (held != engine_.gang_reservations_.end() && held->second.holder == head &&
      engine_.now < held->second.planned_at + Engine::Impl::kReplanGangAfter &&
      !(held->second.timed && held->second.at <= engine_.now)) {
    return;  // it stays as it is
  }
  if (!placed_.empty()) {
    all_kept_ = true;  // it may count on the end of what is only supposed to run
    return;
  }
  for (const auto& [node, places] : engine_.plan_gang_ahead(head).places) {
    kept_[node] |= places;
  }
}

bool Trial::is_kept_from(std::size_t mark) const {
  const std::vector<WorkloadId> planned = scratch_.planned_since(mark);
  return all_kept_ || std::ranges::any_of(planned, [&](WorkloadId id) {
           const Grant& grant = *scratch_.planned_for(id);
           const auto kept = kept_.find(grant.node);
           return kept != kept_.end() &&
                  (grant.charges.empty() ||
                   std::ranges::any_of(grant.charges, [&](const DeviceCharge& charge) {
                     return (kept->second >> engine_.fleet.place_of(charge.device) & 1U) != 0;
                   }));
         });
}

}  // namespace berth::core
