#include "sim/words.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "sim/csv.h"

namespace berth::sim {

namespace {

Error seed_error(std::string_view text, std::string_view problem) {
  return invalid_argument(
      fmt::format("--seeds {}: {}; write seeds from 0 to {}, for instance 42-51 or 42,43",
                  quoted_for_message(text), problem, kMaxSeed));
}

Result<std::uint64_t> parse_seed(std::string_view word, std::string_view whole) {
  std::uint64_t seed = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), seed);
  if (word.empty()) return seed_error(whole, "a seed is missing");
  if (code == std::errc::result_out_of_range || (code == std::errc{} && seed > kMaxSeed)) {
    return seed_error(whole, fmt::format("{} is too large", quoted_for_message(word)));
  }
  if (code != std::errc{} || end != word.data() + word.size()) {
    return seed_error(whole, fmt::format("{} is not a seed", quoted_for_message(word)));
  }
  return seed;
}

}  // namespace

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t at = text.find(separator);
    words.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return words;
    text.remove_prefix(at + 1);
  }
}

Result<std::vector<std::uint64_t>> parse_seeds(std::string_view text) {
  std::vector<std::uint64_t> seeds;
  for (const std::string_view word : split_at(text, ',')) {
    const std::size_t dash = word.find('-');
    TRY(const std::uint64_t first, parse_seed(word.substr(0, dash), text));
    std::uint64_t last = first;
    if (dash != std::string_view::npos) {
      TRY(last, parse_seed(word.substr(dash + 1), text));
      if (last < first) {
        return seed_error(
            text, fmt::format("the range {} runs backwards; write {}-{}", word, last, first));
      }
    }
    if (last - first >= kMaxSeeds || seeds.size() + (last - first) + 1 > kMaxSeeds) {
      return seed_error(text, fmt::format("these are more than {} seeds", kMaxSeeds));
    }
    for (std::uint64_t seed = first; seed <= last; ++seed) {
      if (std::ranges::count(seeds, seed) > 0) {
        return seed_error(text, fmt::format("seed {} is named twice", seed));
      }
      seeds.push_back(seed);
    }
  }
  return seeds;
}

Result<std::vector<std::string>> parse_policies(std::string_view text) {
  std::vector<std::string> policies;
  for (const std::string_view word : split_at(text, ',')) {
    const bool second_half = word.starts_with("devices=") && !policies.empty() &&
                             policies.back().starts_with("nodes=") &&
                             policies.back().find(',') == std::string::npos;
    if (second_half) {
      policies.back() += fmt::format(",{}", word);
    } else if (word.empty()) {
      return invalid_argument(fmt::format(
          "--policy {}: a name is missing; write names joined by single commas, for instance "
          "pack,fgd (`berth policies` lists them)",
          quoted_for_message(text)));
    } else {
      policies.emplace_back(word);
    }
  }
  for (std::size_t i = 0; i < policies.size(); ++i) {
    if (std::count(policies.begin(), policies.end(), policies[i]) > 1) {
      return invalid_argument(fmt::format("--policy {}: {} is named twice; remove one of them",
                                          quoted_for_message(text), policies[i]));
    }
  }
  return policies;
}

Result<std::int64_t> parse_number(std::string_view text, const NumberRule& rule) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool clean = code == std::errc{} && end == text.data() + text.size();
  if (clean && value >= rule.min && value <= rule.max) return value;
  return invalid_argument(fmt::format("{} is {}: must be a whole number from {} to {}", rule.name,
                                      quoted_for_message(text), rule.min, rule.max));
}

}  // namespace berth::sim
