// Decay of past use, in integers (queues-gangs-topology.md 4.3): u moves towards the present use by
// a fixed part of the difference at every step, so that a difference halves in one half-life.
#pragma once

#include <cstdint>

#include "base/quantity.h"

namespace berth::core {

inline constexpr std::int64_t kDecayOne = std::int64_t{1} << 32;

// A = floor(2^32 (1 - 2^(-step / half_life))); both positive. The root is taken by binary digits in
// 62 bits, so the last unit may differ where A lies within 2^-50 of an integer; the same on every
// machine.
std::int64_t decay_factor(Duration step, Duration half_life);

// u + floor((present - u) A / 2^32)
std::int64_t decayed(std::int64_t use, std::int64_t present, std::int64_t factor);

}  // namespace berth::core
