#include "core/engine/unblock.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/engine/sentence.h"
#include "core/engine/trial.h"

namespace berth::core {

namespace {

constexpr std::size_t kMostDevices = 8;    // on which memory comes free
constexpr std::size_t kMostNodes = 24;     // that are looked at for who stands there
constexpr std::size_t kMostLeaving = 16;   // workloads of one set
constexpr std::size_t kMostTried = 8;      // sets of each kind
constexpr std::size_t kMostPaired = 4;     // of them, that are tried two at a time
constexpr std::size_t kMostEnds = 64;      // instants at which work ends
constexpr std::int64_t kMostSteps = 2000;  // places looked for

}  // namespace

UnblockSearch::UnblockSearch(Engine::Impl& engine, WorkloadId who) : engine_(engine), who_(who) {}

std::vector<Unblock> UnblockSearch::find() {
  if (engine_.index.draws()) {
    return {};  // each try would draw, and what is granted next would be another place
  }
  free_memory();
  evict();
  wait();
  std::ranges::stable_sort(found_, {}, [](const Unblock& way) {
    return way.kind == Unblock::Kind::evict ? way.workloads.size() : 1;
  });
  if (found_.size() > kMost) {
    found_.resize(kMost);
  }
  return std::move(found_);
}

// What each device lacks for a task that wants one, the least first.
std::vector<UnblockSearch::Shortfall> UnblockSearch::shortfalls() const {
  std::vector<Shortfall> all;
  const Shape& shape = engine_.shapes.at(engine_.entry(who_).shape);
  const DeviceAsk* ask = largest_ask(shape);
  if (engine_.is_head(who_) || !shape.simple || ask == nullptr || ask->count != 1) {
    return all;
  }
  for (std::size_t i = 0; i < engine_.fleet.node_slots(); ++i) {
    const NodeId node(i);
    if (!engine_.fleet.present(node) || engine_.ledger.node(node).blocked != Cause::none ||
        constraint_refusal(shape.request.nodes(), engine_.fleet.node(node)) != Cause::none) {
      continue;
    }
    const Node& is = engine_.fleet.node(node);
    for (std::size_t place = 0; place < is.devices.size(); ++place) {
      const Device& device = is.devices[place];
      const DeviceId id = engine_.fleet.devices_of(node)[place];
      const DeviceFace& face = engine_.ledger.faces(node)[place];
      if (static_refusal(*ask, is, device) != Cause::none || face.blocked != Cause::none) {
        continue;
      }
      const DeviceNeed need = need_on(*ask, device.usable_mib(), is.gpu_replicas, 0);
      const std::int64_t missing = need.exclusive
                                       ? engine_.ledger.book(id).foreign -
                                             whole_foreign_ceiling(engine_.ledger.rules(), device)
                                       : need.request - face.headroom;
      if (missing > 0 && need.request <= face.usable) {
        all.push_back({.mib = Memory::bytes(missing).ceil_mib(),
                       .rank = engine_.index.rank(node),
                       .device = id});
      }
    }
  }
  const std::size_t kept = std::min(all.size(), kMostDevices);
  std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(kept));
  all.resize(kept);
  return all;
}

void UnblockSearch::free_memory() {
  for (const Shortfall& lacking : shortfalls()) {
    Trial trial(engine_, who_);
    trial.free_memory(lacking.device, Memory::mib(lacking.mib).in_bytes());
    if (trial.pass(true) == Trial::Answer::starts) {
      found_.push_back({.kind = Unblock::Kind::free_memory,
                        .mib = lacking.mib,
                        .node = engine_.fleet.node(engine_.fleet.node_of(lacking.device)).name,
                        .device = engine_.fleet.uuid(lacking.device)});
      return;
    }
  }
}

// It runs, for itself and for now.
bool UnblockSearch::may_be_evicted(WorkloadId id) const {
  const Entry& one = engine_.entry(id);
  const std::optional<Duration>& patience = one.options.wait_timeout;
  if (patience.has_value() && one.queued_at + *patience <= engine_.now) {
    return false;  // what becomes of it is decided by the clock
  }
  return runs_undisturbed(id);
}

// Nobody has asked it to leave or move.
bool UnblockSearch::runs_undisturbed(WorkloadId id) const {
  const Entry& one = engine_.entry(id);
  return one.state == EntryState::granted && one.holds() && !one.evicting && !one.leaving &&
         !one.slot && one.hold.is_none() && one.held_for.is_none() &&
         one.grant->state != GrantState::releasing &&
         (one.gang.is_none() || one.gang != engine_.entry(who_).gang);
}

// Who may be evicted by rules anyway before who may not; then the lower priority, the newest.
bool UnblockSearch::goes_before(const Unit& a, const Unit& b) const {
  const auto key = [&](const Unit& unit) {
    const Entry& one = engine_.entry(unit.id);
    const Entry& first = engine_.entry(unit.holders.front());
    return std::tuple(!one.preemptible, one.options.priority, -first.grant->granted_at.ms(),
                      std::string_view(one.uid));
  };
  return key(a) < key(b);
}

