// The fewest devices from which all fractions of a workload can be cut, and what a piece is worth.
//
//   const CuttingStock stock = solve_cutting_stock(counts.fraction_sizes());
//   stock.values[i] / stock.scale     devices saved per piece of sizes[i] that need not be cut
//
// A linear programme over the patterns that fill one device: minimise the devices used so that
// every size is cut as often as it is asked for. CPU, memory and whole devices play no part. Its
// duals are the piece values, integers over a common scale.
//
// Source: placement contract, section 5.1. Column generation with a dense revised simplex, as
// there. Thread-safety: a pure function. Invariants of the result, also if the pivots ran out or
// the arithmetic was inexact:
//   1. No pattern that fits a device is worth more than `scale`, exactly.
//   2. Values are not negative.
// and if `exact` (always on the openb traces):
//   3. Each pattern of the plan is worth `scale` exactly: the values are the very duals.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/placement/class_counts.h"

namespace berth::core {

// How often each size occurs on one device, in the order of the sizes.
using Pattern = std::vector<int>;

struct PlannedPattern {
  Pattern pieces;
  double devices = 0;  // how many devices are cut like that
};

struct CuttingStock {
  std::vector<std::int64_t> values;  // of a piece of each size, in 1 / scale devices
  std::int64_t scale = 1;
  bool exact = false;
  int pivots = 0;
  std::vector<PlannedPattern> plan;  // as many patterns as sizes; cuts each size as often as asked
};

// Requires: sizes ascending or descending, distinct, multiples of 10 within 10..990, counts above
// zero (what ClassCounts::fraction_sizes() gives). The order changes nothing but ties. Ends after
// most_pivots at the latest: the openb traces take 57, 99 sizes at random up to 1400.
CuttingStock solve_cutting_stock(std::span<const FractionSize> sizes, int most_pivots = 20'000);

// best[u] for u = 0..100 cells of 10 milli: the most that pieces within u cells are worth together.
std::vector<std::int64_t> best_fillings(std::span<const FractionSize> sizes,
                                        std::span<const std::int64_t> values);

}  // namespace berth::core
