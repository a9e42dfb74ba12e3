// fgd: fragmentation gradient descent. Places where the expected fragmentation falls most.
//
// A free part of a device is fragmented for a class of work if no workload of that class could use
// it where it is: too small, too few devices like it, the node's CPU gone, the wrong model. The
// score is the rounded drop of the expectation over the typical classes; near-ties go to the first
// node, and that rounding is part of what makes the policy good.
//
// Source: placement.md sections 3 and 5.8. Thread-safety: none (scratch space inside).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/placement/class_counts.h"
#include "core/placement/policy.h"
#include "core/placement/score_rationals.h"

namespace berth::core {

class FragmentationPolicy final : public Policy {
 public:
  explicit FragmentationPolicy(const ClassCounts& history);

  // `value` is N times the free milli that are not fragmented, summed over the classes.
  NodeValue value_of(const NodeInput& node) const override;

  void replace(const NodeValue&, const NodeValue&) override {}

  Candidates evaluate(const PlaceInput& input) const override;

  void offsets(const Shape&, std::span<const GroupKey>, std::span<std::int64_t>) const override {}

  Places choose(const PlaceInput& input, int which) const override;

 private:
  // Classes of one size and number of devices: the same leftovers serve them all.
  struct Column {
    int size = 0;   // milli of each device
    int count = 0;  // devices
    bool operator==(const Column&) const = default;
  };

  // What the nodes of one model can serve: the pods per column whose CPU need is met, by step of
  // CPU.
  struct Domain {
    std::string model;
    std::vector<std::int64_t> cpu;      // distinct needs, ascending
    std::vector<std::int64_t> weights;  // [step][column]; step = needs that are met
  };

  // A node's devices as the scores see them.
  struct Leftovers {
    std::array<std::int16_t, 64> milli{};
    std::size_t count = 0;
  };

  struct Chosen {
    Places places;
    std::int64_t drop = 0;  // N times the fall of the expected fragmentation
  };

  // Sums over the columns from each one on, for the change that one device makes.
  struct Suffix {
    std::int64_t kept = 0;     // pods that are served while no device drops out
    std::int64_t dropped = 0;  // pods that are served even without one device
    std::int64_t change = 0;   // of what is usable when one device of size 0 drops out
  };

  void add_columns(const std::vector<WorkClass>& typical);
  std::uint16_t domain_of(const Node& node) const;
  void fill(Domain& domain) const;
  const std::int64_t* weights_at(std::uint16_t domain, std::int64_t cpu) const;
  static Leftovers leftovers_of(std::span<const DeviceFace> devices);
  std::int64_t usable(const std::int64_t* weights, const Leftovers& left) const;
  Chosen choose_devices(const PlaceInput& input) const;
  Chosen whole_devices(const PlaceInput& input, const std::int64_t* weights) const;
  Chosen parts(const PlaceInput& input, const std::int64_t* weights) const;

  std::vector<WorkClass> typical_;  // with GPU
  std::int64_t pods_ = 0;           // N, CPU-only classes included
  FgdScore score_;
  std::vector<Column> columns_;               // by size, then count
  std::array<std::uint16_t, 1001> served_{};  // by milli: columns of at most this size
  mutable std::vector<Domain> domains_;       // grows when a new model is seen
  mutable std::vector<Suffix> suffix_;        // scratch: one more than columns
};

}  // namespace berth::core
