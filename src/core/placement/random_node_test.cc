#include "core/placement/random_node.h"

#include <map>

#include <gtest/gtest.h>

#include "core/placement/world_test.h"

namespace berth::core {
namespace {

TEST(RandomPolicy, DrawsEveryFeasibleNodeAndDeviceAboutEquallyOften) {
  World world("random");
  world.add(world_node({.name = "a", .devices = 2}));
  world.add(world_node({.name = "b", .devices = 2}));
  world.add(world_node({.name = "full", .devices = 1}));
  world.put("full/g0", whole(1));
  std::map<std::string, int> drawn;
  for (int i = 0; i < 4000; ++i) {
    ++drawn[world.place(share(300)).devices.front()];
    world.end(1);
  }
  ASSERT_EQ(drawn.size(), 4U);
  for (const auto& [device, times] : drawn) {
    EXPECT_GT(times, 850) << device;
    EXPECT_LT(times, 1150) << device;
  }
}

TEST(RandomPolicy, RepeatsItselfWithTheSameSeed) {
  const auto run = [](std::uint64_t seed) {
    World world("random", {}, seed);
    for (int i = 0; i < 10; ++i) {
      world.add(world_node({.name = std::string(1, static_cast<char>('a' + i)), .devices = 4}));
    }
    std::string nodes;
    for (int i = 0; i < 20; ++i) {
      nodes += world.place(share(300)).node;
    }
    return nodes;
  };
  EXPECT_EQ(run(42), run(42));
  EXPECT_NE(run(42), run(43));
}

TEST(RandomPolicy, TakesTheLowestIdleDevicesForWholeAsks) {
  World world("random");
  world.add(world_node({.name = "n", .devices = 4}));
  world.put("n/g0", share(10));
  EXPECT_EQ(world.place(whole(2)).devices, (std::vector<std::string>{"n/g1", "n/g2"}));
}

TEST(RandomPolicy, DrawsAmongGuardedNodesWhatTheirRuleLeaves) {
  World world("random");
  const NodeId node = world.add(world_node({.name = "n", .devices = 4}));
  world.index.set_guarded(node, true);
  const GuardRule last_only = [](NodeId) { return std::optional<std::uint64_t>(0b1000); };
  EXPECT_EQ(world.place(share(10), last_only).devices, std::vector<std::string>{"n/g3"});
  const GuardRule closed = [](NodeId) { return std::optional<std::uint64_t>(); };
  EXPECT_EQ(world.place(share(10), closed).node, "");
}

}  // namespace
}  // namespace berth::core
