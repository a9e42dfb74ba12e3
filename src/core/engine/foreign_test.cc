// What others decided: it takes room, counts nowhere and is never asked to leave. And what is
// decided where nobody may be asked to leave at all.
#include <string>

#include <gtest/gtest.h>

#include "core/engine/world_test.h"
#include "core/ledger/ledger.h"
#include "core/queue/queue_tree.h"

namespace berth::core {
namespace {

Action only_notice(const std::vector<Action>& actions) {
  EXPECT_EQ(actions.size(), 1U);
  return actions.front();
}

GrantAdopted adopted(const std::string& uid, Request request, bool foreign,
                     std::vector<GrantAdopted::Share> shares) {
  WorkloadOptions options;
  options.foreign = foreign;
  return {.workload = Workload::task(uid, std::move(request), options),
          .node = "n0",
          .shares = std::move(shares),
          .confirmed = true};
}

TEST(Foreign, IsAdoptedAndNeverSubmitted) {
  World world;
  world.apply(NodeUpserted{node_of("n0", 1, 100)});
  WorkloadOptions options;
  options.foreign = true;
  const auto actions = world.apply(
      WorkloadSubmitted{Workload::task("peer", asking(DeviceAsk::memory_mib(10)), options)});
  EXPECT_NE(std::get<Notice>(only_notice(actions)).text.find("is adopted"), std::string::npos);
}

TEST(Foreign, ShareTakesItsRoomBesideOurs) {
  World world;
  world.apply(NodeUpserted{node_of("n0", 1, 100)});
  world.apply(adopted("peer", asking(DeviceAsk::memory_mib(60)), true,
                      {{.uuid = "n0/g0", .request_mib = 60, .limit_mib = 60}}));
  world.submit("fits", DeviceAsk::memory_mib(40));
  world.submit("waits", DeviceAsk::memory_mib(1));
  EXPECT_EQ(world.device_of("fits"), "n0/g0");
  EXPECT_EQ(world.cause("waits"), "InsufficientMemory");
  world.apply(GrantReleased{"peer"});
  EXPECT_EQ(world.device_of("waits"), "n0/g0");
}

TEST(Foreign, LeavesLessForQueuesToDivide) {
  World world;
  world.apply(NodeUpserted{node_of("n0", 2, 100)});
  QueueConfig queues;
  QueueSpec team;
  team.name = "team";
  team.dimensions.push_back({.deserved = 2000});
  queues.queues.push_back(team);
  world.apply(QueuesChanged{queues});
  const QueueTree& tree = world.engine->queues();
  const auto capacity = [&] {
    world.apply(TimeReached{});
    return tree.capacity(tree.dimension("*", DimensionKind::devices).value());
  };
  EXPECT_EQ(capacity(), 2000);
  world.apply(adopted("half", asking(DeviceAsk::memory_mib(50)), true,
                      {{.uuid = "n0/g0", .request_mib = 50, .limit_mib = 50}}));
  world.submit("any", DeviceAsk::memory_mib(1), {.queue = "team"});
  EXPECT_EQ(capacity(), 1500);
  world.apply(adopted("whole", asking(DeviceAsk::whole_devices(1)), true,
                      {{.uuid = "n0/g1", .request_mib = 100, .limit_mib = 100}}));
  world.submit("another", DeviceAsk::memory_mib(1), {.queue = "team"});
  EXPECT_EQ(capacity(), 500);
}

// annotations.md 6, B8 and B9 after a restart.
TEST(Adoption, CountsThePhasesOfAPodThatStarts) {
  World world;
  world.apply(NodeUpserted{node_of("n0", 1, 100)});
  RequestSpec spec;
  spec.containers.push_back(
      {.name = "side", .kind = ContainerKind::sidecar, .gpu = DeviceAsk::memory_mib(30)});
  spec.containers.push_back(
      {.name = "init", .kind = ContainerKind::init, .gpu = DeviceAsk::memory_mib(60)});
  spec.containers.push_back({.name = "app", .gpu = DeviceAsk::memory_mib(50)});
  world.apply(adopted("pod", Request::create(spec).value(), false,
                      {{.container = 0, .uuid = "n0/g0", .request_mib = 30, .limit_mib = 30},
                       {.container = 1, .uuid = "n0/g0", .request_mib = 60, .limit_mib = 60},
                       {.container = 2, .uuid = "n0/g0", .request_mib = 50, .limit_mib = 50}}));
  const DeviceId device = world.engine->fleet().find_device("n0/g0");
  const auto promised = [&] {
    return Memory::bytes(world.engine->ledger().book(device).requests).ceil_mib();
  };
  EXPECT_EQ(promised(), 90);
  world.apply(WorkloadInitialized{"pod"});
  EXPECT_EQ(promised(), 80);
}

TEST(Evictions, WhenOffNobodyLeavesAndTheVerdictCountsWhoWould) {
  World world;
  EngineConfig config;
  config.evictions = false;
  world.engine = Engine::create(config).value();
  world.apply(NodeUpserted{node_of("n0", 1, 100)});
  QueueConfig queues;
  for (const std::string name : {"team", "other"}) {
    QueueSpec spec;
    spec.name = name;
    spec.dimensions.push_back({.deserved = name == "team" ? 1000 : 0});
    queues.queues.push_back(spec);
  }
  world.apply(QueuesChanged{queues});
  world.submit("runs", DeviceAsk::whole_devices(1), {.queue = "other", .preemptible = true});
  ASSERT_EQ(world.device_of("runs"), "n0/g0");
  for (const Action& action : world.apply(WorkloadSubmitted{
           Workload::task("claims", asking(DeviceAsk::whole_devices(1)), {.queue = "team"})})) {
    EXPECT_FALSE(std::holds_alternative<Evicted>(action));
  }
  const auto verdict = world.engine->explain("claims");
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->outcome, Outcome::waiting);
  ASSERT_TRUE(verdict->preemption.has_value());
  EXPECT_EQ(verdict->preemption->considered, 1);
  EXPECT_EQ(verdict->preemption->eviction_cap, 1);
}

}  // namespace
}  // namespace berth::core
