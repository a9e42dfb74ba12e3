#include "sim/generators.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/openb_test.h"

namespace berth::sim {
namespace {

using testing::HasSubstr;

TEST(ScaleFleet, KeepsTheMixOfModels) {
  const std::vector<TraceNode> fleet = scale_fleet(openb_nodes(), {.nodes = 10'000, .devices = 8});
  ASSERT_EQ(fleet.size(), 10'000U);
  EXPECT_EQ(capacity_milli(fleet), 80'000'000);
  std::map<std::string, int> nodes;
  for (const TraceNode& node : fleet)
    ++nodes[node.model];
  EXPECT_EQ(nodes["G2"], 4526);  // 549 of 1213
  EXPECT_NEAR(nodes["T4"], 10'000 * 404 / 1213, 1);
}

TEST(ScaleFleet, KeepsCoresAndMemoryPerDevice) {
  const std::vector<TraceNode> mix = {
      {.name = "a", .cpu_milli = 104'000, .memory_mib = 524'288, .devices = 2, .model = "T4"},
      {.name = "b", .cpu_milli = 64'000, .memory_mib = 1000, .devices = 0}};
  const std::vector<TraceNode> fleet = scale_fleet(mix, {.nodes = 4, .devices = 8});
  ASSERT_EQ(fleet.size(), 4U);
  EXPECT_EQ(fleet[0].devices, 0);
  EXPECT_EQ(fleet[0].cpu_milli, 64'000);
  EXPECT_EQ(fleet[2].devices, 8);
  EXPECT_EQ(fleet[2].cpu_milli, 416'000);
  EXPECT_EQ(fleet[2].memory_mib, 2'097'152);
}

TEST(ScaleFleet, WithoutASizeIsTheSameFleetUnderNewNames) {
  const std::vector<TraceNode> fleet = scale_fleet(openb_nodes(), {});
  EXPECT_EQ(fleet.size(), openb_nodes().size());
  EXPECT_EQ(capacity_milli(fleet), capacity_milli(openb_nodes()));
}

TEST(PlayLoad, HoldsTheAllocationInItsBandWithBooksThatStayRight) {
  const Scene scene = make_scene("default", scale_fleet(openb_nodes(), {.nodes = 30, .devices = 8}),
                                 openb_pods("default"))
                          .value();
  const LoadSpec spec{.policy = "pack", .seed = 1, .shape = {.decisions = 2000}, .check = true};
  const LoadResult result = play_load(scene, spec).value();
  EXPECT_EQ(result.latency.count(), 2000);
  EXPECT_GT(result.mean, 89);
  EXPECT_LT(result.mean, 95);
  EXPECT_GT(result.lowest, 85);
  EXPECT_LT(result.highest, 100);
  EXPECT_GT(result.departures, 1500);
  EXPECT_GT(result.virtual_seconds, 1000);
}

TEST(PlayLoad, IsTheSameForTheSameSeed) {
  const Scene scene =
      make_scene("default", scale_fleet(openb_nodes(), {.nodes = 20}), openb_pods("default"))
          .value();
  const LoadSpec spec{.policy = "pack", .seed = 9, .shape = {.decisions = 1000}};
  const LoadResult one = play_load(scene, spec).value();
  const LoadResult two = play_load(scene, spec).value();
  EXPECT_EQ(one.refused, two.refused);
  EXPECT_EQ(one.mean, two.mean);
  EXPECT_EQ(one.virtual_seconds, two.virtual_seconds);
}

TEST(GenerateWordsOf, KeepDefaultsForWhatIsLeftOut) {
  const auto words = parse_generate("nodes=100,fill=80-85");
  ASSERT_TRUE(words.ok());
  EXPECT_EQ(words->fleet.nodes, 100);
  EXPECT_EQ(words->fleet.devices, 0);
  EXPECT_EQ(words->load.low_percent, 80);
  EXPECT_EQ(words->load.high_percent, 85);
  EXPECT_EQ(words->load.decisions, 200'000);
}

TEST(GenerateWordsOf, AreRefusedWithTheKeyThatIsWrong) {
  const auto error = [](std::string_view text) {
    const auto words = parse_generate(text);
    return words.ok() ? std::string("no error") : words.error().message();
  };
  EXPECT_THAT(error("nodes"), HasSubstr("nodes is no KEY=VALUE"));
  EXPECT_THAT(error("node=3"), HasSubstr("node is unknown (known are nodes"));
  EXPECT_THAT(error("nodes=0"), HasSubstr("--generate nodes is \"0\""));
  EXPECT_THAT(error("devices=65"), HasSubstr("--generate devices is \"65\""));
  EXPECT_THAT(error("fill=95-90"), HasSubstr("is no range for fill that rises"));
  EXPECT_THAT(error("fill=95"), HasSubstr("is no range for fill"));
  EXPECT_THAT(error(""), HasSubstr("is no KEY=VALUE"));
}

}  // namespace
}  // namespace berth::sim
