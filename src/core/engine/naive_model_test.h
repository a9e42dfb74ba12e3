// NaiveModel: follows an engine from outside, by its events and actions alone, and says what is
// wrong.
//
// It keeps its own fleet, what was seen on the devices and who holds what; everything else it works
// out anew after every event, by trying every device for every container. It does not predict which
// place the policy chooses; it checks that the choice was allowed, that nobody waits for a place
// that exists, and that "never" is true.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/engine/engine.h"
#include "core/ledger/naive_books_test.h"
#include "core/model/fleet.h"

namespace berth::core {

class NaiveModel {
 public:
  explicit NaiveModel(const EngineConfig& config);

  // What the engine answered to the event. Error: the first thing that is not as it must be.
  Result<void> follow(const Event& event, std::span<const Action> actions, const Engine& engine);

  // Every workload that the engine should know.
  std::vector<std::string> uids() const;
  std::int64_t granted() const { return granted_; }
  std::int64_t promised() const { return promised_; }
  std::int64_t never() const { return never_; }

 private:
  struct Known {
    Workload workload;
    Time submitted;
    Time queued_at;
    Outcome outcome = Outcome::waiting;
    WorkloadId id;
    std::uint64_t grant = 0;  // number; 0 = holds nothing
    bool is_promise = false;
    std::optional<Time> confirm_by;
    std::optional<Time> releasing_until;
  };
  // One container of a request that wants devices.
  struct Item {
    const DeviceAsk* ask;
    ContainerKind kind;
    std::size_t container;
  };
  // A node as it is, will be, or would be if it were empty.
  struct Room {
    NodeId node;
    NodeFuture free;
    std::vector<DeviceFace> faces;  // by place
  };
  enum class When { now, later, empty };
  using Loads = std::vector<std::vector<Item>>;  // by place: what the request puts there

  // --- following (naive_model_test.cc)
  void expire();
  std::size_t deadlines_before(const Event& event, std::span<const Action> actions,
                               const Engine& engine);
  Result<void> on(const Event& event, bool refused, bool any_ended);
  Result<void> on_grant(const Event& event);
  void observe(const DeviceObserved& seen);
  Result<void> on(const Action& action, const Event& event, const Engine& engine);
  Result<void> granted(const Granted& action, const Event& event, const Engine& engine);
  Result<void> promised(const Promised& action, const Engine& engine);
  Known* find(std::string_view uid);
  void give_back(Known& known);

  // --- judging (naive_rules_test.cc)
  Result<void> check_decision(const std::string& uid, const Grant& grant, When when) const;
  Result<void> check_sizes(const Grant& grant, const Request& request) const;
  Result<void> check_all(const Engine& engine) const;
  Result<void> check_known(const std::string& uid, const Known& known, const Engine& engine) const;
  Result<void> check_waiting(const std::string& uid, const Known& known,
                             const Engine& engine) const;

  Room room(NodeId node, When when) const;
  std::optional<NodeId> place_for(const Request& request, When when) const;
  bool node_admits(const Request& request, const Room& room, When when) const;
  bool admits(const std::vector<Item>& items, NodeId node, std::size_t place,
              const DeviceFace& face) const;
  bool search(const std::vector<Item>& items, std::size_t next, const Room& room,
              Loads& loads) const;
  bool choose(const std::vector<Item>& items, std::size_t next, std::size_t from, int missing,
              const Room& room, Loads& loads) const;
  bool may_use(const DeviceAsk& ask, const Node& node, const Device& device) const;
  DeviceCharge charge_of(const std::vector<Item>& items, NodeId node, std::size_t place,
                         std::int64_t headroom) const;
  static std::vector<Item> items_of(const Request& request);
  static bool constraints_allow(const NodeConstraints& constraints, const Node& node);

  EngineConfig config_;
  Fleet fleet_;
  NaiveBooks books_;
  std::map<std::string, Known, std::less<>> known_;
  std::optional<Time> now_;
  bool held_ = false;
  std::optional<std::int64_t> queue_cap_;
  std::int64_t granted_ = 0;
  std::int64_t promised_ = 0;
  std::int64_t never_ = 0;
};

}  // namespace berth::core
