#include "cli/simulate_scenario.h"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_berth_test.h"

namespace berth::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

Answer simulate(std::vector<std::string> words) {
  words.insert(words.begin(), "simulate");
  return berth(words);
}

std::string scenario_with(const std::string& expectation) {
  return "about: a share\nfleet: {spec: n0=1x100MiB, reserve: 0MiB}\nsteps:\n"
         "  - submit: {uid: train, gpu_memory: 40MiB}\n    expect: " +
         expectation + "\n";
}

TEST(SimulateScenario, PrintsWhatHappenedAndEndsWithZero) {
  const OwnFolder folder;
  const std::string path = folder.write("met.yaml", scenario_with("{workloads: {train: granted}}"));
  const Answer outcome = simulate({"--scenario", path});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(outcome.out, HasSubstr("train granted on n0/g0: 40MiB\n"));
  EXPECT_THAT(outcome.out, HasSubstr("1 of 1 expectations met\n"));
}

TEST(SimulateScenario, EndsWithOneWhenAnExpectationIsNotMet) {
  const OwnFolder folder;
  const std::string path =
      folder.write("unmet.yaml", scenario_with("{workloads: {train: waiting}}"));
  const Answer outcome = simulate({"--scenario", path, "-o", "json"});
  EXPECT_EQ(outcome.code, ExitCode::failed);
  EXPECT_THAT(outcome.err, HasSubstr(path + ":5:26: train: expected waiting, found granted\n"));
  EXPECT_THAT(outcome.out, StartsWith("{\"version\":\"v1\",\"scenarios\":[{\"file\":"));
  EXPECT_THAT(outcome.out, HasSubstr("\"passed\":false"));
}

TEST(SimulateScenario, EndsWithTwoForFilesThatAreNoScenarios) {
  const OwnFolder folder;
  const std::string good =
      folder.write("good.yaml", scenario_with("{workloads: {train: granted}}"));
  const std::string bad = folder.write("bad.yaml", "about: x\nfleet: 1x1GiB\nstesp: []\n");
  const Answer outcome = simulate({"--scenario", bad, good, folder.path("absent.yaml")});
  EXPECT_EQ(outcome.code, ExitCode::usage);
  EXPECT_THAT(outcome.err, HasSubstr(bad + ":3:1: stesp: 'stesp' is not a key of 'scenario'; did "
                                           "you mean 'steps'?"));
  EXPECT_THAT(outcome.err, HasSubstr("absent.yaml: the file cannot be read: No such file"));
  EXPECT_THAT(outcome.out, HasSubstr("1 of 1 expectations met"));
  EXPECT_EQ(simulate({"--scenario", folder.name()}).code, ExitCode::usage);
  EXPECT_EQ(simulate({"--scenario", good, "--nodes", "x.csv"}).code, ExitCode::usage);
}

TEST(SimulateScenario, PrintsTheReference) {
  const Answer outcome = simulate({"--scenario-help"});
  EXPECT_EQ(outcome.code, ExitCode::done);
  EXPECT_THAT(outcome.out, HasSubstr("## expect workload"));
}

}  // namespace
}  // namespace berth::cli
