// The small words of the command line that the simulator understands: seed lists, policy lists,
// numbers. Errors are invalid_argument with the value, the rule and the fix.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace berth::sim {

inline constexpr std::uint64_t kMaxSeed = 4'294'967'295;
inline constexpr std::size_t kMaxSeeds = 10'000;

// "42", "42,43", "42-51", "42-44,50": in the order written. A seed named twice, a range backwards
// ("50-42") or an empty list is an error.
Result<std::vector<std::uint64_t>> parse_seeds(std::string_view text);

// "pack,fgd,nodes=pack,devices=spread" -> three policies: "devices=" belongs to the "nodes=" before
// it. A policy named twice is an error; whether it exists is not asked here.
Result<std::vector<std::string>> parse_policies(std::string_view text);

// A whole number from `min` to `max`. `name` is the option that it was given for.
struct NumberRule {
  std::string_view name;
  std::int64_t min = 0;
  std::int64_t max = 0;
};

Result<std::int64_t> parse_number(std::string_view text, const NumberRule& rule);

std::vector<std::string_view> split_at(std::string_view text, char separator);

}  // namespace berth::sim
