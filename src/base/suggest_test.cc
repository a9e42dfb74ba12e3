#include "base/suggest.h"

#include <ctime>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace berth {
namespace {

TEST(Suggest, CountsEditsAndSwapsOfNeighbours) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("version", "verson"), 1U);
  EXPECT_EQ(edit_distance("version", "vresion"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

RC_GTEST_PROP(Suggest, DistanceIsSymmetricAndZeroOnlyForEqualWords,
              (const std::string& left, const std::string& right)) {
  RC_ASSERT(edit_distance(left, right) == edit_distance(right, left));
  RC_ASSERT((edit_distance(left, right) == 0) == (left == right));
}

TEST(Suggest, PrefersTheFewestEditsThenTheFirstListed) {
  const std::vector<std::string> verbs{"simulate", "version", "policies", "replay"};
  EXPECT_EQ(nearest("simulat", verbs), "simulate");
  EXPECT_EQ(nearest("polices", verbs), "policies");
  EXPECT_EQ(nearest("re", verbs), "replay");
  EXPECT_EQ(nearest("x", std::vector<std::string>{"b", "a"}), "b");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Suggest, TakesNoTimeForWhatIsFarTooLongToBeMeant) {
  const std::vector<std::string> verbs{"simulate", "version", "policies", "replay"};
  const std::string typed = "replay" + std::string(std::size_t{32} << 20U, 'y');
  const std::clock_t begin = std::clock();
  EXPECT_EQ(nearest(typed, verbs), "replay");
  EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC / 2) << "of the processor, other work aside";
}

}  // namespace
}  // namespace berth
