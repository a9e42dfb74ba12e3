#include "config/amount.h"

#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "config/value.h"

namespace berth::config {

namespace {

using core::DimensionKind;

constexpr std::int64_t kMost = core::kMostQuota - 1;

constexpr std::array<std::pair<std::string_view, std::int64_t>, 3> kMemoryUnits = {
    {{"TiB", std::int64_t{1} << 20U}, {"GiB", 1024}, {"MiB", 1}}};
constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> kDurationUnits = {
    {{"d", 86'400'000}, {"h", 3'600'000}, {"min", 60'000}, {"s", 1000}}};

std::optional<std::int64_t> whole(std::string_view text) {
  const auto number = parse_count(text, kMost);
  return number.ok() ? std::optional(*number) : std::nullopt;
}

// "2", "0.5", "1.125" in thousandths.
std::optional<std::int64_t> thousandths(std::string_view text) {
  const std::size_t point = text.find('.');
  const auto units = whole(text.substr(0, point));
  if (!units || *units > kMost / 1000) return std::nullopt;
  if (point == std::string_view::npos) return *units * 1000;
  const std::string_view places = text.substr(point + 1);
  if (places.empty() || places.size() > 3) return std::nullopt;
  auto part = whole(places);
  if (!part) return std::nullopt;
  for (std::size_t i = places.size(); i < 3; ++i)
    *part *= 10;
  const std::int64_t sum = *units * 1000 + *part;
  return sum <= kMost ? std::optional(sum) : std::nullopt;
}

std::optional<std::int64_t> mebibytes(std::string_view text) {
  for (const auto& [name, factor] : kMemoryUnits) {
    if (!text.ends_with(name)) continue;
    const auto count = whole(text.substr(0, text.size() - name.size()));
    if (!count || *count > kMost / factor) return std::nullopt;
    return *count * factor;
  }
  return std::nullopt;
}

}  // namespace

Result<std::int64_t> parse_amount(std::string_view text, DimensionKind kind) {
  std::optional<std::int64_t> amount;
  std::string_view rule;
  switch (kind) {
    case DimensionKind::memory:
      amount = mebibytes(text);
      rule = "memory is a whole number with MiB, GiB or TiB, less than 8ZiB: 160GiB";
      break;
    case DimensionKind::devices:
      amount = thousandths(text);
      rule = "devices are a number with at most three decimals, from 0 to 9007199254740: 2 or 0.5";
      break;
    case DimensionKind::compute:
      amount = whole(text);
      rule =
          "compute is a whole number of thousandths of a device, from 0 to 9007199254740991: "
          "4000 for four devices";
      break;
  }
  if (!amount) return invalid_argument(std::string(rule));
  return *amount;
}

std::string amount_text(std::int64_t amount, DimensionKind kind) {
  if (amount == core::kUnlimited) return "unlimited";
  ASSERT(amount >= 0, amount);
  switch (kind) {
    case DimensionKind::memory:
      for (const auto& [name, factor] : kMemoryUnits) {
        if (amount % factor == 0 && amount != 0) return fmt::format("{}{}", amount / factor, name);
      }
      return fmt::format("{}MiB", amount);
    case DimensionKind::devices: {
      std::string text = fmt::format("{}", amount / 1000);
      if (amount % 1000 == 0) return text;
      text += fmt::format(".{:03}", amount % 1000);
      text.erase(text.find_last_not_of('0') + 1);
      return text;
    }
    case DimensionKind::compute: return fmt::format("{}", amount);
  }
  return {};  // every kind is above
}

std::string duration_text(Duration duration) {
  const std::int64_t ms = duration.count();
  for (const auto& [name, factor] : kDurationUnits) {
    if (ms % factor == 0 && (ms != 0 || factor == 1000))
      return fmt::format("{}{}", ms / factor, name);
  }
  return fmt::format("{}ms", ms);
}

}  // namespace berth::config
