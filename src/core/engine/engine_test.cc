#include "core/engine/engine.h"

#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "core/engine/world_test.h"
#include "core/ledger/ledger.h"

namespace berth::core {
namespace {

TEST(Engine, GrantsWhatFitsAndLetsTheRestWait) {
  World world;
  world.apply(NodeUpserted{node_of("n0", 1, 100)});
  world.submit("a", DeviceAsk::memory_mib(60));
  world.submit("b", DeviceAsk::memory_mib(50));
  EXPECT_EQ(world.device_of("a"), "n0/g0");
  EXPECT_EQ(world.engine->outcome("b"), Outcome::waiting);
  EXPECT_EQ(world.cause("b"), "InsufficientMemory");
  world.apply(GrantReleased{"a"});
  EXPECT_EQ(world.device_of("b"), "n0/g0");
}

TEST(Engine, SaysNeverWhenNoDeviceIsLargeEnough) {
  World world;
  world.apply(NodeUpserted{node_of("n0", 2, 100)});
  world.submit("a", DeviceAsk::memory_mib(101));
  EXPECT_EQ(world.engine->outcome("a"), Outcome::never);
  EXPECT_EQ(world.cause("a"), "LargestDeviceTooSmall");
  world.apply(NodeUpserted{node_of("n1", 1, 200)});
  EXPECT_EQ(world.device_of("a"), "n1/g0");
}

TEST(Engine, SaysWhyOneWaitsAgainBehindAnotherOfItsKind) {
  World world;
  world.apply(NodeUpserted{node_of("n0", 1, 100)});
  world.submit("a", DeviceAsk::whole_devices(1));
  world.submit("before", DeviceAsk::whole_devices(1), {.priority = 5});
  world.submit("first", DeviceAsk::memory_mib(80), {.priority = 10});
  world.apply(GrantLost{.uid = "a", .why = "evicted", .requeue = true});
  EXPECT_EQ(world.device_of("first"), "n0/g0");
  EXPECT_EQ(world.engine->outcome("a"), Outcome::waiting);
  EXPECT_EQ(world.cause("a"), world.cause("before"));
  EXPECT_NE(world.cause("a"), "");
}

// annotations.md F7.
TEST(Engine, PacksSharesInOrderOfArrival) {
  World world;
  world.apply(NodeUpserted{node_of("n0", 2, 100)});
  world.submit("first", DeviceAsk::fraction_nano(500'000'000));
  world.submit("a", DeviceAsk::fraction_nano(600'000'000));
  world.submit("b", DeviceAsk::fraction_nano(500'000'000));
  world.submit("c", DeviceAsk::fraction_nano(500'000'000));
  world.submit("d", DeviceAsk::fraction_nano(300'000'000));
  EXPECT_EQ(world.device_of("first"), "n0/g0");
  EXPECT_EQ(world.device_of("a"), "n0/g1");
  EXPECT_EQ(world.device_of("b"), "n0/g0");
  EXPECT_EQ(world.device_of("c"), "-");
  EXPECT_EQ(world.device_of("d"), "n0/g1");
}

// annotations.md F8.
TEST(Engine, PromisesRoomThatIsBeingReleasedBeforeOpeningADevice) {
  World world;
  world.apply(NodeUpserted{node_of("n0", 2, 100)});
  world.submit("stays", DeviceAsk::fraction_nano(500'000'000));
  world.submit("goes", DeviceAsk::fraction_nano(500'000'000));
  world.apply(GrantReleasing{"goes"});
  world.submit("next", DeviceAsk::fraction_nano(500'000'000));
  EXPECT_EQ(world.cause("next"), "WaitingForRelease");
  EXPECT_EQ(world.device_of("next"), "-");
  world.apply(GrantReleased{"goes"});
  EXPECT_EQ(world.device_of("next"), "n0/g0");
}

// queues-gangs-topology.md 7, vector.
TEST(Engine, BackfillsOnlyWhatEndsBeforeTheReservedStart) {
  World world;
  world.apply(NodeUpserted{node_of("n0", 8, 100)});
  for (int i = 1; i <= 8; ++i) {
    world.submit("job" + std::to_string(i), DeviceAsk::whole_devices(1),
                 {.max_run = Duration(std::int64_t{10'000} * i)});
  }
  world.submit("gang", DeviceAsk::whole_devices(8));
  const Result<Verdict> verdict = world.engine->explain("gang");
  ASSERT_TRUE(verdict.ok());
  ASSERT_TRUE(verdict->eta.has_value());
  EXPECT_EQ(verdict->eta->at, Time(80'000));
  world.now = Time(10'000);
  world.apply(GrantReleased{"job1"});
  world.submit("long", DeviceAsk::whole_devices(1), {.max_run = Duration(90'000)});
  world.submit("unknown", DeviceAsk::whole_devices(1));
  world.submit("short", DeviceAsk::whole_devices(1), {.max_run = Duration(30'000)});
  EXPECT_EQ(world.cause("long"), "BackfillTooLong");
  EXPECT_EQ(world.device_of("unknown"), "-");
  EXPECT_EQ(world.device_of("short"), "n0/g0");
  for (int i = 2; i <= 8; ++i) {
    world.now = Time(std::int64_t{10'000} * i);
    if (i == 4) {
      world.apply(GrantReleased{"short"});
    }
    world.apply(GrantReleased{"job" + std::to_string(i)});
  }
  EXPECT_NE(world.device_of("gang"), "-");
}

TEST(Engine, ChargesInitContainersOnlyUntilTheyAreDone) {
  World world;
  world.apply(NodeUpserted{node_of("n0", 1, 100)});
  RequestSpec spec;
  spec.containers.push_back(
      {.name = "init", .kind = ContainerKind::init, .gpu = DeviceAsk::memory_mib(60)});
  spec.containers.push_back(
      {.name = "app", .kind = ContainerKind::app, .gpu = DeviceAsk::memory_mib(50)});
  world.apply(WorkloadSubmitted{Workload::task("pod", Request::create(spec).value())});
  world.submit("next", DeviceAsk::memory_mib(40));
  EXPECT_EQ(world.device_of("pod"), "n0/g0");
  EXPECT_EQ(world.device_of("next"), "n0/g0");
  const DeviceId device = world.engine->fleet().find_device("n0/g0");
  EXPECT_EQ(world.engine->ledger().book(device).requests, Memory::mib(100).in_bytes());
  world.apply(WorkloadInitialized{"pod"});
  EXPECT_EQ(world.engine->ledger().book(device).requests, Memory::mib(90).in_bytes());
}

// What can never run is known by shape and queue until the fleet changes, and the change itself is
// such a moment: who loses its place by it must not be told what held before.
TEST(Engine, WhoLosesItsPromiseToAChangeOfTheFleetIsToldWhatHoldsAfterIt) {
  World world;
  world.apply(NodeUpserted{node_of("n0", 2, 100)});
  QueueSpec team;
  team.name = "team";
  team.dimensions = {{.kind = DimensionKind::devices, .deserved = 2000}};
  world.apply(QueuesChanged{QueueConfig{.queues = {team}}});
  WorkloadOptions options;
  options.queue = "team";
  options.preemptible = true;
  world.submit("runs", DeviceAsk::whole_devices(2), options);
  world.apply(GrantReleasing{"runs"});
  for (const char* next : {"first", "second"}) {
    world.submit(next, DeviceAsk::memory_mib(40, 2), options);
    ASSERT_EQ(world.cause(next), "WaitingForRelease");
  }
  const std::vector<Action> actions = world.apply(NodeUpserted{node_of("n0", 1, 100)});
  int taken_back = 0;
  for (std::size_t i = 0; i + 1 < actions.size(); ++i) {
    const auto* retracted = std::get_if<Retracted>(&actions[i]);
    if (retracted == nullptr || retracted->lost) {
      continue;
    }
    ++taken_back;
    const auto* verdict = std::get_if<VerdictChanged>(&actions[i + 1]);
    ASSERT_NE(verdict, nullptr) << world.engine->uid(retracted->workload);
    EXPECT_EQ(verdict->workload, retracted->workload);
    EXPECT_EQ(verdict->outcome, Outcome::never);
  }
  EXPECT_EQ(taken_back, 2);
}

}  // namespace
}  // namespace berth::core
