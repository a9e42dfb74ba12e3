// Readings: numbers as exporters, drivers and tests write them, or the reason why one is none.
//
//   const Result<Memory> used = read_mib("used_mib", "4096", Round::up);
//   if (!used.ok()) report.problem = used.error().message();   // used_mib is "NaN": …
//
// Exact: no floating point. Refused are blanks, words, NaN, infinities, negative numbers, the
// placeholders of DCGM (near 2^31, 2^47 and 2^63) and whatever no device can have (leases.md 5,
// F5). Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/quantity.h"
#include "base/result.h"

namespace berth::gpu {

enum class Round : std::uint8_t { down, up };  // to whole bytes: capacity down, use up

// A count of MiB, as digits with an optional fraction and exponent ("1.6e4"). Errors: the field,
// the text, the rule.
Result<Memory> read_mib(std::string_view field, std::string_view text, Round round);

struct Range {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

// A whole number of the range, in the same notation ("79", "79.0", "7.9e1"). Errors: the field, the
// text, the rule.
Result<std::int64_t> read_whole(std::string_view field, std::string_view text, Range range);

}  // namespace berth::gpu
