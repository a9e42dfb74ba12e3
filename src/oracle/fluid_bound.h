// How much of a cluster's GPU capacity any scheduler could fill with a given mix of pods.
//
//   BoundInput input{.nodes = {{.model = "T4", .gpus = 2, .cpu_milli = 96'000, .memory_mib =
//   393'216, .count = 10}},
//                    .classes = {{.cpu_milli = 4'000, .memory_mib = 8'192, .gpu_milli = 600,
//                    .num_gpu = 1,
//                                 .count = 500}}};
//   Result<FluidBound> bound = no_reject_bound(input);   // bound->percent == 60.0
//
// Two questions about the same mix, scaled so that it asks for exactly 100 % of the GPUs (contract:
// placement page, section 9):
//
//   no_reject_bound   the largest share of the capacity at which the whole mix can be served. A
//   scheduler that refuses
//                     nothing it could place has its first failure at or before this share.
//   choose_any_bound  the largest share that can be filled when pods may be refused at will and 130
//   % of the mix is on
//                     offer. Nothing that is served from that offer fills more.
//
// Both are true upper bounds, because the linear program behind them only relaxes: pods may be
// split, and the CPU and memory of all nodes of one type are pooled. Devices are not pooled:
// fractions share a device in whole pieces, which is where capacity is really lost. The program is
// solved by column generation: a column is one way to fill one device (or one pod on several whole
// devices), and new columns are priced by an unbounded knapsack over the device.
//
// Thread-safety: pure functions of their arguments; call them from any thread.
// Deterministic: the order of the input does not matter, nodes and classes are sorted and merged
// first. Doubles are used freely here: nothing the engine decides depends on these numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace berth::oracle {

// `count` equal nodes. Capacities are per node. The same type may be listed repeatedly.
struct BoundNodeType {
  std::string model{};
  int gpus = 0;
  std::int64_t cpu_milli = 0;
  std::int64_t memory_mib = 0;
  int count = 1;
};

// `count` equal pods. The same class may be listed repeatedly.
struct BoundClass {
  std::int64_t cpu_milli = 0;
  std::int64_t memory_mib = 0;
  int gpu_milli =
      0;  // of each device: 0 without a device, 1..999 for a fraction, 1000 for whole devices
  int num_gpu = 0;                    // a fraction takes exactly one device
  std::vector<std::string> models{};  // allowed device models; empty = any
  std::int64_t count = 1;
};

struct BoundInput {
  std::vector<BoundNodeType> nodes;
  std::vector<BoundClass> classes;
};

struct BoundStats {
  int node_types = 0;  // distinct
  int classes = 0;     // distinct
  int columns = 0;     // of the final linear program
  int rounds = 0;      // linear programs solved
};

struct FluidBound {
  double percent = 0;  // share of all GPUs, 0..100
  double served_gpus = 0;
  double capacity_gpus = 0;
  // Indices into BoundInput::classes of pods that fit no node even when it is empty, for the reader
  // of the number. If the model or the number of devices is what no node has, the no-reject bound
  // is 0: the mix cannot be served at any scale (leave them out and ask again to bound the rest).
  // If only CPU or memory is, pooling still serves them and the bound is true but generous.
  std::vector<std::size_t> unplaceable;
  BoundStats stats;
};

// After every round. The percentage only grows and ends at the bound.
struct BoundProgress {
  int round = 0;
  int columns = 0;
  double percent = 0;
};

using BoundProgressFn = std::function<void(const BoundProgress&)>;

// Both fail with `invalid_argument` if a quantity is out of range, or if there are no GPUs or
// nobody asks for one.
Result<FluidBound> no_reject_bound(const BoundInput& input, const BoundProgressFn& progress = {});
Result<FluidBound> choose_any_bound(const BoundInput& input, const BoundProgressFn& progress = {});

}  // namespace berth::oracle
