#include "core/queue/queue_config.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::core {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

QueueSpec queue(std::string name, std::string parent = "root") {
  QueueSpec spec;
  spec.name = std::move(name);
  spec.parent = std::move(parent);
  return spec;
}

QueueSpec with(QueueDimension dimension) {
  QueueSpec spec = queue("a");
  spec.dimensions.push_back(std::move(dimension));
  return spec;
}

std::vector<QueueProblem> check(std::vector<QueueSpec> queues,
                                const std::vector<std::string>& classes = {}) {
  return check_queues({.queues = std::move(queues)}, classes);
}

auto problem(const std::string& name, bool holds, const std::string& text) {
  return AllOf(Field(&QueueProblem::queue, name), Field(&QueueProblem::holds, holds),
               Field(&QueueProblem::text, HasSubstr(text)));
}

TEST(QueueConfig, WhatNobodyConfiguredIsRight) {
  EXPECT_THAT(check_queues(default_queues(), {}), IsEmpty());
  EXPECT_EQ(default_queues().queues.at(0).name, "default");
}

TEST(QueueConfig, NamesArePresentAndUnique) {
  EXPECT_THAT(check({queue("a"), queue(""), queue("a"), queue("b/c")}),
              ElementsAre(problem("", false, "name: empty"),
                          problem("a", false, "name: a is given 2 times"),
                          problem("b/c", false, "contains '/'")));
}

TEST(QueueConfig, AnUnknownParentHoldsAndTheNearestIsNamed) {
  EXPECT_THAT(check({queue("team"), queue("a", "taem")}),
              ElementsAre(problem("a", true,
                                  "parent: taem does not exist; name a queue of the "
                                  "tree, nearest is team")));
}

TEST(QueueConfig, EveryQueueOfACircleIsHeldAndThoseBelowNeedNoWords) {
  EXPECT_THAT(
      check({queue("a", "b"), queue("b", "a"), queue("c", "a"), queue("d", "d")}),
      ElementsAre(problem("a", true, "circle a -> b -> a"),
                  problem("b", true, "circle b -> a -> b"), problem("d", true, "circle d -> d")));
}

TEST(QueueConfig, ThereIsOneRoot) {
  EXPECT_THAT(check({queue("root"), queue("root", "")}),
              ElementsAre(problem("root", false, "given 2 times")));
  EXPECT_THAT(check({queue("a", "")}), ElementsAre(problem("a", true, "there is one root")));
  EXPECT_THAT(check({queue("root", "a"), queue("a")}),
              ElementsAre(problem("root", true, "the root has no parent")));
}

TEST(QueueConfig, QuantitiesLieInTheirRange) {
  EXPECT_THAT(check({with({.deserved = 5, .limit = 4})}),
              ElementsAre(problem("a", false, "dims.*/devices.deserved: 5 is above the limit 4")));
  EXPECT_THAT(check({with({.deserved = 5, .reserved = 6})}),
              ElementsAre(problem("a", false, "reserved: 6 is above deserved 5")));
  EXPECT_THAT(check({with({.deserved = kUnlimited, .limit = 4, .reserved = 6})}),
              ElementsAre(problem("a", false, "reserved: 6 is above the limit 4")));
  EXPECT_THAT(check({with({.deserved = -2})}),
              ElementsAre(problem("a", false, "deserved: -2 is outside -1 to 9007199254740991")));
  EXPECT_THAT(check({with({.deserved = kUnlimited, .reserved = -1})}),
              ElementsAre(problem("a", false, "reserved: -1 is outside 0")));
  EXPECT_THAT(check({with({.limit = kMostQuota})}),
              ElementsAre(problem("a", false, "limit: 9007199254740992 is outside")));
  EXPECT_THAT(check({with({.weight = 10'001})}),
              ElementsAre(problem("a", false, "weight: 10001 is outside 0 to 10000")));
}

TEST(QueueConfig, ADimensionIsNamedOnceAndItsClassExists) {
  QueueSpec spec = with({.device_class = "A100", .kind = DimensionKind::memory});
  spec.dimensions.push_back(spec.dimensions.front());
  EXPECT_THAT(check({spec}), ElementsAre(problem("a", false, "dims.A100/memory: given twice")));
  EXPECT_THAT(check({with({.device_class = "A10O"})}, {"L40S", "A100"}),
              ElementsAre(problem("a", false, "nearest is A100")));
  EXPECT_THAT(check({with({.device_class = "A100"}), queue("b")}, {"L40S", "A100"}), IsEmpty());
}

TEST(QueueConfig, SettingsLieInTheirRange) {
  QueueSpec spec = queue("a");
  spec.aging.step = Duration(0);
  spec.history = QueueHistory{.half_life = Duration(999), .k = 10'001};
  spec.min_runtime.reclaim = Duration(-1);
  spec.min_runtime.by_priority = {{.at_least = 5}, {.at_least = 5}};
  spec.device_cap = 0;
  spec.evictions.per_claim = -2;
  EXPECT_THAT(check({spec}),
              ElementsAre(problem("a", false, "aging.step"), problem("a", false, "deviceCap"),
                          problem("a", false, "evictions.perClaim"),
                          problem("a", false, "history.halfLife"), problem("a", false, "history.k"),
                          problem("a", false, "minRuntime.byPriority[5]: given twice"),
                          problem("a", false, "minRuntime.reclaim")));
}

TEST(QueueConfig, TheOrderOfTheFileChangesNoProblem) {
  std::vector<QueueSpec> queues{queue("a", "b"), queue("b", "a"), queue("c", "x"), queue("c", "y"),
                                with({.deserved = 9, .limit = 1})};
  const std::vector<QueueProblem> problems = check({queues[0], queues[1], queues[2]});
  EXPECT_EQ(check({queues[2], queues[1], queues[0]}), problems);
}

}  // namespace
}  // namespace berth::core
