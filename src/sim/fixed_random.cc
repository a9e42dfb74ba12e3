#include "sim/fixed_random.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/assert.h"
#include "base/wide.h"

namespace berth::sim {

namespace {

constexpr std::uint64_t kLn2 = 2'977'044'472;  // ln(2) x 2^32, rounded

constexpr std::uint64_t kOverP90 = 3'351'380'788;  // 2^32 over the normal's 90 % quantile, 1.28155…
constexpr std::int64_t kMost = std::int64_t{1} << 40U;
constexpr unsigned kRootBits = 62;

// floor(sqrt(x)).
constexpr std::uint64_t root(Uint128 x) {
  std::uint64_t low = 0;
  for (unsigned bit = 64; bit-- > 0;) {
    const std::uint64_t tried = low | std::uint64_t{1} << bit;
    if (Uint128{tried} * tried <= x) low = tried;
  }
  return low;
}

// 2^(1/2), 2^(1/4), … 2^(2^-32) in units of 2^-62.
constexpr std::array<std::uint64_t, 32> roots_of_two() {
  std::array<std::uint64_t, 32> roots{};
  Uint128 square = Uint128{1} << (kRootBits + 1);
  for (std::uint64_t& value : roots) {
    value = root(square << kRootBits);
    square = value;
  }
  return roots;
}

// value x 2^(exponent / 2^32), rounded down, at most kMost. Requires 0 < value < 2^40.
std::int64_t times_power_of_two(std::int64_t value, std::int64_t exponent) {
  static constexpr std::array<std::uint64_t, 32> kRoots = roots_of_two();
  const std::int64_t whole = exponent >> 32U;  // rounded down
  const auto fraction = static_cast<std::uint32_t>(exponent & 0xFFFF'FFFF);
  if (whole > 40) return kMost;
  Uint128 power = Uint128{1} << kRootBits;
  for (unsigned i = 0; i < kRoots.size(); ++i) {
    if ((fraction >> (31 - i) & 1U) != 0) power = power * kRoots.at(i) >> kRootBits;
  }
  const Uint128 product = power * static_cast<std::uint64_t>(value);  // below 2^103
  const std::int64_t shift = static_cast<std::int64_t>(kRootBits) - whole;
  if (shift >= 128) return 0;
  const Uint128 result = product >> static_cast<unsigned>(shift);
  return result > static_cast<Uint128>(kMost) ? kMost : static_cast<std::int64_t>(result);
}

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

std::int64_t draw_below(Mt19937& generator, std::int64_t n) {
  ASSERT(n > 0 && n < kMost, n);
  // 40 of 64 bits: the remainder's bias is below 2^-24.
  const std::uint64_t high = generator.next32();
  const std::uint64_t bits = high << 32U | generator.next32();
  return static_cast<std::int64_t>(Uint128{bits} * static_cast<std::uint64_t>(n) >> 64U);
}

std::int64_t draw_normal(Mt19937& generator) {
  while (true) {
    const auto u = static_cast<std::int64_t>(static_cast<std::int32_t>(generator.next32()));
    const auto v = static_cast<std::int64_t>(static_cast<std::int32_t>(generator.next32()));
    const std::uint64_t square = (static_cast<std::uint64_t>(u * u) +    // in units of 2^-62,
                                  static_cast<std::uint64_t>(v * v)) >>  // then of 2^-32
                                 30U;
    if (square == 0 || square >> 32U != 0) continue;  // outside the unit circle, or its middle
    const Uint128 log = Uint128{negative_log2(static_cast<std::uint32_t>(square))} * kLn2 >> 31U;
    const std::uint64_t factor = root((log << 64U) / square);  // of 2^-32
    const Uint128 size = Uint128{factor} * static_cast<std::uint64_t>(u < 0 ? -u : u) >> 31U;
    return u < 0 ? -static_cast<std::int64_t>(size) : static_cast<std::int64_t>(size);
  }
}

std::int64_t draw_lognormal(Mt19937& generator, const Lognormal& shape) {
  ASSERT(shape.median > 0 && shape.median <= shape.p90 && shape.p90 < kMost, shape.median);
  const auto ratio = static_cast<std::uint32_t>(std::min<std::int64_t>(
      static_cast<std::int64_t>((Uint128{static_cast<std::uint64_t>(shape.median)} << 32U) /
                                static_cast<std::uint64_t>(shape.p90)),
      0xFFFF'FFFF));
  // A standard deviation in powers of two, of 2^-32.
  const Uint128 deviation = Uint128{negative_log2(std::max(ratio, 1U))} * kOverP90 >> 32U;
  const Int128 exponent = static_cast<Int128>(deviation) * draw_normal(generator) >> 32U;
  return std::max<std::int64_t>(
      1, times_power_of_two(shape.median, static_cast<std::int64_t>(exponent)));
}

}  // namespace berth::sim
