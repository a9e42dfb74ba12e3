#include "sim/week/player.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/mt19937.h"
#include "config/queue_file.h"
#include "scenario/fleet_spec.h"
#include "sim/week/output.h"

namespace berth::sim {
namespace {

constexpr std::int64_t kHour = 3'600'000;

struct World {
  scenario::Load load;
  WeekScene scene;
  WeekSpec spec;

  World(const std::string& fleet, const std::string& queues, const std::string& streams) {
    auto file = scenario::parse_load("load:\n  horizon: 1d\n" + streams, "load.yaml");
    EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message());
    if (file.ok()) load = std::move(file->load);
    auto nodes = scenario::fleet_from_spec(fleet);
    EXPECT_TRUE(nodes.ok());
    scene = {.fleet_name = fleet, .fleet = *std::move(nodes), .load = &load};
    spec.name = "queues.yaml";
    spec.check = true;
    if (!queues.empty()) {
      auto config = config::read_queue_file(queues, "queues.yaml", {"H100"});
      EXPECT_TRUE(config.ok()) << (config.ok() ? "" : config.error().message());
      if (config.ok()) spec.queues = *std::move(config);
    }
  }

  WeekResult play() const {
    auto week = play_week(scene, spec);
    EXPECT_TRUE(week.ok()) << (week.ok() ? "" : week.error().message());
    return week.ok() ? *std::move(week) : WeekResult{};
  }
};

const QueueWeek& queue_of(const WeekResult& week, const std::string& name) {
  return *std::ranges::find(week.queues, name, &QueueWeek::name);
}

TEST(Week, JobsArriveWaitRunAndLeave) {
  // One device; three jobs of 10 h within the first hour of a day.
  const World world(
      "1x80GiB:H100", "",
      "  streams:\n    - {name: a, whole: 1, arrivals: {times: [0s, 30min, 1h]}, run: "
      "{fixed: 10h}}\n");
  const WeekResult week = world.play();
  const QueueWeek& queue = queue_of(week, "default");
  EXPECT_EQ(queue.submitted, 3);
  EXPECT_EQ(queue.started, 3);
  EXPECT_EQ(queue.finished, 2);
  EXPECT_EQ(queue.running_at_end, 1);
  EXPECT_EQ(queue.waits, (std::vector<std::int64_t>{0, 19 * kHour / 2, 19 * kHour}));
  EXPECT_EQ(queue.delivered, 24 * kHour * 1000);
  EXPECT_DOUBLE_EQ(utilisation(week), 100);
  ASSERT_EQ(queue.waited.size(), 1U);
  EXPECT_EQ(std::reduce(queue.waited[0].begin(), queue.waited[0].end()), 57 * kHour / 2);
  // Sampled every quarter of an hour and once at the end.
  EXPECT_EQ(week.samples.size(), 97U);
  EXPECT_EQ(queue.shares[0].used.front(), 1000);
  EXPECT_EQ(week.fleet.waiting[4], 2);
}

TEST(Week, TheLongestWaitsCarryTheirVerdicts) {
  const World world("1x80GiB:H100", "",
                    "  streams:\n    - {name: a, whole: 1, arrivals: {bursts: {at: 0s, jobs: 6}}, "
                    "run: {fixed: 3h}}\n");
  const QueueWeek queue = queue_of(world.play(), "default");
  ASSERT_EQ(queue.longest.size(), kLongestPerDay);
  EXPECT_EQ(queue.longest[0].uid, "a-6");
  EXPECT_EQ(queue.longest[0].wait(), Duration(15 * kHour));
  EXPECT_TRUE(queue.longest[0].started);
  EXPECT_THAT(queue.longest[0].sentence,
              testing::HasSubstr("needs one whole GPU; n0 has 0 such GPUs free, 1 in use"));
  EXPECT_THAT(queue.longest[0].sentence, testing::Not(testing::HasSubstr("GPU-")));
  EXPECT_TRUE(queue.longest[0].asked_at.has_value());
}

TEST(Week, WhatCanNeverRunLeavesAtOnceAndIsTold) {
  const World world("2x80GiB:H100", "",
                    "  streams:\n    - {name: big, whole: 4, arrivals: {times: [1h, 2h]}, run: "
                    "{fixed: 1h}}\n    - {name: a, whole: 1, arrivals: {times: [1h]}, run: {fixed: "
                    "1h}}\n");
  const QueueWeek queue = queue_of(world.play(), "default");
  ASSERT_EQ(queue.never.size(), 1U);
  EXPECT_EQ(queue.never[0].jobs, 2);
  EXPECT_FALSE(queue.never[0].example.empty());
  EXPECT_EQ(queue.finished, 1);
  EXPECT_EQ(queue.waiting_at_end, 0);
}

TEST(Week, ALimitHoldsAQueueAndSharesAreSampled) {
  const World world("8x80GiB:H100",
                    "queues: [{name: a, dims: {\"*/devices\": {deserved: 2, limit: 2}}}, {name: b, "
                    "dims: {\"*/devices\": {deserved: 6}}}]",
                    "  streams:\n    - {name: x, queue: a, whole: 1, preemptible: true, arrivals: "
                    "{bursts: {at: 1h, jobs: 8}}, run: {fixed: 2h}}\n");
  const WeekResult week = world.play();
  const QueueWeek& a = queue_of(week, "a");
  EXPECT_EQ(std::ranges::max(a.shares[0].used), 2000);
  EXPECT_EQ(std::ranges::max(a.shares[0].deserved), 2000);
  EXPECT_EQ(a.waits.back(), 6 * kHour);
  EXPECT_EQ(main_cause(a).cause, core::Cause::over_limit);
  EXPECT_EQ(queue_of(week, "b").submitted, 0);
}

TEST(Week, AGangStartsWholeAndEndsWhole) {
  // Four members of two devices on eight: the second gang waits for all of the first.
  const World world("a=4x80GiB:H100,b=4x80GiB:H100", "",
                    "  streams:\n    - {name: g, whole: 2, gang: {members: 4}, arrivals: {times: "
                    "[0s, 1h]}, run: {fixed: 3h}}\n    - {name: s, whole: 2, gang: {members: 5, "
                    "min: 2}, arrivals: {times: [8h]}, run: {fixed: 1h}}\n");
  const WeekResult week = world.play();
  const QueueWeek& queue = queue_of(week, "default");
  EXPECT_EQ(queue.finished, 3);
  EXPECT_EQ(queue.waits, (std::vector<std::int64_t>{0, 0, 2 * kHour}));
  EXPECT_EQ(queue.delivered, (3 + 3 + 1) * kHour * 8000);
  EXPECT_EQ(std::ranges::max(queue.shares[0].used), 8000);
  EXPECT_EQ(week.fleet.waiting[6], 1);
}

std::string random_streams(std::uint64_t seed) {
  Mt19937 random(seed);
  const std::vector<std::string> asks = {"whole: 1",
                                         "whole: 2",
                                         "gpu_memory: 20GiB",
                                         "gpu_fraction: 0.5",
                                         "whole: 4",
                                         "whole: 1, gang: {members: 4, min: 2}",
                                         "gpu_memory: 30GiB, gang: {members: 3}"};
  const std::vector<std::string> runs = {"fixed: 1h", "exponential: 2h",
                                         "lognormal: {median: 30min, p90: 4h}",
                                         "uniform: {from: 1min, to: 3h}"};
  const std::vector<std::string> arrivals = {"poisson: {per_hour: 6}",
                                             "bursts: {at: 2h, every: 6h, jobs: 9, spread: 20min}"};
  std::string text = "  grace: 1min\n  streams:\n";
  for (int i = 0; i < 4; ++i) {
    const auto pick = [&](const std::vector<std::string>& words) {
      return words[random.below(static_cast<std::uint32_t>(words.size()))];
    };
    text += "    - {name: s" + std::to_string(i) + ", queue: q" + std::to_string(random.below(3)) +
            ", " + pick(asks) + (random.below(2) > 0 ? ", max_run: 5h" : "") +
            (random.below(2) > 0 ? ", preemptible: true" : "") +
            ", priority: " + std::to_string(random.below(3)) + ", arrivals: {" + pick(arrivals) +
            "}, run: {" + pick(runs) + "}}\n";
  }
  return text;
}

// The player itself fails where the books are not empty after everything has ended.
TEST(Week, EveryJobIsAccountedForAndTheBooksAreEmptyAfterwards) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    World world("a=4x80GiB:H100,b=4x80GiB:H100",
                "queues: [{name: q0, dims: {\"*/devices\": {deserved: 4}}}, {name: q1, dims: "
                "{\"*/devices\": {deserved: 2, limit: 6}}}, {name: q2}]",
                random_streams(seed));
    world.spec.seed = seed;
    const WeekResult week = world.play();
    for (const QueueWeek& queue : week.queues) {
      std::int64_t never = 0;
      for (const NeverGroup& group : queue.never)
        never += group.jobs;
      EXPECT_EQ(queue.submitted,
                queue.finished + queue.waiting_at_end + queue.running_at_end + never)
          << seed;
      EXPECT_EQ(queue.started, static_cast<std::int64_t>(queue.waits.size())) << seed;
      EXPECT_TRUE(std::ranges::is_sorted(queue.waits));
    }
    EXPECT_LE(utilisation(week), 100.0 + 1e-9);
    const WeekComparison one{.scene = &world.scene, .seed = seed, .weeks = {week}};
    const WeekComparison two{.scene = &world.scene, .seed = seed, .weeks = {world.play()}};
    EXPECT_EQ(week_document(one).json(), week_document(two).json()) << seed;
  }
}

