#include "core/queue/exact_sum.h"

#include <array>
#include <random>

#include <gtest/gtest.h>

#include "base/wide.h"

namespace berth::core {
namespace {

constexpr std::int64_t kMilli = 1000;

TEST(ExactSum, ThreeThirdsAreOneDevice) {
  ExactSum sum;
  for (int i = 0; i < 3; ++i) {
    sum.add_fraction(8188, 24564);
  }
  EXPECT_EQ(sum, ExactSum(1));
  EXPECT_EQ(sum.compare(1000, kMilli), std::strong_ordering::equal);
  EXPECT_EQ(sum.rounded_up(kMilli), 1000);
}

TEST(ExactSum, DenominatorsThatAddUpToTheBoundAreEqualToIt) {
  ExactSum sum;
  sum.add_fraction(1, 3);
  sum.add_fraction(1, 6);
  sum.add_fraction(500'000'000, ExactSum::kNano);
  EXPECT_EQ(sum.compare(1000, kMilli), std::strong_ordering::equal);
  EXPECT_EQ(sum.rounded_up(kMilli), 1000);
  sum.add_fraction(1, ExactSum::kNano);
  EXPECT_EQ(sum.compare(1000, kMilli), std::strong_ordering::greater);
  EXPECT_EQ(sum.rounded_up(kMilli), 1001);
  sum.add_fraction(-2, ExactSum::kNano);
  EXPECT_EQ(sum.compare(1000, kMilli), std::strong_ordering::less);
}

// Primes of 31 bits: 1/p + (p-1)/p style sums that differ from the bound by 1/(p·q·r) alone.
TEST(ExactSum, TellsWhatLiesFarBelowTheLastBitOfAWord) {
  constexpr std::array<std::int64_t, 3> kPrimes{2147483647, 2147483629, 2147483587};
  // a·q + b·p = p·q + 1 has a solution below (p, q): a/p + b/q = 1 + 1/(p·q).
  const auto p = kPrimes[0];
  const auto q = kPrimes[1];
  std::int64_t inverse = 0;  // of q modulo p: p - q = 18, so q = -18 (mod p)
  for (std::int64_t k = 1; k < 18; ++k) {
    if ((Int128{k} * p - 1) % 18 == 0)
      inverse = static_cast<std::int64_t>((Int128{k} * p - 1) / 18);
  }
  ASSERT_EQ(static_cast<std::int64_t>(Int128{inverse} * q % p), 1);
  const auto b = static_cast<std::int64_t>((Int128{p} * q + 1 - Int128{inverse} * q) / p);
  ExactSum sum;
  sum.add_fraction(inverse, p);
  sum.add_fraction(b, q);
  EXPECT_EQ(sum.compare(1000, kMilli), std::strong_ordering::greater);
  sum.add_fraction(-1, kPrimes[2]);
  EXPECT_EQ(sum.compare(1000, kMilli), std::strong_ordering::less);
  sum.add_fraction(1, kPrimes[2]);
  EXPECT_EQ(sum.compare(1000, kMilli), std::strong_ordering::greater);
  EXPECT_EQ(sum.rounded_up(kMilli), 1001);
}

TEST(ExactSum, AgreesWithOneCommonDenominator) {
  constexpr std::array<std::int64_t, 6> kDenominators{2, 3, 7, 12, 40, 1000};
  constexpr std::int64_t kCommon = 2LL * 3 * 7 * 12 * 40 * 1000;
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    ExactSum sum;
    ExactSum other;
    std::int64_t plain = 0;  // of both, in 1/kCommon
    for (int i = 0; i < 6; ++i) {
      const auto denominator = kDenominators[random() % kDenominators.size()];
      const auto amount = static_cast<std::int64_t>(random() % 90) - 30;
      (i % 2 == 0 ? sum : other).add_fraction(amount, denominator);
      plain += amount * (kCommon / denominator);
    }
    const std::int64_t exact_milli = plain / (kCommon / 1000);
    for (std::int64_t bound = exact_milli - 2; bound <= exact_milli + 2; ++bound) {
      ASSERT_EQ(sum.compare_with(other, bound, kMilli), plain <=> bound * (kCommon / 1000));
    }
    const ExactSum before = sum;
    sum.add(other);
    std::int64_t up = exact_milli - 2;
    while (up * (kCommon / 1000) < plain) {
      ++up;
    }
    ASSERT_EQ(sum.rounded_up(kMilli), up);
    sum.subtract(other);
    ASSERT_EQ(sum, before);
  }
}

TEST(ExactSum, AddingAndTakingAwayInAnotherOrderLeavesNothing) {
  ExactSum sum;
  sum.add_fraction(5000, 24564);
  sum.add_fraction(24000, 24564);
  sum.add_fraction(300'000'000, ExactSum::kNano);
  sum.add_whole(4);
  sum.add_fraction(-5000, 24564);
  sum.add_whole(-4);
  sum.add_fraction(-300'000'000, ExactSum::kNano);
  sum.add_fraction(-24000, 24564);
  EXPECT_TRUE(sum.is_zero());
}

}  // namespace
}  // namespace berth::core
