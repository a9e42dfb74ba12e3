#include "core/placement/gpu_clustering.h"

#include <gtest/gtest.h>

#include "core/placement/world_test.h"

namespace berth::core {
namespace {

TEST(GpuClusteringPolicy, PrefersNodesOfItsOwnShapeThenMixedThenFreshThenOthers) {
  World world("gpu-clustering");
  world.add(world_node({.name = "fresh", .devices = 8}));
  world.add(world_node({.name = "mixed", .devices = 8}));
  world.add(world_node({.name = "other", .devices = 8}));
  world.add(world_node({.name = "own", .devices = 2}));
  world.put("mixed/g0", share(100));
  world.put("mixed/g1", whole(1));
  world.put("other/g0", whole(1));
  world.put("own/g0", share(100));
  EXPECT_EQ(world.place(share(950)).node, "own");
  EXPECT_EQ(world.place(share(950)).node, "mixed");  // own is full
  EXPECT_EQ(world.place(whole(8)).node, "fresh");
}

TEST(GpuClusteringPolicy, TellsTwoSingleDevicesFromOneAskForTwo) {
  World world("gpu-clustering");
  world.add(world_node({.name = "pair", .devices = 4}));
  world.add(world_node({.name = "singles", .devices = 4, .tie_rank = 1}));
  world.put("singles/g0", whole(1));
  world.put("singles/g1", whole(1));
  EXPECT_EQ(world.place(whole(2)).node, "pair");
  EXPECT_EQ(world.place(whole(1)).node, "singles");
  EXPECT_EQ(world.place(whole(2)).node, "pair");
}

TEST(GpuClusteringPolicy, AddsTheFullnessOfTheNode) {
  World world("gpu-clustering");
  world.add(world_node({.name = "n", .devices = 4}));
  EXPECT_EQ(world.place(whole(1)).cost, -(25 + 12));  // floor(25 x 4000 / 8000)
  EXPECT_EQ(world.place(whole(1)).cost, -(75 + 15));  // floor(25 x 5000 / 8000)
  EXPECT_EQ(world.place(cpu_only(1000)).cost, 0);
}

}  // namespace
}  // namespace berth::core
