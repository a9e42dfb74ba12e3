// Which of those who could leave do: the cheapest set that was found to be enough.
#include "core/engine/claim_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

namespace berth::core {

bool ClaimSearch::more_steps(std::int64_t steps) {
  steps_ += steps;
  return steps_ < budget_;
}

// What the claimant's queue may ask of others at all (I1 at the leaf; the whole side is asked for
// each victim).
bool ClaimSearch::allowed(Mode mode) {
  const Entry& entry = engine_.entry(claimant_);
  const QueueTree& tree = engine_.quotas.tree;
  const QueueSpec& spec = tree.spec(leaf_);
  switch (mode) {
    case Mode::consolidate: return entry.preemptible;
    case Mode::preempt: return spec.preempt == PreemptRight::lower_priority;
    case Mode::guarantee:
    case Mode::fair_share: break;
  }
  if (spec.reclaim == ReclaimRight::never ||
      (mode == Mode::fair_share && spec.reclaim != ReclaimRight::fair_share)) {
    return false;
  }
  const Entitlement share = mode == Mode::guarantee ? Entitlement::deserved : Entitlement::fair;
  return !tree.within(leaf_, tree.parent(leaf_), charge_, share, entry.preemptible).refused();
}

std::optional<ClaimPlan> ClaimSearch::find() {
  for (const Mode mode : {Mode::consolidate, Mode::guarantee, Mode::fair_share, Mode::preempt}) {
    if (!allowed(mode)) {
      continue;
    }
    if (std::optional<Found> found = search(mode); found.has_value()) {
      return std::move(found->plan);
    }
  }
  return std::nullopt;
}

std::optional<ClaimSearch::Found> ClaimSearch::search(Mode mode) {
  const std::vector<ClaimUnit> all = units(mode);
  if (all.empty()) {
    return std::nullopt;
  }
  if (all.size() <= kExactUnits) {
    std::vector<const ClaimUnit*> set;
    for (const ClaimUnit& unit : all) {
      set.push_back(&unit);
    }
    return by_subsets(mode, set);
  }
  if (engine_.is_head(claimant_)) {
    return in_order(mode, all);
  }
  if (std::optional<Found> found = one_by_one(mode, all); found.has_value()) {
    return found;
  }
  std::optional<Found> found = by_nodes(mode, all);
  return found.has_value() || mode == Mode::consolidate ? std::move(found) : in_order(mode, all);
}

// One alone, where none could be cheaper: the first of the lowest priority that there is.
std::optional<ClaimSearch::Found> ClaimSearch::one_by_one(Mode mode,
                                                          const std::vector<ClaimUnit>& units) {
  if (mode == Mode::consolidate) {
    return std::nullopt;
  }
  constexpr int kMostTried = 32;
  std::int64_t lowest = units.front().priority;
  for (const ClaimUnit& unit : units) {
    lowest = std::min(lowest, unit.priority);
  }
  int tried = 0;
  for (const ClaimUnit& unit : units) {
    if (unit.priority != lowest || unit.breaks_gang) {
      continue;
    }
    if (++tried > kMostTried) {
      break;
    }
    std::optional<Found> found = judge(mode, {&unit});
    if (found.has_value()) {
      return found;
    }
  }
  return std::nullopt;
}

std::optional<ClaimSearch::Found> ClaimSearch::by_subsets(
    Mode mode, const std::vector<const ClaimUnit*>& units) {
  {
    // Nothing is enough unless all of them are.
    Scratch scratch(engine_);
    take_out(scratch, units);
    if (!place_claimant(scratch)) {
      return std::nullopt;
    }
  }
  std::optional<Found> best;
  const std::uint32_t sets = std::uint32_t{1} << units.size();
  for (std::uint32_t mask = 1; mask < sets; ++mask) {
    std::vector<const ClaimUnit*> set;
    for (std::size_t i = 0; i < units.size(); ++i) {
      if ((mask >> i & 1U) != 0) {
        set.push_back(units[i]);
      }
    }
    if (!more_steps(static_cast<std::int64_t>(set.size()))) {
      break;
    }
    std::optional<Found> found = judge(mode, set);
    if (found.has_value() && (!best.has_value() || found->cost < best->cost)) {
      best = std::move(found);
    }
  }
  return best;
}

// A task goes to one node: each node's own candidates, few of them exactly.
std::optional<ClaimSearch::Found> ClaimSearch::by_nodes(Mode mode,
                                                        const std::vector<ClaimUnit>& units) {
  std::map<NodeId, std::vector<const ClaimUnit*>> there;
  std::vector<NodeId> order;  // by first candidate
  for (const ClaimUnit& unit : units) {
    for (const WorkloadId id : unit.members) {
      const NodeId node = engine_.entry(id).grant->node;
      std::vector<const ClaimUnit*>& list = there[node];
      if (list.empty()) {
        order.push_back(node);
      }
      if (list.empty() || list.back() != &unit) {
        list.push_back(&unit);
      }
    }
  }
  std::optional<Found> best;
  const ShapeId shape = engine_.entry(claimant_).shape;
  const auto keep = [&](std::optional<Found> found) {
    if (found.has_value() && (!best.has_value() || found->cost < best->cost)) {
      best = std::move(found);
    }
  };
  for (const NodeId node : order) {
    const std::vector<const ClaimUnit*>& list = there[node];
    if (!more_steps(1)) {
      break;
    }
    const auto goes = [&](WorkloadId id) {
      return engine_.entry(id).grant->state == GrantState::releasing ||
             std::ranges::any_of(list, [&](const ClaimUnit* unit) {
               return std::ranges::find(unit->members, id) != unit->members.end();
             });
    };
    const PlacementIndex::NodeState state = engine_.node_without(node, goes);
    if (engine_.index.judge(shape, node, state, ~std::uint64_t{0}).cause != Cause::none) {
      continue;  // not even without all of them
    }
    constexpr std::size_t kExactOnNode = 6;
    if (list.size() <= kExactOnNode) {
      keep(by_subsets(mode, list));
    } else {
      std::vector<const ClaimUnit*> set;
      for (const ClaimUnit* unit : list) {
        set.push_back(unit);
        if (!more_steps(1)) {
          return best;
        }
        if (std::optional<Found> found = judge(mode, set); found.has_value()) {
          keep(judge(mode, without_needless(set)));
          break;
        }
      }
    }
  }
  return best;
}

// In the order of candidates until it is enough, then without what was not needed.
std::optional<ClaimSearch::Found> ClaimSearch::in_order(Mode mode,
                                                        const std::vector<ClaimUnit>& units) {
  std::vector<const ClaimUnit*> usable;
  {
    // Those whose queue is still above its share when their turn comes.
    Scratch scratch(engine_);
    for (const ClaimUnit& unit : units) {
      if (!more_steps(1)) {
        return std::nullopt;
      }
      if (!scratch.is_out(unit.members.front()) && queue_may_lose(unit.leaf, mode)) {
        for (const WorkloadId id : unit.members) {
          if (!scratch.is_out(id)) {
            scratch.take_out(id);
          }
        }
        usable.push_back(&unit);
      }
    }
  }
  const auto enough = [&](std::size_t count) {
    Scratch scratch(engine_);
    const auto end = usable.begin() + static_cast<std::ptrdiff_t>(count);
    take_out(scratch, {usable.begin(), end});
    (void)more_steps(static_cast<std::int64_t>(count));
    return place_claimant(scratch);
  };
  if (usable.empty() || !enough(usable.size())) {
    return std::nullopt;
  }
  std::size_t low = 0;
  std::size_t high = usable.size();
  while (low + 1 < high && more_steps(0)) {
    const std::size_t middle = (low + high) / 2;
    (enough(middle) ? high : low) = middle;
  }
  usable.resize(high);
  return judge(mode, without_needless(std::move(usable)));
}

// Last first: whoever may stay, stays. What stands where the claimant was not placed is not needed.
std::vector<const ClaimUnit*> ClaimSearch::without_needless(std::vector<const ClaimUnit*> set) {
  constexpr std::size_t kMostDropped = 128;
  std::set<NodeId> used;
  {
    Scratch scratch(engine_);
    take_out(scratch, set);
    if (!place_claimant(scratch)) {
      return set;
    }
    for (const Planned& planned : scratch.take_planned()) {
      used.insert(planned.grant->node);
    }
  }
  std::vector<const ClaimUnit*> near = set;
  std::erase_if(near, [&](const ClaimUnit* unit) {
    return std::ranges::none_of(
        unit->members, [&](WorkloadId id) { return used.contains(engine_.entry(id).grant->node); });
  });
  const auto enough = [&](const std::vector<const ClaimUnit*>& some) {
    Scratch scratch(engine_);
    take_out(scratch, some);
    return place_claimant(scratch);
  };
  if (near.size() < set.size() && enough(near)) {
    set = std::move(near);
  }
  std::size_t tried = 0;
  for (std::size_t i = set.size(); i-- > 0 && set.size() > 1 && tried < kMostDropped; ++tried) {
    std::vector<const ClaimUnit*> fewer = set;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (!more_steps(1)) {
      break;
    }
    if (enough(fewer)) {
      set = std::move(fewer);
    }
  }
  return set;
}

// As if the units, and whatever is being released, were gone.
void ClaimSearch::take_out(Scratch& scratch, const std::vector<const ClaimUnit*>& set) {
  for (const ClaimUnit* unit : set) {
    for (const WorkloadId id : unit->members) {
      if (!scratch.is_out(id)) {
        scratch.take_out(id);
      }
    }
  }
  engine_.take_out_releasing(scratch);
}

// I2: each of the lost in turn, the smallest first, leaves a queue that is above its share.
bool ClaimSearch::may_lose(Mode mode, std::vector<WorkloadId> lost) {
  if (mode == Mode::consolidate || mode == Mode::preempt) {
    return true;
  }
  std::ranges::stable_sort(lost, {}, [&](WorkloadId id) {
    std::int64_t mib = 0;
    for (const ChargePart& part : engine_.entry(id).charge.parts) {
      mib += part.mib;
    }
    return mib;
  });
  Scratch scratch(engine_);
  std::set<WorkloadId> gangs;
  for (const WorkloadId id : lost) {
    // A gang's core leaves together: what its first takes is asked once.
    const Entry& entry = engine_.entry(id);
    const bool together = !entry.gang.is_none() && whole_.contains(entry.gang);
    if (!(together && gangs.contains(entry.gang)) && !queue_may_lose(entry.leaf, mode)) {
      return false;
    }
    gangs.insert(entry.gang);
    scratch.take_out(id);
  }
  return true;
}

bool ClaimSearch::place_claimant(Scratch& scratch) {
  ++steps_;
  if (engine_.is_head(claimant_)) {
    return engine_.plan_minimum(claimant_, scratch);
  }
  return engine_.plan_task(claimant_, scratch);
}

// I1, I3 and I5 in the state in which the victims are out and the claimant is not yet in.
bool ClaimSearch::rights_hold(Mode mode, const std::vector<WorkloadId>& lost) {
  const QueueTree& tree = engine_.quotas.tree;
  const bool preemptible = engine_.entry(claimant_).preemptible;
  if (mode == Mode::consolidate) {
    return true;
  }
  if (mode == Mode::preempt) {
    std::size_t at = 0;
    for (const QuotaDimensionId d : tree.dimensions_of(charge_)) {
      const QuotaFigures figures = tree.figures(leaf_, d);
      const std::int64_t after = figures.alloc - figures.releasing + tree.amount_of(charge_, d);
      const std::int64_t before = at < leaf_before_.size() ? leaf_before_[at] : 0;
      if (after > std::max(before, figures.fair)) {
        return false;
      }
      ++at;
    }
    return true;
  }
  const Entitlement share = mode == Mode::guarantee ? Entitlement::deserved : Entitlement::fair;
  return std::ranges::all_of(lost, [&](WorkloadId id) {
    const QueueId ancestor = ancestor_with(engine_.entry(id).leaf);
    return !tree.within(leaf_, ancestor, charge_, share, preemptible).refused();
  });
}

// I3: no victim could take it back as its guarantee. The claimant is in.
bool ClaimSearch::survives_reversal(const std::vector<WorkloadId>& lost) {
  const QueueTree& tree = engine_.quotas.tree;
  return std::ranges::none_of(lost, [&](WorkloadId id) {
    const Entry& victim = engine_.entry(id);
    const Charge charge = engine_.quotas.charge_of(*victim.grant);
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
                                                 const std::vector<const ClaimUnit*>& set) {
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
  std::size_t moved = 0;
  for (const WorkloadId id : movers) {
    if (moved < kMostMoves && engine_.plan_task(id, scratch)) {
      ++moved;
    } else {
      lost.push_back(id);
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
  Cost cost{.gangs_broken = static_cast<std::int64_t>(whole_.size()),
            .highest_priority = std::numeric_limits<std::int64_t>::min(),
            .count = static_cast<std::int64_t>(lost.size()),
            .nodes = 0,
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
      cost.uids.push_back(entry.uid);
    }
  }
  std::ranges::sort(cost.uids);
  cost.nodes = static_cast<std::int64_t>(nodes.size());
  std::set<QueueId> below;
  for (const WorkloadId id : lost) {
    const QueueId leaf = engine_.entry(id).leaf;
    for (const QuotaDimensionId d : short_) {
      const QuotaFigures figures = engine_.quotas.tree.figures(leaf, d);
      if (mode != Mode::preempt && figures.alloc - figures.releasing < figures.effective_deserved) {
        below.insert(leaf);
      }
    }
  }
  cost.below_deserved = static_cast<std::int64_t>(below.size());
  return cost;
}

// The set as a whole: its rights, the claimant's place, and what becomes of those who leave.
std::optional<ClaimSearch::Found> ClaimSearch::judge(Mode mode,
                                                     const std::vector<const ClaimUnit*>& set) {
  const Charge asked = charge_;
  Scratch scratch(engine_);
  take_out(scratch, set);
  const std::size_t mark = scratch.mark();
  if (!place_claimant(scratch)) {
    return std::nullopt;
  }
  const std::vector<WorkloadId> own = scratch.planned_since(mark);
  const std::vector<WorkloadId> lost = place_again(mode, scratch, set);
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
  const bool capped = good && mode != Mode::guarantee && cap != kNoCap &&
                      static_cast<std::int64_t>(lost.size()) > cap;
  blocked_.eviction_cap += capped ? 1 : 0;
  Found found;
  found.cost = cost_of(mode, set, lost);
  charge_ = asked;
  if (!good || capped) {
    return std::nullopt;
  }
  constexpr std::array kRules{Evicted::Rule::consolidation, Evicted::Rule::guarantee,
                              Evicted::Rule::fair_share, Evicted::Rule::priority};
  std::set<WorkloadId> seen;
  for (const ClaimUnit* unit : set) {
    for (const WorkloadId id : unit->members) {
      if (!seen.insert(id).second) {
        continue;
      }
      const Grant* moved = scratch.planned_for(id);
      found.plan.leavers.push_back(
          {.workload = id,
           .rule = moved != nullptr ? Evicted::Rule::consolidation
                                    : kRules[static_cast<std::size_t>(mode)],
           .moves_to = moved != nullptr ? std::make_unique<Grant>(*moved) : nullptr,
           .text = reason(moved != nullptr ? Mode::consolidate : mode, id)});
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
  const Entitlement share = mode == Mode::guarantee ? Entitlement::deserved : Entitlement::fair;
  const QuotaDimensionId d = short_.front();
  const auto side = [&](QueueId leaf) {
    const QueueId ancestor = tree.lowest_common_ancestor(leaf_, entry.leaf);
    QueueId at = leaf;
    while (tree.parent(at) != ancestor && !tree.parent(at).is_none()) {
      at = tree.parent(at);
    }
    return at;
  };
  const QueueId theirs = side(entry.leaf);
  const QueueId ours = side(leaf_);
  const QuotaFigures from = tree.figures(theirs, d);
  const QuotaFigures to = tree.figures(ours, d);
  return fmt::format(
      "{} of queue {} takes back its {}: of {}, {} holds {} after this and its {} is {}; {} will "
      "hold "
      "{} of its {}. More `deserved` for {}, or preemptible: false within it, keeps the work",
      who, tree.path_name(leaf_), mode == Mode::guarantee ? "guarantee" : "fair share",
      tree.dimension_name(d), tree.path_name(theirs), from.alloc - from.releasing,
      mode == Mode::guarantee ? "guarantee" : "share", tree.share(theirs, d, share),
      tree.path_name(ours), to.alloc - to.releasing, tree.share(ours, d, share),
      tree.path_name(theirs));
}

}  // namespace berth::core
