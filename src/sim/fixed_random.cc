#include "sim/fixed_random.h"

#include <bit>

#include "base/assert.h"
#include "base/wide.h"

namespace berth::sim {

namespace {

constexpr std::uint64_t kLn2 = 2'977'044'472;  // ln(2) x 2^32, rounded

}  // namespace

std::uint64_t negative_log2(std::uint32_t x) {
  ASSERT(x > 0);
  // x / 2^32 = m x 2^-whole with m in [1, 2): -log2 = whole - log2(m).
  const auto whole = static_cast<std::uint64_t>(std::countl_zero(x)) + 1;
  std::uint64_t mantissa = static_cast<std::uint64_t>(x) << (whole - 1);  // m x 2^31
  std::uint64_t fraction = 0;
  for (int bit = 31; bit >= 0; --bit) {
    mantissa = mantissa * mantissa >> 31U;  // m^2 x 2^31, m^2 in [1, 4)
    if (mantissa >= std::uint64_t{1} << 32U) {
      fraction |= std::uint64_t{1} << static_cast<unsigned>(bit);
      mantissa >>= 1U;
    }
  }
  return (whole << 32U) - fraction;
}

std::int64_t draw_exponential(Mt19937& generator, std::int64_t mean) {
  ASSERT(mean >= 0 && mean < std::int64_t{1} << 40U, mean);
  const std::uint64_t log = negative_log2(generator.next32() | 1U);
  const Uint128 natural = Uint128{log} * kLn2 >> 32U;
  return static_cast<std::int64_t>(Uint128{static_cast<std::uint64_t>(mean)} * natural >> 32U);
}

}  // namespace berth::sim
