// QueueTree from the inside. Files: queue_tree.cc (names, books), tree_layout.cc (configuration),
// tree_shares.cc (demand, division, reservations, history), tree_questions.cc (what is asked),
// tree_race.cc (whose turn it is), tree_verify.cc.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/queue/division.h"
#include "core/queue/exact_sum.h"
#include "core/queue/queue_tree.h"

namespace berth::core {

// A device class and a kind, as one index that lives as long as the tree.
struct QuotaSlotTag;
using QuotaSlot = Id<QuotaSlotTag>;

constexpr QuotaSlot slot_of(DeviceClassId device_class, DimensionKind kind) {
  return QuotaSlot(device_class.index() * kDimensionKinds + static_cast<std::size_t>(kind));
}

constexpr DimensionKind kind_of(QuotaSlot slot) {
  return static_cast<DimensionKind>(slot.index() % kDimensionKinds);
}

// The sum of so many units of which per_whole make one.
inline void set_units(ExactSum& sum, std::int64_t units, std::int64_t per_whole) {
  sum.clear();
  sum.add_fraction(units, per_whole);
}

constexpr DeviceClassId class_in(QuotaSlot slot) {
  return DeviceClassId(slot.index() / kDimensionKinds);
}

// Sums of bookings: everything, without what is releasing, and the same of non-preemptible work.
struct BookedSums {
  ExactSum present;
  ExactSum future;
  ExactSum fixed_present;
  ExactSum fixed_future;
  const ExactSum& of(Counting counting) const {
    return counting == Counting::present ? present : future;
  }
  const ExactSum& fixed_of(Counting counting) const {
    return counting == Counting::present ? fixed_present : fixed_future;
  }
  void add(const BookedSums& other) {
    present.add(other.present);
    future.add(other.future);
    fixed_present.add(other.fixed_present);
    fixed_future.add(other.fixed_future);
  }
  bool operator==(const BookedSums&) const = default;
};

// charge(q) of 4.2: what is booked or reserved below a queue, whichever is more at each of them.
struct ReservedCharge {
  ExactSum below;   // own bookings and the children's charges
  ExactSum charge;  // or R', if that is more
  bool operator==(const ReservedCharge&) const = default;
};

// A queue in one dimension.
struct QueuePlace {
  std::int64_t deserved = 0;
  std::int64_t limit = kUnlimited;
  std::int64_t reserved = 0;
  std::int64_t weight = 1;
  std::int64_t demand = 0;
  std::int64_t use = 0;  // u
  DivisionShare share;
  bool children_stale = true;  // their division must be done again
  BookedSums sums;
  std::array<ReservedCharge, 2> charges;  // by Counting; kept where somebody reserves
  std::int64_t need() const {
    const std::int64_t wanted = demand > reserved ? demand : reserved;
    return limit != kUnlimited && limit < wanted ? limit : wanted;
  }
};

// A standing that was worked out, for as long as nothing that it depends on changes.
struct KnownStanding {
  std::uint64_t changes = 0;  // QueueNode::changes then
  Charge charge;
  QueueStanding standing;
};

// What next() remembers of a queue.
struct QueueTurn {
  bool stale = true;  // the rest must be found anew
  QueueId leaf;       // whose head stands for the queue; none if no leaf below has one
  QueueStanding standing;
  bool has_head = false;  // of a leaf
  Charge head;
};

struct QueueNode {
  std::string name;
  QueueSpec spec;
  bool listed = false;
  std::string held;  // why it is, itself
  QueueId parent;
  std::uint32_t depth = 0;
  std::uint32_t rank = 0;  // by creation time, then name
  bool has_listed_children = false;
  std::vector<QueueId> children;
  QueueId blocked_by;              // itself or the nearest above that is held or stopped
  std::int64_t decay = 0;          // A; 0 = no history
  std::vector<QueuePlace> places;  // by dimension
  QueueTurn turn;
  std::uint64_t changes = 1;  // of its sums and its share
  std::array<KnownStanding, 4> standings;
  std::size_t oldest_standing = 0;
  // By slot, whether or not somebody names it: what a new configuration starts from.
  std::vector<BookedSums> own;
  std::vector<std::int64_t> own_demand;
  std::vector<std::int64_t> own_use;  // u of dimensions that were named once
};

struct QuotaDimension {
  QuotaSlot slot;
  bool reserving = false;  // some queue reserves in it
  bool stale = true;       // some queue's children are
  std::int64_t per_whole = 1;
};

// What a charge takes of one slot.
struct ChargeNeed {
  QuotaSlot slot;
  QuotaDimensionId dimension;  // none if nobody names it
  ExactSum amount;
};

struct QueueTree::Impl {
  std::vector<QueueNode> nodes;
  std::map<std::string, QueueId, std::less<>> by_name;
  std::vector<QueueId> top_down;  // every queue after its parent
  std::vector<std::string> classes;
  std::map<std::string, DeviceClassId, std::less<>> class_by_name;
  std::vector<std::int64_t> capacity;     // by slot
  std::vector<QuotaDimensionId> of_slot;  // by slot
  std::vector<QuotaDimension> dimensions;
  bool any_history = false;
  bool any_protection = false;              // a queue has a minimum run time
  std::optional<std::int64_t> last_sample;  // in steps

