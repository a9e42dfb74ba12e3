#include "brute_claims_test.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <limits>
#include <set>

#include <fmt/format.h>

namespace berth::brute {

namespace {

constexpr std::int64_t kWhole = 1000;

std::int64_t size_of(const ClaimRunner& runner) { return kWhole * std::popcount(runner.devices); }

std::int64_t size_of(const ClaimClaimant& claimant) {
  return kWhole * claimant.members * claimant.devices;
}

// From the leaf up, without the root.
std::vector<std::string> path(const ClaimWorld& world, const std::string& leaf) {
  std::vector<std::string> path;
  for (std::string at = leaf; !at.empty(); at = world.queues.at(at).parent) {
    path.push_back(at);
  }
  return path;
}

bool holds(const std::vector<std::string>& list, const std::string& one) {
  return std::ranges::find(list, one) != list.end();
}

// The queues of the leaf that are not the other's too.
std::vector<std::string> side(const ClaimWorld& world, const std::string& leaf,
                              const std::string& other) {
  std::vector<std::string> side = path(world, leaf);
  const std::vector<std::string> theirs = path(world, other);
  std::erase_if(side, [&](const std::string& queue) { return holds(theirs, queue); });
  return side;
}

// What the queue holds without those that are gone.
std::int64_t alloc(const ClaimWorld& world, const std::string& queue, const std::set<int>& gone,
                   bool fixed_only = false) {
  std::int64_t sum = 0;
  for (int i = 0; i < std::ssize(world.runners); ++i) {
    const ClaimRunner& runner = world.runners[static_cast<std::size_t>(i)];
    if (!gone.contains(i) && holds(path(world, runner.queue), queue) &&
        !(fixed_only && runner.preemptible)) {
      sum += size_of(runner);
    }
  }
  return sum;
}

std::int64_t share(const ClaimWorld& world, const std::string& queue, bool deserved) {
  const ClaimQueue& terms = world.queues.at(queue);
  return deserved ? terms.deserved : terms.fair;
}

bool above(const ClaimWorld& world, const std::string& leaf, const std::string& other,
           bool deserved, const std::set<int>& gone, std::int64_t more = 0) {
  return std::ranges::all_of(side(world, leaf, other), [&](const std::string& queue) {
    return alloc(world, queue, gone) + more > share(world, queue, deserved);
  });
}

std::set<int> with_fate(const std::vector<Fate>& fates, Fate fate) {
  std::set<int> all;
  for (int i = 0; i < std::ssize(fates); ++i) {
    if (fates[static_cast<std::size_t>(i)] == fate) {
      all.insert(i);
    }
  }
  return all;
}

const ClaimRunner& runner(const ClaimWorld& world, int i) {
  return world.runners[static_cast<std::size_t>(i)];
}

// Who leaves together: a task, a surplus member, or a gang of which nothing is left.
std::vector<std::set<int>> units_of(const ClaimWorld& world, const std::set<int>& lost) {
  std::vector<std::set<int>> units;
  std::map<std::string, std::set<int>> gangs;
  for (const int i : lost) {
    if (runner(world, i).gang.empty()) {
      units.push_back({i});
    } else {
      gangs[runner(world, i).gang].insert(i);
    }
  }
  for (const auto& [gang, members] : gangs) {
    const auto all = std::ranges::count(world.runners, gang, &ClaimRunner::gang);
    if (all == std::ssize(members)) {
      units.push_back(members);
      continue;
    }
    for (const int member : members) {
      units.push_back({member});
    }
  }
  return units;
}

// I8: of the newest that are above the minimum, some; or all of it. Where one of them stands in
// another rack than the claimant needs, an older one goes alone: nobody leaves for nothing (I7).
// Only consolidation moves a core.
bool gangs_hold(const ClaimWorld& world, const std::vector<Fate>& fates, Remedy remedy) {
  const std::set<int> lost = with_fate(fates, Fate::leaves);
  std::set<int> asked = lost;
  if (remedy != Remedy::consolidation) {
    asked.merge(with_fate(fates, Fate::moves));
  }
  for (const int i : asked) {
    const std::string& gang = runner(world, i).gang;
    if (gang.empty()) {
      continue;
    }
    std::int64_t older = 0;
    bool whole = true;
    for (int j = 0; j < std::ssize(world.runners); ++j) {
      if (runner(world, j).gang == gang) {
        older += j < i ? 1 : 0;
        whole = whole && lost.contains(j);
      }
    }
    if (!whole && older < runner(world, i).gang_min) {
      return false;
    }
  }
  return true;
}

// I2, in some order.
bool can_leave(const ClaimWorld& world, bool deserved, std::vector<std::set<int>> units,
               const std::set<int>& gone) {
  if (units.empty()) {
    return true;
  }
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::string& leaf = runner(world, *units[i].begin()).queue;
    const bool own = leaf == world.claimant.queue;
    if (!own && !above(world, leaf, world.claimant.queue, deserved, gone)) {
      continue;
    }
    std::vector<std::set<int>> rest = units;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    std::set<int> after = gone;
    after.insert(units[i].begin(), units[i].end());
    if (can_leave(world, deserved, std::move(rest), after)) {
      return true;
    }
  }
  return false;
}

// I1 against each victim of another queue, I3 for a fair share.
bool may_take(const ClaimWorld& world, bool deserved, const std::set<int>& lost) {
  const ClaimClaimant& claimant = world.claimant;
  const std::int64_t x = size_of(claimant);
  for (const std::set<int>& unit : units_of(world, lost)) {
    const std::string& leaf = runner(world, *unit.begin()).queue;
    if (leaf == claimant.queue) {
      continue;
    }
    for (const std::string& queue : side(world, claimant.queue, leaf)) {
      if (alloc(world, queue, lost) + x > share(world, queue, deserved)) {
        return false;
      }
      if (!claimant.preemptible &&
          alloc(world, queue, lost, true) + x > share(world, queue, true)) {
        return false;
      }
    }
    if (deserved) {
      continue;
    }
    std::int64_t back = 0;  // of a gang its minimum, which is what comes back
    std::int64_t counted = 0;
    for (const int i : unit) {
      const bool whole = unit.size() > 1;
      back += whole && counted == runner(world, i).gang_min ? 0 : size_of(runner(world, i));
      counted += whole && counted == runner(world, i).gang_min ? 0 : 1;
    }
    const std::vector<std::string> theirs = side(world, leaf, claimant.queue);
    const bool within = std::ranges::all_of(theirs, [&](const std::string& queue) {
      return alloc(world, queue, lost) + back <= share(world, queue, true);
    });
    if (within && above(world, claimant.queue, leaf, true, lost, x)) {
      return false;
    }
  }
  return true;
}

// I5.
bool leaf_may_hold(const ClaimWorld& world, const std::set<int>& lost) {
  const std::string& leaf = world.claimant.queue;
  const std::int64_t after = alloc(world, leaf, lost) + size_of(world.claimant);
  return after <= std::max(alloc(world, leaf, {}), share(world, leaf, false));
}

// What a non-preemptible claimant may hold at all, whoever leaves.
bool within_deserved(const ClaimWorld& world) {
  const ClaimClaimant& claimant = world.claimant;
  return claimant.preemptible ||
         std::ranges::all_of(path(world, claimant.queue), [&](const std::string& queue) {
           return alloc(world, queue, {}, true) + size_of(claimant) <=
                  world.queues.at(queue).configured;
         });
}

// Whether the one may be asked at all, by this remedy.
bool may_be_asked(const ClaimWorld& world, const ClaimRunner& one, Fate fate, Remedy remedy) {
  const bool own = one.queue == world.claimant.queue;
  const bool mixed = remedy == Remedy::mixed_guarantee || remedy == Remedy::mixed_fair_share;
  if (!one.preemptible ||
      (fate == Fate::moves && (!one.restartable || !world.claimant.preemptible))) {
    return false;
  }
  if (remedy == Remedy::consolidation) {
    return fate == Fate::moves;
  }
  if (own) {
    return (remedy == Remedy::preempt || mixed) && one.priority < world.claimant.priority;
  }
  const bool deserved = remedy == Remedy::guarantee || remedy == Remedy::mixed_guarantee;
  return remedy != Remedy::preempt && above(world, one.queue, world.claimant.queue, deserved, {});
}

using Free = std::vector<unsigned>;  // by node

// Members of the claimant from `left` on, then those who move, each on some node.
bool place_rest(const ClaimWorld& world, Free free, int left, int rack, std::vector<int> movers) {
  const bool claimant = left > 0;
  if (!claimant && movers.empty()) {
    return true;
  }
  const int wants =
      claimant ? world.claimant.devices : std::popcount(runner(world, movers.back()).devices);
  if (!claimant) {
    movers.pop_back();
  }
  for (std::size_t node = 0; node < world.nodes.size(); ++node) {
    const int here = world.nodes[node].rack;
    if (std::popcount(free[node]) < wants ||
        (claimant && world.claimant.one_rack && rack >= 0 && rack != here)) {
      continue;
    }
    Free after = free;
    for (int i = 0; i < wants; ++i) {
      after[node] &= after[node] - 1;  // devices are all alike
    }
    if (place_rest(world, after, claimant ? left - 1 : 0, claimant ? here : rack, movers)) {
      return true;
    }
  }
  return false;
}

bool all_have_room(const ClaimWorld& world, const std::vector<Fate>& fates) {
  Free free;
  for (const ClaimNode& node : world.nodes) {
    free.push_back((1U << node.devices) - 1);
  }
  for (int i = 0; i < std::ssize(fates); ++i) {
    if (fates[static_cast<std::size_t>(i)] == Fate::stays) {
      free[static_cast<std::size_t>(runner(world, i).node)] &= ~runner(world, i).devices;
    }
  }
  const std::set<int> moves = with_fate(fates, Fate::moves);
  return place_rest(world, free, world.claimant.members, -1, {moves.begin(), moves.end()});
}

// Who is asked, and whether somebody is lost: what makes it this remedy and not another.
bool kinds_match(const ClaimWorld& world, const std::vector<Fate>& fates, Remedy remedy) {
  bool own = false;
  bool others = false;
  for (std::size_t i = 0; i < fates.size(); ++i) {
    const bool inside = world.runners[i].queue == world.claimant.queue;
    own = own || (fates[i] != Fate::stays && inside);
    others = others || (fates[i] != Fate::stays && !inside);
  }
  const bool lost = std::ranges::find(fates, Fate::leaves) != fates.end();
  switch (remedy) {
    case Remedy::consolidation: return !lost;
    case Remedy::guarantee:
    case Remedy::fair_share: return lost && !own;
    case Remedy::preempt: return lost && !others;
    case Remedy::mixed_guarantee:
    case Remedy::mixed_fair_share: return lost && own && others;
  }
  return false;
}

}  // namespace

