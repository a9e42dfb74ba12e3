#include "sim/fleet_state.h"

#include <map>
#include <numeric>

#include "base/assert.h"

namespace berth::sim {

FleetState::FleetState(const std::vector<TraceNode>& nodes, std::int64_t slots_per_node)
    : capacity_(sim::capacity_milli(nodes)) {
  std::map<std::string, std::uint32_t> known;
  nodes_.reserve(nodes.size());
  for (const TraceNode& node : nodes) {
    const auto [model, fresh] =
        known.try_emplace(node.model, static_cast<std::uint32_t>(models_.size()));
    if (fresh) models_.push_back(node.model);
    nodes_.push_back({.cpu_milli = node.cpu_milli,
                      .memory_mib = node.memory_mib,
                      .slots = slots_per_node,
                      .first = static_cast<std::uint32_t>(left_.size()),
                      .count = static_cast<std::uint32_t>(node.devices),
                      .model = model->second});
    left_.insert(left_.end(), static_cast<std::size_t>(node.devices),
                 std::int16_t{kWholeDeviceMilli});
  }
}

void FleetState::change(const Placement& placement, int sign) {
  NodeState& node = nodes_[placement.node];
  node.cpu_milli -= sign * placement.cpu_milli;
  node.memory_mib -= sign * placement.memory_mib;
  node.slots -= sign;
  ASSERT(node.cpu_milli >= 0 && node.memory_mib >= 0 && node.slots >= 0, node.cpu_milli,
         node.memory_mib, node.slots);
  for (const Placement::Part& part : placement.parts) {
    ASSERT(part.device < node.count, part.device, node.count);
    std::int16_t& left = left_[node.first + part.device];
    const int after = left - sign * part.milli;
    ASSERT(after >= 0 && after <= kWholeDeviceMilli, after, part.milli);
    left = static_cast<std::int16_t>(after);
    bound_ += sign * part.milli;
  }
}

void FleetState::take(const Placement& placement) { change(placement, 1); }

void FleetState::give_back(const Placement& placement) { change(placement, -1); }

std::int64_t FleetState::left_milli(const NodeState& node) const {
  const std::span<const std::int16_t> left = devices(node);
  return std::accumulate(left.begin(), left.end(), std::int64_t{0});
}

}  // namespace berth::sim
