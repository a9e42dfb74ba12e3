// Integer arithmetic wider than 64 bits, for scores and costs that no rounding may decide.
//
// Source: placement contract, section 5.8 (128-bit intermediates, division truncates).
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "base/wide.h"

namespace berth::core {

// One device, or the number one, in p (1e-12).
inline constexpr std::int64_t kOneInP = 1'000'000'000'000;

// numerator / denominator rounded down, also below zero. Requires denominator > 0.
constexpr std::int64_t floor_quotient(Int128 numerator, Int128 denominator) {
  const Int128 quotient = numerator / denominator;
  return static_cast<std::int64_t>(numerator % denominator < 0 ? quotient - 1 : quotient);
}

// The factors and the divisor of one quotient, and a double near 1 / divisor.
struct Quotient {
  std::int64_t factor = 0;
  std::int64_t by = 0;
  std::int64_t divisor = 1;
  double inverse = 1.0;
};

// factor x by / divisor, rounded down and exact, at a fraction of the price of a 128-bit division:
// an estimate in doubles is at most one off, and the remainder says which way.
//
// Requires 0 <= factor, by < 2^53; 0 < divisor < 2^62; factor x by / divisor < 2^50; inverse within
// two roundings of 1 / divisor. The estimate is then less than one away from the quotient, so the
// remainder lies within -divisor .. 2 divisor and is exact in wrapping 64-bit arithmetic.
inline std::int64_t fast_quotient(const Quotient& q) {
  const auto estimate = static_cast<std::int64_t>(static_cast<double>(q.factor) *
                                                  static_cast<double>(q.by) * q.inverse);
  const std::uint64_t product =
      static_cast<std::uint64_t>(q.factor) * static_cast<std::uint64_t>(q.by);
  const auto rest = static_cast<std::int64_t>(product - static_cast<std::uint64_t>(estimate) *
                                                            static_cast<std::uint64_t>(q.divisor));
  return estimate + (rest >= q.divisor ? 1 : 0) - (rest < 0 ? 1 : 0);
}

}  // namespace berth::core
