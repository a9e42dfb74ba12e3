// QueueTree: who may have how much. Bookings against limits, entitlements computed by the division,
// and the questions that admission, ordering and reclaim ask.
//
// A queue is known by its name and keeps its id, its bookings and its demand over every
// reconfiguration, whether it is configured or not. A name that vanished from the configuration
// while something was booked on it becomes *unlisted*: it hangs below the root, deserves nothing,
// has no weight, may start nothing, and still counts.
//
// A queue with a problem is held and so is all below it; the others work on. Where its parent is
// unknown or it lies on a cycle, it hangs below the root with its own quotas, so that a mistyped
// parent does not turn its running work into victims; quotas out of range are cut to the range.
//
// Invariants:
//   1. A queue's sums are those of its own bookings plus those of its children (verify()).
//   2. Entitlements depend on configuration, capacity, demand and history only, never on bookings.
//   3. No answer depends on the order of queues in the configuration: ties fall by creation time,
//      then name.
//   4. add and remove are exact inverses: sums of fractions are kept as fractions.
//
// Where no queue names a dimension nothing is asked of it. A queue that does not name a dimension
// which another names has the defaults there (deserved 0, limit none, reserved 0, weight 1). The
// root has no siblings: its priority and weight mean nothing, and a deserved of 0 means that none
// was said.
//
// Source: queues-gangs-topology.md 4, 5. Thread-safety: none; owned by one engine.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "base/wide.h"
#include "core/model/verdict.h"
#include "core/queue/charge.h"
#include "core/queue/exact_sum.h"
#include "core/queue/queue_config.h"

namespace berth::core {

// Why something may not start; cause none = it may. Amounts in MiB or milli, rounded up.
struct QuotaRefusal {
  Cause cause = Cause::none;
  QueueId queue = {};               // that refuses
  QuotaDimensionId dimension = {};  // none for queue_held and not_a_leaf_queue
  std::int64_t need = 0;            // of the charge
  std::int64_t used = 0;            // what was counted against the bound before it
  std::int64_t bound = 0;
  bool refused() const { return cause != Cause::none; }
};

// One queue in one dimension, in MiB or milli, rounded up.
struct QuotaFigures {
  std::int64_t deserved = 0;  // configured; kUnlimited
  std::int64_t limit = 0;     // kUnlimited
  std::int64_t reserved = 0;
  std::int64_t alloc = 0;               // everything booked
  std::int64_t releasing = 0;           // of alloc
  std::int64_t non_preemptible = 0;     // of alloc
  std::int64_t demand = 0;              // 4.1: inner queues add up what their children may use
  std::int64_t effective_deserved = 0;  // D'
  std::int64_t effective_reserved = 0;  // R'
  std::int64_t fair = 0;                // F
  std::int64_t decayed_use = 0;         // u, millionths of the capacity; 0 without history
};

// One row of a verdict's quotaChain.
struct QuotaChainLink {
  QueueId queue;
  QuotaDimensionId dimension;
  std::int64_t need = 0;
  std::int64_t short_of = 0;  // by how much used + need exceeds the limit
  QuotaFigures figures;
};

// alloc / allocatable; the denominator is at least 1.
struct DominantRatio {
  std::int64_t above = 0;
  std::int64_t below = 1;
  std::strong_ordering operator<=>(const DominantRatio& other) const {
    return Int128{above} * other.below <=> Int128{other.above} * below;
  }
};

// How a queue stands among its siblings when a given workload is its next.
struct QueueStanding {
  bool above_fair = false;      // not below F in all needed dimensions
  bool above_deserved = false;  // not within D' with the workload added
  DominantRatio ratio;
};

// What decides between siblings besides.
struct QueueRank {
  std::int64_t priority = 0;
  std::uint32_t order = 0;  // by creation time, then name
};

// Whether the one comes before its sibling (4.4).
inline bool goes_before(const QueueStanding& a, const QueueRank& rank_a, const QueueStanding& b,
                        const QueueRank& rank_b) {
  if (a.above_fair != b.above_fair) {
    return b.above_fair;
  }
  if (a.above_deserved != b.above_deserved) {
    return b.above_deserved;
  }
  if (rank_a.priority != rank_b.priority) {
    return rank_a.priority > rank_b.priority;
  }
  const std::strong_ordering order = a.ratio <=> b.ratio;
  return order != std::strong_ordering::equal ? order == std::strong_ordering::less
                                              : rank_a.order < rank_b.order;
}

// A leaf's first workload, in the race of the queues.
struct QueueHead {
  QueueId leaf;
  const Charge* charge = nullptr;
};

class QueueTree {
 public:
  struct Impl;  // for the files of this folder