  Impl();

  QueueNode& node(QueueId queue) { return nodes[queue.index()]; }
  const QueueNode& node(QueueId queue) const { return nodes[queue.index()]; }
  QueuePlace& place(QueueId queue, QuotaDimensionId d) { return node(queue).places[d.index()]; }
  const QuotaDimension& dim(QuotaDimensionId d) const { return dimensions[d.index()]; }
  std::int64_t capacity_of(QuotaDimensionId d) const { return capacity[dim(d).slot.index()]; }

  // tree_layout.cc
  QueueId intern(std::string_view name);
  DeviceClassId intern_class(std::string_view model);
  void take(const QueueConfig& config);
  void link_parents();
  void lay_out();
  void hold(const std::vector<QueueProblem>& problems);
  void name_dimensions();
  void set_terms();
  void rebuild_books();
  void rebuild_place(QueueId queue, QuotaDimensionId d);
  bool is_trivial() const;

  // queue_tree.cc
  std::span<const ChargeNeed> needs(const Charge& charge);
  std::span<const ChargeNeed> named_needs(const Charge& charge);
  template <bool kNamedOnly>
  std::span<const ChargeNeed> find_needs(const Charge& charge);
  std::span<const ChargeNeed> last_needs() const {
    return std::span(needs_memory).first(needs_used);
  }
  void book(QueueId leaf, const Charge& charge, BookingState state, bool preemptible, bool adding);

  // tree_shares.cc
  void change_demand(QueueId leaf, const Charge& charge, std::int64_t sign);
  void demand_changed(QueueId queue, QuotaDimensionId d, std::int64_t by);
  void mark_stale(QueueId parent, QuotaDimensionId d);
  void divide_children(QueueId parent, QuotaDimensionId d);
  void settle_path(QueueId queue, QuotaDimensionId d);
  void settle(QuotaDimensionId d);
  void charge_booked(QueueId queue, QuotaDimensionId d, Counting counting, const ExactSum& amount,
                     bool adding);
  void recharge(QueueId queue, QuotaDimensionId d, Counting counting);
  bool set_use(QueueId queue, QuotaDimensionId d, std::int64_t use);
  bool sample_once();

  // tree_questions.cc
  // Of the charge that needs() was asked for last.
  QuotaRefusal refused_by_limit(QueueId leaf, Counting counting) const;
  QuotaRefusal refused_by_deserved(QueueId leaf, Counting counting) const;
  QuotaRefusal refused_by_reserved(QueueId leaf, Counting counting);
  QuotaRefusal refused_by_charge(QueueId leaf, const ChargeNeed& need, Counting counting);
  QuotaRefusal never_under_limits(QueueId leaf) const;
  QuotaRefusal never_beside_reservations(QueueId leaf);
  QuotaFigures figures(QueueId queue, QuotaDimensionId d);
  QueueId child_of_root_above(QueueId leaf) const;

  // tree_race.cc
  QueueStanding standing_of(QueueId queue, const Charge& charge);
  QueueStanding find_standing(QueueId queue, const Charge& charge);
  QueueRank rank_of(QueueId queue) const {
    return {.priority = node(queue).spec.priority, .order = node(queue).rank};
  }
  bool goes_before(QueueId a, const QueueStanding& of_a, QueueId b,
                   const QueueStanding& of_b) const;
  std::pair<QueueId, QueueId> sides(QueueId a, QueueId b) const;
  bool is_before(const QueueHead& a, const QueueHead& b);
  void turn_changed(QueueId queue);
  void standing_changed(QueueId queue);
  void find_turn(QueueId queue);

  // Kept between calls so that none allocates in the long run.
  std::vector<ChargeNeed> needs_memory;
  std::size_t needs_used = 0;
  ExactSum before_change;
  ExactSum tried;
  ExactSum tried_below;
  Division division;
  std::vector<Sibling> siblings;
  std::vector<DivisionShare> shares;
};

}  // namespace berth::core
