// The search inside the tiny packer: one decision question, "can all items but `skips` be placed?",
// over a state that is changed in place and changed back.
//
// Invariants: after place_all_but() returns, the state is the start again. `failed_` holds only
// questions that were answered no by exhaustion, never ones cut off by the budget. Requires input
// that tiny_packer.cc has checked. Thread-safety: one TinySearch belongs to one thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "oracle/tiny_packer.h"

namespace berth::oracle {

class TinySearch {
 public:
  TinySearch(const TinyWorld& world, const std::vector<TinyItem>& items, std::int64_t max_steps);

  // Whether at most `skips` items need to be left out. Call it with growing `skips`: what failed
  // stays remembered.
  PackOutcome place_all_but(int skips);

  // The fullest packing seen by any call so far.
  const TinyPacking& best() const { return best_; }

  int best_count() const { return best_count_; }

  std::int64_t steps() const { return steps_; }

 private:
  // Items that ask for the same are one class; the classes are searched one after the other, the
  // hardest first.
  struct ItemClass {
    TinyItem item;
    std::vector<int> members;  // indices into the caller's items
  };

  // Ordered by group first, so that devices of one group lie side by side.
  struct DeviceState {
    int group = 0;
    int kind = 0;  // devices of one kind are allowed to the same classes
    std::int64_t free = 0;
    bool empty = true;
    auto operator<=>(const DeviceState&) const = default;
  };

  struct NodeState {
    std::int64_t cpu = 0;
    std::int64_t ram = 0;
    int first_device = 0;
    int device_count = 0;
    int key = 0;  // stands for the node's present state, equal for equal states
  };

  // What the items from one position on ask for, as running sums of the sorted demands: entry c is
  // the least that any c of them need together.
  struct RemainingDemand {
    std::vector<std::int64_t> memory;
    std::vector<std::int64_t> whole_devices;
    std::vector<std::int64_t> cpu;
    std::vector<std::int64_t> ram;
  };

  // The item at `position` goes to `node`, and `skips` later ones may still be left out.
  struct Choice {
    std::size_t position;
    int skips;
    std::size_t node;
  };

  void group_items(const std::vector<TinyItem>& items);
  void sum_remaining_demand();
  void set_up_state(const TinyWorld& world);

  PackOutcome search(std::size_t position, int skips);
  PackOutcome leave_out_rest_of_class(std::size_t position, int skips);
  PackOutcome try_node(const Choice& choice);
  PackOutcome choose_devices(const Choice& choice, const std::vector<int>& candidates,
                             std::size_t from, std::vector<int>& chosen);
  PackOutcome place_and_go_on(const Choice& choice, const std::vector<int>& chosen);

  // Never fewer than can really be placed from `position` on.
  int most_placeable(std::size_t position) const;
  bool fits_somewhere(const TinyItem& item) const;
  std::vector<int> candidates_on(const TinyItem& item, const NodeState& node) const;

  DeviceState& state_of(int device) { return devices_[static_cast<std::size_t>(device)]; }

  const DeviceState& state_of(int device) const {
    return devices_[static_cast<std::size_t>(device)];
  }

  void refresh_key(NodeState& node);
  std::string state_key(std::size_t position) const;

  std::vector<ItemClass> classes_;
  // By search position: the caller's index of the item, its class, and where the next class begins.
  std::vector<int> item_at_;
  std::vector<std::size_t> class_at_;
  std::vector<std::size_t> class_end_;
  std::vector<RemainingDemand> remaining_;
  bool groups_matter_ = false;

  std::vector<NodeState> nodes_;
  std::vector<DeviceState> devices_;
  TinyPacking current_;
  int current_count_ = 0;

  TinyPacking best_;
  int best_count_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t max_steps_;
  std::unordered_map<std::string, int> node_keys_;
  std::unordered_map<std::string, int>
      failed_;  // state -> largest number of skips that did not help
};

}  // namespace berth::oracle
