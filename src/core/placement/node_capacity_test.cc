// count_on_node() against booking members one after the other, in every possible way.
#include <bit>
#include <random>

#include <gtest/gtest.h>

#include "core/placement/member_counts.h"
#include "core/placement/world_test.h"

namespace berth::core {
namespace {

NodeCapacity capacity(World& world, ShapeId shape, NodeId node) {
  return count_on_node(world.shapes.at(shape), world.ledger.node(node), world.ledger.faces(node),
                       world.shapes.fit(shape, world.types, world.fleet, node));
}

// The most members that any order of bookings gets onto the node.
std::int64_t most_by_trying(World& world, ShapeId id, NodeId node, std::uint32_t next) {
  const Shape& shape = world.shapes.at(id);
  if (node_refusal(shape, world.ledger.node(node)) != Cause::none) {
    return 0;
  }
  const AskFit fit = world.shapes.fit(id, world.types, world.fleet, node).asks[0];
  const LinkGraph graph(world.fleet.node(node));
  const AskPlaces found =
      places_for(shape.ask(0), fit, world.ledger.faces(node), ~std::uint64_t{0});
  std::int64_t most = 0;
  for (std::uint64_t set = 1; set < 16; ++set) {
    if ((set & ~found.fits) != 0 || std::popcount(set) != shape.ask(0).count ||
        (shape.ask(0).links == LinkRule::required && !graph.is_joined(set))) {
      continue;
    }
    Places places;
    for (std::size_t place = 0; place < 4; ++place) {
      if ((set >> place & 1U) != 0) {
        places.add(place);
      }
    }
    Grant grant;
    grant.node = node;
    grant.cpu = Milli(shape.cpu);
    grant.charges = charges_for(shape, world.shapes.fit(id, world.types, world.fleet, node),
                                world.ledger.faces(node), world.fleet.devices_of(node),
                                {{.container = 0, .places = places}});
    const WorkloadId workload(next);
    world.ledger.book(workload, grant);
    most = std::max(most, 1 + most_by_trying(world, id, node, next + 1));
    world.ledger.unbook(workload, grant);
  }
  return most;
}

TEST(NodeCapacity, CountsWhatReallyFits) {
  World world("best-fit");
  const NodeId node = world.add(world_node({.name = "n", .devices = 4}));
  const auto count = [&](const Request& request) {
    return capacity(world, world.shapes.acquire(request), node).members;
  };
  EXPECT_EQ(count(share(300)), 12);  // three to a device
  EXPECT_EQ(count(share(600)), 4);   // not floor(4000 / 600)
  EXPECT_EQ(count(whole(1)), 4);
  EXPECT_EQ(count(whole(3)), 1);
  EXPECT_EQ(count(cpu_only(10'000)), 3);
  EXPECT_EQ(count(share(100, 16'000)), 2);
  EXPECT_EQ(count(request_of({DeviceAsk::fraction_nano(500'000'000, 3)})), 2);
  EXPECT_EQ(count(whole(5)), 0);
}

TEST(NodeCapacity, OneOfAMutexOrOfAllComputePerDevice) {
  World world("best-fit");
  const NodeId node = world.add(world_node({.name = "n", .devices = 2}));
  DeviceAsk mutex = DeviceAsk::memory_mib(10);
  mutex.mutex = true;
  EXPECT_EQ(capacity(world, world.shapes.acquire(request_of({mutex})), node).members, 2);
  DeviceAsk all = DeviceAsk::memory_mib(10);
  all.compute_milli = 1000;
  EXPECT_EQ(capacity(world, world.shapes.acquire(request_of({all})), node).members, 2);
}

TEST(NodeCapacity, SeveralContainersAreAnUpperBound) {
  World world("best-fit");
  const NodeId node = world.add(world_node({.name = "n", .devices = 2}));
  const ShapeId two = world.shapes.acquire(
      request_of({DeviceAsk::whole_devices(1), DeviceAsk::fraction_nano(500'000'000)}));
  const NodeCapacity bound = capacity(world, two, node);
  EXPECT_FALSE(bound.exact);
  EXPECT_EQ(bound.members, 2);  // really 1
}

TEST(NodeCapacity, AgreesWithTryingEveryOrderOfBookings) {
  std::mt19937 generator(5);
  const auto to = [&](int most) { return std::uniform_int_distribution(0, most)(generator); };
  for (int round = 0; round < 150; ++round) {
    World world("best-fit");
    Node node =
        world_node({.name = "n", .devices = 1 + to(3), .cpu = std::int64_t{1000} * (1 + to(7))});
    for (Device& device : node.devices) {
      device.total = Memory::mib(500 + std::int64_t{250} * to(2));
      device.cordoned = to(8) == 0;
      device.link_set = to(2) - 1;
    }
    const NodeId id = world.add(std::move(node));
    for (std::size_t i = 0; i < world.fleet.devices_of(id).size(); ++i) {
      if (to(1) == 0) {
        world.put("n/g" + std::to_string(i), share(100 * (1 + to(6))));
      }
    }
    DeviceAsk ask = to(3) == 0 ? DeviceAsk::whole_devices(1 + to(1))
                               : DeviceAsk::memory_mib(150 + std::int64_t{100} * to(4), 1 + to(2));
    if (ask.is_share()) {
      ask.limit_mib =
          to(2) == 0 ? std::optional(ask.mib + std::int64_t{100} * to(3)) : std::nullopt;
      ask.compute_milli = to(2) == 0 ? 100 * (1 + to(9)) : 0;
      ask.mutex = to(5) == 0;
      ask.mode = to(5) == 0 ? SharingMode::sm_sharing : SharingMode::time_slicing;
    }
    ask.links = static_cast<LinkRule>(to(2));
    const ShapeId shape = world.shapes.acquire(request_of({ask}, to(1) == 0 ? 1000 : 0));
    const NodeCapacity found = capacity(world, shape, id);
    ASSERT_TRUE(found.exact);
    if (found.members > 5) {
      continue;  // too many orders to try
    }
    ASSERT_EQ(found.members, most_by_trying(world, shape, id, 100)) << round;
  }
}

}  // namespace
}  // namespace berth::core
