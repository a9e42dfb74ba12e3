#include "gpu/reading.h"

#include <charconv>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/wide.h"
#include "core/model/device.h"

namespace berth::gpu {

namespace {

constexpr std::size_t kMostShown = 40;  // characters of a bad value in a message
// DCGM writes these where it has no value: 2^31 - 16, 2^47, 2^63 - 16, and up to 15 above each.
constexpr std::int64_t kBlank32 = 0x7FFFFFF0;
constexpr std::int64_t kBlank47 = 0x800000000000;
constexpr std::int64_t kBlankSpan = 15;

// digits x 10^exponent.
struct Decimal {
  bool negative = false;
  std::int64_t digits = 0;
  std::int64_t exponent = 0;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Digits before and behind the point. Past 18 of them nothing is added: nobody measures finer, and
// what is longer is beyond every bound anyway. Returns how many digits there were.
std::size_t take_digits(std::string_view& text, Decimal& number) {
  constexpr std::int64_t kFull = 100'000'000'000'000'000;
  std::size_t seen = 0;
  bool behind_point = false;
  while (!text.empty() && (is_digit(text.front()) || (text.front() == '.' && !behind_point))) {
    const char c = text.front();
    text.remove_prefix(1);
    if (c == '.') {
      behind_point = true;
      continue;
    }
    ++seen;
    if (number.digits < kFull) {
      number.digits = number.digits * 10 + (c - '0');
      if (behind_point) --number.exponent;
    } else if (!behind_point) {
      ++number.exponent;
    }
  }
  return seen;
}

std::optional<Decimal> parse_decimal(std::string_view text) {
  Decimal number;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    number.negative = text.front() == '-';
    text.remove_prefix(1);
  }
  if (take_digits(text, number) == 0) return std::nullopt;
  if (text.empty()) return number;
  if (text.front() != 'e' && text.front() != 'E') return std::nullopt;
  text.remove_prefix(1);
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  std::int64_t exponent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (error != std::errc{} || end != text.data() + text.size() || exponent > 10'000 ||
      exponent < -10'000) {
    return std::nullopt;
  }
  number.exponent += exponent;
  return number;
}

// number x scale, rounded to a whole one; empty when beyond 63 bits. Takes no notice of the sign.
std::optional<std::int64_t> scaled(const Decimal& number, std::int64_t scale, Round round) {
  constexpr Int128 kMost = std::numeric_limits<std::int64_t>::max();
  Int128 value = static_cast<Int128>(number.digits) * scale;
  if (value == 0) return 0;
  for (std::int64_t left = number.exponent; left > 0; --left) {
    value *= 10;
    if (value > kMost) return std::nullopt;
  }
  bool rest = false;
  for (std::int64_t left = number.exponent; left < 0 && value != 0; ++left) {
    rest = rest || value % 10 != 0;
    value /= 10;
  }
  if (rest && round == Round::up) ++value;
  if (value > kMost) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

bool is_whole(const Decimal& number) {
  return scaled(number, 1, Round::down) == scaled(number, 1, Round::up);
}

bool is_blank(std::int64_t value) {
  const auto near = [value](std::int64_t blank) {
    return value >= blank && value <= blank + kBlankSpan;
  };
  return near(kBlank32) || near(kBlank47);
}

Error bad(std::string_view field, std::string_view text, std::string_view rule) {
  return invalid_argument(
      fmt::format("{} is \"{}\": {}", field, shortened(printable(text), kMostShown), rule));
}

}  // namespace

Result<Memory> read_mib(std::string_view field, std::string_view text, Round round) {
  const auto number = parse_decimal(text);
  if (!number) return bad(field, text, "not a number of MiB");
  if (number->negative && number->digits != 0) return bad(field, text, "negative");
  const auto whole = scaled(*number, 1, Round::down);
  if (whole && is_blank(*whole)) {
    return bad(field, text, "what the exporter writes when it has no value");
  }
  if (!whole || *whole >= core::kMaxMemoryMib) {
    return bad(field, text, "more than any device has, so no measurement");
  }
  return Memory::bytes(*scaled(*number, Memory::kBytesPerMib, round));
}

Result<std::int64_t> read_whole(std::string_view field, std::string_view text, Range range) {
  const auto number = parse_decimal(text);
  if (!number) return bad(field, text, "not a number");
  if (!is_whole(*number)) return bad(field, text, "not a whole number");
  const auto size = scaled(*number, 1, Round::down);
  const std::int64_t value = size ? (number->negative ? -*size : *size) : 0;
  if (!size || value < range.least || value > range.most) {
    return bad(field, text, fmt::format("not from {} to {}", range.least, range.most));
  }
  return value;
}

}  // namespace berth::gpu