bool is_allowed(const ClaimWorld& world, const std::vector<Fate>& fates, Remedy remedy) {
  const std::set<int> lost = with_fate(fates, Fate::leaves);
  if (!kinds_match(world, fates, remedy) || !within_deserved(world) ||
      !gangs_hold(world, fates, remedy)) {
    return false;
  }
  for (std::size_t i = 0; i < fates.size(); ++i) {
    if (fates[i] != Fate::stays && !may_be_asked(world, world.runners[i], fates[i], remedy)) {
      return false;
    }
  }
  if (remedy != Remedy::consolidation && remedy != Remedy::preempt) {
    const bool deserved = remedy == Remedy::guarantee || remedy == Remedy::mixed_guarantee;
    std::set<int> of_others;
    for (const int i : lost) {
      if (runner(world, i).queue != world.claimant.queue) {
        of_others.insert(i);
      }
    }
    if (!may_take(world, deserved, lost) ||
        !can_leave(world, deserved, units_of(world, of_others), {})) {
      return false;
    }
  }
  const bool inside = remedy == Remedy::preempt || remedy == Remedy::mixed_guarantee ||
                      remedy == Remedy::mixed_fair_share;
  return (!inside || leaf_may_hold(world, lost)) && all_have_room(world, fates);
}

ClaimCost cost_of(const ClaimWorld& world, const std::vector<Fate>& fates, Remedy remedy) {
  const std::set<int> lost = with_fate(fates, Fate::leaves);
  std::int64_t bare = 0;
  std::int64_t highest = std::numeric_limits<std::int64_t>::min();
  std::int64_t seconds = 0;
  std::set<std::string> below;
  for (std::size_t i = 0; i < fates.size(); ++i) {
    const ClaimRunner& one = world.runners[i];
    if (fates[i] == Fate::stays) {
      continue;
    }
    highest = std::max(highest, one.priority);
    seconds += std::max<std::int64_t>(1, one.age_ms) * size_of(one);
    if (fates[i] == Fate::moves) {
      continue;
    }
    bare += one.restartable ? 0 : 1;
    if (remedy != Remedy::preempt && one.queue != world.claimant.queue &&
        alloc(world, one.queue, lost) < share(world, one.queue, true)) {
      below.insert(one.queue);
    }
  }
  std::map<std::string, std::int64_t> left;
  for (std::size_t i = 0; i < fates.size(); ++i) {
    left[world.runners[i].gang] += fates[i] == Fate::leaves ? 0 : 1;
  }
  const auto broken = std::ranges::count_if(
      left, [](const auto& gang) { return !gang.first.empty() && gang.second == 0; });
  return {bare,    std::ssize(below), static_cast<std::int64_t>(broken),
          highest, seconds,           std::ssize(lost)};
}

