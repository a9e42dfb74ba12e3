#include "request/decimal.h"

#include <algorithm>
#include <ranges>

#include "base/assert.h"

namespace berth::request {

namespace {

// Longer texts are no numbers that anybody means, and would make exact arithmetic a burden.
constexpr std::size_t kLongestNumber = 128;
constexpr std::int64_t kLargestExponent = 1000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view take_digits(std::string_view& text) {
  std::size_t n = 0;
  while (n < text.size() && is_digit(text[n]))
    ++n;
  const std::string_view digits = text.substr(0, n);
  text.remove_prefix(n);
  return digits;
}

bool take_sign(std::string_view& text, bool& negative) {
  if (text.empty() || (text.front() != '+' && text.front() != '-')) return false;
  negative = text.front() == '-';
  text.remove_prefix(1);
  return true;
}

// `e-3` at the front of `text`; leaves it alone if what follows the letter is no number.
std::optional<std::int64_t> take_exponent(std::string_view& text) {
  if (text.empty() || (text.front() != 'e' && text.front() != 'E')) return std::nullopt;
  std::string_view rest = text.substr(1);
  bool negative = false;
  take_sign(rest, negative);
  const std::string_view digits = take_digits(rest);
  if (digits.empty()) return std::nullopt;
  std::int64_t exponent = 0;
  for (const char c : digits)
    exponent = std::min(exponent * 10 + (c - '0'), kLargestExponent);
  text = rest;
  return negative ? -exponent : exponent;
}

// Doubles 0.DIGITS and returns what spills over the decimal point.
int double_fraction(std::string& digits) {
  int carry = 0;
  for (char& digit : digits | std::views::reverse) {
    const int doubled = 2 * (digit - '0') + carry;
    digit = static_cast<char>('0' + doubled % 10);
    carry = doubled / 10;
  }
  return carry;
}

}  // namespace

std::optional<std::int64_t> Decimal::scaled_up(std::int64_t shift, int doublings,
                                               std::int64_t max) const {
  ASSERT(doublings >= 0 && doublings <= 60, doublings);
  if (is_zero()) return 0;
  const std::int64_t before = point + shift;  // digits of the whole part
  if (before > 19) return std::nullopt;
  if (before < -40) return 1;  // so small that no doubling brings it to one

  std::int64_t whole = 0;
  for (std::int64_t i = 0; i < before; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t digit = at < digits.size() ? digits[at] - '0' : 0;
    if (whole > (max - digit) / 10) return std::nullopt;
    whole = whole * 10 + digit;
  }
  std::string fraction;
  if (before < 0) fraction.assign(static_cast<std::size_t>(-before), '0');
  const auto used = static_cast<std::size_t>(std::max<std::int64_t>(before, 0));
  if (used < digits.size()) fraction += digits.substr(used);

  for (int i = 0; i < doublings; ++i) {
    const std::int64_t spill = double_fraction(fraction);
    if (whole > (max - spill) / 2) return std::nullopt;
    whole = whole * 2 + spill;
  }
  const bool remainder = fraction.find_first_not_of('0') != std::string::npos;
  if (!remainder) return whole;
  if (whole == max) return std::nullopt;
  return whole + 1;
}

std::optional<DecimalPrefix> read_decimal(std::string_view text) {
  if (text.size() > kLongestNumber) return std::nullopt;
  DecimalPrefix result;
  result.has_sign = take_sign(text, result.value.negative);
  const std::string_view whole = take_digits(text);
  std::string_view fraction;
  if (!text.empty() && text.front() == '.') {
    result.has_point = true;
    text.remove_prefix(1);
    fraction = take_digits(text);
  }
  if (whole.empty() && fraction.empty()) return std::nullopt;
  std::int64_t exponent = 0;
  if (const auto given = take_exponent(text)) {
    result.has_exponent = true;
    exponent = *given;
  }
  result.rest = text;

  const std::string all = std::string(whole) + std::string(fraction);
  const std::size_t zeros = std::min(all.find_first_not_of('0'), all.size());
  Decimal& value = result.value;
  value.digits = all.substr(zeros);
  value.point =
      static_cast<std::int64_t>(whole.size()) - static_cast<std::int64_t>(zeros) + exponent;
  value.written_after_point = static_cast<std::int64_t>(fraction.size());
  value.fractional_digits = std::max<std::int64_t>(value.written_after_point - exponent, 0);
  return result;
}

}  // namespace berth::request
