#include "sim/fixed_random.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

namespace berth::sim {
namespace {

TEST(NegativeLog2, IsExactForPowersOfTwo) {
  EXPECT_EQ(negative_log2(1), std::uint64_t{32} << 32U);
  EXPECT_EQ(negative_log2(0x80000000U), std::uint64_t{1} << 32U);
}

TEST(NegativeLog2, IsWithinAFewBitsOfTheRealLogarithm) {
  for (const std::uint32_t x : {3U, 1000U, 123456789U, 0x80000001U, 0xC0000000U, 0xFFFFFFFFU}) {
    const double real = -std::log2(static_cast<double>(x) / std::exp2(32));
    EXPECT_NEAR(static_cast<double>(negative_log2(x)) / std::exp2(32), real, 2e-8) << x;
  }
}

TEST(DrawExponential, HasTheMeanAndTheSpreadOfTheDistribution) {
  Mt19937 generator(1);
  constexpr int kDraws = 200'000;
  double sum = 0;
  double above = 0;
  for (int i = 0; i < kDraws; ++i) {
    const auto value = static_cast<double>(draw_exponential(generator, 1'000'000));
    sum += value;
    above += value > 1e6 ? 1 : 0;
  }
  EXPECT_NEAR(sum / kDraws, 1e6, 1e4);               // sd of the mean: 2236
  EXPECT_NEAR(above / kDraws, std::exp(-1), 0.005);  // sd: 0.0011
}

TEST(DrawNormal, HasTheMeanTheSpreadAndTheTailsOfTheDistribution) {
  Mt19937 generator(2);
  constexpr int kDraws = 200'000;
  double sum = 0;
  double squares = 0;
  double above = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = static_cast<double>(draw_normal(generator)) / std::exp2(32);
    sum += value;
    squares += value * value;
    above += value > 1.2815515655 ? 1 : 0;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.01);        // sd: 0.0022
  EXPECT_NEAR(squares / kDraws, 1, 0.015);   // sd: 0.0032
  EXPECT_NEAR(above / kDraws, 0.1, 0.0035);  // sd: 0.0007
}

TEST(DrawLognormal, MeetsTheMedianAndTheNinetyPercent) {
  Mt19937 generator(3);
  constexpr int kDraws = 200'000;
  double median = 0;
  double p90 = 0;
  for (int i = 0; i < kDraws; ++i) {
    const std::int64_t value = draw_lognormal(generator, {.median = 7'200'000, .p90 = 28'800'000});
    median += value <= 7'200'000 ? 1 : 0;
    p90 += value <= 28'800'000 ? 1 : 0;
  }
  EXPECT_NEAR(median / kDraws, 0.5, 0.006);
  EXPECT_NEAR(p90 / kDraws, 0.9, 0.0035);
}

TEST(DrawLognormal, StaysWithinItsBoundsAtBothEnds) {
  Mt19937 generator(4);
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t value = draw_lognormal(generator, {.median = 1, .p90 = 1'000'000'000'000});
    EXPECT_GE(value, 1);
    EXPECT_LE(value, std::int64_t{1} << 40U);
    const std::int64_t narrow = draw_lognormal(generator, {.median = 5'000, .p90 = 5'000});
    EXPECT_NEAR(static_cast<double>(narrow), 5'000, 1);
  }
}

TEST(DrawBelow, ReachesEveryNumberAndNoOther) {
  Mt19937 generator(5);
  std::array<int, 7> seen{};
  for (int i = 0; i < 70'000; ++i)
    ++seen.at(static_cast<std::size_t>(draw_below(generator, 7)));
  for (const int count : seen)
    EXPECT_NEAR(count, 10'000, 500);
}

TEST(DrawLognormal, GivesTheSameLoadOnEveryMachine) {
  Mt19937 generator(42);
  EXPECT_EQ(draw_lognormal(generator, {.median = 7'200'000, .p90 = 28'800'000}), 2404971);
  EXPECT_EQ(draw_normal(generator), 669760330);
}

TEST(DrawExponential, GivesTheSameLoadOnEveryMachine) {
  Mt19937 generator(42);
  EXPECT_EQ(draw_exponential(generator, 1'000'000), 447183);
  EXPECT_EQ(draw_exponential(generator, 1'000'000), 2195246);
  EXPECT_EQ(draw_exponential(generator, 0), 0);
}

}  // namespace
}  // namespace berth::sim
