#include "base/mt19937.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth {
namespace {

using testing::ElementsAre;

// Numbers: placement page, section 2, "Exact sequences".
TEST(Mt19937, StartsWithThePublishedWordsForSeed42) {
  Mt19937 generator(42);
  EXPECT_EQ(generator.next32(), 2746317213U);
  EXPECT_EQ(generator.next32(), 478163327U);
  EXPECT_EQ(generator.next32(), 107420369U);
}

TEST(Mt19937, ShufflesTenNumbersAsPublishedForSeed42) {
  std::vector<int> values(10);
  std::iota(values.begin(), values.end(), 0);
  Mt19937 generator(42);
  generator.shuffle(std::span(values));
  EXPECT_THAT(values, ElementsAre(7, 3, 2, 8, 5, 6, 9, 4, 0, 1));
}

// CPython 3.11: random.Random(2**40 + 7).getrandbits(32)
TEST(Mt19937, TakesBothWordsOfALongSeed) {
  Mt19937 generator((std::uint64_t{1} << 40U) + 7);
  EXPECT_EQ(generator.next32(), 2635837658U);
  EXPECT_EQ(generator.next32(), 3209733218U);
}

// CPython 3.11: the 2000th word of random.Random(0)
TEST(Mt19937, GoesOnAfterItsStateIsUsedUp) {
  Mt19937 generator(0);
  for (int i = 1; i < 2000; ++i)
    generator.next32();
  EXPECT_EQ(generator.next32(), 3908016617U);
}

TEST(Mt19937, DrawsEveryNumberBelowTheBoundAndNoOther) {
  Mt19937 generator(1);
  std::vector<int> seen(5);
  for (int i = 0; i < 1000; ++i)
    ++seen.at(generator.below(5));
  EXPECT_GT(*std::ranges::min_element(seen), 150);
  EXPECT_EQ(generator.below(1), 0U);
}

}  // namespace
}  // namespace berth
