#include "sim/protocol.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/engine/replay.h"
#include "core/placement/registry.h"
#include "sim/comparison.h"
#include "sim/openb_test.h"
#include "sim/sweep.h"
#include "sim/words.h"

namespace berth::sim {
namespace {

using testing::HasSubstr;

const Scene& scene_of(const std::string& trace) {
  static std::map<std::string, Scene> scenes;
  const auto [entry, fresh] = scenes.try_emplace(trace);
  if (fresh) entry->second = make_scene(trace, openb_nodes(), openb_pods(trace)).value();
  return entry->second;
}

// One line of bench/data/expected/openb_runs.csv.
struct Expected {
  std::string trace;
  RunSpec spec;
  std::string result;  // "95.110/95.341/2445"
};

std::vector<Expected> expected_runs() {
  std::ifstream file(std::string(BERTH_SOURCE_DIR) + "/bench/data/expected/openb_runs.csv");
  std::vector<Expected> runs;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    const auto words = split_at(line, ',');
    runs.push_back({.trace = std::string(words.at(0)),
                    .spec = {.policy = std::string(words.at(1)),
                             .seed = std::stoull(std::string(words.at(2)))},
                    .result = fmt::format("{}/{}/{}", words.at(3), words.at(4), words.at(5))});
  }
  return runs;
}

std::string played(const std::string& trace, const RunSpec& spec) {
  const auto result = play_run(scene_of(trace), spec);
  if (!result.ok()) return result.error().to_string();
  return fmt::format("{:.3f}/{:.3f}/{}", result->curve.at(100).value_or(0),
                     result->curve.at(130).value_or(0), result->failed);
}

void expect_as_published(const std::vector<std::string>& traces, std::uint64_t last_seed) {
  const std::vector<Expected> runs = expected_runs();
  ASSERT_EQ(runs.size(), 100U);
  for (const Expected& run : runs) {
    if (std::ranges::count(traces, run.trace) == 0 || run.spec.seed > last_seed) continue;
    EXPECT_EQ(played(run.trace, run.spec), run.result)
        << run.trace << " " << run.spec.policy << " seed " << run.spec.seed;
  }
}

// `make bench` plays all hundred runs.
TEST(Protocol, GivesThePublishedRunsOfTheDefaultTraceToTheLastDigit) {
  expect_as_published({"default"}, 43);
}

TEST(Protocol, GivesThePublishedRunsWithModelConstraintsToTheLastDigit) {
  expect_as_published({"gpuspec33"}, 43);
}

TEST(Protocol, GivesThePublishedRunsOfTheOtherTracesToTheLastDigit) {
  expect_as_published({"cpu250", "gpushare100", "multigpu50"}, 42);
}

// Placement page, section 4, last column.
TEST(Protocol, GivesTheBaselinesAsTheReferenceDoes) {
  const auto at130 = [](const char* policy, std::uint64_t seed) {
    const auto result = play_run(scene_of("default"), {.policy = policy, .seed = seed}).value();
    return fmt::format("{:.2f}/{}", result.curve.at(130).value_or(0), result.failed);
  };
  EXPECT_EQ(at130("random", 42), "87.34/2633");
  EXPECT_EQ(at130("dotprod", 43), "91.32/2750");
  EXPECT_EQ(at130("gpu-clustering", 44), "90.61/2782");
  EXPECT_EQ(at130("gpu-packing", 42), "91.39/2738");
  EXPECT_EQ(at130("best-fit", 43), "93.45/2585");
}

std::vector<TraceNode> few_nodes() { return {openb_nodes().begin(), openb_nodes().begin() + 40}; }

TEST(Protocol, KeepsEveryDerivedFigureRightAfterEveryEvent) {
  const Scene scene = make_scene("few", few_nodes(), openb_pods("gpuspec33")).value();
  for (const core::PolicyInfo& policy : core::registered_policies()) {
    const auto result = play_run(
        scene,
        {.policy = std::string(policy.name), .seed = 1, .arrival_percent = 120, .check = true});
    EXPECT_TRUE(result.ok()) << policy.name << ": " << result.error().to_string();
  }
}

TEST(Protocol, RefusesWhatFitsNowhereAndGoesOn) {
  const std::vector<TraceNode> nodes = {
      {.name = "n", .cpu_milli = 8000, .memory_mib = 1000, .devices = 1, .model = "T4"}};
  const std::vector<TracePod> pods = {
      {.name = "a100", .num_gpu = 1, .gpu_milli = 100, .gpu_spec = "A100"},
      {.name = "half", .cpu_milli = 10, .memory_mib = 1, .num_gpu = 1, .gpu_milli = 500}};
  const Scene scene = make_scene("t", nodes, pods).value();
  ASSERT_EQ(scene.warnings.size(), 1U);
  EXPECT_THAT(scene.warnings[0],
              HasSubstr("pod a100 fits no node of this fleet, even an empty one: "
                        "no node has a device of model A100"));
  const auto result = play_run(scene, {.policy = "pack", .seed = 3}).value();
  EXPECT_GT(result.failed, 0);
  EXPECT_EQ(result.final_allocation, 100);
  const auto refused =
      result.refused.find({WorkKind{.num_gpu = 1, .whole = false}, RefusalReason::never_fits});
  ASSERT_NE(refused, result.refused.end());
}

TEST(Sweep, AnswersInTheOrderAskedForWhateverTheNumberOfThreads) {
  const Scene scene = make_scene("few", few_nodes(), openb_pods("default")).value();
  const RunPlan plan{.policies = {"pack", "fgd"}, .seeds = {1, 2, 3}};
  const auto one = run_sweep(scene, plan.specs(), {.jobs = 1}).value();
  const auto four = run_sweep(scene, plan.specs(), {.jobs = 4}).value();
  ASSERT_EQ(one.size(), 6U);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].spec.policy, i < 3 ? "pack" : "fgd");
    EXPECT_EQ(one[i].spec.seed, i % 3 + 1);
    EXPECT_EQ(one[i].curve, four[i].curve);
    EXPECT_EQ(one[i].refused, four[i].refused);
    EXPECT_EQ(one[i].device_left, four[i].device_left);
  }
}

