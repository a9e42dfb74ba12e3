// ClaimSearch: what has to leave, or move, so that a workload may have its place.
//
//   ClaimSearch search(impl, claimant);
//   if (const std::optional<ClaimPlan> plan = search.find()) …   // every place in it was tried
//
// Remedies in their order: consolidation (everything that moves has a new place), reclaim (other
// queues, by what is deserved, then by fair share), preemption (lower priority in the same queue).
// A set of victims is judged on a Scratch: they leave, the claimant is placed, and what left is
// placed again where there is room. Only those that were not count as victims, with their rights.
// Among sufficient sets the one that costs least is taken: queues pushed below what they deserve,
// gangs broken, highest priority, device time lost, number, UIDs. Exact for up to kExactUnits
// things that could leave; beyond that node by node, and for gangs in the order of candidates, both
// without what turns out not to be needed.
//
// Source: queues-gangs-topology.md 5, I1 to I15. Thread-safety: none; works on one engine's state.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/engine/engine_impl.h"
#include "core/engine/scratch.h"

namespace berth::core {

// Things that leave together: one task, one surplus member, or a whole gang.
struct ClaimUnit {
  std::vector<WorkloadId> members;
  QueueId leaf;
  std::int64_t priority = 0;  // the highest
  bool breaks_gang = false;
  bool bare = false;      // nothing starts some of it again
  Time newest;            // of its grants
  std::int64_t last = 0;  // its last member, by arrival in the gang
  std::string_view uid;   // the first
  std::int64_t over = 0;  // how far its queue is above its share, in thousandths of the share
};

struct ClaimPlan {
  struct Leaver {
    WorkloadId workload;
    Evicted::Rule rule = Evicted::Rule::guarantee;
    std::unique_ptr<Grant> moves_to;  // null: it waits again
    std::string text;
  };

  std::vector<Leaver> leavers;
  std::vector<Planned> places;  // of the claimant
};

class ClaimSearch {
 public:
  ClaimSearch(Engine::Impl& engine, WorkloadId claimant);

  std::optional<ClaimPlan> find();
  // What stood in the way, for the verdict.
  Verdict::Preemption blocked_by() const;
  bool complete() const { return steps_ < budget_ && !truncated_; }
  std::int64_t steps() const { return steps_; }
  // More than an exact search would look at.
  bool many_run() const;

 private:
  enum class Mode : std::uint8_t {
    consolidate,
    guarantee,
    fair_share,
    preempt,
    backfill,  // work that is marked to make way for the first in line
  };
  // Who of those that leave may find another place.
  enum class Again : std::uint8_t { all, of_others, chosen, nobody };
  // What keeps running work where it is.
  enum class Kept : std::uint8_t {
    not_asked,
    nothing,
    not_restartable,
    non_preemptible,
    priority,
    min_runtime,
    fair_share,
    eviction_cap
  };

  struct Cost {
    std::int64_t bare = 0;  // that nothing starts again
    std::int64_t below_deserved = 0;
    std::int64_t gangs_broken = 0;
    std::int64_t highest_priority = 0;
    std::int64_t lost = 0;  // thousandths of a device x milliseconds
    std::int64_t count = 0;
    std::int64_t nodes = 0;  // from which something leaves
    std::int64_t earlier =
        0;  // members that came before others of their gang; surplus goes last first
    std::vector<std::string_view> uids;
    auto operator<=>(const Cost&) const = default;
  };

  // What leaves at once, when rights are asked.
  struct Leaving {
    WorkloadId gang = WorkloadId::none();  // that leaves whole
    QueueId leaf;
    std::vector<WorkloadId> members;
    Charge held;
    std::int64_t mib = 0;
  };

  struct Found {
    Cost cost;
    ClaimPlan plan;
    std::vector<const ClaimUnit*> units;
  };

  static constexpr std::size_t kExactUnits = 8;
  static constexpr std::size_t kMostMoves = 16;

  // --- who could leave (claim_units.cc)
  std::vector<ClaimUnit> units(Mode mode);
  std::vector<ClaimUnit> units_among(const std::vector<WorkloadId>& running, Mode mode);
  std::vector<ClaimUnit> first_tasks(Mode mode);
  static void sort_candidates(std::vector<ClaimUnit>& units);
  bool may_leave(WorkloadId id, Mode mode);
  Kept kept_by(WorkloadId id, Mode mode) const;
  void note(WorkloadId id, Mode mode, Kept kept);
  bool queue_may_lose(QueueId leaf, Mode mode, const Charge* held = nullptr) const;
  bool is_above_share(QueueId leaf, QueueId ancestor, Mode mode, const Charge* held) const;
  void add_gang_units(WorkloadId head, Mode mode, std::vector<ClaimUnit>& units);
  ClaimUnit unit_of(std::vector<WorkloadId> members) const;
  Duration protection_of(WorkloadId id, Mode mode) const;
  bool side_may_take_from(QueueId leaf, Mode mode) const;
  static Entitlement share_by(Mode mode);
  std::int64_t over_share(QueueId leaf, Mode mode) const;
  QueueId ancestor_with(QueueId leaf) const;
  QueueId side_below(QueueId ancestor, QueueId leaf) const;
  QueueId side_of(QueueId leaf) const;
  bool would_come_back(QueueId leaf) const;
  std::vector<QuotaDimensionId> short_dimensions() const;

