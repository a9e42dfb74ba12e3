// V(r): what a part of a device is worth to the workload, in p (1e-12 of a device).
//
//   const ValueTable value(counts);
//   value.at(190)    // 0 on openb: nothing that is asked for often fits a leftover of 190
//   value.at(690)    // 750'000'000'000
//
// A leftover is worth the best set of pieces that fits into it, each at the price that the
// workload's cutting-stock programme puts on it; a whole device is worth one. Without history a
// part is worth its size.
//
// Source: placement contract, sections 5.1 and 5.8 (V_p(r) = V(r) in p, rounded down).
// Thread-safety: immutable after construction.
// Invariants:
//   1. V(0) = 0, V(1000) = 1e12, and V never falls.
//   2. V(a) + V(b) <= V(a + b): cutting a leftover in two never adds value.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/placement/class_counts.h"

namespace berth::core {

class ValueTable {
 public:
  // V(r) = r / 1000.
  ValueTable();
  // Of a history without any GPU work: V(r) = r / 1000. Of one with whole devices only: 0 up to
  // r = 999.
  explicit ValueTable(const ClassCounts& counts);

  // V(r) in p. Requires 0 <= milli <= 1000. The hottest look-up of a run: one load.
  [[nodiscard]] std::int64_t at(int milli) const {
    return values_[static_cast<std::size_t>(milli)];
  }

  // All values, by milli.
  [[nodiscard]] std::span<const std::int64_t, 1001> values() const { return values_; }

  friend bool operator==(const ValueTable&, const ValueTable&) = default;

 private:
  std::array<std::int64_t, 1001> values_{};
};

}  // namespace berth::core
