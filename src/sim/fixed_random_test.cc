#include "sim/fixed_random.h"

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

TEST(DrawExponential, GivesTheSameLoadOnEveryMachine) {
  Mt19937 generator(42);
  EXPECT_EQ(draw_exponential(generator, 1'000'000), 447183);
  EXPECT_EQ(draw_exponential(generator, 1'000'000), 2195246);
  EXPECT_EQ(draw_exponential(generator, 0), 0);
}

}  // namespace
}  // namespace berth::sim
