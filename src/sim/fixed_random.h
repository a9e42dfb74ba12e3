// Random draws for synthetic load, in integers only, so that one seed gives one load on every
// machine. Thread-safety: pure functions of the generator.
#pragma once

#include <cstdint>

#include "base/mt19937.h"

namespace berth::sim {

// -log2(x / 2^32) in units of 2^-32. Requires 0 < x <= 2^32 - 1. Exact to the last few bits: the
// bits of the logarithm come one by one from repeated squaring.
std::uint64_t negative_log2(std::uint32_t x);

// An exponentially distributed whole number with the given mean, by inverse transform of one 32-bit
// draw: floor(mean x -ln(u)), u uniform over the odd multiples of 2^-32 (so never 0 nor 1).
// Requires 0 <= mean < 2^40.
std::int64_t draw_exponential(Mt19937& generator, std::int64_t mean);

// Uniform over 0 … n-1. Requires 0 < n < 2^40.
std::int64_t draw_below(Mt19937& generator, std::int64_t n);

// A standard normal number in units of 2^-32, by Marsaglia's polar method (SIAM Review 6, 1964).
std::int64_t draw_normal(Mt19937& generator);

// A whole number whose logarithm is normal: half of the draws lie at or below the median, nine of
// ten at or below `p90`. Requires 0 < median <= p90 < 2^40. Between 1 and 2^40.
struct Lognormal {
  std::int64_t median = 1;
  std::int64_t p90 = 1;
};
std::int64_t draw_lognormal(Mt19937& generator, const Lognormal& shape);

}  // namespace berth::sim
