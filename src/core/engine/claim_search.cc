// Which of those who could leave do: the cheapest set that was found to be enough.
#include "core/engine/claim_search.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace berth::core {

bool ClaimSearch::more_steps(std::int64_t steps) {
  steps_ += steps;
  return steps_ < budget_;
}

// What the queue's `reclaim` says.
bool ClaimSearch::may_ask(Mode mode) const {
  const ReclaimRight right = engine_.quotas.tree.spec(leaf_).reclaim;
  return right == ReclaimRight::fair_share ||
         (right == ReclaimRight::guarantee && mode == Mode::guarantee);
}

// What the claimant's queue may ask of others at all (I1 at the leaf; the whole side is asked for
// each victim).
bool ClaimSearch::allowed(Mode mode) {
  const Entry& entry = engine_.entry(claimant_);
  const QueueTree& tree = engine_.quotas.tree;
  const QueueSpec& spec = tree.spec(leaf_);
  switch (mode) {
    case Mode::consolidate:
      return entry.preemptible && engine_.would_fit_in_pieces(engine_.turn_charge(claimant_));
    case Mode::backfill: {
      if (engine_.backfillers_ == 0) {
        return false;
      }
      const WorkloadId first = engine_.waiting.head_of(entry.pool, engine_.now);
      return first.is_none() || first == claimant_;
    }
    case Mode::preempt: return spec.preempt == PreemptRight::lower_priority;
    case Mode::guarantee:
    case Mode::fair_share: break;
  }
  if (!may_ask(mode)) {
    return false;
  }
  const Entitlement share = share_by(mode);
  return !tree.within(leaf_, tree.parent(leaf_), charge_, share, entry.preemptible).refused();
}

std::optional<ClaimPlan> ClaimSearch::find() {
  for (const Mode mode :
       {Mode::backfill, Mode::consolidate, Mode::guarantee, Mode::fair_share, Mode::preempt}) {
    if (!allowed(mode)) {
      continue;
    }
    if (std::optional<Found> found = search(mode); found.has_value()) {
      return std::move(found->plan);
    }
  }
  // Where the own queue is full and the place is another's, only both together are enough.
  mixed_ = true;
  for (const Mode mode : {Mode::guarantee, Mode::fair_share}) {
    if (!may_ask(mode) || !allowed(Mode::preempt)) {
      continue;
    }
    const bool many = many_run();
    std::vector<ClaimUnit> own = many ? first_tasks(Mode::preempt) : units(Mode::preempt);
    if (own.empty()) {
      continue;
    }
    std::vector<ClaimUnit> all = many ? first_tasks(mode) : units(mode);
    if (all.empty()) {
      continue;
    }
    all.insert(all.begin(), own.begin(), own.end());
    if (std::optional<Found> found = search_among(mode, all); found.has_value()) {
      return std::move(found->plan);
    }
  }
  return std::nullopt;
}

std::optional<ClaimSearch::Found> ClaimSearch::search(Mode mode) {
  if (!engine_.is_head(claimant_) && mode != Mode::backfill && many_run()) {
    return search_many(mode);
  }
  return search_among(mode, units(mode));
}

std::optional<ClaimSearch::Found> ClaimSearch::search_among(Mode mode,
                                                            const std::vector<ClaimUnit>& all) {
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
  if (engine_.is_head(claimant_) || mixed_) {
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
  if (units.empty()) {
    return std::nullopt;
  }
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

// The smallest things that have to move off the node, tried once as a whole.
std::optional<ClaimSearch::Found> ClaimSearch::fewest_moves(NodeId node,
                                                            std::vector<const ClaimUnit*> list) {
  const auto size = [&](const ClaimUnit* unit) {
    std::int64_t milli = 0;
    for (const WorkloadId id : unit->members) {
      milli += milli_devices(*engine_.entry(id).grant);
    }
    return milli;
  };
  std::ranges::stable_sort(list, {}, size);
  std::vector<const ClaimUnit*> set;
  for (const ClaimUnit* unit : list) {
    set.push_back(unit);
    if (set.size() > kMostMoves || !more_steps(1)) {
      return std::nullopt;
    }
    const PlacementIndex::NodeState state =
        engine_.node_without(node, [&](WorkloadId id) { return goes(id, set); });
    if (engine_.index.judge(engine_.entry(claimant_).shape, node, state, ~std::uint64_t{0}).cause ==
        Cause::none) {
      return judge(Mode::consolidate, set);
    }
  }
  return std::nullopt;
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
    const PlacementIndex::NodeState state =
        engine_.node_without(node, [&](WorkloadId id) { return goes(id, list); });
    if (engine_.index.judge(shape, node, state, ~std::uint64_t{0}).cause != Cause::none) {
      continue;  // not even without all of them
    }
    if (mode == Mode::consolidate) {
      keep(fewest_moves(node, list));
      if (best.has_value()) {
        break;
      }
      continue;
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
      if (!scratch.is_out(unit.members.front()) &&
          queue_may_lose(unit.leaf, mode, &engine_.entry(unit.members.front()).charge)) {
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

}  // namespace berth::core