  // As default_queues() says.
  QueueTree();
  ~QueueTree();
  QueueTree(QueueTree&&) noexcept;
  QueueTree& operator=(QueueTree&&) noexcept;
  QueueTree(const QueueTree&) = delete;
  QueueTree& operator=(const QueueTree&) = delete;

  // Takes over a configuration; bookings, demand, capacities and decayed use stay. `classes`: as
  // for check_queues. Returns the problems, `others` that the caller found included; whoever has
  // one is held.
  std::vector<QueueProblem> configure(const QueueConfig& config,
                                      const std::vector<std::string>& classes,
                                      const std::vector<QueueProblem>& others = {});

  // One leaf, no quota, nothing held: nothing is ever refused and there is nothing to order.
  bool trivial() const { return trivial_; }

  // Names. Unlisted queues are found too.
  std::optional<QueueId> find(std::string_view name) const;
  // The id of any name, for what runs and must be booked though its queue may not exist: a new name
  // is an unlisted queue.
  QueueId place_of(std::string_view name);
  std::size_t queue_slots() const;      // ids lie below this
  bool is_listed(QueueId queue) const;  // in the configuration (the root always is)
  bool is_leaf(QueueId queue) const;    // listed, not the root, without listed children
  QueueId parent(QueueId queue) const;  // none of the root
  std::span<const QueueId> children(QueueId queue) const;  // by priority, creation time, name
  const std::string& name(QueueId queue) const;
  std::string path_name(QueueId queue) const;     // "root/a/b"
  const QueueSpec& spec(QueueId queue) const;     // defaults, where nothing was configured
  std::string held_because(QueueId queue) const;  // "" = neither it nor any above is held
  QueueStop stop(QueueId queue) const;            // the strictest on its path

  // Whether work may name this queue: none, unknown_queue or not_a_leaf_queue.
  Cause queue_refusal(std::string_view queue_name) const;

  DeviceClassId class_of(std::string_view model);
  const std::string& class_name(DeviceClassId device_class) const;
  std::size_t dimensions() const;  // ids lie below this
  std::optional<QuotaDimensionId> dimension(std::string_view device_class,
                                            DimensionKind kind) const;
  std::string dimension_name(QuotaDimensionId dimension) const;  // "a100-80g/memory"
  // Those that the charge takes something of, ascending.
  std::vector<QuotaDimensionId> dimensions_of(const Charge& charge) const;
  // What the charge takes of a dimension, rounded up.
  std::int64_t amount_of(const Charge& charge, QuotaDimensionId dimension) const;

  // Books. remove takes back exactly what add took, in any order; neither changes an entitlement.
  void add(QueueId leaf, const Charge& charge, BookingState state, bool preemptible);
  void remove(QueueId leaf, const Charge& charge, BookingState state, bool preemptible);

  // What a workload of the leaf has or waits for, each rounded up to the dimension's unit by
  // itself, so that granting it changes no entitlement as long as the charge is the same.
  void add_demand(QueueId leaf, const Charge& charge);
  void remove_demand(QueueId leaf, const Charge& charge);

  // Usable capacity of ready devices minus foreign use, rounded down; remembered for dimensions
  // that nobody names yet.
  void set_capacity(DeviceClassId device_class, DimensionKind kind, std::int64_t amount);

  std::int64_t capacity(QuotaDimensionId dimension) const;

  // Admission without eviction (4.2, 4.1): nothing on the path held or stopped, limits, for
  // non-preemptible work deserved, counting such work only, and reserved capacity of others. Of
  // reservations the effective part R' is kept, so that an outage does not leave more reserved than
  // there is; and work inside its own queues' reservations passes, since it takes nothing of
  // others'.
  QuotaRefusal may_start(QueueId leaf, const Charge& charge, bool preemptible,
                         Counting counting) const;
  // over_limit if no release of running work can help: above the smallest limit on the path, or
  // above the capacity that the reservations of the root's other children leave.
  QuotaRefusal never_fits(QueueId leaf, const Charge& charge) const;

