#include "config/queue_plan.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/queue_file.h"

namespace berth::config {
namespace {

using testing::ElementsAre;

std::vector<core::Node> fleet_of(int nodes, int devices, const std::string& model = "H100") {
  std::vector<core::Node> fleet;
  for (int n = 0; n < nodes; ++n) {
    core::Node& node = fleet.emplace_back();
    node.name = "n" + std::to_string(n);
    for (int d = 0; d < devices; ++d) {
      core::Device& device = node.devices.emplace_back();
      device.uuid = node.name + std::to_string(d);
      device.model = model;
      device.total = Memory::mib(1000);
    }
  }
  return fleet;
}

QueuePlan plan_of(const std::string& queues, const std::vector<core::Node>& fleet) {
  const auto config = read_queue_file(queues, "q.yaml", {});
  EXPECT_TRUE(config.ok()) << config.error().message();
  return plan_queues(*config, fleet);
}

TEST(QueuePlan, OvercommittedQuotasAreScaledToWhatThereIs) {
  // queues-gangs-topology.md 4.3: C = 60, deserved 40 / 40 and 20 of a higher priority.
  const QueuePlan plan = plan_of(R"(queues:
  - {name: a, dims: {"*/devices": {deserved: 40}}}
  - {name: b, dims: {"*/devices": {deserved: 40}}}
  - {name: c, priority: 200, dims: {"*/devices": {deserved: 20}}}
)",
                                 fleet_of(10, 6));
  ASSERT_EQ(plan.dimensions.size(), 1U);
  EXPECT_EQ(plan.dimensions[0].name, "*/devices");
  EXPECT_EQ(plan.dimensions[0].capacity, 60'000);
  EXPECT_EQ(plan.dimensions[0].deserved, 100'000);
  EXPECT_EQ(plan.dimensions[0].half_capacity, 30'000);
  ASSERT_EQ(plan.queues.size(), 3U);
  EXPECT_EQ(plan.queues[0].name, "c") << "the higher priority first";
  EXPECT_EQ(plan.queues[0].dimensions[0].whole, (Entitled{20'000, 20'000}));
  EXPECT_EQ(plan.queues[1].dimensions[0].whole, (Entitled{20'000, 20'000}));
  EXPECT_EQ(plan.queues[2].dimensions[0].half, (Entitled{5'000, 5'000}));
  EXPECT_THAT(plan.lost, ElementsAre("n1", "n3", "n5", "n7", "n9"));
}

TEST(QueuePlan, ShowsTheTreeInItsOrderWithEveryNamedDimension) {
  const QueuePlan plan = plan_of(R"(queues:
  - {name: team, parent: lab, dims: {H100/memory: {deserved: 2000MiB, limit: 3000MiB}}}
  - {name: lab, dims: {"*/devices": {deserved: 2}}}
  - {name: lost, parent: nobody, stop: hold}
)",
                                 fleet_of(1, 4));
  ASSERT_EQ(plan.dimensions.size(), 2U);
  EXPECT_EQ(plan.dimensions[1].name, "H100/memory");
  EXPECT_EQ(plan.dimensions[1].capacity, 4000);
  EXPECT_THAT(plan.lost, ElementsAre("n0/g1", "n0/g3"));
  ASSERT_EQ(plan.queues.size(), 3U);
  EXPECT_EQ(plan.queues[1].path, "root/lab/team");
  EXPECT_EQ(plan.queues[1].depth, 1);
  EXPECT_TRUE(plan.queues[1].leaf);
  EXPECT_FALSE(plan.queues[0].leaf);
  EXPECT_EQ(plan.queues[0].dimensions[1].children_deserved, 2000);
  EXPECT_EQ(plan.queues[1].dimensions[1].whole.share, 3000) << "up to its limit";
  EXPECT_NE(plan.queues[2].held, "");
  EXPECT_EQ(plan.queues[2].dimensions[0].whole.share, 0) << "what is held asks for nothing";
  EXPECT_EQ(plan.queues[2].stop, core::QueueStop::hold);
}

TEST(QueuePlan, CountsOnlyDevicesThatAreOffered) {
  auto fleet = fleet_of(2, 2);
  fleet[0].devices[0].health = core::DeviceHealth::unhealthy;
  fleet[0].devices[1].mig_enabled = true;
  fleet[1].devices[0].total = std::nullopt;
  const QueuePlan plan = plan_of("queues: [{name: a, dims: {\"*/devices\": {}}}]\n", fleet);
  EXPECT_EQ(plan.devices, 1U);
  EXPECT_EQ(plan.dimensions[0].capacity, 1000);
  EXPECT_EQ(plan.dimensions[0].half_capacity, 0);
  EXPECT_EQ(plan.queues[0].dimensions[0].whole.share, 1000);
  EXPECT_EQ(plan.queues[0].dimensions[0].half.share, 0);
}

}  // namespace
}  // namespace berth::config
