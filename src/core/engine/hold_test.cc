// Granting is held: what stops, what goes on, and what is made up for when it is lifted.
#include <algorithm>
#include <utility>

#include <gtest/gtest.h>

#include "core/engine/world_test.h"

namespace berth::core {
namespace {

struct HoldWorld : World {
  HoldWorld() { apply(NodeUpserted{node_of("n0", 1, 100)}); }

  std::vector<Action> hold(bool held) { return apply(GrantingHeld{held}); }
  void at_s(std::int64_t second) {
    now = Time(second * 1000);
    apply(TimeReached{});
  }
  void gang(const std::string& uid, std::int64_t count, std::int64_t mib, GangOptions options = {},
            WorkloadOptions of_all = {}) {
    Group root;
    root.members = {{.name = "w",
                     .count = count,
                     .request = asking(DeviceAsk::memory_mib(mib)),
                     .priority = {}}};
    apply(WorkloadSubmitted{
        Workload::gang(uid, {.root = std::move(root), .options = options}, std::move(of_all))
            .value()});
  }
  Outcome outcome(const std::string& uid) const {
    return engine->outcome(uid).value_or(Outcome::ended);
  }
};

template <class T>
std::ptrdiff_t count_of(const std::vector<Action>& actions) {
  return std::ranges::count_if(
      actions, [](const Action& action) { return std::holds_alternative<T>(action); });
}

GangOptions with_grace(std::int64_t ms) {
  GangOptions options;
  options.stale_grace = Duration(ms);
  return options;
}

GangOptions to_start_within(std::int64_t ms) {
  GangOptions options;
  options.start_timeout = Duration(ms);
  return options;
}

DeviceAsk mib(std::int64_t amount) { return DeviceAsk::memory_mib(amount); }

QueueSpec leaf(const std::string& name, std::int64_t deserved) {
  QueueSpec queue;
  queue.name = name;
  queue.dimensions = {{.kind = DimensionKind::memory, .deserved = deserved}};
  return queue;
}

WorkloadOptions in_queue(const std::string& queue) {
  WorkloadOptions options;
  options.queue = queue;
  options.preemptible = true;
  return options;
}

TEST(HeldGranting, GrantsNothingAndSaysSoUntilItIsLifted) {
  HoldWorld world;
  world.submit("before", mib(70));
  world.submit("waits", mib(60));
  EXPECT_EQ(world.cause("waits"), "InsufficientMemory");
  world.hold(true);
  EXPECT_TRUE(world.engine->granting_is_held());
  EXPECT_EQ(world.cause("waits"), "GrantingHeld");
  world.submit("fits", mib(30));
  world.apply(GrantReleased{"before"});
  EXPECT_EQ(world.outcome("fits"), Outcome::waiting);
  EXPECT_EQ(world.cause("fits"), "GrantingHeld");
  const Verdict verdict = world.engine->explain("fits").value();
  EXPECT_EQ(verdict.stage, Stage::binding);
  EXPECT_EQ(verdict.reason, "SchedulerError");  // an autoscaler must not buy nodes for it
  EXPECT_EQ(verdict.summary,
            "the service makes no grants at the moment: it is starting, or cannot write its books; "
            "needs 30 MiB on one GPU; nodes with room for it now: 1 of 1");
  EXPECT_TRUE(verdict.unblock.empty());
  EXPECT_FALSE(verdict.eta.has_value());
  const std::vector<Action> actions = world.hold(false);
  EXPECT_EQ(count_of<Granted>(actions), 2);
  EXPECT_EQ(world.device_of("waits"), "n0/g0");
  EXPECT_EQ(world.device_of("fits"), "n0/g0");
}

TEST(HeldGranting, DecidesInTheOrderOfTheQueueWhenItIsLifted) {
  HoldWorld world;
  world.hold(true);
  world.submit("late", mib(60));
  world.submit("urgent", mib(60), {.priority = 5});
  world.submit("small", mib(30));
  world.hold(false);
  EXPECT_EQ(world.outcome("urgent"), Outcome::granted);
  EXPECT_EQ(world.cause("late"), "InsufficientMemory");
  EXPECT_EQ(world.outcome("small"), Outcome::granted);
}

TEST(HeldGranting, StillTellsWhatCanNeverRun) {
  HoldWorld world;
  world.hold(true);
  world.submit("huge", mib(1000));
  EXPECT_EQ(world.outcome("huge"), Outcome::never);
  world.gang("wide", 3, 90);
  EXPECT_EQ(world.outcome("wide"), Outcome::never);
  world.submit("large", mib(80));
  EXPECT_EQ(world.outcome("large"), Outcome::waiting);
  world.apply(NodeUpserted{node_of("n0", 1, 50)});  // the node shrank
  EXPECT_EQ(world.outcome("large"), Outcome::never);
  world.apply(NodeUpserted{node_of("n0", 3, 2000)});
  EXPECT_EQ(world.cause("huge"), "GrantingHeld");
  EXPECT_EQ(world.cause("wide"), "GrantingHeld");
  EXPECT_EQ(world.cause("wide/w-1"), "GrantingHeld");
  world.hold(false);
  EXPECT_EQ(world.outcome("wide"), Outcome::granted);
}

TEST(HeldGranting, LetsWhatRunsAndWhatIsTiredOfWaitingGoItsWay) {
  HoldWorld world;
  world.submit("runs", mib(40), {.confirm_within = Duration(10'000)});
  world.submit("silent", mib(40), {.confirm_within = Duration(10'000)});
  world.hold(true);
  world.submit("hasty", mib(10), {.wait_timeout = Duration(0)});
  EXPECT_EQ(world.outcome("hasty"), Outcome::ended);
  world.submit("patient", mib(10), {.wait_timeout = Duration(5000)});
  world.submit("leaves", mib(10));
  world.apply(GrantConfirmed{"runs"});
  world.apply(WorkloadCancelled{"leaves"});
  EXPECT_EQ(world.outcome("leaves"), Outcome::ended);
  world.at_s(20);
  EXPECT_EQ(world.outcome("patient"), Outcome::ended);
  EXPECT_EQ(world.outcome("silent"), Outcome::ended);  // never confirmed
  EXPECT_EQ(world.outcome("runs"), Outcome::granted);
  world.apply(GrantAdopted{.workload = Workload::task("found", asking(mib(50))),
                           .node = "n0",
                           .shares = {{0, "n0/g0", 50, 50}},
                           .confirmed = true});
  EXPECT_EQ(world.outcome("found"), Outcome::granted);
  world.apply(GrantLost{"runs", "killed", true});
  EXPECT_EQ(world.cause("runs"), "GrantingHeld");
  world.hold(false);
  EXPECT_EQ(world.outcome("runs"), Outcome::granted);
}

TEST(HeldGranting, KeepsAPromiseOnlyWhenItIsLifted) {
  HoldWorld world;
  world.submit("old", mib(80));
  world.apply(GrantReleasing{"old"});
  world.submit("next", mib(80));
  EXPECT_EQ(world.cause("next"), "WaitingForRelease");
  world.hold(true);
  const std::vector<Action> actions = world.apply(GrantReleased{"old"});
  EXPECT_EQ(count_of<Granted>(actions), 0);
  EXPECT_EQ(world.outcome("next"), Outcome::waiting);
  EXPECT_EQ(count_of<Granted>(world.hold(false)), 1);
  EXPECT_EQ(world.outcome("next"), Outcome::granted);
}

TEST(HeldGranting, TakesBackAPromiseWhoseRoomWillNotCome) {
  HoldWorld world;
  world.submit("old", mib(80));
  world.apply(GrantReleasing{"old"});
  world.submit("next", mib(80));
  world.hold(true);
  world.at_s(200);  // the release is no longer believed
  EXPECT_EQ(world.cause("next"), "GrantingHeld");
  EXPECT_EQ(world.engine->grant("next"), nullptr);
  world.hold(false);
  EXPECT_EQ(world.cause("next"), "InsufficientMemory");
}

TEST(HeldGranting, LetsNoGangGoBeforeItIsLifted) {
  HoldWorld world;
  world.gang("g", 2, 40, with_grace(10'000));
  ASSERT_EQ(world.outcome("g"), Outcome::granted);
  world.hold(true);
  world.apply(WorkloadCancelled{"g/w-0"});
  world.now = Time(60'000);
  EXPECT_EQ(count_of<Evicted>(world.apply(TimeReached{})), 0);
  EXPECT_EQ(count_of<Evicted>(world.hold(false)), 1);

  HoldWorld slow;
  slow.gang("s", 2, 40, to_start_within(10'000));
  slow.hold(true);
  slow.now = Time(60'000);
  EXPECT_EQ(count_of<Evicted>(slow.apply(TimeReached{})), 0);
  EXPECT_EQ(count_of<Evicted>(slow.hold(false)), 2);

  HoldWorld strict;
  strict.gang("t", 2, 40, with_grace(0));
  strict.hold(true);
  EXPECT_EQ(count_of<Evicted>(strict.apply(WorkloadCancelled{"t/w-0"})), 0);
  EXPECT_EQ(count_of<Evicted>(strict.hold(false)), 1);
}

TEST(HeldGranting, TakesNothingBackForAQueueBeforeItIsLifted) {
  HoldWorld world;
  world.apply(QueuesChanged{{.queues = {leaf("a", 50), leaf("b", 50)}}});
  world.submit("theirs", mib(50), in_queue("b"));
  world.submit("more", mib(50), in_queue("b"));
  world.hold(true);
  world.submit("mine", mib(50), in_queue("a"));
  EXPECT_EQ(world.cause("mine"), "GrantingHeld");
  EXPECT_EQ(count_of<Evicted>(world.hold(false)), 1);
  EXPECT_EQ(world.cause("mine"), "Preempting");
}

TEST(HeldGranting, EmptiesADrainedQueueWhenItIsLifted) {
  HoldWorld world;
  world.apply(QueuesChanged{{.queues = {leaf("a", 50)}}});
  world.submit("runs", mib(50), in_queue("a"));
  world.hold(true);
  QueueSpec drained = leaf("a", 50);
  drained.stop = QueueStop::hold_and_drain;
  EXPECT_EQ(count_of<Evicted>(world.apply(QueuesChanged{{.queues = {drained}}})), 0);
  EXPECT_EQ(count_of<Evicted>(world.hold(false)), 1);
}

}  // namespace
}  // namespace berth::core
