#include "scenario/load.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/section_test.h"
#include "scenario/load_sections.h"

namespace berth::scenario {
namespace {

using config::expect_examples_are_accepted;
using testing::HasSubstr;

std::string refusal(const std::string& text) {
  const auto file = parse_load(text, "load.yaml");
  return file.ok() ? "accepted" : file.error().message();
}

TEST(Load, IsReadWithItsStreams) {
  const auto file = parse_load(R"(
fleet: 8x80GiB:H100
config: {policy: spread}
load:
  horizon: 7d
  starts: tue
  seed: 7
  grace: 1min
  sample: 5min
  streams:
    - name: train
      queue: vision
      priority: 50
      preemptible: true
      max_run: 8h
      whole: 2
      gang: {members: 4, min: 3}
      arrivals: {poisson: {per_hour: 2.5, weekdays: [100, 100, 100, 100, 100, 20, 0]}}
      run: {lognormal: {median: 2h, p90: 7h}}
      count: 100
    - name: nightly
      gpu_memory: 20GiB
      arrivals: {bursts: {at: 2h, every: 1d, jobs: 40, spread: 10min, on: [mon, fri]}}
      run: {uniform: {from: 10min, to: 1h}}
    - {name: demo, gpu_fraction: 0.5, arrivals: {times: [2h, 1h]}, run: {fixed: 1h}}
)",
                               "load.yaml");
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->config.policy, "spread");
  const Load& load = file->load;
  EXPECT_EQ(load.horizon, Duration{604'800'000});
  EXPECT_EQ(load.first_day, 1U);
  EXPECT_EQ(load.seed, 7U);
  EXPECT_EQ(load.grace, Duration{60'000});
  EXPECT_EQ(load.sample, Duration{300'000});
  ASSERT_EQ(load.streams.size(), 3U);
  const LoadStream& train = load.streams[0];
  EXPECT_EQ(train.options.queue, "vision");
  EXPECT_EQ(train.queue.place.line, 12);
  EXPECT_TRUE(train.options.preemptible);
  EXPECT_EQ(train.options.max_run, Duration{28'800'000});
  EXPECT_EQ(train.gang->members, 4);
  EXPECT_EQ(train.gang->min, 3);
  EXPECT_EQ(train.count, 100);
  EXPECT_EQ(train.request.containers().front().gpu.count, 2);
  const auto& poisson = std::get<PoissonArrivals>(train.arrivals);
  EXPECT_EQ(poisson.milli_per_hour, 2500);
  EXPECT_EQ(poisson.days[5], 20);
  EXPECT_EQ(poisson.hours[3], 100);
  const auto& bursts = std::get<BurstArrivals>(load.streams[1].arrivals);
  EXPECT_EQ(bursts.jobs, 40);
  EXPECT_TRUE(bursts.on[0]);
  EXPECT_FALSE(bursts.on[1]);
  EXPECT_EQ(load.streams[1].options.queue, "default");
  EXPECT_EQ(std::get<ListedArrivals>(load.streams[2].arrivals).times,
            (std::vector<Time>{Time{3'600'000}, Time{7'200'000}}));
}

TEST(Load, RefusesWhatIsWrongWithItsPlaceAndANextStep) {
  const std::string head = "load: {horizon: 7d, streams: [{name: a, whole: 1, ";
  const std::string good = "arrivals: {times: [0s]}, run: {fixed: 1h}";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"steps: []", "load.yaml:1:1: the file has no section `load:`"},
      {"load: {}", "'horizon' is missing"},
      {"load: {horizon: 7}", "load.yaml:1:17: horizon '7': a duration is a whole number with ms"},
      {"load: {horizon: 400d, streams: []}", "a horizon lies between 1min and 366d"},
      {"load: {horizon: 7d, strams: []}", "did you mean 'streams'?"},
      {"load: {horizon: 366d, sample: 1s, streams: []}", "at most 20000 samples are kept"},
      {"load: {horizon: 7d, starts: tues, streams: []}", "did you mean 'tue'?"},
      {"load: {horizon: 7d, seed: 4294967296, streams: []}", "from 0 to 4294967295"},
      {"load: {horizon: 7d, streams: [{name: a/b, " + good + "}]}", "a name has no '/'"},
      {head + good + ", priorty: 5}]}", "did you mean 'priority'?"},
      {head + good + ", whle: 5}]}", "did you mean 'whole'?"},
      {head + good + "}, {name: a, " + good + "}]}", "a stream called a stands in line 1 already"},
      {head + "run: {fixed: 1h}}]}", "'arrivals' is missing"},
      {head + "arrivals: {}, run: {fixed: 1h}}]}", "say one of poisson, bursts, times"},
      {head + "arrivals: {times: [0s], bursts: {at: 0s, jobs: 1}}, run: {fixed: 1h}}]}",
       "times and bursts are given: leave all but one out"},
      {head + "arrivals: {poison: {per_hour: 1}}, run: {fixed: 1h}}]}", "did you mean 'poisson'?"},
      {head + "arrivals: {poisson: {per_hour: 0}}, run: {fixed: 1h}}]}",
       "per_hour '0': jobs per hour are a number from 0.01 to 100000"},
      {head + "arrivals: {poisson: {per_hour: 1, hours: [1, 2]}}, run: {fixed: 1h}}]}",
       "24 percentages are expected, not 2"},
      {head + "arrivals: {bursts: {at: 0s, jobs: 1, every: 0s}}, run: {fixed: 1h}}]}",
       "every '0s': must be above zero"},
      {head + "arrivals: {bursts: {at: 0s, jobs: 1, every: 1h, spread: 2h}}, run: {fixed: 1h}}]}",
       "`spread` is longer than `every`"},
      {head + "arrivals: {bursts: {at: 0s, jobs: 1, on: [day]}}, run: {fixed: 1h}}]}",
       "not a word that is known here"},
      {head + "arrivals: {times: [0s]}, run: {fixed: 0s}}]}",
       "a run time lies between 1ms and 365d"},
      {head + "arrivals: {times: [0s]}, run: {lognormal: {median: 2h, p90: 1h}}}]}",
       "p90 is below the median"},
      {head + "arrivals: {times: [0s]}, run: {lognormal: {median: 2h}}}]}", "'p90' is missing"},
      {head + "arrivals: {times: [0s]}, run: {uniform: {from: 2h, to: 1h}}}]}",
       "`to` is below `from`"},
      {head + good + ", gang: {members: 2, min: 3}}]}", "min 3 is above the 2 members"},
      {head + good + ", gpu_memory: 5}]}", "gpu_memory"},
      {"load: {horizon: 7d, streams: []}\nconfig: {policy: pakc}", "load.yaml:2:18: policy 'pakc'"},
  };
  for (const auto& [text, said] : cases) {
    const std::string answer = refusal(text);
    EXPECT_THAT(answer, HasSubstr(said)) << text;
    EXPECT_THAT(answer, testing::StartsWith("load.yaml:")) << text;
  }
}

TEST(Load, AcceptsEveryExampleOfItsOwnTables) {
  expect_examples_are_accepted(load_section());
  expect_examples_are_accepted(stream_section());
  expect_examples_are_accepted(arrivals_section());
  expect_examples_are_accepted(poisson_section());
  expect_examples_are_accepted(bursts_section());
  expect_examples_are_accepted(run_section());
  expect_examples_are_accepted(lognormal_section());
  expect_examples_are_accepted(uniform_section());
  expect_examples_are_accepted(gang_shape_section());
}

TEST(Load, TellsTimesOnTheClockOfItsWeek) {
  EXPECT_EQ(clock_text(Time{0}, 0), "Mon 00:00");
  EXPECT_EQ(clock_text(Time{92'100'000}, 0), "Tue 01:35");
  EXPECT_EQ(clock_text(Time{std::int64_t{8} * 86'400'000}, 5), "Sun 00:00");
}

}  // namespace
}  // namespace berth::scenario
