// Quotas: the queue tree in the engine's terms: what a grant takes, on which devices a queue may
// still start a request, and what capacity there is to divide.
//
// Quota and device are decided together: a queue that may have no more of one kind of device may
// still have another, so the answer to "may it start" is a set of device places per node, which the
// placement then chooses from (queues-gangs-topology.md 1, 4.2). Thread-safety: none.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "core/ledger/ledger.h"
#include "core/model/fleet.h"
#include "core/placement/shape.h"
#include "core/queue/queue_tree.h"

namespace berth::core {

// Adds what a charge takes to another.
void merge(Charge& into, const Charge& charge);

// Devices that take the same from a quota: of one class and size.
struct QuotaKind {
  DeviceClassId device_class;
  std::int64_t usable_mib = 0;
  int gpu_replicas = 0;
  auto operator<=>(const QuotaKind&) const = default;
};

// What a queue's quota says to one request, by kind of device.
struct QuotaView {
  bool open = true;                       // every kind that the request can use is allowed
  bool shut = false;                      // none is
  QuotaRefusal refusal;                   // the first one
  std::vector<QuotaRefusal> kinds;        // by kind; cause none = allowed
  std::vector<QueueId> refusing() const;  // queues that refuse some kind
};

class Quotas {
 public:
  Quotas(const Fleet& fleet, const Ledger& ledger, const NodeTypes& types)
      : fleet_(fleet), ledger_(ledger), types_(types) {}

  QueueTree tree;

  // Somebody configured queues once: from then on everything is booked in the tree.
  bool counting() const { return counting_; }
  // The tree has something to say.
  bool active() const { return counting_ && (!tree.trivial() || !as_default_); }

  // `others`: problems that somebody else found in it.
  std::vector<QueueProblem> configure(const QueueConfig& config, std::vector<QueueProblem> others);
  // Nodes came or went. Where the models of the fleet are others now, the configuration is read
  // against them again, and its problems are returned.
  std::optional<std::vector<QueueProblem>> fleet_changed();
  // Follows the ledger: devices that became ready or not, foreign use that rose or fell.
  void sync();
  PriorityRule priority_rule() const { return config_.priority_rule; }
  std::uint64_t capacity_version() const { return capacity_version_; }

  // What the grant takes, as it counts now. Its devices are or were in the fleet.
  Charge charge_of(const Grant& grant);
  // What a request takes on a kind of device; of no device when it asks for none.
  Charge charge_on(const Shape& shape, const QuotaKind& kind) const;
  // What a waiting request counts as demand: its class if only one can serve it, else `*`.
  Charge wish(const Shape& shape);
  // The least that it can take of `*`: a proof that it may not start if even that is too much.
  Charge least(const Shape& shape);

  void add(QueueId leaf, const Charge& charge, BookingState state, bool preemptible);
  void remove(QueueId leaf, const Charge& charge, BookingState state, bool preemptible);

  // What `ask` answers while the booking is not there.
  template <class Ask>
  bool without(QueueId leaf, const Charge& charge, BookingState state, bool preemptible, Ask ask) {
    tree.remove(leaf, charge, state, preemptible);
    const bool answer = ask();
    tree.add(leaf, charge, state, preemptible);
    return answer;
  }

  // Stays valid until the next call.
  const QuotaView& view(const Shape& shape, QueueId leaf, bool preemptible, Counting counting);
  // Device places of the node that the view allows.
  std::uint64_t places(const QuotaView& view, const Shape& shape, NodeId node) const;

  // Why none of the node's devices is allowed; cause none = some are.
  QuotaRefusal refusal_on(const QuotaView& view, const Shape& shape, NodeId node) const;

  // The shape is gone.
  void forget(ShapeId shape);

  const std::vector<QuotaKind>& kinds() const { return kinds_; }
  bool can_use(const Shape& shape, std::size_t kind);

 private:
  // What a device adds to the capacity.
  struct Contribution {
    std::size_t kind = 0;
    std::int64_t mib = 0;
    std::int64_t milli = 0;
    std::int64_t compute = 0;
    bool operator==(const Contribution&) const = default;
  };

  struct Memo {
    ShapeId shape;
    QueueId leaf;
    bool preemptible = false;
    Counting counting = Counting::present;
    std::uint64_t version = 0;
    QuotaView view;
  };

  std::size_t kind_of(DeviceId device);
  std::string model_of(const Device& device) const;
  std::vector<std::string> classes() const;
  void find_contributions(NodeId node, std::vector<Contribution>& parts);
  void sync_node(NodeId node);
  void publish(DeviceClassId device_class);

  const Fleet& fleet_;
  const Ledger& ledger_;
  const NodeTypes& types_;
  std::vector<QuotaKind> kinds_;
  static constexpr std::size_t kUnknownKind = ~std::size_t{0};
  std::vector<std::size_t> kind_of_device_;
  std::vector<std::int64_t> present_;                     // devices of each kind
  std::vector<std::vector<Contribution>> contributions_;  // by node, by place
  std::vector<Contribution> fresh_contributions_;         // its memory serves again
  std::vector<Contribution> capacity_;                    // by class
  std::vector<std::vector<std::optional<bool>>> usable_;  // by shape, by kind
  QueueConfig config_;
  std::vector<QueueProblem> others_;
  std::vector<std::string> classes_;
  bool counting_ = false;
  bool as_default_ = true;  // the configuration says what nobody has to say
  std::uint64_t seen_ = 0;  // change log position
  std::uint64_t capacity_version_ = 1;
  std::uint64_t version_ = 1;
  std::uint64_t fleet_version_ = 1;
  std::uint64_t usable_version_ = 0;
  Memo memo_;
};

}  // namespace berth::core
