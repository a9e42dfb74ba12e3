// Policy: a named way to rank feasible placements. The rules decide what fits; a policy only ranks.
//
// Lowest cost wins; ties go to the first node in the fixed node order. A candidate's cost is
//
//     round(base + offset(group))        to the policy's grain
//
// where `base` depends on one node's state alone, so it is kept until that node changes, and the
// offset on cluster-wide sums, computed once per decision for the few groups (domain of the node,
// gang hosts lost) that occur. A policy without cluster-wide terms has one group and offset 0.
//
// No floating point decides: costs are 64-bit integers. Source: placement.md "Rules", 5.
// Thread-safety: none; owned by one engine. At most five virtuals beside the destructor.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/ledger/books.h"
#include "core/ledger/ledger.h"
#include "core/placement/shape.h"

namespace berth::core {

inline constexpr std::int64_t kNoCost = std::numeric_limits<std::int64_t>::max();

// What a policy keeps about one node until the node changes. Unused fields stay 0.
struct NodeValue {
  std::int64_t value = 0;     // worth of the leftovers
  std::int64_t spare = 0;     // sum of free milli over devices
  std::int64_t pressure = 0;  // cost of the state before placement
  std::uint64_t hosts = 0;    // gang classes that the node can host
  std::int32_t idle = 0;      // idle whole devices
  std::uint16_t domain = 0;   // nodes of a domain share every offset for equal masks
  bool operator==(const NodeValue&) const = default;
};

struct NodeInput {
  NodeId id;
  const Node& node;
  const NodeFace& face;
  std::span<const DeviceFace> devices;
  std::span<const DeviceId> ids;  // of the devices
  const Ledger& ledger;           // for policies that look at who holds what
  // By DeviceId: the place of its UUID among all present ones in byte order. Only for evaluate()
  // and choose() of policies that rank UUIDs; it changes with the fleet alone.
  std::span<const std::uint32_t> uuid_ranks = {};
};

struct PlaceInput {
  const NodeInput& on;
  const NodeValue& value;  // of the node before placement
  const Shape& shape;
  const DeviceAsk* ask;    // null: CPU only
  const AskFit* fit;       // of the ask
  std::uint64_t fits = 0;  // device places that may take it now
  std::int64_t cpu = 0;    // what the placement takes of the node
  std::int64_t ram = 0;
  std::uint32_t drawn = 0;  // policies that draw: below the number of places that fit
};

struct Candidate {
  std::int64_t base = kNoCost;
  std::uint64_t lost = 0;   // gang classes that could be hosted before and cannot after
  bool opens_idle = false;  // it takes a device that nobody uses
  // What orders the devices of one node where `base` does not tell them apart. Only between places
  // for one container of a task with several: lower first, then base, then place.
  std::int64_t within = 0;
};

// A node's ways to take the ask: one, or two that differ in kind (a partly used device, an idle
// one). Where bases are equal the first wins.
struct Candidates {
  std::array<Candidate, 2> at;
  int count = 0;
  void add(Candidate candidate) { at[static_cast<std::size_t>(count++)] = candidate; }
};

struct GroupKey {
  std::uint16_t domain = 0;
  std::uint64_t lost = 0;
  bool operator==(const GroupKey&) const = default;
};

// Device places in grant order.
struct Places {
  std::array<std::uint8_t, 64> at{};
  int count = 0;
  void add(std::size_t place) {
    at[static_cast<std::size_t>(count++)] = static_cast<std::uint8_t>(place);
  }
};

class Policy {
 public:
  virtual ~Policy() = default;

  virtual NodeValue value_of(const NodeInput& node) const = 0;
  // A node's value changed: keep cluster-wide sums in step. `gone` = default value.
  virtual void replace(const NodeValue& before, const NodeValue& after) = 0;
  virtual Candidates evaluate(const PlaceInput& input) const = 0;
  // Adds to `out[i]` the decision-time term of group i for this shape.
  virtual void offsets(const Shape& shape, std::span<const GroupKey> groups,
                       std::span<std::int64_t> out) const = 0;
  // The devices of the way `which` that evaluate() named; exactly the ask's count.
  virtual Places choose(const PlaceInput& input, int which) const = 0;

  std::int64_t grain() const { return grain_; }
  bool draws() const { return draws_; }  // picks uniformly among feasible nodes (`random`)
  // Bases of a task's containers add up to the node's; else they judge the node as it was, and the
  // hardest container's stands for all.
  bool adds_up() const { return adds_up_; }
  bool ranks_uuids() const { return ranks_uuids_; }
  // Obeys OrderHints itself. Else requests with hints are ranked by level (by_level.h), where a
  // level without a hint follows the policy's leaning.
  bool reads_hints() const { return reads_hints_; }
  OrderHint leaning() const { return leaning_; }
  bool packs() const { return packs_; }  // prefers filling used devices: promises outrank opening

 protected:
  std::int64_t grain_ = 1;
  bool draws_ = false;
  bool packs_ = false;
  bool adds_up_ = true;
  bool ranks_uuids_ = false;
  bool reads_hints_ = false;
  OrderHint leaning_ = OrderHint::pack;
};

// total to the nearest multiple of grain, halves away from zero (placement.md 5.8).
inline std::int64_t round_cost(std::int64_t total, std::int64_t grain) {
  if (grain == 1) {
    return total;
  }
  const std::int64_t half = grain / 2;
  return total >= 0 ? (total + half) / grain * grain : -((-total + half) / grain * grain);
}

// The largest total that rounds to `rounded`.
inline std::int64_t largest_rounding_to(std::int64_t rounded, std::int64_t grain) {
  if (grain == 1) {
    return rounded;
  }
  const std::int64_t half = grain / 2;
  return rounded >= 0 ? rounded + half - 1 : rounded + half;
}

}  // namespace berth::core
