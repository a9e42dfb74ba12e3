#include "sim/week/stream.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::sim {
namespace {

constexpr std::int64_t kHour = 3'600'000;
constexpr std::int64_t kDay = 24 * kHour;

scenario::Load load_of(const std::string& streams) {
  auto file = scenario::parse_load("load:\n  horizon: 7d\n  streams:\n" + streams, "load.yaml");
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message());
  return file.ok() ? std::move(file->load) : scenario::Load{};
}

std::vector<Arrival> drawn(const scenario::Load& load, std::size_t stream = 0,
                           std::uint64_t seed = 42) {
  Stream source(load.streams.at(stream),
                {.horizon = load.horizon, .first_day = load.first_day, .seed = seed});
  std::vector<Arrival> jobs;
  while (const std::optional<Arrival> job = source.next())
    jobs.push_back(*job);
  return jobs;
}

std::int64_t count_if_hour(const std::vector<Arrival>& jobs, std::int64_t hour) {
  return std::ranges::count_if(
      jobs, [&](const Arrival& job) { return job.at.ms() / kHour % 24 == hour; });
}

TEST(Stream, PoissonArrivalsHaveTheRateOfTheirHourAndDay) {
  const scenario::Load load = load_of(
      "  - {name: a, arrivals: {poisson: {per_hour: 100, weekdays: [100, 100, 100, 100, 100, 0, "
      "50], hours: [200, 0, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, "
      "100, 100, 100, 100, 100, 100, 100, 100]}}, run: {fixed: 1h}}\n");
  const std::vector<Arrival> jobs = drawn(load);
  EXPECT_TRUE(std::ranges::is_sorted(jobs, {}, &Arrival::at));
  // 5.5 busy days of 24 hours at 100 an hour: 13,200 on average, with a deviation of 115.
  EXPECT_NEAR(static_cast<double>(jobs.size()), 13'200, 500);
  EXPECT_NEAR(static_cast<double>(count_if_hour(jobs, 0)), 1'100, 150);
  EXPECT_EQ(count_if_hour(jobs, 1), 0);
  EXPECT_TRUE(
      std::ranges::none_of(jobs, [](const Arrival& job) { return job.at.ms() / kDay == 5; }));
}

TEST(Stream, PoissonArrivalsKeepToTheirWindow) {
  const scenario::Load load = load_of(
      "  - {name: a, arrivals: {poisson: {per_hour: 60, from: 1d, until: 2d}}, run: {fixed: "
      "1h}}\n");
  const std::vector<Arrival> jobs = drawn(load);
  ASSERT_FALSE(jobs.empty());
  EXPECT_GE(jobs.front().at.ms(), kDay);
  EXPECT_LT(jobs.back().at.ms(), 2 * kDay);
}

TEST(Stream, BurstsComeOnTheirDaysWithinTheirSpread) {
  const scenario::Load load = load_of(
      "  - {name: a, arrivals: {bursts: {at: 2h, every: 1d, jobs: 10, spread: 30min, on: [tue, "
      "sun]}}, run: {fixed: 1h}}\n");
  const std::vector<Arrival> jobs = drawn(load);
  ASSERT_EQ(jobs.size(), 20U);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::int64_t day = i < 10 ? 1 : 6;
    EXPECT_GE(jobs[i].at.ms(), day * kDay + 2 * kHour);
    EXPECT_LE(jobs[i].at.ms(), day * kDay + 2 * kHour + kHour / 2);
  }
}

TEST(Stream, ListedArrivalsAndACountAreObeyed) {
  const scenario::Load load = load_of(
      "  - {name: a, arrivals: {times: [3d, 1h, 8d]}, run: {fixed: 1h}}\n"
      "  - {name: b, arrivals: {bursts: {at: 0s, jobs: 50}}, run: {fixed: 1h}, count: 7}\n");
  const std::vector<Arrival> jobs = drawn(load);
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0], (Arrival{.at = Time(kHour), .run = Duration(kHour), .number = 1}));
  EXPECT_EQ(jobs[1].at, Time(3 * kDay));
  EXPECT_EQ(drawn(load, 1).size(), 7U);
}

TEST(Stream, ADeclaredRunTimeEndsTheRun) {
  const scenario::Load load = load_of(
      "  - {name: a, max_run: 1h, arrivals: {bursts: {at: 0s, jobs: 500}}, run: {exponential: "
      "1h}}\n");
  const std::vector<Arrival> jobs = drawn(load);
  const auto ended = std::ranges::count(jobs, Duration(kHour), &Arrival::run);
  EXPECT_NEAR(static_cast<double>(ended), 500 / 2.718, 50);
  EXPECT_TRUE(
      std::ranges::all_of(jobs, [](const Arrival& job) { return job.run.count() <= kHour; }));
}

TEST(Stream, OneSeedGivesOneStreamAndOtherStreamsDoNotMatter) {
  const std::string a =
      "  - {name: a, arrivals: {poisson: {per_hour: 5}}, run: {lognormal: {median: 1h, p90: "
      "6h}}}\n";
  const std::string b =
      "  - {name: b, arrivals: {poisson: {per_hour: 5}}, run: {lognormal: {median: 1h, p90: "
      "6h}}}\n";
  EXPECT_EQ(drawn(load_of(a)), drawn(load_of(b + a), 1));
  EXPECT_NE(drawn(load_of(a)), drawn(load_of(b)));
  EXPECT_NE(drawn(load_of(a)), drawn(load_of(a), 0, 43));
}

}  // namespace
}  // namespace berth::sim
