// Who could leave for a claim, one by one or as a gang, in the order in which they are tried (I8,
// I10, I11, I12, I14).
#include <algorithm>
#include <map>
#include <set>

#include "core/engine/claim_search.h"

namespace berth::core {

namespace {

constexpr Duration kHour{3'600'000};

}  // namespace

ClaimSearch::ClaimSearch(Engine::Impl& engine, WorkloadId claimant)
    : engine_(engine),
      claimant_(claimant),
      leaf_(engine.entry(claimant).leaf),
      charge_(engine.turn_charge(claimant)),
      budget_(engine.config.search_budget) {
  short_ = short_dimensions();
  if (!engine.is_head(claimant)) {
    const Entry& entry = engine.entry(claimant);
    quota_open_ =
        engine.quotas
            .view(engine.shapes.at(entry.shape), entry.leaf, entry.preemptible, Counting::present)
            .open;
  }
  for (std::size_t i = 0; engine.trials > 0 && i < engine.entries_.size(); ++i) {
    if (engine.entries_[i].supposed_gone) {
      gone_.insert(WorkloadId(i));
    }
  }
  for (const QuotaDimensionId d : engine_.quotas.tree.dimensions_of(charge_)) {
    leaf_before_.push_back(engine_.quotas.tree.held(leaf_, d));
  }
}

// Those in which the fleet has less left than the claimant takes; all where only the pieces are too
// small.
std::vector<QuotaDimensionId> ClaimSearch::short_dimensions() const {
  const QueueTree& tree = engine_.quotas.tree;
  const std::vector<QuotaDimensionId> all = tree.dimensions_of(charge_);
  std::vector<QuotaDimensionId> lacking;
  for (const QuotaDimensionId d : all) {
    if (tree.lacks(charge_, d, Counting::present)) {
      lacking.push_back(d);
    }
  }
  return lacking.empty() ? all : lacking;
}

QueueId ClaimSearch::ancestor_with(QueueId leaf) const {
  return engine_.quotas.tree.lowest_common_ancestor(leaf_, leaf);
}

// The highest queue above the leaf that is still below the ancestor.
QueueId ClaimSearch::side_below(QueueId ancestor, QueueId leaf) const {
  const QueueTree& tree = engine_.quotas.tree;
  while (tree.parent(leaf) != ancestor && !tree.parent(leaf).is_none()) {
    leaf = tree.parent(leaf);
  }
  return leaf;
}

// That is not above the claimant too.
QueueId ClaimSearch::side_of(QueueId leaf) const { return side_below(ancestor_with(leaf), leaf); }

// I4. A claim of one rule cannot be turned round by the arithmetic of shares; one that also makes
// room inside its own queue can, with what has left meanwhile, and would for ever. So it takes
// nothing from those for whose work the claimant itself had to leave.
bool ClaimSearch::would_come_back(QueueId leaf) const {
  const auto found = engine_.displaced_for_.find(claimant_);
  return found != engine_.displaced_for_.end() &&
         std::ranges::any_of(found->second, [&](QueueId other) {
           return other != leaf_ && side_of(other) == side_of(leaf);
         });
}

// Whether the victim's side is above its share in something that the claimant lacks and that the
// victim holds, where it is known what it holds (I2).
bool ClaimSearch::queue_may_lose(QueueId leaf, Mode mode, const Charge* held) const {
  if (mode == Mode::consolidate || mode == Mode::preempt || mode == Mode::backfill ||
      leaf == leaf_) {
    return true;
  }
  if (mixed_ && would_come_back(leaf)) {
    return false;
  }
  return is_above_share(leaf, ancestor_with(leaf), mode, held);
}

// Every queue from the leaf up to the ancestor is, in one of those dimensions.
bool ClaimSearch::is_above_share(QueueId leaf, QueueId ancestor, Mode mode,
                                 const Charge* held) const {
  const QueueTree& tree = engine_.quotas.tree;
  const Entitlement share = share_by(mode);
  return std::ranges::any_of(short_, [&](QuotaDimensionId d) {
    return (held == nullptr || tree.amount_of(*held, d) > 0) &&
           tree.above(leaf, ancestor, d, share);
  });
}

// Whether the claimant's side stays within its share when work of that leaf leaves for it (I1). It
// does not depend on who leaves there: nothing of the leaf is below the queues that are asked.
bool ClaimSearch::side_may_take_from(QueueId leaf, Mode mode) const {
  if (mode != Mode::guarantee && mode != Mode::fair_share) {
    return true;
  }
  return !engine_.quotas.tree
              .within(leaf_, ancestor_with(leaf), charge_, share_by(mode),
                      engine_.entry(claimant_).preemptible)
              .refused();
}

// What a claim is measured by, and how much others may keep.
Entitlement ClaimSearch::share_by(Mode mode) {
  return mode == Mode::guarantee ? Entitlement::deserved : Entitlement::fair;
}

std::int64_t ClaimSearch::over_share(QueueId leaf, Mode mode) const {
  const Entitlement share = share_by(mode);
  std::int64_t most = 0;
  for (const QuotaDimensionId d : short_) {
    const std::int64_t held = engine_.quotas.tree.alloc(leaf, d);
    const std::int64_t due = std::max<std::int64_t>(1, engine_.quotas.tree.share(leaf, d, share));
    most = std::max(most, 1000 * (held / due) + 1000 * (held % due) / due);
  }
  return most;
}

// How long a running workload of the victim's leaf is protected: for reclaim the value of the
// queues from the common ancestor's child upward, for preemption from the leaf upward; the first
// one set counts.
Duration ClaimSearch::protection_of(WorkloadId id, Mode mode) const {
  const QueueTree& tree = engine_.quotas.tree;
  const Entry& entry = engine_.entry(id);
  QueueId from = entry.leaf;
  if (mode != Mode::preempt && entry.leaf != leaf_) {
    from = side_of(entry.leaf);
  }
  for (QueueId at = from; !at.is_none(); at = tree.parent(at)) {
    const MinRuntime& rule = tree.spec(at).min_runtime;
    Duration value = mode == Mode::preempt ? rule.preempt : rule.reclaim;
    std::optional<std::int64_t> closest;
    for (const MinRuntime::ByPriority& one : rule.by_priority) {
      if (one.at_least <= entry.options.priority && (!closest || one.at_least > *closest)) {
        closest = one.at_least;
        value = mode == Mode::preempt ? one.preempt : one.reclaim;
      }
    }
    if (value.count() > 0) {
      return value;
    }
  }
  return Duration(0);
}

bool ClaimSearch::may_leave(WorkloadId id, Mode mode) {
  const Entry& entry = engine_.entry(id);
  const EntryState state = entry.state;
  if (state != EntryState::granted || !entry.holds() || entry.evicting || entry.leaving ||
      id == claimant_ || gone_.contains(id) || entry.grant->state == GrantState::releasing ||
      entry.grant->charges.empty()) {
    return false;
  }
  if (mode == Mode::backfill) {
    return engine_.makes_way(entry);
  }
  const bool inside = entry.leaf == leaf_;
  if ((mode == Mode::preempt) != inside && mode != Mode::consolidate) {
    return false;
  }
  const Kept kept = kept_by(id, mode);
  note(id, mode, kept);
  return kept == Kept::nothing;
}

ClaimSearch::Kept ClaimSearch::kept_by(WorkloadId id, Mode mode) const {
  const Entry& entry = engine_.entry(id);
  if (!entry.preemptible) {
    return Kept::non_preemptible;
  }
  if (mode == Mode::consolidate && !entry.options.restartable) {
    return Kept::not_restartable;
  }
  if (mode == Mode::preempt &&
      entry.options.priority >= engine_.entry(claimant_).options.priority) {
    return Kept::priority;
  }
  const Time since = entry.gang.is_none() ? entry.grant->granted_at
                                          : std::max(engine_.gang(entry.gang).minimum_reached,
                                                     entry.grant->granted_at);
  const Duration protection = protection_of(id, mode);
  if (engine_.now < since + protection) {
    engine_.wake_claims_at(since + protection, TimerKind::claims);
    return Kept::min_runtime;
  }
  if (mode != Mode::guarantee) {
    const std::int64_t cap = engine_.quotas.tree.spec(entry.leaf).evictions.per_workload_per_hour;
    const auto recent =
        std::ranges::count_if(entry.evictions, [&](Time at) { return at + kHour > engine_.now; });
    const bool moves = mode == Mode::consolidate;  // once within an hour, if at all
    const std::int64_t most = moves && cap != 0 ? 1 : cap;
    if (most != kNoCap && recent >= most) {
      if (most > 0) {  // until so many of them are an hour old that one more is allowed
        engine_.wake_claims_at(*(entry.evictions.end() - most) + kHour, TimerKind::claims);
      }
      return Kept::eviction_cap;
    }
  }
  return Kept::nothing;
}

void ClaimSearch::note(WorkloadId id, Mode mode, Kept kept) {
  if (mode == Mode::consolidate) {
    return;
  }
  if (kept_.size() <= id.index()) {
    kept_.resize(id.index() + 1, Kept::not_asked);
  }
  kept_[id.index()] = kept;
  asked_singly_.insert(engine_.entry(id).leaf);
}

// Each workload once.
Verdict::Preemption ClaimSearch::blocked_by() const {
  Verdict::Preemption blocked{.eviction_cap = over_caps_};
  for (std::size_t i = 0; i < within_share_.size(); ++i) {
    const QueueId leaf(i);
    if (!within_share_[i]) {
      continue;
    }
    const std::set<Runner>& runners = engine_.runners_.at(leaf);
    if (!asked_singly_.contains(leaf)) {
      blocked.considered += std::ssize(runners);
      blocked.fair_share += std::ssize(runners);
      continue;
    }
    for (const Runner& runner : runners) {
      const std::size_t at = runner.id.index();
      const bool asked = at < kept_.size() && kept_[at] != Kept::not_asked;
      blocked.considered += asked ? 0 : 1;
      blocked.fair_share += asked ? 0 : 1;
    }
  }
  for (const Kept kept : kept_) {
    blocked.considered += kept == Kept::not_asked ? 0 : 1;
    switch (kept) {
      case Kept::non_preemptible: ++blocked.non_preemptible; break;
      case Kept::priority: ++blocked.priority; break;
      case Kept::min_runtime: ++blocked.min_runtime; break;
      case Kept::fair_share: ++blocked.fair_share; break;
      case Kept::eviction_cap: ++blocked.eviction_cap; break;
      case Kept::not_asked:
      case Kept::nothing:
      case Kept::not_restartable: break;
    }
  }
  return blocked;
}

ClaimUnit ClaimSearch::unit_of(std::vector<WorkloadId> members) const {
  ClaimUnit unit;
  unit.members = std::move(members);
  unit.leaf = engine_.entry(unit.members.front()).leaf;
  unit.priority = engine_.entry(unit.members.front()).options.priority;
  unit.newest = engine_.entry(unit.members.front()).grant->granted_at;
  unit.uid = engine_.entry(unit.members.front()).uid;
  for (const WorkloadId id : unit.members) {
    const Entry& entry = engine_.entry(id);
    unit.priority = std::max(unit.priority, entry.options.priority);
    unit.newest = std::max(unit.newest, entry.grant->granted_at);
    unit.uid = std::min<std::string_view>(unit.uid, entry.uid);
    unit.last = std::max(unit.last, entry.member_index);
    unit.bare = unit.bare || !entry.options.restartable;
  }
  return unit;
}

// The first single tasks of each leaf that may leave, in the order of candidates; all of the lowest
// priority that is found. Looks at few, however many run.
std::vector<ClaimUnit> ClaimSearch::first_tasks(Mode mode) {
  constexpr int kMostLooked = 64;
  constexpr std::size_t kMostTaken = 32;
  std::vector<ClaimUnit> units;
  for (const auto& [leaf, runners] : engine_.runners_) {
    if (mode == Mode::preempt && leaf == leaf_ &&
        runners.begin()->priority >= engine_.entry(claimant_).options.priority) {
      break;  // nobody inside is of lower priority
    }
    if ((mode == Mode::preempt) != (leaf == leaf_) || !queue_may_lose(leaf, mode)) {
      continue;
    }
    const std::int64_t over = mode == Mode::preempt ? 0 : over_share(leaf, mode);
    int looked = 0;
    std::size_t taken = 0;
    for (const Runner& runner : runners) {
      if (++looked > kMostLooked || taken == kMostTaken || !more_steps(1)) {
        break;
      }
      if (engine_.entry(runner.id).gang.is_none() && may_leave(runner.id, mode)) {
        units.push_back(unit_of({runner.id}));
        units.back().over = over;
        ++taken;
      }
    }
  }
  sort_candidates(units);
  return units;
}

// Surplus members by themselves, newest first; the rest only as a whole (I8).
void ClaimSearch::add_gang_units(WorkloadId head, Mode mode, std::vector<ClaimUnit>& units) {
  const GangState& gang = engine_.gang(head);
  std::vector<WorkloadId> all;
  bool whole_may = true;
  engine_.for_members(head, [&](WorkloadId member) {
    if (engine_.entry(member).holds() && !engine_.entry(member).slot) {
      all.push_back(member);
      whole_may = whole_may && may_leave(member, mode);
    }
  });
  if (all.empty() || !gang.started || gang.evicting) {
    return;
  }
  if (mode == Mode::consolidate) {
    for (const WorkloadId member : all) {
      if (may_leave(member, mode)) {
        units.push_back(unit_of({member}));
      }
    }
    return;
  }
  for (std::size_t group = 0; group < gang.nodes.size() && !gang.options.whole_only; ++group) {
    const GangNode& node = gang.nodes[group];
    std::int64_t surplus = node.is_leaf() ? engine_.present_in(gang, group) - node.min : 0;
    std::vector<WorkloadId> newest_first;
    for (const WorkloadId member : node.members) {
      if (engine_.is_present(member)) {
        newest_first.push_back(member);
      }
    }
    std::ranges::sort(newest_first, [&](WorkloadId a, WorkloadId b) {
      const Entry& left = engine_.entry(a);
      const Entry& right = engine_.entry(b);
      return std::tuple(left.options.priority, right.grant->granted_at, right.member_index) <
             std::tuple(right.options.priority, left.grant->granted_at, left.member_index);
    });
    for (const WorkloadId member : newest_first) {
      if (surplus <= 0) {
        break;
      }
      if (may_leave(member, mode)) {
        units.push_back(unit_of({member}));
      }
      --surplus;
    }
  }
  if (whole_may) {
    units.push_back(unit_of(all));
    units.back().breaks_gang = true;
  }
}

// I10, with what nothing starts again last (I14).
void ClaimSearch::sort_candidates(std::vector<ClaimUnit>& units) {
  std::ranges::sort(units, [&](const ClaimUnit& a, const ClaimUnit& b) {
    const auto key = [&](const ClaimUnit& unit) {
      return std::tuple(unit.bare, -unit.over, unit.breaks_gang, unit.priority, -unit.newest.ms(),
                        -unit.last, unit.uid);
    };
    return key(a) < key(b);
  });
}

// Tasks by themselves, and of each gang what may go.
std::vector<ClaimUnit> ClaimSearch::units_among(const std::vector<WorkloadId>& running, Mode mode) {
  std::vector<ClaimUnit> units;
  std::set<WorkloadId> heads;
  for (const WorkloadId id : running) {
    if (const WorkloadId head = engine_.entry(id).gang; !head.is_none()) {
      heads.insert(head);
    } else if (may_leave(id, mode)) {
      units.push_back(unit_of({id}));
    }
  }
  for (const WorkloadId head : heads) {
    add_gang_units(head, mode, units);
  }
  return units;
}

std::vector<ClaimUnit> ClaimSearch::units(Mode mode) {
  std::map<QueueId, bool> may_lose;
  const auto open = [&](QueueId leaf) {
    const auto [at, fresh] = may_lose.try_emplace(leaf, false);
    if (fresh) {
      at->second = queue_may_lose(leaf, mode);
    }
    return at->second;
  };
  std::vector<WorkloadId> running;
  for (const auto& [leaf, runners] : engine_.runners_) {
    const bool inside = leaf == leaf_;
    const bool everywhere = mode == Mode::consolidate || mode == Mode::backfill;
    if (!everywhere && (mode == Mode::preempt) != inside) {
      continue;
    }
    if (!open(leaf)) {
      for (const Runner& runner : runners) {
        note(runner.id, mode, Kept::fair_share);
      }
      continue;
    }
    for (const Runner& runner : runners) {
      const WorkloadId id = runner.id;
      if (!more_steps(1)) {
        break;
      }
      running.push_back(id);
    }
  }
  std::vector<ClaimUnit> units = units_among(running, mode);
  std::map<QueueId, std::int64_t> over;
  for (ClaimUnit& unit : units) {
    const auto [at, fresh] = over.try_emplace(unit.leaf, 0);
    if (fresh && mode != Mode::consolidate && mode != Mode::preempt) {
      at->second = over_share(unit.leaf, mode);
    }
    unit.over = at->second;
  }
  sort_candidates(units);
  return units;
}

}  // namespace berth::core
