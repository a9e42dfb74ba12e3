// The rules of queues-gangs-topology.md 5, one by one.
#include <algorithm>

#include <fmt/format.h>

#include "core/engine/naive_claims_test.h"

namespace berth::core {

namespace {

constexpr Duration kHour{3'600'000};
constexpr std::size_t kMostMoves = 16;
constexpr std::size_t kMostPermuted = 5;

// Bounds are in MiB or milli; devices are counted in 1/3000.
std::int64_t scaled(std::int64_t bound, DimensionKind kind) {
  return kind == DimensionKind::devices ? bound * 3 : bound;
}

}  // namespace

const QueueSpec& NaiveClaims::spec(const std::string& queue) const {
  static const QueueSpec kDefaults;
  const auto found = std::ranges::find(config_.queues, queue, &QueueSpec::name);
  return found == config_.queues.end() ? kDefaults : *found;
}

// From the leaf up, the root last.
std::vector<std::string> NaiveClaims::path(const std::string& leaf) const {
  std::vector<std::string> path{leaf};
  while (path.back() != kRootQueueName && path.size() < 20) {
    path.push_back(spec(path.back()).parent);
  }
  return path;
}

// The queues of `leaf` below what it has in common with `other`.
std::vector<std::string> NaiveClaims::side(const std::string& leaf,
                                           const std::string& other) const {
  std::vector<std::string> side = path(leaf);
  const std::vector<std::string> theirs = path(other);
  std::erase_if(side, [&](const std::string& queue) {
    return std::ranges::find(theirs, queue) != theirs.end();
  });
  return side;
}

std::optional<std::int64_t> NaiveClaims::share(const std::string& queue, const Dimension& dimension,
                                               Entitlement entitlement) const {
  for (const QueueDimension& terms : spec(queue).dimensions) {
    if (terms.device_class == dimension.first && terms.kind == dimension.second &&
        terms.deserved == kUnlimited) {
      return std::nullopt;
    }
  }
  const QueueTree& tree = engine_->queues();
  const auto id = tree.find(queue);
  const auto where = tree.dimension(dimension.first, dimension.second);
  if (!id.has_value() || !where.has_value()) {
    return std::nullopt;
  }
  return scaled(tree.share(*id, *where, entitlement), dimension.second);
}

std::int64_t NaiveClaims::alloc(const std::string& queue, const Dimension& dimension,
                                const std::set<std::string>& gone, bool with_leaving,
                                bool fixed_only) const {
  std::int64_t sum = 0;
  const auto count = [&](const std::string& uid, const Held& held) {
    const auto known = known_.find(uid);
    if (known == known_.end() || gone.contains(uid) ||
        (held.leaving_since.has_value() && !with_leaving) ||
        (fixed_only && known->second.options.preemptible)) {
      return;
    }
    const std::vector<std::string> above = path(known->second.options.queue);
    const auto amount = held.takes.find(dimension);
    if (amount != held.takes.end() && std::ranges::find(above, queue) != above.end()) {
      sum += amount->second;
    }
  };
  for (const auto& [uid, held] : held_) {
    count(uid, held);
  }
  for (const auto& [uid, held] : moves_) {
    count(uid, held);
  }
  return sum;
}

// Every queue of the side holds more than it is entitled to.
bool NaiveClaims::above(const std::vector<std::string>& side, const Dimension& dimension,
                        Entitlement what, const std::set<std::string>& gone,
                        const Amounts& more) const {
  return std::ranges::all_of(side, [&](const std::string& queue) {
    const std::optional<std::int64_t> due = share(queue, dimension, what);
    const auto added = more.find(dimension);
    return due.has_value() &&
           alloc(queue, dimension, gone) + (added == more.end() ? 0 : added->second) > *due;
  });
}

// The claimant is short of it (S of section 5).
bool NaiveClaims::lacks(const Claim& claim, const Dimension& dimension) const {
  const QueueTree& tree = engine_->queues();
  const auto left = [&](const Dimension& d) -> std::optional<std::int64_t> {
    const auto id = tree.dimension(d.first, d.second);
    if (!id.has_value()) {
      return std::nullopt;
    }
    return scaled(tree.capacity(*id), d.second) - alloc(std::string(kRootQueueName), d, {}, true);
  };
  const auto is_short = [&](const auto& taken) {
    const std::optional<std::int64_t> rest = left(taken.first);
    return taken.second > 0 && rest.has_value() && *rest < taken.second;
  };
  if (std::ranges::none_of(claim.takes, is_short)) {
    return true;  // only the pieces are too small
  }
  const auto taken = claim.takes.find(dimension);
  return taken != claim.takes.end() && is_short(*taken);
}

std::string NaiveClaims::check_claim(const Claim& claim) const {
  if (claim.placed.empty()) {
    return "somebody was asked to leave for a claimant that was not placed (I6)";
  }
  const Known& who = known_.at(claim.claimant);
  const QueueSpec& queue = spec(who.options.queue);
  if (!who.gang.empty() && who.gang != claim.claimant) {
    return "a surplus member caused an eviction (6.5)";
  }
  if (held_.contains(claim.claimant)) {
    return "a second eviction for a claimant whose hold is not resolved (I13)";
  }
  if (now_ < who.queued_at + std::max(who.options.preemption_delay, queue.preemption_delay)) {
    return "an eviction before the preemption delay had passed";
  }
  if (claim.moving.size() > kMostMoves) {
    return "more moves than are allowed";
  }
  std::map<Evicted::Rule, std::vector<std::string>> lost;
  for (const Evicted* evicted : claim.leavers) {
    if (const std::string wrong = check_leaver(claim, *evicted); !wrong.empty()) {
      return fmt::format("{}: {}", engine_->uid(evicted->workload), wrong);
    }
    if (evicted->moves_to.is_none()) {
      lost[evicted->rule].emplace_back(engine_->uid(evicted->workload));
    }
  }
  for (const auto& [rule, victims] : lost) {
    std::string wrong = rule == Evicted::Rule::priority ? check_preempt(claim, victims)
                                                        : check_reclaim(claim, rule);
    if (!wrong.empty()) {
      return wrong;
    }
    if (rule != Evicted::Rule::guarantee && queue.evictions.per_claim != kNoCap &&
        std::ssize(claim.lost) > queue.evictions.per_claim) {
      return "more victims than the claim's cap (I12)";
    }
  }
  return check_gangs(claim);
}

Duration NaiveClaims::protection(const Claim& claim, const std::string& victim,
                                 bool preempt) const {
  const WorkloadOptions& options = known_.at(victim).options;
  const std::string& ours = known_.at(claim.claimant).options.queue;
  std::vector<std::string> from = path(options.queue);
  if (!preempt && options.queue != ours) {
    const std::size_t below = side(options.queue, ours).size();
    from.erase(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(below) - 1);
  }
  for (const std::string& queue : from) {
    const MinRuntime& rule = spec(queue).min_runtime;
    Duration value = preempt ? rule.preempt : rule.reclaim;
    std::int64_t best = -1;
    for (const MinRuntime::ByPriority& one : rule.by_priority) {
      if (one.at_least <= options.priority && one.at_least > best) {
        best = one.at_least;
        value = preempt ? one.preempt : one.reclaim;
      }
    }
    if (value > Duration(0)) {
      return value;
    }
  }
  return Duration(0);
}

// What holds for each by itself: I5, I11, I12, I14.
std::string NaiveClaims::check_leaver(const Claim& claim, const Evicted& evicted) const {
  const std::string uid(engine_->uid(evicted.workload));
  const Known& victim = known_.at(uid);
  const Known& claimant = known_.at(claim.claimant);
  const QueueSpec& ours = spec(claimant.options.queue);
  const auto held = held_.find(uid);
  const bool moves = !evicted.moves_to.is_none();
  const bool inside = victim.options.queue == claimant.options.queue;
  if (held == held_.end() || held->second.promised || held->second.asked.has_value()) {
    return "does not run, or was asked to leave before";
  }
  if (held->second.leaving_since.has_value()) {
    return "is leaving already";
  }
  if (!victim.options.preemptible) {
    return "is not preemptible (I14)";
  }
  if (moves != (evicted.rule == Evicted::Rule::consolidation)) {
    return "moves, but by another rule, or does not move though it is said to";
  }
  if (moves && !victim.options.restartable) {
    return "cannot be moved";
  }
  if (moves && !claimant.options.preemptible) {
    return "moves for a claimant that is not preemptible (C5b)";
  }
  const bool preempt = evicted.rule == Evicted::Rule::priority;
  if (!moves && preempt != inside) {
    return "is in the wrong queue for the rule";
  }
  if (preempt && (ours.preempt == PreemptRight::never ||
                  victim.options.priority >= claimant.options.priority)) {
    return "has no lower priority, or its queue does not preempt (I5)";
  }
  if ((evicted.rule == Evicted::Rule::guarantee && ours.reclaim == ReclaimRight::never) ||
      (evicted.rule == Evicted::Rule::fair_share && ours.reclaim != ReclaimRight::fair_share)) {
    return "is claimed by a queue without the right to";
  }
  Time since = held->second.since;
  if (!victim.gang.empty()) {
    since = std::max(since, known_.at(victim.gang).minimum_reached);
  }
  if (now_ < since + protection(claim, uid, preempt)) {
    return "is protected by its minimum run time (I11)";
  }
  const std::int64_t recent =
      std::ranges::count_if(victim.evictions, [&](Time at) { return at + kHour > now_; });
  const std::int64_t cap = spec(victim.options.queue).evictions.per_workload_per_hour;
  if (evicted.rule != Evicted::Rule::guarantee && cap != kNoCap && recent >= cap) {
    return "was asked to leave too often (I12)";
  }
  if (moves && recent > 0) {
    return "was asked to leave within the hour and is moved";
  }
  return "";
}

// I1 for the claimant against each victim of the rule, I2 for the victims in some order, I3.
std::string NaiveClaims::check_reclaim(const Claim& claim, Evicted::Rule rule) const {
  const Entitlement what =
      rule == Evicted::Rule::guarantee ? Entitlement::deserved : Entitlement::fair;
  const Known& claimant = known_.at(claim.claimant);
  const std::set<std::string> all(claim.lost.begin(), claim.lost.end());
  std::map<std::string, std::vector<std::string>> units;
  for (const Evicted* evicted : claim.leavers) {
    const std::string victim(engine_->uid(evicted->workload));
    if (evicted->rule != rule) {
      continue;
    }
    const Known& known = known_.at(victim);
    for (const std::string& queue : side(claimant.options.queue, known.options.queue)) {
      for (const auto& [dimension, amount] : claim.takes) {
        const std::optional<std::int64_t> due = share(queue, dimension, what);
        if (amount > 0 && due.has_value() && alloc(queue, dimension, all) + amount > *due) {
          return fmt::format("{} of {}/{} would exceed the claimant's share {} of {} (I1)", amount,
                             dimension.first, dimension_kind_name(dimension.second), *due, queue);
        }
        const std::optional<std::int64_t> deserved = share(queue, dimension, Entitlement::deserved);
        if (!claimant.options.preemptible && amount > 0 && deserved.has_value() &&
            alloc(queue, dimension, all, false, true) + amount > *deserved) {
          return fmt::format("{} would exceed what {} deserves without preemption (I1)", amount,
                             queue);
        }
      }
    }
    if (rule == Evicted::Rule::fair_share) {
      if (std::string wrong = check_reverse(claim, victim); !wrong.empty()) {
        return wrong;
      }
    }
    const bool whole = !known.gang.empty() &&
                       std::ranges::count_if(claim.lost, [&](const std::string& other) {
                         return known_.at(other).gang == known.gang;
                       }) >= present(known_.at(known.gang)) - known_.at(known.gang).succeeded;
    units[whole ? known.gang : victim].push_back(victim);
  }
  std::vector<std::vector<std::string>> left;
  left.reserve(units.size());
  for (auto& [name, members] : units) {
    left.push_back(std::move(members));
  }
  std::set<std::string> gone;
  return has_order(claim, rule, std::move(left), gone)
             ? ""
             : "in no order is every victim's side above its share when its turn comes (I2)";
}

// Whether the units can leave one after the other, each from a side that is above its share.
bool NaiveClaims::has_order(const Claim& claim, Evicted::Rule rule,
                            std::vector<std::vector<std::string>> left,
                            std::set<std::string>& gone) const {
  if (left.empty() || left.size() > kMostPermuted) {
    return true;
  }
  const Entitlement what =
      rule == Evicted::Rule::guarantee ? Entitlement::deserved : Entitlement::fair;
  const std::string& ours = known_.at(claim.claimant).options.queue;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const std::string& leaf = known_.at(left[i].front()).options.queue;
    const bool may = std::ranges::any_of(claim.takes, [&](const auto& taken) {
      const auto held = held_.at(left[i].front()).takes.find(taken.first);
      return taken.second > 0 && lacks(claim, taken.first) &&
             held != held_.at(left[i].front()).takes.end() && held->second > 0 &&
             above(side(leaf, ours), taken.first, what, gone, {});
    });
    if (!may) {
      continue;
    }
    std::vector<std::vector<std::string>> rest = left;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    gone.insert(left[i].begin(), left[i].end());
    if (has_order(claim, rule, std::move(rest), gone)) {
      return true;
    }
    for (const std::string& member : left[i]) {
      gone.erase(member);
    }
  }
  return false;
}