BestClaims best_claims(const ClaimWorld& world) {
  BestClaims best;
  std::vector<Fate> fates(world.runners.size(), Fate::stays);
  const std::function<void(std::size_t)> visit = [&](std::size_t from) {
    if (from < fates.size()) {
      for (const Fate fate : {Fate::stays, Fate::moves, Fate::leaves}) {
        fates[from] = fate;
        visit(from + 1);
      }
      fates[from] = Fate::stays;
      return;
    }
    for (std::size_t r = 0; r < kRemedies; ++r) {
      const auto remedy = static_cast<Remedy>(r);
      if (!is_allowed(world, fates, remedy)) {
        continue;
      }
      const ClaimCost cost = cost_of(world, fates, remedy);
      if (!best.cost[r].has_value() || cost < *best.cost[r]) {
        best.cost[r] = cost;
        best.fates[r] = fates;
      }
    }
  };
  visit(0);
  return best;
}

std::string described(const ClaimWorld& world) {
  std::string text;
  const auto out = std::back_inserter(text);
  for (std::size_t n = 0; n < world.nodes.size(); ++n) {
    fmt::format_to(out, "node {}: {} devices, rack {}\n", n, world.nodes[n].devices,
                   world.nodes[n].rack);
  }
  for (const auto& [name, queue] : world.queues) {
    fmt::format_to(out, "queue {} below '{}': deserved {}, fair {}\n", name, queue.parent,
                   queue.deserved, queue.fair);
  }
  for (std::size_t i = 0; i < world.runners.size(); ++i) {
    const ClaimRunner& one = world.runners[i];
    fmt::format_to(
        out, "runner {}: queue {} priority {} gang '{}' min {} node {} devices {:b} age {}{}{}\n",
        i, one.queue, one.priority, one.gang, one.gang_min, one.node, one.devices, one.age_ms,
        one.preemptible ? "" : " fixed", one.restartable ? "" : " bare");
  }
  const ClaimClaimant& who = world.claimant;
  fmt::format_to(out, "claimant: queue {} priority {} {} x {} devices{}{}\n", who.queue,
                 who.priority, who.members, who.devices, who.one_rack ? " in one rack" : "",
                 who.preemptible ? "" : " fixed");
  return text;
}

std::string described(const std::vector<Fate>& fates) {
  std::string text;
  for (const Fate fate : fates) {
    text += fate == Fate::stays ? '.' : fate == Fate::moves ? 'm' : 'X';
  }
  return text;
}

}  // namespace berth::brute
