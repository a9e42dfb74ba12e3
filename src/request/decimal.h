// Decimal numbers as people write them, kept digit by digit so that nothing is lost before
// rounding. Private to src/request. Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::request {

// sign × 0.DIGITS × 10^point, exactly as written.
struct Decimal {
  bool negative = false;
  std::string digits;      // no leading zeros; empty = zero
  std::int64_t point = 0;  // digits before the decimal point; may be negative or beyond the end
  std::int64_t written_after_point = 0;  // fractional digits in the text
  std::int64_t fractional_digits = 0;    // the same once the exponent is applied, never negative

  bool is_zero() const { return digits.empty(); }

  // |value| × 10^shift × 2^doublings, rounded up; empty when above `max`.
  // Requires: 0 <= doublings <= 60, max < 2^63, |shift| <= 100.
  std::optional<std::int64_t> scaled_up(std::int64_t shift, int doublings, std::int64_t max) const;
};

// The longest run of `[+-]?(D+(.D*)?|.D+)` at the front, with `([eE][+-]?D+)` if `exponent` allows
// it.
struct DecimalPrefix {
  Decimal value;
  std::string_view rest;
  bool has_sign = false;
  bool has_point = false;
  bool has_exponent = false;
};

std::optional<DecimalPrefix> read_decimal(std::string_view text);

}  // namespace berth::request
