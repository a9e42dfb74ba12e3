// A quotient of two quantities as one integer that compares exactly.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/wide.h"

namespace berth::core {

// floor(2^62 part / whole), with part cut to 0..whole; 0 if whole is 0. Two quotients with wholes
// below 2^31 (2 PiB in MiB; two million cores in milli) that differ at all differ by more than
// 2^-62, so the results compare as the quotients do.
constexpr std::int64_t exact_share(std::int64_t part, std::int64_t whole) {
  constexpr std::int64_t kOne = std::int64_t{1} << 62;
  if (whole <= 0) {
    return 0;
  }
  const Int128 cut = std::clamp<std::int64_t>(part, 0, whole);
  return static_cast<std::int64_t>(cut * kOne / whole);
}

}  // namespace berth::core