void UnblockSearch::find_units() {
  std::map<WorkloadId, std::vector<WorkloadId>> by_id;
  for (const std::vector<WorkloadId>& here : engine_.on_node_) {
    for (const WorkloadId id : here) {
      const WorkloadId gang = engine_.entry(id).gang;
      by_id[gang.is_none() || gang == engine_.entry(who_).gang ? id : gang].push_back(id);
    }
  }
  // A gang ends member by member: whether another one starts meanwhile cannot be foreseen.
  const bool gangs_wait = std::ranges::any_of(engine_.waiting.kinds(), [&](KindId kind) {
    const WorkloadId gang = engine_.kinds.key(kind).gang;
    return !gang.is_none() && gang != who_;
  });
  for (auto& [id, holders] : by_id) {
    if (gangs_wait && engine_.is_head(id)) {
      continue;
    }
    if (std::ranges::all_of(holders, [&](WorkloadId one) { return may_be_evicted(one); })) {
      units_.push_back({.id = id, .holders = std::move(holders)});
    }
  }
  std::ranges::sort(units_, [&](const Unit& a, const Unit& b) { return goes_before(a, b); });
}

UnblockSearch::Set UnblockSearch::units_on(NodeId node) const {
  Set here;
  for (const Unit& unit : units_) {
    if (std::ranges::any_of(unit.holders,
                            [&](WorkloadId id) { return engine_.entry(id).grant->node == node; })) {
      here.push_back(&unit);
    }
  }
  return here;
}

// Nodes that could take the task once they are empty: the one that is kept for it, then those with
// the fewest grants.
std::vector<NodeId> UnblockSearch::likely_nodes() const {
  struct Likely {
    bool others = true;
    std::size_t grants = 0;
    std::int64_t rank = 0;
    NodeId node;
    auto operator<=>(const Likely&) const = default;
  };
  const Entry& one = engine_.entry(who_);
  const auto own = engine_.reservations_.find(one.pool);
  const NodeId kept = own != engine_.reservations_.end() && own->second.holder == who_
                          ? own->second.node
                          : NodeId::none();
  std::vector<Likely> likely;
  for (std::size_t i = 0; i < engine_.on_node_.size(); ++i) {
    const NodeId node(i);
    if (!engine_.fleet.present(node) || engine_.on_node_[i].empty()) {
      continue;
    }
    const PlacementIndex::NodeState empty =
        engine_.node_without(node, [](WorkloadId) { return true; });
    if (engine_.index.judge(one.shape, node, empty, ~std::uint64_t{0}).cause == Cause::none) {
      likely.push_back({.others = node != kept,
                        .grants = engine_.on_node_[i].size(),
                        .rank = engine_.index.rank(node),
                        .node = node});
    }
  }
  std::ranges::sort(likely);
  std::vector<NodeId> nodes;
  for (std::size_t i = 0; i < std::min(likely.size(), kMostNodes); ++i) {
    nodes.push_back(likely[i].node);
  }
  return nodes;
}

// Whether it would find a place if nobody else had a turn.
bool UnblockSearch::is_enough(const Set& set) {
  ++steps_;
  Scratch scratch(engine_);
  for (const Unit* unit : set) {
    for (const WorkloadId id : unit->holders) {
      scratch.take_out(id);
    }
  }
  return engine_.is_head(who_) ? engine_.plan_minimum(who_, scratch)
                               : engine_.plan_task(who_, scratch);
}

// The first that are enough together, without those that are not needed.
std::optional<UnblockSearch::Set> UnblockSearch::enough_of(const Set& order) {
  if (order.empty() || steps_ > kMostSteps || !is_enough(order)) {
    return std::nullopt;
  }
  std::size_t low = 0;
  std::size_t high = order.size();
  while (low + 1 < high) {
    const std::size_t middle = (low + high) / 2;
    (is_enough({order.begin(), order.begin() + static_cast<std::ptrdiff_t>(middle)}) ? high : low) =
        middle;
  }
  Set set(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(high));
  for (std::size_t i = set.size(); i-- > 0 && set.size() > 1 && steps_ <= kMostSteps;) {
    Set fewer = set;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (is_enough(fewer)) {
      set = std::move(fewer);
    }
  }
  return set;
}