// I3: the victim could not take it back as its guarantee.
std::string NaiveClaims::check_reverse(const Claim& claim, const std::string& victim) const {
  const std::set<std::string> all(claim.lost.begin(), claim.lost.end());
  const std::string& ours = known_.at(claim.claimant).options.queue;
  const std::string& theirs = known_.at(victim).options.queue;
  Amounts back = held_.at(victim).takes;
  // A gang that is lost whole comes back as one, with its minimum (of equal members here).
  if (const std::string& gang = known_.at(victim).gang; !gang.empty()) {
    const Known& head = known_.at(gang);
    const auto lost = std::ranges::count_if(
        claim.lost, [&](const std::string& other) { return known_.at(other).gang == gang; });
    for (auto& [dimension, amount] : back) {
      amount *= lost >= present(head) - head.succeeded
                    ? std::max<std::int64_t>(1, head.min - head.succeeded)
                    : 1;
    }
  }
  for (const std::string& queue : side(theirs, ours)) {
    for (const auto& [dimension, amount] : back) {
      const std::optional<std::int64_t> due = share(queue, dimension, Entitlement::deserved);
      if (amount > 0 && due.has_value() && alloc(queue, dimension, all) + amount > *due) {
        return "";
      }
    }
  }
  for (const auto& [dimension, amount] : back) {
    const auto taken = claim.takes.find(dimension);
    if (amount > 0 && taken != claim.takes.end() && taken->second > 0 &&
        above(side(ours, theirs), dimension, Entitlement::deserved, all, claim.takes)) {
      return fmt::format("{} could take it back as its guarantee (I3)", victim);
    }
  }
  return "";
}

