// nodes=X,devices=Y: packs or spreads node by node and device by device, each level on its own.
//
//   level            pack                                     spread
//   device of a node fullest shared one that fits, by         a free one, then the least used
//                    granted / usable; a free one last        shared one
//   node             least free share memory that still fits  highest free / total
//   across nodes     one with a shared device that fits       -
//                    beats opening a device elsewhere
//
// A request may ask for another order at either level (OrderHint). Under other policies the index
// uses this one for such requests. Work without GPUs: pack keeps free GPUs free (least free share
// memory, then least free CPU), spread goes by free CPU. Ties: node order; PCI bus id, UUID.
//
// Source: annotations.md 4.2. Thread-safety: const calls may run side by side.
#pragma once

#include <cstdint>
#include <span>

#include "core/placement/policy.h"

namespace berth::core {

// Neither is OrderHint::policy.
struct LevelOrders {
  OrderHint nodes = OrderHint::pack;
  OrderHint devices = OrderHint::pack;
};

class ByLevelPolicy final : public Policy {
 public:
  explicit ByLevelPolicy(LevelOrders orders);

  NodeValue value_of(const NodeInput&) const override { return {}; }

  void replace(const NodeValue&, const NodeValue&) override {}

  // Reads nothing from the NodeValue, so that it can stand in for any other policy.
  Candidates evaluate(const PlaceInput& input) const override;

  void offsets(const Shape&, std::span<const GroupKey>, std::span<std::int64_t>) const override {}

  Places choose(const PlaceInput& input, int which) const override;

 private:
  OrderHint node_order(const PlaceInput& input) const;
  OrderHint device_order(const PlaceInput& input) const;
  std::int64_t node_figure(const PlaceInput& input) const;
  std::int64_t device_figure(const PlaceInput& input, std::size_t place) const;

  LevelOrders orders_;
};

}  // namespace berth::core
