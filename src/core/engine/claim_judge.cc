// One set of victims judged: the claimant's place, who is placed again, whose rights hold, what it
// costs, and what the victims are told.
#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "core/engine/claim_search.h"
#include "core/engine/sentence_words.h"

namespace berth::core {

// As if the units, and whatever is being released, were gone.
void ClaimSearch::take_out(Scratch& scratch, const std::vector<const ClaimUnit*>& set) {
  for (const ClaimUnit* unit : set) {
    for (const WorkloadId id : unit->members) {
      if (!scratch.is_out(id)) {
        scratch.take_out(id);
      }
    }
  }
  if (!released_.has_value()) {
    engine_.take_out_releasing(scratch);
  }
}

// I2: those who are lost can leave one after the other, each from a queue that is above its share
// then. A gang that is lost whole leaves as one.
bool ClaimSearch::may_lose(Mode mode, const std::vector<WorkloadId>& lost) {
  if (mode == Mode::consolidate || mode == Mode::preempt || mode == Mode::backfill) {
    return true;
  }
  std::vector<Leaving> units;
  for (const WorkloadId id : lost) {
    const Entry& entry = engine_.entry(id);
    const bool together = !entry.gang.is_none() && whole_.contains(entry.gang);
    const auto with = std::ranges::find_if(
        units, [&](const Leaving& unit) { return together && unit.gang == entry.gang; });
    Leaving& unit = with == units.end() ? units.emplace_back() : *with;
    unit.gang = together ? entry.gang : WorkloadId::none();
    unit.leaf = entry.leaf;
    unit.members.push_back(id);
    merge(unit.held, entry.charge);
    for (const ChargePart& part : entry.charge.parts) {
      unit.mib += part.mib;
    }
  }
  std::ranges::stable_sort(units, {}, &Leaving::mib);  // where few leave, the last may be large
  Scratch scratch(engine_);
  return leave_in_turn(mode, scratch, std::move(units));
}

// Every order of a few; of many, the smallest first.
bool ClaimSearch::leave_in_turn(Mode mode, Scratch& scratch, std::vector<Leaving> units) {
  constexpr std::size_t kMostPermuted = 5;
  const bool permuted = units.size() <= kMostPermuted;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (!queue_may_lose(units[i].leaf, mode, &units[i].held)) {
      continue;
    }
    const std::size_t mark = scratch.mark();
    for (const WorkloadId id : units[i].members) {
      scratch.take_out(id);
    }
    std::vector<Leaving> rest = units;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    if (leave_in_turn(mode, scratch, std::move(rest))) {
      return true;
    }
    if (!permuted) {
      return false;
    }
    scratch.undo_to(mark);
  }
  return units.empty();
}

bool ClaimSearch::goes(WorkloadId id, const std::vector<const ClaimUnit*>& set) const {
  const Entry& entry = engine_.entry(id);  // who is only supposed to run holds nothing
  return (entry.holds() && entry.grant->state == GrantState::releasing) ||
         std::ranges::any_of(set, [&](const ClaimUnit* unit) {
           return std::ranges::find(unit->members, id) != unit->members.end();
         });
}

// Whether one of the nodes that the set leaves could then take the claimant. Cheap, and right when
// it says no: nothing else about the task's chances changes.
bool ClaimSearch::opens_a_node(const std::vector<const ClaimUnit*>& set) const {
  if (!quota_open_) {
    return true;
  }
  const ShapeId shape = engine_.entry(claimant_).shape;
  std::vector<NodeId> asked;
  for (const ClaimUnit* unit : set) {
    for (const WorkloadId id : unit->members) {
      const NodeId node = engine_.entry(id).grant->node;
      if (std::ranges::find(asked, node) != asked.end()) {
        continue;
      }
      asked.push_back(node);
      const PlacementIndex::NodeState state =
          engine_.node_without(node, [&](WorkloadId other) { return goes(other, set); });
      if (engine_.index.judge(shape, node, state, ~std::uint64_t{0}).cause == Cause::none) {
        return true;
      }
    }
  }
  return false;
}

bool ClaimSearch::place_claimant(Scratch& scratch) {
  ++steps_;
  if (engine_.is_head(claimant_)) {
    return engine_.plan_minimum(claimant_, scratch);
  }
  return engine_.plan_task(claimant_, scratch);
}