// I5: the leaf holds no more than before, or no more than its fair share.
std::string NaiveClaims::check_preempt(const Claim& claim,
                                       const std::vector<std::string>& lost) const {
  (void)lost;
  const std::string& leaf = known_.at(claim.claimant).options.queue;
  const std::set<std::string> all(claim.lost.begin(), claim.lost.end());
  for (const auto& [dimension, amount] : claim.takes) {
    const std::optional<std::int64_t> due = share(leaf, dimension, Entitlement::fair);
    const std::int64_t before = alloc(leaf, dimension, {}, true);
    if (amount > 0 && due.has_value() &&
        alloc(leaf, dimension, all) + amount > std::max(before, *due)) {
      return fmt::format(
          "the queue's {}/{} rises above the {} that it held and above its fair share {} (I5)",
          dimension.first, dimension_kind_name(dimension.second), before, *due);
    }
  }
  return "";
}

// I8: surplus may go alone, a core only as a whole.
std::string NaiveClaims::check_gangs(const Claim& claim) const {
  std::map<std::string, std::int64_t> lost;
  for (const std::string& victim : claim.lost) {
    if (!known_.at(victim).gang.empty()) {
      ++lost[known_.at(victim).gang];
    }
  }
  for (const auto& [gang, count] : lost) {
    const Known& head = known_.at(gang);
    const std::int64_t rest = present(head) - count;
    const std::int64_t running = rest - head.succeeded;
    if (running > 0 && (rest < head.min || head.whole_only)) {
      return fmt::format("gang {} loses {} members and keeps {} of a minimum of {} (I8)", gang,
                         count, rest, head.min);
    }
  }
  return "";
}