// Sets after which it would find a place, the smallest first.
std::vector<UnblockSearch::Set> UnblockSearch::candidates() {
  std::vector<Set> sets;
  const auto add = [&](const Set& order) {
    std::optional<Set> set = enough_of(order);
    if (set.has_value() && std::ranges::find(sets, *set) == sets.end()) {
      sets.push_back(std::move(*set));
    }
  };
  Set all;
  for (const Unit& unit : units_) {
    all.push_back(&unit);
  }
  if (!engine_.is_head(who_)) {
    for (const NodeId node : likely_nodes()) {
      const Set here = units_on(node);
      add(here);
      if (const auto one = std::ranges::find_if(
              here, [&](const Unit* unit) { return steps_ <= kMostSteps && is_enough({unit}); });
          one != here.end()) {
        sets.push_back({*one});
      }
    }
  } else {
    for (const auto& [pool, reservation] : engine_.gang_reservations_) {
      if (reservation.holder == who_) {
        Set there;
        for (const auto& [node, places] : reservation.places) {
          for (const Unit* unit : units_on(node)) {
            if (std::ranges::find(there, unit) == there.end()) {
              there.push_back(unit);
            }
          }
        }
        add(there);
      }
    }
    Set by_node;
    for (const WorkloadId id : engine_.by_emptiest_node()) {
      const auto unit = std::ranges::find_if(all, [&](const Unit* one) {
        return std::ranges::find(one->holders, id) != one->holders.end();
      });
      if (unit != all.end() && std::ranges::find(by_node, *unit) == by_node.end()) {
        by_node.push_back(*unit);
      }
    }
    add(by_node);
  }
  if (sets.empty()) {
    // Its queue may be in the way as well: those that hold what it may not have go first.
    std::ranges::stable_partition(all, [&](const Unit* unit) {
      return engine_.entry(unit->id).leaf == engine_.entry(who_).leaf;
    });
    add(all);
  }
  const auto leaving = [](const Set& set) {
    std::size_t sum = 0;
    for (const Unit* unit : set) {
      sum += unit->holders.size();
    }
    return sum;
  };
  std::erase_if(sets, [&](const Set& set) { return leaving(set) > kMostLeaving; });
  std::ranges::stable_sort(sets, [&](const Set& a, const Set& b) {
    return leaving(a) != leaving(b) ? leaving(a) < leaving(b) : goes_before(*a.front(), *b.front());
  });
  return sets;
}

// One after the other, as they would be gone.
bool UnblockSearch::would_start(const Set& set) {
  Trial trial(engine_, who_);
  for (const Unit* unit : set) {
    for (const WorkloadId id : unit->holders) {
      // Of a gang nothing comes free while it hopes to be whole again: it ends for good.
      trial.end(id, !engine_.is_head(unit->id) && engine_.entry(id).options.restartable);
    }
    if (engine_.is_head(unit->id)) {
      trial.end_rest_of(unit->id);
    }
    const Trial::Answer answer = trial.pass(unit == set.back());
    if (answer != Trial::Answer::waits) {
      return answer == Trial::Answer::starts && unit == set.back();
    }
  }
  return false;
}

// True: it is enough, and said.
bool UnblockSearch::try_set(const Set& set) {
  if (!would_start(set)) {
    return false;
  }
  Unblock way{.kind = Unblock::Kind::evict};
  for (const Unit* unit : set) {
    way.workloads.push_back(engine_.entry(unit->id).uid);
  }
  if (std::ranges::find(found_, way.workloads, &Unblock::workloads) == found_.end()) {
    found_.push_back(std::move(way));
  }
  return true;
}

void UnblockSearch::evict() {
  find_units();
  std::vector<Set> sets = candidates();
  if (sets.size() > kMostTried) {
    sets.resize(kMostTried);
  }
  bool any = false;
  for (const Set& set : sets) {
    any = try_set(set) || any;
    if (found_.size() == kMost) {
      return;
    }
  }
  // What comes free by one is taken by somebody before it: two of them.
  for (std::size_t i = 0; !any && i < sets.size(); ++i) {
    for (std::size_t k = i + 1; !any && k < std::min(sets.size(), kMostPaired); ++k) {
      Set both = sets[i];
      for (const Unit* unit : sets[k]) {
        if (std::ranges::find(both, unit) == both.end()) {
          both.push_back(unit);
        }
      }
      any = try_set(both);
    }
  }
}

// Work ends when it said that it would, and what waits starts as room comes.
void UnblockSearch::wait() {
  if (engine_.quotas.counting() && engine_.quotas.tree.keeps_history()) {
    return;  // shares move with time alone
  }
  std::vector<std::pair<Time, WorkloadId>> ends = engine_.declared_ends();
  std::erase_if(ends, [&](const auto& end) { return end.first <= engine_.now; });
  Trial trial(engine_, who_);
  const std::optional<Time> due = engine_.timers_.next_of_others();
  std::size_t instants = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const auto& [at, id] = ends[i];
    if ((due.has_value() && *due <= at) || ++instants > kMostEnds ||
        (trial.first_new_end().has_value() && *trial.first_new_end() <= at) ||
        !engine_.entry(id).gang.is_none() || !runs_undisturbed(id)) {
      return;  // what comes of this one cannot be foreseen, nor what comes after it
    }
    trial.wait_until(at);
    trial.end(id, false);
    const Trial::Answer answer = trial.pass(i + 1 == ends.size());
    if (answer == Trial::Answer::starts) {
      found_.push_back({.kind = Unblock::Kind::wait,
                        .node = engine_.fleet.node(engine_.entry(id).grant->node).name,
                        .workloads = {engine_.entry(id).uid},
                        .until = at});
    }
    if (answer != Trial::Answer::waits) {
      return;
    }
  }
}

}  // namespace berth::core