// I5: with the claimant the leaf holds no more than before, or than its share.
bool ClaimSearch::leaf_may_grow() const {
  const QueueTree& tree = engine_.quotas.tree;
  const std::vector<QuotaDimensionId> all = tree.dimensions_of(charge_);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ExactSum before = i < leaf_before_.size() ? leaf_before_[i] : ExactSum();
    if (tree.rises(leaf_, charge_, all[i], before)) {
      return false;
    }
  }
  return true;
}

// I1, I3 and I5 in the state in which the victims are out and the claimant is not yet in.
bool ClaimSearch::rights_hold(Mode mode, const std::vector<WorkloadId>& lost) {
  if (mode == Mode::consolidate || mode == Mode::backfill) {
    return true;
  }
  if ((mode == Mode::preempt || mixed_) && !leaf_may_grow()) {
    return false;
  }
  if (mode == Mode::preempt) {
    return true;
  }
  return std::ranges::all_of(lost, [&](WorkloadId id) {
    const QueueId leaf = engine_.entry(id).leaf;
    return leaf == leaf_ || side_may_take_from(leaf, mode);
  });
}

// I3: no victim could take it back as its guarantee. The claimant is in. A gang that left whole
// would claim as one, with its minimum.
bool ClaimSearch::survives_reversal(const std::vector<WorkloadId>& lost) {
  const QueueTree& tree = engine_.quotas.tree;
  return std::ranges::none_of(lost, [&](WorkloadId id) {
    const Entry& victim = engine_.entry(id);
    if (victim.leaf == leaf_) {
      return false;
    }
    const bool whole = !victim.gang.is_none() && whole_.contains(victim.gang);
    const Charge charge = whole ? engine_.minimum_charge(engine_.gang(victim.gang), 0)
                                : engine_.quotas.charge_of(*victim.grant);
    const QueueId ancestor = ancestor_with(victim.leaf);
    return !tree.within(victim.leaf, ancestor, charge, Entitlement::deserved, true).refused() &&
           std::ranges::any_of(tree.dimensions_of(charge), [&](QuotaDimensionId d) {
             return tree.amount_of(charge_, d) > 0 &&
                    tree.above(leaf_, ancestor, d, Entitlement::deserved);
           });
  });
}

// Where there is room, what left is placed again. Returns those for which there is none: members of
// a gang of which one is lost are all lost.
std::vector<WorkloadId> ClaimSearch::place_again(Mode mode, Scratch& scratch,
                                                 const std::vector<const ClaimUnit*>& set,
                                                 Again again) {
  std::vector<WorkloadId> movers;
  std::vector<WorkloadId> lost;
  std::set<WorkloadId> seen;
  whole_.clear();
  for (const ClaimUnit* unit : set) {
    for (const WorkloadId id : unit->members) {
      if (unit->breaks_gang) {
        whole_.insert(engine_.entry(id).gang);
      }
    }
  }
  for (const ClaimUnit* unit : set) {
    for (const WorkloadId id : unit->members) {
      if (!seen.insert(id).second) {
        continue;
      }
      const Entry& entry = engine_.entry(id);
      const bool may = entry.options.restartable && !whole_.contains(entry.gang) &&
                       (mode == Mode::consolidate ||
                        (engine_.entry(claimant_).preemptible && may_leave(id, Mode::consolidate)));
      (may ? movers : lost).push_back(id);
    }
  }
  // The largest first: small ones fit beside it.
  std::ranges::stable_sort(movers, std::greater<>(), [&](WorkloadId id) {
    std::int64_t mib = 0;
    for (const DeviceCharge& charge : engine_.entry(id).grant->charges) {
      mib += charge.running_mib;
    }
    return mib;
  });
  std::ranges::stable_partition(movers, [&](WorkloadId id) { return id == first_again_; });
  movers_ = movers;
  placed_again_ = 0;
  for (const WorkloadId id : movers) {
    const bool may = again == Again::all ||
                     (again == Again::of_others && engine_.entry(id).leaf != leaf_) ||
                     (again == Again::chosen && std::ranges::find(chosen_, id) != chosen_.end());
    if (may && placed_again_ < kMostMoves && engine_.plan_task(id, scratch)) {
      ++placed_again_;
      continue;
    }
    lost.push_back(id);
    if (mode == Mode::consolidate) {
      break;  // where nobody may be lost, one is as bad as all
    }
  }
  return lost;
}

// Thousandths of devices that the grant holds.
std::int64_t ClaimSearch::milli_devices(const Grant& grant) const {
  std::int64_t milli = 0;
  for (const DeviceCharge& charge : grant.charges) {
    const std::int64_t usable =
        std::max<std::int64_t>(1, engine_.fleet.device(charge.device).usable_mib());
    milli += charge.exclusive ? 1000 : 1000 * charge.running_mib / usable;
  }
  return milli;
}

