#include "core/placement/gpu_packing.h"

#include <gtest/gtest.h>

#include "core/placement/world_test.h"

namespace berth::core {
namespace {

TEST(GpuPackingPolicy, FillsUsedDevicesThenUsedNodesThenFreshOnes) {
  World world("gpu-packing");
  world.add(world_node({.name = "a", .devices = 8}));
  world.add(world_node({.name = "b", .devices = 8}));
  EXPECT_EQ(world.place(share(300)).cost, -25);  // a fresh node of eight
  EXPECT_EQ(world.place(share(600)).cost, -(100 - 7));
  EXPECT_EQ(world.place(share(600)).cost, -49);  // an idle device of the used node
  EXPECT_EQ(world.place(whole(2)).cost, -48);
  const Placed last = world.place(whole(8));
  EXPECT_EQ(last.node, "b");
  EXPECT_EQ(last.cost, -25);
  EXPECT_EQ(world.place(cpu_only(1000)).cost, 0);
}

TEST(GpuPackingPolicy, TakesTheTightestDevice) {
  World world("gpu-packing");
  world.add(world_node({.name = "n", .devices = 3}));
  world.put("n/g1", share(300));
  world.put("n/g2", share(500));
  EXPECT_EQ(world.place(share(500)).devices, std::vector<std::string>{"n/g2"});
  EXPECT_EQ(world.place(share(700)).devices, std::vector<std::string>{"n/g1"});
}

}  // namespace
}  // namespace berth::core
