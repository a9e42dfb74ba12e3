// pack: value-gradient descent. Places where the loss of future usable value is smallest.
//
// The worth of a leftover is what the workload's own sizes can still make of it; a node whose CPU
// or memory runs out before its devices loses worth too; taking the last hosts of multi-GPU work
// and the devices that picky work depends on costs extra. Without history a leftover is worth its
// size, and the policy packs as a best fit does.
//
// Source: placement.md section 5, integers of 5.8. Unit p = 1e-12 device.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/placement/class_counts.h"
#include "core/placement/policy.h"
#include "core/placement/pressure.h"
#include "core/placement/value_table.h"

namespace berth::core {

class ValueGradientPolicy final : public Policy {
 public:
  explicit ValueGradientPolicy(const ClassCounts& history);

  NodeValue value_of(const NodeInput& node) const override;
  void replace(const NodeValue& before, const NodeValue& after) override;
  Candidates evaluate(const PlaceInput& input) const override;
  void offsets(const Shape& shape, std::span<const GroupKey> groups,
               std::span<std::int64_t> out) const override;
  Places choose(const PlaceInput& input, int which) const override;

 private:
  // Multi-GPU work of the history that needs a node with several idle devices (5.3).
  struct Gang {
    int devices = 0;
    std::int64_t cpu = 0;
    std::int64_t memory_mib = 0;
    std::vector<std::string> models;  // sorted, repeats kept; empty = any
    std::int64_t pods = 0;
    std::int64_t able_nodes = 0;  // H_j
  };

  // Work of the history that names models (5.4).
  struct Picky {
    std::vector<std::string> models;  // sorted, repeats kept
    std::int64_t asked_milli = 0;     // D_S
  };

  struct Domain {
    std::string model;
    std::int64_t free_milli = 0;
    std::int64_t usable_mib = 0;  // of a device, to turn memory asks into milli
    std::uint64_t picky = 0;      // sets that contain the model
    std::uint64_t gangs = 0;      // gang classes that accept the model
  };

  struct State {
    std::int64_t cpu = 0;
    std::int64_t memory_mib = 0;
    std::int64_t idle = 0;
  };

  void add_gangs(const std::vector<WorkClass>& classes);
  void add_picky(const std::vector<WorkClass>& classes);
  std::uint16_t domain_of(const Node& node) const;
  std::uint64_t still_hosts(std::uint64_t hosts, const State& state) const;
  std::int64_t charge_for(const Gang& gang) const;
  std::int64_t type_charge(const Shape& shape, const Domain& domain,
                           std::span<const std::int64_t> squares) const;
  std::vector<std::int64_t> picky_squares() const;
  Candidate whole_candidate(const PlaceInput& input) const;
  Candidate finish(const PlaceInput& input, std::int64_t loss, std::int64_t tie,
                   std::int64_t idle_after) const;
  // The partly used device (a) of 5.5, or -1.
  int best_used_place(const PlaceInput& input) const;
  Places cheapest_places(const PlaceInput& input) const;

  ValueTable values_;
  PressureTable pressures_;
  std::vector<Gang> gangs_;
  std::vector<Picky> picky_;
  mutable std::vector<Domain> domains_;  // grows when a new model is seen
  std::int64_t asked_milli_ = 0;         // G
  std::int64_t free_milli_ = 0;          // L
  std::int64_t most_gang_cpu_ = 0;
  std::int64_t most_gang_memory_ = 0;
};

}  // namespace berth::core