ClaimSearch::Cost ClaimSearch::cost_of(Mode mode, const std::vector<const ClaimUnit*>& set,
                                       const std::vector<WorkloadId>& lost) {
  Cost cost{.bare = std::ranges::count_if(
                lost, [&](WorkloadId id) { return !engine_.entry(id).options.restartable; }),
            .below_deserved = 0,
            .gangs_broken = static_cast<std::int64_t>(whole_.size()),
            .highest_priority = std::numeric_limits<std::int64_t>::min(),
            .lost = 0,
            .count = static_cast<std::int64_t>(lost.size()),
            .nodes = 0,
            .earlier = 0,
            .uids = {}};
  std::set<NodeId> nodes;
  std::set<WorkloadId> seen;
  for (const ClaimUnit* unit : set) {
    for (const WorkloadId id : unit->members) {
      if (!seen.insert(id).second) {
        continue;
      }
      const Entry& entry = engine_.entry(id);
      const std::int64_t elapsed =
          std::max<std::int64_t>(1, (engine_.now - entry.grant->granted_at).count());
      cost.lost += elapsed * milli_devices(*entry.grant);
      nodes.insert(entry.grant->node);
      cost.highest_priority = std::max(cost.highest_priority, entry.options.priority);
      cost.earlier -= entry.member_index;
      cost.uids.push_back(entry.uid);
    }
  }
  std::ranges::sort(cost.uids);
  cost.nodes = static_cast<std::int64_t>(nodes.size());
  std::set<QueueId> below;
  for (const WorkloadId id : lost) {
    const QueueId leaf = engine_.entry(id).leaf;
    for (const QuotaDimensionId d : short_) {
      if (mode != Mode::preempt && leaf != leaf_ && engine_.quotas.tree.below_deserved(leaf, d)) {
        below.insert(leaf);
      }
    }
  }
  cost.below_deserved = static_cast<std::int64_t>(below.size());
  return cost;
}

// The set as a whole. Where some of those who leave find another place and others do not, it may
// matter who; and who does still counts in its queue: where that breaks a right they may be lost,
// those of the claimant's own queue first.
std::optional<ClaimSearch::Found> ClaimSearch::judge(Mode mode,
                                                     const std::vector<const ClaimUnit*>& set) {
  constexpr std::size_t kFew = 4;
  movers_.clear();
  placed_again_ = 0;
  std::optional<Found> best = judge_so(mode, set, Again::all);
  if (placed_again_ == 0 || mode == Mode::consolidate) {
    return best;
  }
  const auto keep = [&](Again again) {
    ++steps_;
    std::optional<Found> found = judge_so(mode, set, again);
    if (found.has_value() && (!best.has_value() || found->cost < best->cost)) {
      best = std::move(found);
    }
  };
  const std::vector<WorkloadId> movers = movers_;
  if (placed_again_ < movers.size() && movers.size() <= kFew) {
    for (const WorkloadId first : movers) {
      first_again_ = first;
      keep(Again::all);
      if (mixed_) {
        keep(Again::of_others);
      }
    }
    first_again_ = WorkloadId::none();
  }
  // Work of two queues leaves: who of which one moves decides about the rights of both.
  if (mixed_ && movers.size() > 1 && movers.size() <= kFew) {
    for (std::uint32_t mask = 1; mask + 1 < std::uint32_t{1} << movers.size(); ++mask) {
      chosen_.clear();
      for (std::size_t i = 0; i < movers.size(); ++i) {
        if ((mask >> i & 1U) != 0) {
          chosen_.push_back(movers[i]);
        }
      }
      keep(Again::chosen);
    }
  }
  if (!best.has_value() && mixed_) {
    keep(Again::of_others);
  }
  if (!best.has_value()) {
    keep(Again::nobody);
  }
  return best;
}

