// Gangs as a whole: rows G1 to G5c and T1 to T6 of annotations.md 6 and what surrounds them, on the
// engine alone. The scenarios say the same in words.
#include <algorithm>
#include <utility>

#include <gtest/gtest.h>

#include "core/engine/world_test.h"

namespace berth::core {
namespace {

MemberSet members(const std::string& name, std::int64_t count, DeviceAsk ask) {
  return {.name = name, .count = count, .request = asking(std::move(ask)), .priority = {}};
}

Group leaf(std::vector<MemberSet> sets, std::int64_t min = 0, TopologyRule topology = {}) {
  Group group;
  group.members = std::move(sets);
  group.min = min;
  group.topology = std::move(topology);
  return group;
}

struct GangWorld : World {
  void gang(const std::string& uid, Group root, GangOptions options = {},
            WorkloadOptions of_all = {}) {
    apply(WorkloadSubmitted{
        Workload::gang(uid, {.root = std::move(root), .options = options}, std::move(of_all))
            .value()});
  }
  void at_s(std::int64_t second) {
    now = Time(second * 1000);
    apply(TimeReached{});
  }
  Outcome outcome(const std::string& uid) const {
    return engine->outcome(uid).value_or(Outcome::ended);
  }
  void rack(const std::string& node, int devices, const std::string& name,
            const std::string& zone = "z") {
    Node made = node_of(node, devices, 100);
    made.labels["rack"] = name;
    made.labels["zone"] = zone;
    apply(NodeUpserted{made});
  }
  void racks() { apply(TopologiesChanged{{{.name = "racks", .levels = {"zone", "rack"}}}}); }
};

TEST(Gang, StartsWholeOrNotAtAll) {
  GangWorld world;
  world.apply(NodeUpserted{node_of("n0", 1, 100)});
  world.submit("a", DeviceAsk::memory_mib(60));
  world.gang("g", leaf({members("w", 2, DeviceAsk::memory_mib(50))}));
  EXPECT_EQ(world.outcome("g"), Outcome::waiting);
  EXPECT_EQ(world.engine->grant("g/w-0"), nullptr);
  world.apply(GrantReleased{"a"});
  EXPECT_EQ(world.outcome("g"), Outcome::granted);
  EXPECT_EQ(world.device_of("g/w-0"), "n0/g0");
  EXPECT_EQ(world.device_of("g/w-1"), "n0/g0");
}

// G1 (c), and G1 (b): two nodes' worth on one node is never.
TEST(Gang, IsNeverWhenItsMinimumExceedsTheFleet) {
  GangWorld world;
  world.apply(NodeUpserted{node_of("n0", 2, 100)});
  world.gang("g", leaf({members("w", 2, DeviceAsk::whole_devices(2))}));
  EXPECT_EQ(world.outcome("g"), Outcome::never);
  EXPECT_EQ(world.cause("g"), "ExceedsFleet");
  EXPECT_EQ(world.outcome("g/w-1"), Outcome::never);
  world.apply(NodeUpserted{node_of("n1", 2, 100)});
  EXPECT_EQ(world.outcome("g"), Outcome::granted);
}

TEST(Gang, G2AnElasticOneStartsWithItsMinimumAndGrows) {
  GangWorld world;
  world.apply(NodeUpserted{node_of("n0", 1, 100)});
  Group group = leaf({members("low", 1, DeviceAsk::whole_devices(1)),
                      members("high", 1, DeviceAsk::whole_devices(1))},
                     1);
  group.members[1].priority = 5;
  world.gang("g", group);
  EXPECT_EQ(world.outcome("g"), Outcome::granted);
  EXPECT_EQ(world.device_of("g/high"), "n0/g0");
  EXPECT_EQ(world.device_of("g/low"), "-");
  world.apply(NodeUpserted{node_of("n1", 1, 100)});
  EXPECT_EQ(world.device_of("g/low"), "n1/g0");
}

TEST(Gang, G3NothingIsPlacedWhenOneSubgroupLacksRoom) {
  GangWorld world;
  world.apply(NodeUpserted{node_of("n0", 4, 100)});
  Group one = leaf({members("big", 1, DeviceAsk::whole_devices(3))}, 1);
  one.name = "one";
  Group two = leaf({members("small", 2, DeviceAsk::whole_devices(1))}, 2);
  two.name = "two";
  Group root;
  root.groups = {one, two};
  world.gang("g", root);
  EXPECT_NE(world.outcome("g"), Outcome::granted);
  EXPECT_EQ(world.engine->grant("g/big"), nullptr);
  EXPECT_EQ(world.engine->grant("g/small-0"), nullptr);
}

TEST(Gang, G4OneCompleteGroupOfTwoIsEnough) {
  GangWorld world;
  world.apply(NodeUpserted{node_of("n0", 2, 100)});
  Group root;
  root.min_groups = 1;
  for (const std::string name : {"a", "b"}) {
    Group part = leaf({members(name, 2, DeviceAsk::whole_devices(1))});
    part.name = name;
    root.groups.push_back(part);
  }
  world.gang("g", root);
  EXPECT_EQ(world.outcome("g"), Outcome::granted);
  EXPECT_NE(world.device_of("g/a-0"), "-");
  EXPECT_NE(world.device_of("g/a-1"), "-");
  EXPECT_EQ(world.device_of("g/b-0"), "-");
}

TEST(Gang, WaitsForMembersThatDoNotExistYet) {
  GangWorld world;
  world.apply(NodeUpserted{node_of("n0", 4, 100)});
  Group group = leaf({members("w", 2, DeviceAsk::whole_devices(1))}, 3);
  group.count = 3;
  world.gang("g", group);
  EXPECT_EQ(world.cause("g"), "GangIncomplete");
  world.apply(MembersJoined{"g", "", members("late", 1, DeviceAsk::whole_devices(1))});
  EXPECT_EQ(world.outcome("g"), Outcome::granted);
  EXPECT_NE(world.device_of("g/late"), "-");
}

// G5a and G5b.
TEST(Gang, BelowItsMinimumItIsEvictedAfterTheGrace) {
  for (const std::int64_t grace : {-1, 0, 10, 60}) {
    GangWorld world;
    world.apply(NodeUpserted{node_of("n0", 2, 100)});
    GangOptions options;
    options.stale_grace = Duration(grace * 1000);
    world.gang("g", leaf({members("w", 2, DeviceAsk::whole_devices(1))}), options);
    const auto evicted = [&](const std::vector<Action>& actions) {
      return std::ranges::any_of(
          actions, [](const Action& a) { return std::holds_alternative<Evicted>(a); });
    };
    EXPECT_EQ(evicted(world.apply(GrantLost{"g/w-0", "exit 1", false})), grace == 0) << grace;
    world.submit("other", DeviceAsk::whole_devices(1));
    if (grace > 0) {
      EXPECT_EQ(world.device_of("other"), "-") << "the slot is kept";
      world.now = Time((grace - 1) * 1000);
      EXPECT_FALSE(evicted(world.apply(TimeReached{}))) << grace;
      world.now = Time(grace * 1000);
      EXPECT_TRUE(evicted(world.apply(TimeReached{}))) << grace;
      EXPECT_NE(world.device_of("other"), "-");
    } else if (grace < 0) {
      world.now = Time(100'000'000);
      EXPECT_FALSE(evicted(world.apply(TimeReached{})));
    }
  }
}

TEST(Gang, ALostMemberComesBackBeforeFreshWork) {
  GangWorld world;
  world.apply(NodeUpserted{node_of("n0", 2, 100)});
  world.gang("g", leaf({members("w", 2, DeviceAsk::whole_devices(1))}));
  world.submit("urgent", DeviceAsk::whole_devices(1), {.priority = 1000});
  world.apply(GrantLost{"g/w-0", "node reboot", true});
  EXPECT_NE(world.device_of("g/w-0"), "-");
  EXPECT_EQ(world.device_of("urgent"), "-");
  world.apply(GrantLost{"g/w-0", "exit 1", false});
  EXPECT_EQ(world.device_of("urgent"), "-");
  world.apply(MembersJoined{"g", "", members("w-0", 1, DeviceAsk::whole_devices(1))});
  EXPECT_NE(world.device_of("g/w-0"), "-");
  EXPECT_EQ(world.device_of("urgent"), "-");
  world.at_s(1000);
  EXPECT_EQ(world.outcome("g"), Outcome::granted);
}

// G5c.
TEST(Gang, WhatEndedWellCountsAsPresent) {
  GangWorld world;
  world.apply(NodeUpserted{node_of("n0", 3, 100)});
  world.gang("g", leaf({members("w", 3, DeviceAsk::whole_devices(1))}, 3));
  world.apply(GrantReleased{"g/w-1"});
  world.at_s(10'000);
  EXPECT_EQ(world.outcome("g"), Outcome::granted);
  world.apply(GrantReleased{"g/w-0"});
  world.apply(GrantReleased{"g/w-2"});
  EXPECT_FALSE(world.engine->outcome("g").has_value());
}

// T1, T3, T5a.
TEST(Gang, ARequiredRackHoldsAllOfIt) {
  GangWorld world;
  world.racks();
  world.rack("n0", 1, "r1");
  world.rack("n1", 1, "r1");
  world.rack("n2", 1, "r2");
  world.rack("n3", 1, "r2");
  world.submit("a", DeviceAsk::whole_devices(1));
  const TopologyRule rack{.required = "rack"};
  world.gang("g", leaf({members("w", 2, DeviceAsk::whole_devices(1))}, 0, rack));
  EXPECT_EQ(world.device_of("g/w-0"), "n2/g0");
  EXPECT_EQ(world.device_of("g/w-1"), "n3/g0");
  world.apply(WorkloadCancelled{"g"});
  world.gang("h", leaf({members("w", 3, DeviceAsk::whole_devices(1))}, 0, rack));
  EXPECT_EQ(world.outcome("h"), Outcome::waiting);
  EXPECT_EQ(world.cause("h"), "NoTopologyDomain");
  world.gang("i", leaf({members("w", 3, DeviceAsk::whole_devices(1))}, 0, {.required = "rak"}));
  EXPECT_EQ(world.outcome("i"), Outcome::never);
  EXPECT_EQ(world.cause("i"), "UnsupportedConstraint");
}

// Two to a rack: who comes later goes where the other of its pair runs, or waits; and who waits for
// that keeps nobody else from a rack of their own.
TEST(Gang, SurplusAndReplacementsKeepToTheirSegment) {
  GangWorld world;
  world.racks();
  world.rack("n0", 2, "r1");
  world.rack("n1", 2, "r2");
  world.submit("a", DeviceAsk::whole_devices(1));
  const std::string beside_a = world.device_of("a").substr(0, 2);
  const std::string other = beside_a == "n0" ? "n1" : "n0";
  const TopologyRule pairs{.segments = {{.level = "rack", .size = 2}}};
  world.gang("g", leaf({members("w", 4, DeviceAsk::whole_devices(1))}, 2, pairs));
  const auto node_of_member = [&](int i) {
    return world.device_of("g/w-" + std::to_string(i)).substr(0, 2);
  };
  EXPECT_EQ(node_of_member(0), other);
  EXPECT_EQ(node_of_member(1), other);
  EXPECT_EQ(node_of_member(2), beside_a);
  EXPECT_EQ(node_of_member(3), "-");
  world.apply(GrantLost{.uid = "g/w-1", .why = "exit 1", .requeue = false});
  world.apply(GrantReleased{"a"});
  EXPECT_EQ(node_of_member(3), beside_a);
  world.apply(MembersJoined{
      .uid = "g", .group = "", .members = members("x", 1, DeviceAsk::whole_devices(1))});
  EXPECT_EQ(world.device_of("g/x").substr(0, 2), other);
}

// T6.
TEST(Gang, AZoneForAllAndARackForEach) {
  GangWorld world;
  world.racks();
  world.rack("n0", 2, "r1", "z1");
  world.rack("n1", 2, "r2", "z1");
  world.rack("n2", 2, "r1", "z2");
  world.rack("n3", 2, "r2", "z2");
  world.submit("a", DeviceAsk::whole_devices(1));
  Group root;
  root.topology.required = "zone";
  for (const std::string name : {"a", "b"}) {
    Group part = leaf({members(name, 2, DeviceAsk::whole_devices(1))}, 0, {.required = "rack"});
    part.name = name;
    root.groups.push_back(part);
  }
  world.gang("g", root);
  EXPECT_EQ(world.device_of("g/a-0").substr(0, 2), "n2");
  EXPECT_EQ(world.device_of("g/b-1").substr(0, 2), "n3");
}

// Room that is being released is promised to the whole gang, and all of it starts at once.
TEST(Gang, IsPromisedAsAWhole) {
  GangWorld world;
  world.apply(NodeUpserted{node_of("n0", 2, 100)});
  world.submit("a", DeviceAsk::whole_devices(1));
  world.submit("b", DeviceAsk::whole_devices(1));
  world.gang("g", leaf({members("w", 2, DeviceAsk::whole_devices(1))}));
  world.apply(GrantReleasing{"a"});
  EXPECT_EQ(world.cause("g/w-0"), "DeviceExclusive");
  world.apply(GrantReleasing{"b"});
  EXPECT_EQ(world.cause("g/w-0"), "WaitingForRelease");
  world.apply(GrantReleased{"a"});
  EXPECT_EQ(world.device_of("g/w-0"), "-");
  EXPECT_EQ(world.device_of("g/w-1"), "-");
  world.apply(GrantReleased{"b"});
  EXPECT_NE(world.device_of("g/w-0"), "-");
  EXPECT_NE(world.device_of("g/w-1"), "-");
}

TEST(Gang, ThatIsNotConfirmedInTimeBacksOff) {
  GangWorld world;
  world.apply(NodeUpserted{node_of("n0", 2, 100)});
  GangOptions options;
  options.start_timeout = Duration(60'000);
  world.gang("g", leaf({members("w", 2, DeviceAsk::whole_devices(1))}), options);
  world.apply(GrantConfirmed{"g/w-0"});
  world.at_s(60);
  world.apply(GrantLost{"g/w-0", "evicted", true});
  world.apply(GrantLost{"g/w-1", "evicted", true});
  EXPECT_EQ(world.cause("g"), "BackOff");
  world.at_s(119);
  EXPECT_EQ(world.outcome("g"), Outcome::waiting);
  world.at_s(120);
  EXPECT_EQ(world.outcome("g"), Outcome::granted);
  world.apply(WorkloadCancelled{"g"});
  EXPECT_FALSE(world.engine->outcome("g").has_value());
  EXPECT_FALSE(world.engine->outcome("g/w-0").has_value());
}

TEST(Gang, OverItsQueuesLimitItIsNever) {
  GangWorld world;
  world.apply(NodeUpserted{node_of("n0", 10, 100)});
  QueueSpec queue;
  queue.name = "q";
  queue.dimensions = {
      {.device_class = "*", .kind = DimensionKind::devices, .deserved = -1, .limit = 8000}};
  world.apply(QueuesChanged{{.queues = {queue}}});
  world.gang("g", leaf({members("w", 9, DeviceAsk::whole_devices(1))}), {}, {.queue = "q"});
  EXPECT_EQ(world.outcome("g"), Outcome::never);
  EXPECT_EQ(world.cause("g"), "OverLimit");
  world.gang("h", leaf({members("w", 9, DeviceAsk::whole_devices(1))}, 7), {}, {.queue = "q"});
  EXPECT_EQ(world.outcome("h"), Outcome::granted);
  EXPECT_NE(world.device_of("h/w-7"), "-");
  EXPECT_EQ(world.device_of("h/w-8"), "-");
  EXPECT_EQ(world.cause("h/w-8"), "OverLimit");
}

}  // namespace
}  // namespace berth::core
