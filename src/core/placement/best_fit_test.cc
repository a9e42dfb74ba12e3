#include "core/placement/best_fit.h"

#include <gtest/gtest.h>

#include "core/placement/world_test.h"

namespace berth::core {
namespace {

TEST(BestFitPolicy, LeavesTheLeastFreeGpuAndCpu) {
  World world("best-fit");
  world.add(world_node({.name = "a", .devices = 8}));
  world.add(world_node({.name = "b", .devices = 4}));
  world.add(world_node({.name = "c", .devices = 4, .cpu = 96'000}));
  const Placed placed = world.place(share(300, 4000));
  EXPECT_EQ(placed.node, "b");
  // 100 (1 - (32000 - 4000) / 256000 - (4000 - 300) / 16000) = 65.9375
  EXPECT_EQ(placed.cost, -65);
}

TEST(BestFitPolicy, TakesTheTightestDeviceAndTheLowestOfEqualOnes) {
  World world("best-fit");
  world.add(world_node({.name = "n", .devices = 4}));
  world.put("n/g1", share(500));
  world.put("n/g2", share(600));
  world.put("n/g3", share(600));
  EXPECT_EQ(world.place(share(400)).devices, std::vector<std::string>{"n/g2"});
  EXPECT_EQ(world.place(share(500)).devices, std::vector<std::string>{"n/g1"});
  EXPECT_EQ(world.place(share(500)).devices, std::vector<std::string>{"n/g0"});
}

TEST(BestFitPolicy, TakesTheTightestDevicesForSeveralContainersToo) {
  World world("best-fit");
  world.add(world_node({.name = "n", .devices = 3}));
  world.put("n/g1", share(500));
  world.put("n/g2", share(700));
  const Placed placed = world.place(
      request_of({DeviceAsk::fraction_nano(400'000'000), DeviceAsk::fraction_nano(300'000'000)}));
  EXPECT_EQ(placed.devices, (std::vector<std::string>{"n/g1", "n/g2"}));
}

TEST(BestFitPolicy, SendsCpuWorkWhereTheLeastIsFree) {
  World world("best-fit");
  world.add(world_node({.name = "a", .devices = 2}));
  world.add(world_node({.name = "b", .devices = 0, .cpu = 64'000}));
  world.add(world_node({.name = "c", .devices = 0, .cpu = 16'000}));
  EXPECT_EQ(world.place(cpu_only(1000)).node, "c");
}

TEST(BestFitPolicy, BreaksTiesByRankAndThenByName) {
  World world("best-fit");
  world.add(world_node({.name = "b", .tie_rank = 1}));
  world.add(world_node({.name = "a", .tie_rank = 1}));
  EXPECT_EQ(world.place(whole(1)).node, "a");
  world.add(world_node({.name = "c", .tie_rank = 0}));
  EXPECT_EQ(world.place(whole(1)).node, "c");
}

}  // namespace
}  // namespace berth::core