  // Shares (section 5), on present sums without what is releasing.
  QueueId lowest_common_ancestor(QueueId a, QueueId b) const;
  // Of two leaves: the queues on their paths right below that one.
  std::pair<QueueId, QueueId> sides(QueueId a, QueueId b) const;
  // How the queue stands among its siblings with that workload as its next, and what else decides.
  // The same as long as changes() is.
  QueueStanding standing(QueueId queue, const Charge& charge) const;
  QueueRank rank(QueueId queue) const;
  // The cause is over_limit where the entitlement is what it would exceed. I1: the charge keeps
  // every queue from the leaf up to, not including, `ancestor` within its entitlement, and
  // non-preemptible work within D' counting such work only.
  QuotaRefusal within(QueueId leaf, QueueId ancestor, const Charge& charge, Entitlement entitlement,
                      bool preemptible) const;
  // I2: every queue from the leaf up to, not including, `ancestor` holds more than its entitlement.
  // False where one of them deserves without limit.
  bool above(QueueId leaf, QueueId ancestor, QuotaDimensionId dimension,
             Entitlement entitlement) const;

  // Whether the fleet has less left of the dimension than the charge takes.
  bool lacks(const Charge& charge, QuotaDimensionId dimension, Counting counting) const;
  // What the queue holds, releasing included.
  ExactSum held(QueueId queue, QuotaDimensionId dimension) const;
  // The same, rounded up as in figures().
  std::int64_t alloc(QueueId queue, QuotaDimensionId dimension) const;
  // I5: with the charge the queue would hold more than F, and more than it did.
  bool rises(QueueId queue, const Charge& charge, QuotaDimensionId dimension,
             const ExactSum& before) const;
  // It holds less than D'.
  bool below_deserved(QueueId queue, QuotaDimensionId dimension) const;

  // Makes all shares right. Who asks for one does so too, for the queues on its path.
  void settle() const;
  // Grows whenever something is booked on the queue or below it, or a share there was found to be
  // another; of the root, with every booking. Shares count as of the last question.
  std::uint64_t changes(QueueId queue) const;

  QuotaFigures figures(QueueId queue, QuotaDimensionId dimension) const;
  // Leaf to root, every level and every dimension of the charge.
  std::vector<QuotaChainLink> chain(QueueId leaf, const Charge& charge, Counting counting) const;

  // D' or F alone.
  std::int64_t share(QueueId queue, QuotaDimensionId dimension, Entitlement entitlement) const;

  // Whose turn it is (4.4): from the root down, at each queue the child that comes first: below F
  // in all needed dimensions, within D' with its workload added, priority, lower dominant ratio
  // over all dimensions with it added, creation time, name. On sums without what is releasing.
  //
  // Asked of given first workloads: index into `heads`, at most one per leaf, not empty.
  std::size_t first(std::span<const QueueHead> heads) const;
  // Kept over a pass of many grants: a leaf's first workload is told once, and a booking costs what
  // lies on its path. None if no leaf has one.
  void set_head(QueueId leaf, const Charge& charge);
  void clear_head(QueueId leaf);
  std::optional<QueueId> next() const;

  // Decay of past use (4.3). sample: to be called at least every kSampleStep; catches up on whole
  // steps. note_grant: at a grant, so that bursts do not slip through.
  static constexpr Duration kSampleStep{60'000};
  void sample(Time now);
  void note_grant(QueueId leaf, const Charge& charge);
  bool protects() const;       // some queue has a minimum run time
  bool keeps_history() const;  // some queue has one; if not, sample has nothing to do
  // A = floor(2^32 (1 - 2^(-kSampleStep / half_life))).
  static std::int64_t decay_factor(Duration half_life);

  // Everything that is kept incrementally, compared with what the caller's own lists give. Error
  // internal naming the first difference. Demand: (leaf, charge) as given to add_demand.
  Result<void> verify(std::span<const Booking> bookings, std::span<const QueueHead> demand) const;

 private:
  std::unique_ptr<Impl> impl_;
  bool trivial_ = true;
};

}  // namespace berth::core
