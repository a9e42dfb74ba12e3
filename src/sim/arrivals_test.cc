#include "sim/arrivals.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/openb_test.h"

namespace berth::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kGoal = 8'075'600;  // 130 % of 6,212,000

std::vector<std::uint32_t> arrivals_of(const std::string& list, std::uint64_t seed) {
  return draw_arrivals(openb_pods(list), {.seed = seed, .goal_milli = kGoal}).value();
}

// All numbers of this file: placement page, section 2, "Exact sequences".
TEST(Arrivals, OfTheDefaultTraceComeInThePublishedOrder) {
  const std::vector<TracePod>& pods = openb_pods("default");
  const std::vector<std::uint32_t> arrivals = arrivals_of("default", 42);
  ASSERT_EQ(arrivals.size(), 10'771U);
  EXPECT_EQ(pods[arrivals[0]].name, "openb-pod-2665");
  EXPECT_EQ(pods[arrivals[1]].name, "openb-pod-4979");
  EXPECT_EQ(pods[arrivals[2]].name, "openb-pod-3253");
  EXPECT_EQ(pods[arrivals[3]].name, "openb-pod-6040");
  EXPECT_EQ(pods[arrivals[10'769]].name, "openb-pod-1977");
  EXPECT_EQ(pods[arrivals[10'770]].name, "openb-pod-6817");
}

TEST(Arrivals, OfTheOtherTracesAreAsManyAsPublished) {
  EXPECT_EQ(arrivals_of("cpu250", 42).size(), 12'556U);
  EXPECT_EQ(arrivals_of("gpushare100", 42).size(), 16'616U);
  EXPECT_EQ(arrivals_of("gpuspec33", 42).size(), 10'771U);
  EXPECT_EQ(arrivals_of("multigpu50", 42).size(), 6'414U);
}

TEST(Arrivals, HoldEveryOriginalBeforeAnyDuplicate) {
  const std::vector<std::uint32_t> arrivals = arrivals_of("default", 7);
  const std::size_t originals = openb_pods("default").size();
  const std::set<std::uint32_t> first(arrivals.begin(),
                                      arrivals.begin() + static_cast<std::ptrdiff_t>(originals));
  EXPECT_EQ(first.size(), originals);
}

TEST(Arrivals, AreThinnedOutWhenTheTraceAsksForMore) {
  const std::vector<TracePod>& pods = openb_pods("multigpu50");
  const std::vector<std::uint32_t> arrivals = arrivals_of("multigpu50", 42);
  std::int64_t asked = 0;
  for (const std::uint32_t i : arrivals)
    asked += pods[i].total_milli();
  EXPECT_LE(asked, kGoal);
  EXPECT_GT(asked, kGoal - 8000);
  EXPECT_EQ(std::set(arrivals.begin(), arrivals.end()).size(), arrivals.size());
}

TEST(Arrivals, DoNotDependOnTheOrderOfTheFile) {
  std::vector<TracePod> pods = openb_pods("default");
  std::ranges::reverse(pods);
  const auto arrivals = draw_arrivals(pods, {.seed = 42, .goal_milli = kGoal}).value();
  EXPECT_EQ(pods[arrivals.front()].name, "openb-pod-2665");
  EXPECT_EQ(pods[arrivals.back()].name, "openb-pod-6817");
}

TEST(Arrivals, AreRefusedWhereNobodyAsksForAGpu) {
  const std::vector<TracePod> pods = {{.name = "a", .cpu_milli = 1000, .memory_mib = 10}};
  const auto arrivals = draw_arrivals(pods, {.seed = 1, .goal_milli = kGoal});
  ASSERT_FALSE(arrivals.ok());
  EXPECT_THAT(arrivals.error().message(), HasSubstr("asks for a GPU"));
}

TEST(Arrivals, AreRefusedWhereTheyWouldNeverEnd) {
  std::vector<TracePod> pods = {{.name = "a", .num_gpu = 1, .gpu_milli = 1}};
  for (int i = 0; i < 10; ++i)
    pods.push_back({.name = "b" + std::to_string(i)});
  const auto arrivals = draw_arrivals(pods, {.seed = 1, .goal_milli = kGoal});
  ASSERT_FALSE(arrivals.ok());
  EXPECT_THAT(arrivals.error().message(), HasSubstr("lower --arrival"));
}

TEST(NodeRanks, StartAsPublishedForSeed42) {
  std::vector<std::uint32_t> ranks = draw_node_ranks(1213, 42);
  ASSERT_EQ(ranks.size(), 1213U);
  EXPECT_THAT(std::vector(ranks.begin(), ranks.begin() + 6),
              ElementsAre(624, 676, 352, 591, 275, 1158));
  std::ranges::sort(ranks);
  for (std::uint32_t i = 0; i < ranks.size(); ++i)
    EXPECT_EQ(ranks[i], i);
}

}  // namespace
}  // namespace berth::sim
