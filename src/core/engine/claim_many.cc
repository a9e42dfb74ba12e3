// Where much runs: a bounded look at those whose leaving is most likely to be enough. One alone
// first, then node by node; to move work, the nodes where the least of it has to.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/engine/claim_search.h"

namespace berth::core {

namespace {

constexpr int kMostLooked = 512;  // runners of all leaves together
constexpr int kMostLookedOfLeaf = 128;
constexpr std::size_t kMostNodes = 64;        // that are asked whether a set of several would do
constexpr int kMostTried = 12;                // of them, where it would
constexpr int kMostRefused = 2;               // sets with room enough, on one node
constexpr int kMostNodesAfterFound = 4;       // to find a cheaper set than the first
constexpr std::size_t kMostEmptied = 12;      // nodes on which moves are tried
constexpr std::ptrdiff_t kNodesPerStep = 16;  // where a node's devices are only summed up
constexpr std::size_t kExactOnNode = 6;       // units

}  // namespace

bool ClaimSearch::many_run() const {
  std::int64_t sum = 0;
  for (const auto& [leaf, runners] : engine_.runners_) {
    sum += std::ssize(runners);
    if (sum > engine_.config.exact_runners) {
      return true;
    }
  }
  return false;
}

// Leaves whose work may be asked for, the one farthest above its share first.
std::vector<ClaimSearch::OpenLeaf> ClaimSearch::open_leaves(Mode mode) {
  std::vector<OpenLeaf> leaves;
  const QueueTree& tree = engine_.quotas.tree;
  const bool by_share = mode == Mode::guarantee || mode == Mode::fair_share;
  // Leaves of one queue have the same above both.
  struct Side {
    QueueId parent;
    QueueId ancestor;
    bool may_take = false;
  };
  std::optional<Side> side;
  std::map<QueueId, bool> may_take;  // by the lowest queue above both
  within_share_.resize(tree.queue_slots());
  const auto open = [&](QueueId leaf, const std::set<Runner>& runners) {
    if (leaf == leaf_ || !side.has_value() || side->parent != tree.parent(leaf)) {
      const QueueId ancestor = ancestor_with(leaf);
      const auto [known, fresh] = may_take.try_emplace(ancestor, false);
      if (fresh) {
        known->second = side_may_take_from(leaf, mode);
      }
      side = {.parent = leaf == leaf_ ? QueueId::none() : tree.parent(leaf),
              .ancestor = ancestor,
              .may_take = known->second};
    }
    within_share_[leaf.index()] =
        !side->may_take ||
        !(!by_share || mixed_
              ? queue_may_lose(leaf, mode)
              : leaf == leaf_ || is_above_share(leaf, side->ancestor, mode, nullptr));
    if (within_share_[leaf.index()]) {
      return;
    }
    const bool inside = mode == Mode::preempt || mode == Mode::backfill;
    leaves.push_back(
        {.leaf = leaf, .over = inside ? 0 : over_share(leaf, mode), .runners = &runners});
  };
  if (mode == Mode::preempt) {
    const auto own = engine_.runners_.find(leaf_);
    if (own != engine_.runners_.end()) {
      open(leaf_, own->second);
    }
    return leaves;
  }
  for (const auto& [leaf, runners] : engine_.runners_) {
    if (leaf != leaf_ || mode == Mode::backfill) {
      open(leaf, runners);
    }
  }
  std::ranges::stable_sort(leaves, std::greater<>(), &OpenLeaf::over);
  return leaves;
}

// Whether its leaving could empty a device of its own that the claimant needs empty. Cheap, and
// right when it says no.
bool ClaimSearch::may_open_alone(WorkloadId id) const {
  const Shape& shape = engine_.shapes.at(engine_.entry(claimant_).shape);
  if (!quota_open_ || !shape.simple || !shape.wants_gpu()) {
    return true;
  }
  const Grant& grant = *engine_.entry(id).grant;
  const AskFit& fit =
      engine_.shapes.fit(shape.id, engine_.types, engine_.fleet, grant.node).asks[0];
  const std::span<const DeviceFace> faces = engine_.ledger.faces(grant.node);
  std::int64_t open = 0;
  for (std::size_t place = 0; place < faces.size(); ++place) {
    if ((fit.eligible >> place & 1U) == 0) {
      continue;
    }
    if (!fit.needs[place].exclusive) {
      return true;
    }
    open += faces[place].idle ? 1 : 0;
  }
  for (const DeviceCharge& charge : grant.charges) {
    open += engine_.ledger.faces(grant.node)[engine_.fleet.place_of(charge.device)].grants == 1;
  }
  return open >= shape.ask(0).count;
}

// Those on the node that may leave by this remedy, in the order of candidates.
std::vector<ClaimUnit> ClaimSearch::units_on(NodeId node, Mode mode,
                                             const std::vector<OpenLeaf>& leaves) {
  const auto find = [&](QueueId leaf) { return std::ranges::find(leaves, leaf, &OpenLeaf::leaf); };
  std::vector<WorkloadId> there = engine_.on_node_[node.index()];
  if (mode != Mode::consolidate) {
    std::erase_if(there,
                  [&](WorkloadId id) { return find(engine_.entry(id).leaf) == leaves.end(); });
  }
  std::vector<ClaimUnit> units = units_among(there, mode);
  for (ClaimUnit& unit : units) {
    unit.over = mode == Mode::consolidate ? 0 : find(unit.leaf)->over;
  }
  sort_candidates(units);
  return units;
}

std::optional<ClaimSearch::Found> ClaimSearch::search_many(Mode mode) {
  if (mode == Mode::consolidate) {
    return consolidate_many();
  }
  const std::vector<OpenLeaf> leaves = open_leaves(mode);
  if (leaves.empty()) {
    return std::nullopt;
  }
  std::int64_t lowest = leaves.front().runners->begin()->priority;
  for (const OpenLeaf& leaf : leaves) {
    lowest = std::min(lowest, leaf.runners->begin()->priority);
  }
  if (mode == Mode::preempt && lowest >= engine_.entry(claimant_).options.priority) {
    return std::nullopt;
  }
  std::vector<NodeId> nodes;  // by first candidate
  std::vector<bool> listed(engine_.on_node_.size());
  int looked = 0;
  for (const OpenLeaf& leaf : leaves) {
    int of_leaf = 0;
    for (const Runner& runner : *leaf.runners) {
      if (++looked > kMostLooked || ++of_leaf > kMostLookedOfLeaf || !more_steps(1)) {
        truncated_ = true;
        break;
      }
      const Entry& entry = engine_.entry(runner.id);
      const bool alone = entry.gang.is_none();
      if (alone && !may_leave(runner.id, mode)) {
        continue;
      }
      const NodeId node = entry.grant->node;
      if (!listed[node.index()]) {
        listed[node.index()] = true;
        nodes.push_back(node);
      }
      if (!alone || runner.priority != lowest || !may_open_alone(runner.id)) {
        continue;
      }
      const ClaimUnit unit = unit_of({runner.id});
      if (std::optional<Found> found = judge(mode, {&unit}); found.has_value()) {
        return found;
      }
    }
  }
  return sets_on(nodes, mode, leaves);
}

// The cheapest set of one node that is enough.
std::optional<ClaimSearch::Found> ClaimSearch::sets_on(const std::vector<NodeId>& nodes, Mode mode,
                                                       const std::vector<OpenLeaf>& leaves) {
  std::optional<Found> best;
  const auto keep = [&](std::optional<Found> found) {
    if (found.has_value() && (!best.has_value() || found->cost < best->cost)) {
      best = std::move(found);
    }
  };
  std::size_t looked = 0;
  int tried = 0;
  int after_found = 0;
  for (const NodeId node : nodes) {
    if (++looked > kMostNodes || (best.has_value() && ++after_found > kMostNodesAfterFound) ||
        !more_steps(1)) {
      truncated_ = truncated_ || !best.has_value();
      break;
    }
    // Units live as long as what was found among them is judged.
    const std::vector<ClaimUnit> units = units_on(node, mode, leaves);
    std::vector<const ClaimUnit*> all;
    for (const ClaimUnit& unit : units) {
      all.push_back(&unit);
    }
    if (all.empty() || !opens_a_node(all)) {
      continue;
    }
    if (++tried > kMostTried) {
      truncated_ = truncated_ || !best.has_value();
      break;
    }
    if (all.size() <= kExactOnNode) {
      keep(by_subsets(mode, all));
      continue;
    }
    std::vector<const ClaimUnit*> set;
    int refused = 0;
    for (const ClaimUnit* unit : all) {
      set.push_back(unit);
      if (!more_steps(1)) {
        return best;
      }
      if (!opens_a_node(set)) {
        continue;
      }
      if (judge(mode, set).has_value()) {
        keep(judge(mode, without_needless(set)));
        break;
      }
      if (++refused > kMostRefused) {
        truncated_ = true;  // it is rights that are missing, not room
        break;
      }
    }
  }
  return best;
}

// What is booked on the node's `count` emptiest devices that the claimant could use, in thousandths
// of a device; nothing where it has not so many.
std::optional<std::int64_t> ClaimSearch::booked_on_emptiest(const Shape& shape, NodeId node) {
  const StaticFit& fit = engine_.shapes.fit(shape.id, engine_.types, engine_.fleet, node);
  if (!fit.could_ever) {
    return std::nullopt;
  }
  const auto count = static_cast<std::size_t>(shape.ask(0).count);
  const std::span<const DeviceFace> faces = engine_.ledger.faces(node);
  std::vector<std::int64_t>& booked = booked_;
  booked.clear();
  for (std::size_t place = 0; place < faces.size(); ++place) {
    if ((fit.asks[0].eligible >> place & 1U) != 0 && faces[place].blocked == Cause::none) {
      booked.push_back(1000 - faces[place].free_milli);
    }
  }
  if (booked.size() < count) {
    return std::nullopt;
  }
  std::ranges::nth_element(booked, booked.begin() + static_cast<std::ptrdiff_t>(count - 1));
  return std::accumulate(booked.begin(), booked.begin() + static_cast<std::ptrdiff_t>(count),
                         std::int64_t{0});
}

std::optional<ClaimSearch::Found> ClaimSearch::consolidate_many() {
  const Shape& shape = engine_.shapes.at(engine_.entry(claimant_).shape);
  if (!shape.simple || !shape.wants_gpu() || !quota_open_) {
    return search_among(Mode::consolidate, units(Mode::consolidate));
  }

  // Who asks for the same finds the same, in whatever queue, unless its queue says how long others
  // are protected from it.
  const QueueId leaf = engine_.quotas.tree.protects() ? leaf_ : kRootQueue;
  FailedSearch& failed = engine_.failed_moves_[{shape.id, leaf}];
  if (engine_.would_fail_again(failed)) {
    truncated_ = true;
    return std::nullopt;
  }
  const std::int64_t steps_before = steps_;

  struct Choice {
    std::int64_t booked = 0;
    std::int64_t rank = 0;
    NodeId node;
    auto operator<=>(const Choice&) const = default;
  };

  std::vector<Choice> choices;
  ByNode<std::optional<std::int64_t>>& answers = engine_.booked_on_emptiest_[shape.id];
  for (std::size_t i = 0; i < engine_.on_node_.size(); ++i) {
    const NodeId node(i);
    if (engine_.on_node_[i].empty() || !engine_.fleet.present(node) ||
        engine_.ledger.node(node).blocked != Cause::none) {
      continue;
    }
    ByNode<std::optional<std::int64_t>>::Known* known = nullptr;
    if (answers.is_old(node, engine_.ledger.changes(), known)) {
      known->answer = booked_on_emptiest(shape, node);
    }
    if (known->answer.has_value()) {
      choices.push_back({.booked = *known->answer, .rank = engine_.index.rank(node), .node = node});
    }
  }
  const std::size_t looked = std::min(kMostEmptied, choices.size());
  truncated_ = truncated_ || looked < choices.size();
  std::ranges::partial_sort(choices, choices.begin() + static_cast<std::ptrdiff_t>(looked));
  for (const Choice& choice : std::span(choices).first(looked)) {
    if (!more_steps(2)) {
      break;
    }
    const bool releases = engine_.releasing_nodes_.contains(choice.node);
    if (releases) {
      released_.reset();  // what is on its devices is read as it stands
    }
    const std::vector<ClaimUnit> units = units_on(choice.node, Mode::consolidate, {});
    std::vector<const ClaimUnit*> all;
    for (const ClaimUnit& unit : units) {
      all.push_back(&unit);
    }
    if (all.empty() || !opens_a_node(all)) {
      continue;
    }
    if (!releases && !released_.has_value()) {
      released_.emplace(engine_);  // once for all sets that are judged
      engine_.take_out_releasing(*released_);
    }
    if (std::optional<Found> found = emptied(choice.node, all); found.has_value()) {
      released_.reset();
      engine_.failed_moves_.erase({shape.id, leaf});
      return found;
    }
  }
  released_.reset();
  (void)more_steps(std::ssize(choices) / kNodesPerStep);
  engine_.note_failed(failed, steps_ - steps_before);
  return std::nullopt;
}

// Moves what is on the emptiest devices that the claimant could use, as many as it asks for.
std::optional<ClaimSearch::Found> ClaimSearch::emptied(NodeId node,
                                                       const std::vector<const ClaimUnit*>& all) {
  const Shape& shape = engine_.shapes.at(engine_.entry(claimant_).shape);
  const AskFit& fit = engine_.shapes.fit(shape.id, engine_.types, engine_.fleet, node).asks[0];
  const std::span<const DeviceFace> faces = engine_.ledger.faces(node);
  const std::vector<DeviceId>& devices = engine_.fleet.devices_of(node);

  struct Place {
    std::int64_t booked = 0;
    std::size_t place = 0;
    std::vector<const ClaimUnit*> units = {};
  };

  std::vector<Place> places;
  for (std::size_t place = 0; place < faces.size(); ++place) {
    if ((fit.eligible >> place & 1U) == 0 || faces[place].blocked != Cause::none) {
      continue;
    }
    if (!fit.needs[place].exclusive) {
      return fewest_moves(node, all);
    }
    Place found{.booked = 1000 - faces[place].free_milli, .place = place};
    const bool all_may = std::ranges::all_of(
        engine_.ledger.book(devices[place]).holdings, [&](const Holding& holding) {
          const auto unit = std::ranges::find_if(all, [&](const ClaimUnit* one) {
            return std::ranges::find(one->members, holding.workload) != one->members.end();
          });
          if (unit != all.end()) {
            found.units.push_back(*unit);
          }
          return unit != all.end() || goes(holding.workload, {});
        });
    if (all_may) {
      places.push_back(std::move(found));
    }
  }
  const auto count = static_cast<std::size_t>(shape.ask(0).count);
  if (places.size() < count) {
    return std::nullopt;
  }
  std::ranges::stable_sort(places, {}, &Place::booked);
  std::vector<const ClaimUnit*> set;
  for (const Place& place : std::span(places).first(count)) {
    for (const ClaimUnit* unit : place.units) {
      if (std::ranges::find(set, unit) == set.end()) {
        set.push_back(unit);
      }
    }
  }
  const auto moved = [](std::size_t sum, const ClaimUnit* one) {
    return sum + one->members.size();
  };
  if (set.empty() || std::accumulate(set.begin(), set.end(), std::size_t{0}, moved) > kMostMoves) {
    return std::nullopt;
  }
  return judge(Mode::consolidate, set);
}

}  // namespace berth::core
