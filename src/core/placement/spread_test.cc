#include "core/placement/spread.h"

#include <gtest/gtest.h>

#include "core/placement/most_free.h"
#include "core/placement/world_test.h"

namespace berth::core {
namespace {

TEST(SpreadPolicy, TakesTheDeviceWithTheLeastCommittedMemoryOfTheFleet) {
  World world("spread");
  world.add(world_node({.name = "a", .devices = 2}));
  world.add(world_node({.name = "b", .devices = 2}));
  world.put("a/g0", share(100));
  world.put("a/g1", share(300));
  world.put("b/g0", share(200));
  world.put("b/g1", share(50));
  EXPECT_EQ(world.place(share(60)).devices, std::vector<std::string>{"b/g1"});  // 110 now
  EXPECT_EQ(world.place(share(60)).devices, std::vector<std::string>{"a/g0"});
}

TEST(SpreadPolicy, BreaksTiesByUuidWhateverTheNodeOrderIs) {
  World world("spread");
  Node first = world_node({.name = "first", .devices = 2, .tie_rank = 0});
  first.devices[0].uuid = "GPU-c";
  first.devices[1].uuid = "GPU-b";
  world.add(first);
  Node last = world_node({.name = "last", .devices = 2, .tie_rank = 1});
  last.devices[0].uuid = "GPU-d";
  last.devices[1].uuid = "GPU-a";
  world.add(last);
  const auto next = [&] { return world.place(share(10)).devices.front(); };
  EXPECT_EQ(next(), "GPU-a");
  EXPECT_EQ(next(), "GPU-b");
  EXPECT_EQ(next(), "GPU-c");
  EXPECT_EQ(next(), "GPU-d");
  EXPECT_EQ(next(), "GPU-a");
}

TEST(SpreadPolicy, RanksAgainWhenDevicesJoin) {
  World world("spread");
  Node node = world_node({.name = "n", .devices = 1});
  node.devices[0].uuid = "GPU-b";
  world.add(node);
  EXPECT_EQ(world.place(share(10)).devices.front(), "GPU-b");
  world.end(0);
  Node other = world_node({.name = "o", .devices = 1});
  other.devices[0].uuid = "GPU-a";
  world.add(other);
  EXPECT_EQ(world.place(share(10)).devices.front(), "GPU-a");
}

TEST(SpreadPolicy, CountsForeignUse) {
  World world("spread");
  world.add(world_node({.name = "n", .devices = 2}));
  Sample sample;
  sample.used = Memory::mib(300).in_bytes();
  world.ledger.observe(world.fleet.find_device("n/g0"), sample, Time(0));
  world.put("n/g1", share(200));
  EXPECT_EQ(world.place(share(10)).devices, std::vector<std::string>{"n/g1"});
}

TEST(SpreadPolicy, TakesTheLeastCommittedDevicesOfOneNode) {
  World world("spread");
  world.add(world_node({.name = "a", .devices = 3}));
  world.add(world_node({.name = "b", .devices = 3}));
  world.put("a/g0", share(100));
  world.put("a/g1", share(20));
  world.put("a/g2", share(40));
  world.put("b/g1", share(70));
  world.put("b/g2", share(80));
  const Request two = request_of({DeviceAsk::fraction_nano(10'000'000, 2)});
  EXPECT_EQ(world.place(two).devices, (std::vector<std::string>{"a/g1", "a/g2"}));  // 60, not 70
  EXPECT_EQ(world.place(two).devices, (std::vector<std::string>{"b/g0", "b/g1"}));  // 70, not 80
}

TEST(SpreadPolicy, SpreadsTheContainersOfATask) {
  World world("spread");
  world.add(world_node({.name = "n", .devices = 3}));
  world.put("n/g0", share(100));
  const Request two =
      request_of({DeviceAsk::fraction_nano(90'000'000), DeviceAsk::fraction_nano(80'000'000)});
  EXPECT_EQ(world.place(two).devices, (std::vector<std::string>{"n/g1", "n/g2"}));
}

TEST(SpreadPolicy, SendsCpuWorkToTheNodeThatIsUsedLeast) {
  World world("spread");
  world.add(world_node({.name = "a", .cpu = 100'000}));
  world.add(world_node({.name = "b", .cpu = 10'000}));
  EXPECT_EQ(world.place(cpu_only(5000)).node, "a");
  EXPECT_EQ(world.place(cpu_only(4000)).node, "b");  // a: 5 %, b: 0 %
  EXPECT_EQ(world.place(cpu_only(1000)).node, "a");
}

TEST(MostFreePolicy, TakesTheDeviceWithTheMostHeadroom) {
  World world("most-free");
  world.add(world_node({.name = "small", .devices = 1, .device_mib = 1000}));
  world.add(world_node({.name = "large", .devices = 1, .device_mib = 3000}));
  const Request mib = request_of({DeviceAsk::memory_mib(900)});
  EXPECT_EQ(world.place(mib).node, "large");  // 3000 > 1000
  EXPECT_EQ(world.place(mib).node, "large");  // 2100
  EXPECT_EQ(world.place(mib).node, "large");  // 1200
  EXPECT_EQ(world.place(mib).node, "small");
}

TEST(MostFreePolicy, BreaksTiesByUuidAndSendsCpuWorkWhereMostIsFree) {
  World world("most-free");
  world.add(world_node({.name = "b", .devices = 1, .cpu = 8000}));
  world.add(world_node({.name = "a", .devices = 1, .cpu = 4000, .tie_rank = 1}));
  EXPECT_EQ(world.place(share(10)).devices, std::vector<std::string>{"a/g0"});
  EXPECT_EQ(world.place(cpu_only(1000)).node, "b");
}

}  // namespace
}  // namespace berth::core
