// MemberCounts: how many members of one shape really fit, on each node and in each domain.
//
//   MemberCounts counts(domains);
//   counts.set(node, {.members = 3});     // whenever the node's books or place changed
//   counts.members(rack)                  // sum over the nodes of the rack
//
// Incremental: a change costs O(levels). Who keeps one of these must set() every node whose books
// changed and every node for which Domains::sync() said true.
// Invariant: members(d) = sum of at(n).members over the nodes at or below d (verify()).
// Thread-safety: none; owned by one engine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ledger/books.h"
#include "core/placement/domains.h"
#include "core/placement/shape.h"

namespace berth::core {

inline constexpr std::int64_t kNoRoom = -1;

// What one node can take.
struct NodeRoom {
  std::int64_t members = 0;            // that fit together
  std::int64_t with_leader = kNoRoom;  // that fit beside the leader; kNoRoom: it does not fit here
  std::int64_t hole = 0;  // the largest free piece, in any unit; ties spare the largest
  bool operator==(const NodeRoom&) const = default;
};

class MemberCounts {
 public:
  explicit MemberCounts(const Domains& domains) : domains_(&domains) {}

  // Replaces what is known of the node. An absent node counts nothing, whatever `room` says.
  void set(NodeId node, const NodeRoom& room);

  const Domains& domains() const { return *domains_; }
  NodeRoom at(NodeId node) const;  // nothing when never set
  std::int64_t members(DomainId domain) const;
  // ASSERTs the invariant.
  void verify() const;

 private:
  struct Leaf {
    NodeRoom room;
    DomainId home;  // where it is counted
  };

  void add(DomainId home, std::int64_t members);

  const Domains* domains_;
  std::vector<Leaf> leaves_;        // by NodeId
  std::vector<std::int64_t> sums_;  // by DomainId
};

struct NodeCapacity {
  std::int64_t members = 0;
  bool exact = true;  // false: at most so many, since the shape is not simple
};

// How many equal members of the shape fit on a node together. Labels and taints are the caller's
// (constraint_refusal). Exact for simple shapes: a member needs k distinct devices and device d can
// take c_d of them, so t members fit iff sum over d of min(c_d, t) >= k t. `allowed`: device places
// that may be used.
NodeCapacity count_on_node(const Shape& shape, const NodeFace& face,
                           std::span<const DeviceFace> devices, const StaticFit& fit,
                           std::uint64_t allowed = ~std::uint64_t{0});

// How many grants of exactly this need the device can take, one after the other.
std::int64_t device_capacity(const DeviceNeed& need, const DeviceFace& face);

}  // namespace berth::core