TEST(Week, TheNumberOfThreadsChangesNothing) {
  World world("a=4x80GiB:H100", "queues: [{name: q0}, {name: q1}, {name: q2}]", random_streams(5));
  const std::vector<WeekSpec> specs(2, world.spec);
  const auto one = play_weeks(world.scene, specs, {.jobs = 1});
  const auto two = play_weeks(world.scene, specs, {.jobs = 2});
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(week_document({.scene = &world.scene, .weeks = *one}).json(),
            week_document({.scene = &world.scene, .weeks = *two}).json());
}

TEST(Week, ACancelledRunGivesNothing) {
  World world("a=4x80GiB:H100", "queues: [{name: q0}, {name: q1}, {name: q2}]", random_streams(5));
  const std::atomic<bool> cancelled{true};
  const auto weeks = play_weeks(world.scene, {world.spec}, {.cancelled = &cancelled});
  ASSERT_FALSE(weeks.ok());
  EXPECT_EQ(weeks.error().code(), ErrorCode::exhausted);
}

TEST(Week, SpansAreRoundedForPeople) {
  EXPECT_EQ(span_text(0), "0 s");
  EXPECT_EQ(span_text(59'499), "59 s");
  EXPECT_EQ(span_text(90'000), "2 min");
  EXPECT_EQ(span_text(11'100'000), "3 h 05 min");
  EXPECT_EQ(span_text(24 * kHour), "1 day");
  EXPECT_EQ(span_text(52 * kHour), "2 d 4 h");
  EXPECT_EQ(span_text(168 * kHour), "7 days");
}

TEST(Week, QuantilesAreThoseOfTheNearestRank) {
  EXPECT_EQ(wait_quantile({}, 50), 0);
  EXPECT_EQ(wait_quantile({7}, 95), 7);
  EXPECT_EQ(wait_quantile({1, 2, 3, 4}, 50), 2);
  EXPECT_EQ(wait_quantile({1, 2, 3, 4}, 95), 4);
  EXPECT_EQ(wait_quantile({1, 2, 3, 4}, 100), 4);
}

}  // namespace
}  // namespace berth::sim