// I4: who was displaced does not come back at the cost of who displaced it.
std::string NaiveClaims::check_flip(const Claim& claim) {
  const auto unit = [&](const std::string& uid) {
    const Known& known = known_.at(uid);
    return known.gang.empty() ? uid : known.gang;
  };
  for (const std::string& victim : claim.lost) {
    const bool flips = std::ranges::any_of(displaced_, [&](const Displaced& before) {
      return before.by == unit(victim) && before.victim == claim.claimant && !before.excused;
    });
    if (flips) {
      return fmt::format("{} was displaced by {} and comes back at its cost (I4)", claim.claimant,
                         victim);
    }
  }
  for (const std::string& victim : claim.lost) {
    std::erase_if(displaced_, [&](const Displaced& before) { return before.by == unit(victim); });
    displaced_.push_back(
        {.by = claim.claimant, .placed = claim.placed, .victim = unit(victim), .excused = false});
  }
  return "";
}

// Something was granted on the side of who displaced somebody, or taken on the side of who was.
void NaiveClaims::excuse(const std::string& uid, bool granted) {
  const auto known = known_.find(uid);
  if (known == known_.end()) {
    return;
  }
  const std::string& unit = known->second.gang.empty() ? uid : known->second.gang;
  const std::vector<std::string> above = path(known->second.options.queue);
  for (Displaced& one : displaced_) {
    const auto by = known_.find(one.by);
    const auto victim = known_.find(one.victim);
    if (by == known_.end() || victim == known_.end()) {
      one.excused = true;
      continue;
    }
    const std::string& ours = granted ? by->second.options.queue : victim->second.options.queue;
    const std::string& theirs = granted ? victim->second.options.queue : by->second.options.queue;
    // What it was placed for is no new grant; members that join it later are.
    if (granted ? std::ranges::find(one.placed, uid) != one.placed.end() : unit == one.victim) {
      continue;
    }
    for (const std::string& queue : side(ours, theirs)) {
      one.excused = one.excused || std::ranges::find(above, queue) != above.end();
    }
  }
}

}  // namespace berth::core
