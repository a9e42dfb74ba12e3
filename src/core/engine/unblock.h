// UnblockSearch: the smallest changes known by which a waiting workload would start, each of which
// alone is enough (queues-gangs-topology.md 9.1).
//
// Three kinds: so much memory of a device comes free; work is evicted, one after the other; time
// passes until work has ended by its own declaration. Every set that is returned was tried on the
// engine's own state (trial.h) with everybody who comes before the workload, and was enough. No set
// means that none was found among those that were tried, not that there is none: what others would
// claim or take meanwhile cannot always be foreseen.
//
// It is asked only for a verdict in full, and changes nothing. Thread-safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/engine/engine_impl.h"

namespace berth::core {

class UnblockSearch {
 public:
  // `who` waits in line: a task, a later member or the head of a gang.
  UnblockSearch(Engine::Impl& engine, WorkloadId who);

  // The smallest first, at most kMost.
  std::vector<Unblock> find();

  static constexpr std::size_t kMost = 3;

 private:
  // What leaves together: a task or a whole gang.
  struct Unit {
    WorkloadId id;  // of a gang: its head
    std::vector<WorkloadId> holders;
  };
  using Set = std::vector<const Unit*>;

  struct Shortfall {
    std::int64_t mib = 0;
    std::int64_t rank = 0;
    DeviceId device;
    auto operator<=>(const Shortfall&) const = default;
  };

  // --- free
  void free_memory();
  std::vector<Shortfall> shortfalls() const;

  // --- evict
  void evict();
  void find_units();
  bool may_be_evicted(WorkloadId id) const;
  bool runs_undisturbed(WorkloadId id) const;
  bool goes_before(const Unit& a, const Unit& b) const;
  std::vector<Set> candidates();
  std::vector<NodeId> likely_nodes() const;
  Set units_on(NodeId node) const;
  std::optional<Set> enough_of(const Set& order);
  bool is_enough(const Set& set);
  bool would_start(const Set& set);
  bool try_set(const Set& set);

  // --- wait
  void wait();

  Engine::Impl& engine_;
  WorkloadId who_;
  std::vector<Unit> units_;  // who is to be asked first, first
  std::vector<Unblock> found_;
  std::int64_t steps_ = 0;
};

}  // namespace berth::core
