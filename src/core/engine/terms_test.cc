// A policy and a cap that come from the workload or its queue.
#include <utility>

#include <gtest/gtest.h>

#include "core/engine/world_test.h"

namespace berth::core {
namespace {

DeviceAsk mib(std::int64_t amount) { return DeviceAsk::memory_mib(amount); }

QueueSpec queue(const std::string& name, const std::string& policy,
                std::optional<std::int64_t> cap = {}, const std::string& parent = "root") {
  QueueSpec spec;
  spec.name = name;
  spec.parent = parent;
  spec.policy = policy;
  spec.device_cap = cap;
  return spec;
}

WorkloadOptions in(const std::string& queue_name, std::optional<std::string> policy = {}) {
  WorkloadOptions options;
  options.queue = queue_name;
  options.policy = std::move(policy);
  return options;
}

// Two devices of 100 MiB, on the first of which 40 are taken.
struct TermsWorld : World {
  TermsWorld() {
    apply(NodeUpserted{node_of("n0", 2, 100)});
    submit("first", mib(40));
    EXPECT_EQ(device_of("first"), "n0/g0");
  }
};

TEST(Terms, AWorkloadIsPlacedByThePolicyThatItNames) {
  TermsWorld world;  // the engine packs
  world.submit("spread", mib(10), in("default", "spread"));
  EXPECT_EQ(world.device_of("spread"), "n0/g1");
  world.submit("packed", mib(10));
  EXPECT_EQ(world.device_of("packed"), "n0/g0");
  world.submit("named", mib(10), in("default", "pack"));
  EXPECT_EQ(world.device_of("named"), "n0/g0");
}

TEST(Terms, TheOwnPolicyStaysWhenTheEngineGetsAnother) {
  TermsWorld world;
  world.submit("a", mib(90), in("default", "pack"));
  world.submit("b", mib(30), in("default", "pack"));
  world.apply(PolicyChanged{"spread", 0});
  world.apply(GrantReleased{"a"});
  world.submit("packed", mib(20), in("default", "pack"));
  EXPECT_EQ(world.device_of("packed"), "n0/g0");
  world.submit("spread", mib(20));
  EXPECT_EQ(world.device_of("spread"), "n0/g1");
  world.apply(HistoryChanged{{{.cpu_milli = 0,
                               .memory_mib = 0,
                               .gpu_milli = 100,
                               .num_gpu = 1,
                               .gpu_spec = "",
                               .count = 3}}});
  world.submit("again", mib(10), in("default", "pack"));
  EXPECT_EQ(world.device_of("again"), "n0/g0");
}

TEST(Terms, AnUnknownPolicyIsRefusedWithTheNearestOne) {
  TermsWorld world;
  const std::vector<Action> actions =
      world.apply(WorkloadSubmitted{Workload::task("x", asking(mib(1)), in("default", "spraed"))});
  ASSERT_EQ(actions.size(), 1U);
  const auto& notice = std::get<Notice>(actions.front());
  EXPECT_EQ(notice.kind, Notice::Kind::refused_event);
  EXPECT_EQ(
      notice.text.find("workload x: policy spraed: it is not registered; did you mean spread?"), 0U)
      << notice.text;
  EXPECT_FALSE(world.engine->outcome("x").has_value());
}

TEST(Terms, AQueuesPolicyIsThatOfTheNearestQueueThatNamesOne) {
  TermsWorld world;
  world.apply(QueuesChanged{{.queues = {queue("team", "spread"), queue("a", "", {}, "team"),
                                        queue("b", "pack", {}, "team"), queue("default", "")}}});
  world.submit("a", mib(10), in("a"));
  EXPECT_EQ(world.device_of("a"), "n0/g1");
  world.submit("b", mib(10), in("b"));
  EXPECT_EQ(world.device_of("b"), "n0/g0");
  world.submit("own", mib(10), in("b", "spread"));
  EXPECT_EQ(world.device_of("own"), "n0/g1");
  world.submit("plain", mib(10));
  EXPECT_EQ(world.device_of("plain"), "n0/g0");
}

TEST(Terms, AQueueWithAnUnknownPolicyIsHeldAndNamed) {
  TermsWorld world;
  const std::vector<Action> actions =
      world.apply(QueuesChanged{{.queues = {queue("a", "pakc"), queue("default", "")}}});
  ASSERT_FALSE(actions.empty());
  const auto& notice = std::get<Notice>(actions.front());
  EXPECT_EQ(notice.kind, Notice::Kind::queue_problem);
  EXPECT_NE(notice.text.find("queue a: policy pakc: it is not registered; did you mean pack?"),
            std::string::npos)
      << notice.text;
  EXPECT_NE(notice.text.find("it starts nothing until that is mended"), std::string::npos);
  world.submit("x", mib(10), in("a"));
  EXPECT_EQ(world.cause("x"), "QueueHeld");
  world.apply(NodeUpserted{node_of("other", 1, 100)});  // read again against the new fleet
  EXPECT_EQ(world.cause("x"), "QueueHeld");
}

TEST(Terms, WhoWaitsIsTriedByTheTermsThatItsQueueHasNow) {
  TermsWorld world;
  world.submit("g1", mib(40), in("default", "spread"));
  world.apply(QueuesChanged{{.queues = {queue("default", "", 1)}}});
  world.submit("x", mib(10));
  EXPECT_EQ(world.cause("x"), "DeviceCap");
  EXPECT_EQ(world.engine->explain("x")->summary,
            "needs 10 MiB on one GPU; n0/n0/g0 has 1 grant of at most 1 (deviceCap of queue "
            "default)");
  world.apply(QueuesChanged{{.queues = {queue("default", "spread", 2)}}});
  EXPECT_EQ(world.engine->outcome("x"), Outcome::granted);
}

TEST(Terms, TheLeastCapOnTheWayUpCounts) {
  World world;
  world.apply(NodeUpserted{node_of("n0", 2, 100)});
  world.apply(QueuesChanged{{.queues = {queue("team", "", 1), queue("a", "", 3, "team"),
                                        queue("free", ""), queue("root", "", 4)}}});
  for (const char* uid : {"a1", "a2", "a3"}) {
    world.submit(uid, mib(1), in("a"));
  }
  EXPECT_NE(world.device_of("a1"), world.device_of("a2"));
  EXPECT_EQ(world.cause("a3"), "DeviceCap");
  // The cap is of a's work: others may join it, up to the root's.
  for (int i = 1; i <= 7; ++i) {
    world.submit("f" + std::to_string(i), mib(1), in("free"));
  }
  EXPECT_EQ(world.engine->outcome("f6"), Outcome::granted);
  EXPECT_EQ(world.cause("f7"), "DeviceCap");
}

TEST(Terms, ACapBindsPromisesToo) {
  World world;
  world.apply(NodeUpserted{node_of("n0", 1, 100)});
  world.apply(QueuesChanged{{.queues = {queue("default", "", 1)}}});
  world.submit("old", mib(10));
  world.apply(GrantReleasing{"old"});
  world.submit("next", mib(10));
  EXPECT_EQ(world.cause("next"), "WaitingForRelease");
  world.submit("last", mib(10));
  EXPECT_EQ(world.cause("last"), "DeviceCap");
  world.apply(GrantReleased{"old"});
  EXPECT_EQ(world.engine->outcome("next"), Outcome::granted);
  EXPECT_EQ(world.cause("last"), "DeviceCap");
}

TEST(Terms, MembersOfAGangFollowItsQueue) {
  World world;
  world.apply(NodeUpserted{node_of("n0", 3, 100)});
  world.apply(QueuesChanged{{.queues = {queue("default", "", 1)}}});
  Group root;
  root.members = {{.name = "w", .count = 2, .request = asking(mib(10)), .priority = {}}};
  world.apply(
      WorkloadSubmitted{Workload::gang("g", {.root = std::move(root), .options = {}}).value()});
  EXPECT_NE(world.device_of("g/w-0"), "-");
  EXPECT_NE(world.device_of("g/w-0"), world.device_of("g/w-1"));
}

}  // namespace
}  // namespace berth::core
