// The part of PlacementIndex that depends on the fleet alone: which node stands where.
#include <algorithm>
#include <tuple>

#include "core/placement/index.h"

namespace berth::core {

void PlacementIndex::rank_uuids() {
  std::vector<DeviceId> devices;
  for (const NodeId node : order_) {
    const std::vector<DeviceId>& here = fleet_.devices_of(node);
    devices.insert(devices.end(), here.begin(), here.end());
  }
  std::ranges::sort(devices, {},
                    [&](DeviceId device) -> const std::string& { return fleet_.uuid(device); });
  uuid_ranks_.assign(fleet_.device_slots(), 0);
  for (std::uint32_t rank = 0; rank < devices.size(); ++rank) {
    uuid_ranks_[devices[rank].index()] = rank;
  }
}

void PlacementIndex::order_nodes() {
  if (!draw_.has_value() && policy_->draws()) {
    // placement.md 2: `random` goes on with the generator that shuffled the node order.
    draw_.emplace(seed_);
    std::vector<std::uint32_t> order(fleet_.present_nodes());
    draw_->shuffle(std::span(order));
  }
  order_.clear();
  for (std::size_t i = 0; i < fleet_.node_slots(); ++i) {
    if (fleet_.present(NodeId(i))) {
      order_.emplace_back(i);
    }
  }
  std::ranges::sort(order_, [&](NodeId a, NodeId b) {
    const Node& left = fleet_.node(a);
    const Node& right = fleet_.node(b);
    return std::tie(left.tie_rank, left.name) < std::tie(right.tie_rank, right.name);
  });
  rank_.assign(fleet_.node_slots(), 0);
  for (std::size_t i = 0; i < order_.size(); ++i) {
    rank_[order_[i].index()] = static_cast<std::int64_t>(i);
  }
  std::ranges::stable_sort(order_, {}, [&](NodeId node) { return values_[node.index()].domain; });
  position_.assign(fleet_.node_slots(), 0);
  domains_.clear();
  for (std::uint32_t i = 0; i < order_.size(); ++i) {
    position_[order_[i].index()] = i;
    const std::uint16_t domain = values_[order_[i].index()].domain;
    if (domains_.size() <= domain) {
      domains_.resize(domain + 1U);
    }
    if (domains_[domain].count++ == 0) {
      domains_[domain].first = i;
    }
  }
  by_name_.clear();
  if (policy_->draws()) {
    by_name_ = order_;
    std::ranges::sort(by_name_, {},
                      [&](NodeId node) -> const std::string& { return fleet_.node(node).name; });
  }
  if (policy_->ranks_uuids()) {
    rank_uuids();
  }
  guarded_.resize(fleet_.node_slots(), false);
  pages_.clear();
  pages_built_ = 0;
  order_known_ = true;
}

}  // namespace berth::core