// Its rights, the claimant's place, and what becomes of those who leave.
std::optional<ClaimSearch::Found> ClaimSearch::judge_so(Mode mode,
                                                        const std::vector<const ClaimUnit*>& set,
                                                        Again again) {
  if (!opens_a_node(set)) {
    ++steps_;
    return std::nullopt;
  }
  const Charge asked = charge_;
  Scratch scratch(engine_);
  take_out(scratch, set);
  const std::size_t mark = scratch.mark();
  if (!place_claimant(scratch)) {
    return std::nullopt;
  }
  const std::vector<WorkloadId> own = scratch.planned_since(mark);
  const std::vector<WorkloadId> lost = place_again(mode, scratch, set, again);
  if (mode == Mode::consolidate && !lost.empty()) {
    return std::nullopt;
  }
  // What it takes where it stands decides about rights.
  charge_ = {};
  for (const WorkloadId id : own) {
    merge(charge_, engine_.entry(id).charge);
  }
  bool good = false;
  {
    const Scratch::Aside aside(scratch, own);  // I1 is asked without the claimant
    good = rights_hold(mode, lost);
  }
  good = good && (mode != Mode::fair_share || survives_reversal(lost));
  const std::int64_t cap = engine_.quotas.tree.spec(leaf_).evictions.per_claim;
  const bool capped = good && (mode != Mode::guarantee || mixed_) && cap != kNoCap &&
                      static_cast<std::int64_t>(lost.size()) > cap;
  over_caps_ += capped ? 1 : 0;
  Found found;
  found.cost = cost_of(mode, set, lost);
  charge_ = asked;
  if (!good || capped) {
    return std::nullopt;
  }
  constexpr std::array kRules{Evicted::Rule::consolidation, Evicted::Rule::guarantee,
                              Evicted::Rule::fair_share, Evicted::Rule::priority,
                              Evicted::Rule::backfill};
  std::set<WorkloadId> seen;
  for (const ClaimUnit* unit : set) {
    for (const WorkloadId id : unit->members) {
      if (!seen.insert(id).second) {
        continue;
      }
      const Grant* moved = scratch.planned_for(id);
      const Mode rule = mixed_ && engine_.entry(id).leaf == leaf_ ? Mode::preempt : mode;
      found.plan.leavers.push_back(
          {.workload = id,
           .rule = moved != nullptr ? Evicted::Rule::consolidation
                                    : kRules[static_cast<std::size_t>(rule)],
           .moves_to = moved != nullptr ? std::make_unique<Grant>(*moved) : nullptr,
           .text = reason(moved != nullptr ? Mode::consolidate : rule, id)});
    }
  }
  for (const WorkloadId id : own) {
    found.plan.places.push_back(
        {.workload = id, .grant = std::make_unique<Grant>(*scratch.planned_for(id))});
  }
  scratch.undo_to(0);
  if (!may_lose(mode, lost)) {
    return std::nullopt;
  }
  return found;
}

// Who, by which rule, the shares of both sides before it, and how to avoid it.
std::string ClaimSearch::reason(Mode mode, WorkloadId victim) const {
  const QueueTree& tree = engine_.quotas.tree;
  const Entry& entry = engine_.entry(victim);
  const std::string& who = engine_.entry(claimant_).uid;
  if (mode == Mode::consolidate) {
    return fmt::format(
        "moved so that {} of queue {} finds one place that is large enough; restartable: "
        "false keeps it where it is",
        who, tree.path_name(leaf_));
  }
  if (mode == Mode::preempt) {
    return fmt::format(
        "priority {} in queue {}, and {} with priority {} needs its place; a priority "
        "of at least {}, or preemptible: false within what the queue deserves, keeps it",
        entry.options.priority, tree.path_name(leaf_), who,
        engine_.entry(claimant_).options.priority, engine_.entry(claimant_).options.priority);
  }
  const Entitlement share = share_by(mode);
  const QuotaDimensionId d = short_.front();
  const QueueId ancestor = ancestor_with(entry.leaf);
  const QueueId theirs = side_below(ancestor, entry.leaf);
  const QueueId ours = side_below(ancestor, leaf_);
  const QuotaFigures from = tree.figures(theirs, d);
  const QuotaFigures to = tree.figures(ours, d);
  const std::string dimension = tree.dimension_name(d);
  const auto amount = [&](std::int64_t value) { return quota_text(value, dimension); };
  return fmt::format(
      "{} of queue {} takes back its {}: of {}, {} holds {} after this and its {} is {}; {} will "
      "hold {} of its {}. More `deserved` for {}, or preemptible: false within it, keeps the work",
      who, tree.path_name(leaf_), mode == Mode::guarantee ? "guarantee" : "fair share", dimension,
      tree.path_name(theirs), amount(from.alloc - from.releasing),
      mode == Mode::guarantee ? "guarantee" : "share", amount(tree.share(theirs, d, share)),
      tree.path_name(ours), amount(to.alloc - to.releasing), amount(tree.share(ours, d, share)),
      tree.path_name(theirs));
}

}  // namespace berth::core
