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
