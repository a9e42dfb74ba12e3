// The part of PlacementIndex that depends on the fleet alone: which node stands where.
#include <algorithm>
#include <tuple>

#include "core/placement/index.h"

namespace berth::core {

// Which node stands where among all, whatever they are ranked by.
void PlacementIndex::rank_nodes() {
  by_rank_.clear();
  for (std::size_t i = 0; i < fleet_.node_slots(); ++i) {
    if (fleet_.present(NodeId(i))) {
      by_rank_.emplace_back(i);
    }
  }
  std::ranges::sort(by_rank_, [&](NodeId a, NodeId b) {
    const Node& left = fleet_.node(a);
    const Node& right = fleet_.node(b);
    return std::tie(left.tie_rank, left.name) < std::tie(right.tie_rank, right.name);
  });
  rank_.assign(fleet_.node_slots(), 0);
  for (std::size_t i = 0; i < by_rank_.size(); ++i) {
    rank_[by_rank_[i].index()] = static_cast<std::int64_t>(i);
  }
  guarded_.resize(fleet_.node_slots(), false);
  ranks_known_ = true;
}

void PlacementIndex::rank_uuids() {
  std::vector<DeviceId> devices;
  for (const NodeId node : by_rank_) {
    const std::vector<DeviceId>& here = fleet_.devices_of(node);
    devices.insert(devices.end(), here.begin(), here.end());
  }
  std::ranges::sort(devices, {},
                    [&](DeviceId device) -> const std::string& { return fleet_.uuid(device); });
  uuid_ranks_.assign(fleet_.device_slots(), 0);
  for (std::uint32_t rank = 0; rank < devices.size(); ++rank) {
    uuid_ranks_[devices[rank].index()] = rank;
  }
  uuid_ranks_known_ = true;
}

void PlacementIndex::order_nodes(Ranking& ranking) {
  if (!ranking.draw.has_value() && ranking.policy->draws()) {
    // placement.md 2: `random` goes on with the generator that shuffled the node order.
    ranking.draw.emplace(ranking.seed);
    std::vector<std::uint32_t> order(fleet_.present_nodes());
    ranking.draw->shuffle(std::span(order));
  }
  if (!ranks_known_) {
    rank_nodes();
  }
  ranking.order = by_rank_;
  std::ranges::stable_sort(ranking.order, {},
                           [&](NodeId node) { return ranking.values[node.index()].domain; });
  ranking.position.assign(fleet_.node_slots(), 0);
  ranking.domains.clear();
  for (std::uint32_t i = 0; i < ranking.order.size(); ++i) {
    ranking.position[ranking.order[i].index()] = i;
    const std::uint16_t domain = ranking.values[ranking.order[i].index()].domain;
    if (ranking.domains.size() <= domain) {
      ranking.domains.resize(domain + 1U);
    }
    if (ranking.domains[domain].count++ == 0) {
      ranking.domains[domain].first = i;
    }
  }
  ranking.by_name.clear();
  if (ranking.policy->draws()) {
    ranking.by_name = ranking.order;
    std::ranges::sort(ranking.by_name, {},
                      [&](NodeId node) -> const std::string& { return fleet_.node(node).name; });
  }
  if (ranking.policy->ranks_uuids() && !uuid_ranks_known_) {
    rank_uuids();
  }
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    if (pages_[i].built() && &ranking_of(shapes_.at(ShapeId(i))) == &ranking) {
      forget(ShapeId(i));
    }
  }
  ranking.order_known = true;
}

}  // namespace berth::core
