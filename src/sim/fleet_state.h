// FleetState: the simulator's own copy of what is left on every node and device.
//
// Kept beside the engine's books from the grants alone, so that what a report says about a fleet
// does not lean on the code it measures; a run ends by comparing the two. One milli stands for one
// MiB of a device with 1000 MiB (protocol.h). Invariants: 0 <= left <= 1000 per device; nothing on
// a node is below zero. Thread-safety: none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/trace.h"

namespace berth::sim {

struct NodeState {
  std::int64_t cpu_milli = 0;   // left
  std::int64_t memory_mib = 0;  // left
  std::int64_t slots = 0;       // left
  std::uint32_t first = 0;      // its devices in FleetState::devices()
  std::uint32_t count = 0;
  std::uint32_t model = 0;  // index into FleetState::models()
};

// What one placement takes.
struct Placement {
  std::uint32_t node = 0;

  struct Part {
    std::uint32_t device = 0;  // on the node
    int milli = 0;
  };

  std::vector<Part> parts;
  std::int64_t cpu_milli = 0;
  std::int64_t memory_mib = 0;
};

class FleetState {
 public:
  FleetState(const std::vector<TraceNode>& nodes, std::int64_t slots_per_node);

  void take(const Placement& placement);
  void give_back(const Placement& placement);

  const std::vector<NodeState>& nodes() const { return nodes_; }

  const std::vector<std::string>& models() const { return models_; }

  std::span<const std::int16_t> devices(const NodeState& node) const {
    return {left_.data() + node.first, node.count};
  }

  const std::vector<std::int16_t>& all_devices() const { return left_; }

  std::int64_t left_milli(const NodeState& node) const;

  std::int64_t capacity_milli() const { return capacity_; }

  std::int64_t bound_milli() const { return bound_; }

 private:
  void change(const Placement& placement, int sign);

  std::vector<NodeState> nodes_;
  std::vector<std::int16_t> left_;
  std::vector<std::string> models_;
  std::int64_t capacity_ = 0;
  std::int64_t bound_ = 0;
};

}  // namespace berth::sim
