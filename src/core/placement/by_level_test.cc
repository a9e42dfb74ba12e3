#include "core/placement/by_level.h"

#include <gtest/gtest.h>

#include "core/placement/exact_share.h"
#include "core/placement/world_test.h"

namespace berth::core {
namespace {

using Devices = std::vector<std::string>;

constexpr const char* kPackPack = "nodes=pack,devices=pack";
constexpr const char* kPackSpread = "nodes=pack,devices=spread";
constexpr const char* kSpreadPack = "nodes=spread,devices=pack";
constexpr const char* kSpreadSpread = "nodes=spread,devices=spread";

// Two nodes with two devices each, as most of the acceptance scenarios of annotations.md 6 have.
void add_two_by_two(World& world) {
  world.add(world_node({.name = "n0", .devices = 2}));
  world.add(world_node({.name = "n1", .devices = 2}));
}

TEST(ByLevelPolicy, PackFillsTheFullestSharedDeviceThatFits) {
  World world(kPackPack);
  world.add(world_node({.name = "n", .devices = 3}));
  world.put("n/g0", share(700));
  world.put("n/g1", share(500));
  EXPECT_EQ(world.place(share(200)).devices, Devices{"n/g0"});  // F11a
  EXPECT_EQ(world.place(share(200)).devices, Devices{"n/g1"});
  EXPECT_EQ(world.place(share(400)).devices, Devices{"n/g2"});
}

TEST(ByLevelPolicy, SpreadTakesAFreeDeviceAndThenTheLeastUsed) {
  World world(kSpreadSpread);
  world.add(world_node({.name = "n", .devices = 3}));
  world.put("n/g0", share(700));
  world.put("n/g1", share(500));
  EXPECT_EQ(world.place(share(200)).devices, Devices{"n/g2"});  // F11b
  EXPECT_EQ(world.place(share(350)).devices, Devices{"n/g2"});  // 200 < 500
  EXPECT_EQ(world.place(share(200)).devices, Devices{"n/g1"});  // 500 < 550
}

TEST(ByLevelPolicy, PackPrefersASharedDeviceElsewhereToOpeningOne) {
  World world(kPackPack);
  add_two_by_two(world);
  world.put("n0/g0", whole(1));  // n0 has the least free memory, but no shared device
  world.put("n1/g1", share(500));
  EXPECT_EQ(world.place(share(500)).devices, Devices{"n1/g1"});  // F2
  EXPECT_EQ(world.place(share(500)).devices, Devices{"n0/g1"});
}

TEST(ByLevelPolicy, PackTakesTheNodeWithTheLeastFreeMemoryThatFits) {
  World world(kPackPack);
  world.add(world_node({.name = "n0", .devices = 4}));
  world.add(world_node({.name = "n1", .devices = 2}));
  EXPECT_EQ(world.place(whole(1)).node, "n1");
  EXPECT_EQ(world.place(whole(2)).node, "n0");
}

TEST(ByLevelPolicy, LevelsAreIndependent) {
  World pack_spread(kPackSpread);
  add_two_by_two(pack_spread);
  pack_spread.put("n0/g0", share(500));
  EXPECT_EQ(pack_spread.place(share(500)).devices, Devices{"n0/g1"});  // F12

  World spread_pack(kSpreadPack);
  spread_pack.add(world_node({.name = "n0", .devices = 2}));
  spread_pack.add(world_node({.name = "n1", .devices = 3}));
  spread_pack.put("n0/g0", share(500));
  const Placed first = spread_pack.place(share(500));  // F13
  EXPECT_EQ(first.node, "n1");
  EXPECT_EQ(spread_pack.place(share(500)).devices, first.devices);
}

TEST(ByLevelPolicy, SpreadTakesTheNodeWithTheHighestFreeShare) {
  World world(kSpreadSpread);
  world.add(world_node({.name = "a", .devices = 4}));
  world.add(world_node({.name = "b", .devices = 2}));
  world.put("a/g0", share(900));  // 3100 / 4000
  world.put("b/g0", share(400));  // 1600 / 2000
  EXPECT_EQ(world.place(share(100)).node, "b");
}

TEST(ByLevelPolicy, ComparesSharesExactly) {
  // 1/3 beats 333,333,333 / 1,000,000,000 by less than any float would tell.
  World world(kSpreadPack);
  world.add(world_node({.name = "a", .devices = 1, .device_mib = 1'000'000'000}));
  world.add(world_node({.name = "b", .devices = 1, .device_mib = 3}));
  world.put("a/g0", request_of({DeviceAsk::memory_mib(666'666'667)}));
  world.put("b/g0", request_of({DeviceAsk::memory_mib(2)}));
  EXPECT_EQ(world.place(request_of({DeviceAsk::memory_mib(1)})).node, "b");
}

TEST(ByLevelPolicy, DividesGrantedMemoryByTheDevicesOwnSize) {
  World world(kPackPack);
  Node node = world_node({.name = "n", .devices = 2});
  node.devices[0].total = Memory::mib(3000);
  world.add(node);
  world.put("n/g0", request_of({DeviceAsk::memory_mib(900)}));  // 30 %
  world.put("n/g1", request_of({DeviceAsk::memory_mib(400)}));  // 40 %
  EXPECT_EQ(world.place(request_of({DeviceAsk::memory_mib(100)})).devices, Devices{"n/g1"});
}

TEST(ByLevelPolicy, MixesSharedAndFreeDevicesForSeveral) {
  World world(kPackPack);
  world.add(world_node({.name = "n", .devices = 3}));
  world.put("n/g2", share(500));
  const Request two = request_of({DeviceAsk::fraction_nano(300'000'000, 2)});
  EXPECT_EQ(world.place(two).devices, (Devices{"n/g2", "n/g0"}));
}

TEST(ByLevelPolicy, OrdersTheContainersOfATaskToo) {
  World world(kPackPack);
  world.add(world_node({.name = "n", .devices = 3}));
  world.put("n/g1", share(300));
  world.put("n/g2", share(400));
  const Request two =
      request_of({DeviceAsk::fraction_nano(550'000'000), DeviceAsk::fraction_nano(200'000'000)});
  // 550 on g2 makes it the fullest, and full for the second.
  EXPECT_EQ(world.place(two).devices, (Devices{"n/g2", "n/g1"}));
}

TEST(ByLevelPolicy, BreaksTiesByPciBusIdAndThenByUuid) {
  World world(kPackPack);
  Node node = world_node({.name = "n", .devices = 3});
  node.devices[0].pci_bus_id = "0000:3b:00.0";
  node.devices[1].pci_bus_id = "0000:1a:00.0";
  node.devices[2].pci_bus_id = "0000:1a:00.0";
  node.devices[1].uuid = "GPU-2";
  node.devices[2].uuid = "GPU-1";
  world.add(node);
  EXPECT_EQ(world.place(whole(1)).devices, Devices{"GPU-1"});
  EXPECT_EQ(world.place(whole(1)).devices, Devices{"GPU-2"});
  EXPECT_EQ(world.place(whole(1)).devices, Devices{"n/g0"});
}

TEST(ByLevelPolicy, KeepsCpuWorkAwayFromFreeGpusUnderPack) {
  World pack(kPackPack);
  pack.add(world_node({.name = "a", .devices = 2, .cpu = 8000}));
  pack.add(world_node({.name = "b", .devices = 0, .cpu = 64'000}));
  pack.add(world_node({.name = "c", .devices = 0, .cpu = 32'000}));
  EXPECT_EQ(pack.place(cpu_only(1000)).node, "c");

  World spread(kSpreadPack);
  spread.add(world_node({.name = "a", .devices = 2, .cpu = 8000}));
  spread.add(world_node({.name = "b", .devices = 0, .cpu = 4000}));
  EXPECT_EQ(spread.place(cpu_only(1000)).node, "a");
  EXPECT_EQ(spread.place(cpu_only(1000)).node, "b");
}

TEST(ByLevelPolicy, PromisesOutrankOpeningWhereDevicesArePacked) {
  EXPECT_TRUE(ByLevelPolicy({.nodes = OrderHint::spread, .devices = OrderHint::pack}).packs());
  EXPECT_FALSE(ByLevelPolicy({.nodes = OrderHint::pack, .devices = OrderHint::spread}).packs());
}

DeviceAsk hinted(OrderHint nodes, OrderHint devices) {
  DeviceAsk ask = DeviceAsk::fraction_nano(200'000'000);
  ask.node_order = nodes;
  ask.device_order = devices;
  return ask;
}

TEST(OrderHints, WinOverTheLevelsOfThePolicy) {
  World world(kPackPack);
  add_two_by_two(world);
  world.put("n0/g0", share(500));
  const auto pick = [&](OrderHint nodes, OrderHint devices) {
    const ShapeId shape = world.shapes.acquire(request_of({hinted(nodes, devices)}));
    const Selection selection = world.index.select(shape, {});
    const std::size_t place = world.index.places(shape, selection)[0].places.at[0];
    return world.fleet.uuid(world.fleet.devices_of(selection.node)[place]);
  };
  EXPECT_EQ(pick(OrderHint::policy, OrderHint::policy), "n0/g0");
  EXPECT_EQ(pick(OrderHint::policy, OrderHint::spread), "n0/g1");
  EXPECT_EQ(pick(OrderHint::spread, OrderHint::policy), "n1/g0");
  EXPECT_EQ(pick(OrderHint::spread, OrderHint::spread), "n1/g0");
}

TEST(OrderHints, AreObeyedUnderEveryPolicyThatDoesNotDraw) {
  for (const PolicyInfo& policy : registered_policies()) {
    World world(policy.name);
    if (world.index.policy().draws()) {
      continue;
    }
    add_two_by_two(world);
    world.put("n0/g0", share(500));
    const auto place = [&](OrderHint order) {
      return world.place(request_of({hinted(order, order)})).devices;
    };
    EXPECT_EQ(place(OrderHint::pack), Devices{"n0/g0"}) << policy.name;
    EXPECT_EQ(place(OrderHint::spread), Devices{"n1/g0"}) << policy.name;
  }
}

TEST(ExactShare, OrdersQuotientsAsTheyAre) {
  constexpr std::int64_t kLarge = (std::int64_t{1} << 31) - 1;
  EXPECT_LT(exact_share(kLarge - 2, kLarge - 1), exact_share(kLarge - 1, kLarge));
  EXPECT_EQ(exact_share(1, 3), exact_share(kLarge / 7, kLarge / 7 * 3));
  EXPECT_EQ(exact_share(5, 0), 0);
  EXPECT_EQ(exact_share(-5, 10), 0);
  EXPECT_EQ(exact_share(20, 10), exact_share(10, 10));
}

}  // namespace
}  // namespace berth::core