TEST(Sweep, EndsEarlyWhenCancelled) {
  std::atomic<bool> cancelled{true};
  const auto runs =
      run_sweep(scene_of("default"), RunPlan{.policies = {"pack"}, .seeds = {1, 2}}.specs(),
                {.jobs = 2, .cancelled = &cancelled});
  ASSERT_FALSE(runs.ok());
  EXPECT_EQ(runs.error().code(), ErrorCode::exhausted);
}

TEST(Sweep, ReportsAnUnknownPolicyAsBadInput) {
  const auto runs = run_sweep(scene_of("default"), {{.policy = "pakc"}}, {});
  ASSERT_FALSE(runs.ok());
  EXPECT_EQ(runs.error().code(), ErrorCode::invalid_argument);
}

TEST(Record, ReplaysBitForBit) {
  const Scene scene = make_scene("few", few_nodes(), openb_pods("default")).value();
  const std::string path = testing::TempDir() + "/berth_record_test.log";
  OutputFile file = OutputFile::create(path).value();
  ASSERT_TRUE(play_run(scene, {.policy = "pack", .seed = 5}, {.record = &file}).ok());
  ASSERT_TRUE(file.commit().ok());
  std::string log = read_input_file(path).value();
  const auto report = core::replay(log);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_GT(report->records, 300U);
  EXPECT_FALSE(report->difference.has_value());

  log[log.size() - 3] ^= 1;
  const auto damaged = core::replay(log);
  EXPECT_TRUE(!damaged.ok() || damaged->difference.has_value());
}

// Placement page, section 6.
TEST(FluidBounds, AreThePublishedOnes) {
  const Bounds bounds = fluid_bounds(scene_of("default")).value();
  EXPECT_NEAR(bounds.no_reject, 96.32, 0.005);
  EXPECT_NEAR(bounds.choose_any, 99.89, 0.005);
}

}  // namespace
}  // namespace berth::sim
