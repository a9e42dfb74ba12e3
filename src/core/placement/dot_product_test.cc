#include "core/placement/dot_product.h"

#include <gtest/gtest.h>

#include "core/placement/world_test.h"

namespace berth::core {
namespace {

TEST(DotProductPolicy, LooksForTheLeastAlignedFreeCapacity) {
  World world("dotprod");
  world.add(world_node({.name = "a", .devices = 8, .cpu = 128'000}));
  world.add(world_node({.name = "b", .devices = 4, .cpu = 64'000}));
  // 100 (1 - (64/128 x 64/128 + 4/8 x 4/8) / 2) = 75
  EXPECT_EQ(world.place(whole(4, 64'000)).cost, -75);
  // Only a is left: 100 (1 - (128/128 x 64/128 + 8/8 x 4/8) / 2) = 50
  EXPECT_EQ(world.place(whole(4, 64'000)).cost, -50);
}

TEST(DotProductPolicy, TakesTheTightestDevice) {
  World world("dotprod");
  world.add(world_node({.name = "n", .devices = 3}));
  world.put("n/g2", share(500));
  EXPECT_EQ(world.place(share(500)).devices, std::vector<std::string>{"n/g2"});
}

}  // namespace
}  // namespace berth::core
