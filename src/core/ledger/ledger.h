// Ledger: all grants against capacity and observation. The only owner of "how much is promised".
//
// For a device with usable memory U (core/model/device.h):
//
//     committed = foreign + sum over grants of max(request, measured use)
//     headroom  = max(0, U - committed)
//     foreign   = max(0, used - sum of measured use)                       attributed samples
//               = floor + max(0, used - floor - sum of running requests)   device totals only
//
// (design.md 4, leases.md 4), where `floor` is what was in use while nothing was granted. A grant
// is booked through a Transaction, which leaves nothing behind unless it is committed. Every figure
// is kept incrementally: no call costs more than the node it touches.
//
// Invariants (check() recomputes them all):
//   1. what is granted, without what is being released, never exceeds U on a device by the ledger's
//      own doing: it may only after capacity shrank, foreign use grew or a grant was adopted;
//   2. an exclusive grant is alone on its device; a shared device has one sharing mode (L1, L5);
//   3. every sum equals the sum over its holdings; a device without holdings has all sums at zero.
// Thread-safety: none; owned by one engine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "core/ledger/books.h"
#include "core/ledger/change_log.h"
#include "core/model/fleet.h"
#include "core/model/ids.h"
#include "core/model/workload.h"

namespace berth::core {

struct LedgerRules {
  std::int64_t limit_overcommit_percent = 200;  // L4
  std::optional<Duration> max_sample_age;       // empty = ledger-only: no observation needed
  std::optional<Memory> whole_foreign_max;      // empty = max(512 MiB, 2 % of total)
};

// The most that limits on a device may sum to (L4), in bytes.
std::int64_t limit_ceiling(std::int64_t usable, std::int64_t percent);
// How much foreign use a device may carry and still be taken whole (interfaces.md 6), in bytes.
std::int64_t whole_foreign_ceiling(const LedgerRules& rules, const Device& device);

struct Sample {
  struct Use {
    WorkloadId workload;
    std::int64_t bytes = 0;
  };

  Time sampled_at;
  std::optional<std::int64_t> used;  // bytes
  bool attributed = false;
  std::vector<Use> uses;
};

// How a sample changed a device's page.
struct SampleEffect {
  std::int64_t foreign_before = 0;
  std::int64_t foreign_after = 0;
  std::vector<Sample::Use>
      overuse;  // grants that began to use more than they asked for, by how much
};

class Ledger {
 public:
  Ledger(const Fleet& fleet, LedgerRules rules) : fleet_(fleet), rules_(rules) {}

  const LedgerRules& rules() const { return rules_; }

  // Takes over a node's description after the fleet changed. Grants on devices that vanished are
  // still booked and must be unbooked next.
  void sync_node(NodeId node, Time now);
  // Takes over one device's health and cordon after the fleet changed.
  void sync_device(DeviceId device, Time now);

  // The device went away: what was seen on it says nothing about the one that may come back.
  void forget_samples(DeviceId device);
  SampleEffect observe(DeviceId device, const Sample& sample, Time now);
  // Blocks devices whose last sample has become too old at `now`.
  // Returns the earliest time at which another one will, if any.
  std::optional<Time> age_samples(Time now);

  // Books a grant on its node. Requires a present node.
  void book(WorkloadId workload, const Grant& grant);
  void unbook(WorkloadId workload, const Grant& grant);
  // The init containers are done: the running charge counts from now on. `grant.starting` is true
  // before and must be cleared by the caller afterwards.
  void shrink(WorkloadId workload, const Grant& grant);
  // Marks a booked grant's charge as about to end, or takes that back.
  void set_releasing(WorkloadId workload, const Grant& grant, bool releasing);
  // A promise becomes a grant.
  void keep_promise(WorkloadId workload, const Grant& grant);

  const NodeFace& node(NodeId id) const { return nodes_[id.index()].face; }

  std::size_t node_slots() const { return nodes_.size(); }

  std::span<const DeviceFace> faces(NodeId id) const {
    const NodeFace& face = nodes_[id.index()].face;
    return {faces_.data() + face.first, face.count};
  }

  const DeviceBook& book(DeviceId id) const { return books_[id.index()]; }

  // The face of a device as it would be without the holdings that `gone` names.
  using HoldingRule = std::function<bool(const Holding&)>;
  DeviceFace face_without(DeviceId id, const HoldingRule& gone) const;
  // The face of a device as it will be once everything on it that is being released is gone.
  DeviceFace future_face(DeviceId id) const;
  NodeFuture future(NodeId id) const;

  bool has_releasing(NodeId id) const { return nodes_[id.index()].releasing_grants > 0; }

  const ChangeLog& changes() const { return changes_; }
  // Without what was only supposed (Hypothesis).
  const ChangeLog& lasting_changes() const { return lasting_changes_; }

  // Marks a node as changed for reasons outside the books (a reservation came or went). Not among
  // the lasting changes.
  void touch(NodeId id) { changes_.mark(id); }

  // Recomputes every derived figure. Error internal with the first difference.
  Result<void> check() const;

 private:
  friend class Hypothesis;  // puts pages back as they were

  void mark(NodeId id) {
    changes_.mark(id);
    if (hypotheses_ == 0) {
      lasting_changes_.mark(id);
    }
  }

  struct NodePage {
    NodeFace face;
    std::int64_t cpu_booked = 0;
    std::int64_t ram_booked = 0;
    std::int64_t slots_booked = 0;
    std::int64_t cpu_releasing = 0;
    std::int64_t ram_releasing = 0;
    std::int64_t releasing_grants = 0;
  };
  struct Account;  // the sums of one device, for derive()

  void place_faces(NodeId node, std::size_t count);
  void derive_node(NodeId node);
  void derive_device(DeviceId device, Time now);
  template <typename Gone>
  DeviceFace face_of(DeviceId device, const Gone& gone) const;
  Cause blocked_cause(const Device& device, const DeviceBook& book, Time now) const;
  void resum(DeviceBook& book) const;
  void update_foreign(DeviceBook& book) const;
  void update_use(DeviceId device);
  Holding* find(DeviceId device, WorkloadId workload);
  Result<void> check_device(DeviceId device) const;
  Result<void> check_nodes() const;

  const Fleet& fleet_;
  LedgerRules rules_;
  std::vector<NodePage> nodes_;    // by NodeId
  std::vector<DeviceBook> books_;  // by DeviceId
  std::vector<DeviceFace> faces_;  // each node's devices side by side
  ChangeLog changes_;
  ChangeLog lasting_changes_;
  int hypotheses_ = 0;                           // open ones
  std::set<std::pair<Time, DeviceId>> samples_;  // by their own time; kept only where age matters
  Time now_;
};

// Books a grant and takes it back in its destructor unless committed.
class Transaction {
 public:
  explicit Transaction(Ledger& ledger) : ledger_(ledger) {}

  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // The grant must outlive the transaction.
  void book(WorkloadId workload, const Grant& grant);

  void commit() { booked_.clear(); }

 private:
  struct Entry {
    WorkloadId workload;
    const Grant* grant;
  };

  Ledger& ledger_;
  std::vector<Entry> booked_;
};

}  // namespace berth::core