  // --- where much runs (claim_many.cc)
  struct OpenLeaf {
    QueueId leaf;
    std::int64_t over = 0;
    const std::set<Runner>* runners = nullptr;
  };
  std::vector<OpenLeaf> open_leaves(Mode mode);
  bool may_open_alone(WorkloadId id) const;
  std::vector<ClaimUnit> units_on(NodeId node, Mode mode, const std::vector<OpenLeaf>& leaves);
  std::optional<Found> search_many(Mode mode);
  std::optional<Found> sets_on(const std::vector<NodeId>& nodes, Mode mode,
                               const std::vector<OpenLeaf>& leaves);
  std::optional<std::int64_t> booked_on_emptiest(const Shape& shape, NodeId node);
  std::optional<Found> consolidate_many();
  std::optional<Found> emptied(NodeId node, const std::vector<const ClaimUnit*>& all);

  // --- which set (claim_search.cc)
  bool allowed(Mode mode);
  bool may_ask(Mode mode) const;
  std::optional<Found> search(Mode mode);
  std::optional<Found> search_among(Mode mode, const std::vector<ClaimUnit>& units);
  bool leaf_may_grow() const;
  std::optional<Found> one_by_one(Mode mode, const std::vector<ClaimUnit>& units);
  std::optional<Found> by_subsets(Mode mode, const std::vector<const ClaimUnit*>& units);
  std::optional<Found> by_nodes(Mode mode, const std::vector<ClaimUnit>& units);
  std::optional<Found> fewest_moves(NodeId node, std::vector<const ClaimUnit*> list);
  std::optional<Found> in_order(Mode mode, const std::vector<ClaimUnit>& units);
  std::optional<Found> judge(Mode mode, const std::vector<const ClaimUnit*>& set);
  std::optional<Found> judge_so(Mode mode, const std::vector<const ClaimUnit*>& set, Again again);
  std::vector<const ClaimUnit*> without_needless(std::vector<const ClaimUnit*> set);
  void take_out(Scratch& scratch, const std::vector<const ClaimUnit*>& set);
  bool goes(WorkloadId id, const std::vector<const ClaimUnit*>& set) const;
  bool opens_a_node(const std::vector<const ClaimUnit*>& set) const;
  bool place_claimant(Scratch& scratch);
  bool rights_hold(Mode mode, const std::vector<WorkloadId>& lost);
  bool survives_reversal(const std::vector<WorkloadId>& lost);
  std::vector<WorkloadId> place_again(Mode mode, Scratch& scratch,
                                      const std::vector<const ClaimUnit*>& set, Again again);
  bool may_lose(Mode mode, const std::vector<WorkloadId>& lost);
  bool leave_in_turn(Mode mode, Scratch& scratch, std::vector<Leaving> units);
  std::int64_t milli_devices(const Grant& grant) const;
  Cost cost_of(Mode mode, const std::vector<const ClaimUnit*>& set,
               const std::vector<WorkloadId>& lost);
  std::string reason(Mode mode, WorkloadId victim) const;
  bool more_steps(std::int64_t steps);

  Engine::Impl& engine_;
  WorkloadId claimant_;
  QueueId leaf_;
  Charge charge_;                        // what it takes where it was placed
  std::vector<QuotaDimensionId> short_;  // dimensions that it lacks
  std::vector<ExactSum> leaf_before_;    // preempt: alloc of the leaf, by dimension of the charge
  std::set<WorkloadId> gone_;            // already, as a trial supposes (trial.h)
  std::set<WorkloadId> whole_;           // gangs that the set under judgement takes whole
  std::vector<Kept>
      kept_;  // by workload, as of the last remedy that looked at it; moves do not count
  std::vector<bool> within_share_;  // by queue: a leaf that may lose nothing by the last remedy
  std::set<QueueId> asked_singly_;  // leaves some of whose work was looked at
  std::vector<std::int64_t> booked_;
  std::optional<Scratch> released_;  // what is being released is out already (consolidate_many)
  bool truncated_ = false;           // some that might have been enough were not looked at
  // Of the set last judged: who might have found another place, and how many did.
  std::vector<WorkloadId> movers_;
  std::size_t placed_again_ = 0;
  WorkloadId first_again_ = WorkloadId::none();  // of the movers, the first to be tried
  std::vector<WorkloadId> chosen_;               // of the movers, those who may (Again::chosen)
  std::int64_t over_caps_ = 0;                   // sets that a cap on victims forbade
  bool quota_open_ = false;                      // a task that lacks nothing but room on a node
  bool mixed_ = false;  // lower priority of the own leaf may go as well as others' excess
  std::int64_t steps_ = 0;
  std::int64_t budget_ = 0;
};

}  // namespace berth::core
