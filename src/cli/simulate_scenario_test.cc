#include "cli/simulate_scenario.h"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/commands.h"
#include "cli/program.h"

namespace berth::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

struct Outcome {
  ExitCode code;
  std::string out;
  std::string err;
};

Outcome simulate(std::vector<std::string> words) {
  std::ostringstream out;
  std::ostringstream err;
  Console console{.out = out, .err = err};
  words.insert(words.begin(), "simulate");
  const ExitCode code = run_program(all_commands(), words, console);
  return {code, out.str(), err.str()};
}

std::string file_of(const std::string& name, const std::string& text) {
  std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string scenario_with(const std::string& expectation) {
  return "about: a share\nfleet: {spec: n0=1x100MiB, reserve: 0MiB}\nsteps:\n"
         "  - submit: {uid: train, gpu_memory: 40MiB}\n    expect: " +
         expectation + "\n";
}

TEST(SimulateScenario, PrintsWhatHappenedAndEndsWithZero) {
  const std::string path = file_of("met.yaml", scenario_with("{workloads: {train: granted}}"));
  const Outcome outcome = simulate({"--scenario", path});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(outcome.out, HasSubstr("train granted on n0/g0: 40MiB\n"));
  EXPECT_THAT(outcome.out, HasSubstr("1 of 1 expectations met\n"));
}

TEST(SimulateScenario, EndsWithOneWhenAnExpectationIsNotMet) {
  const std::string path = file_of("unmet.yaml", scenario_with("{workloads: {train: waiting}}"));
  const Outcome outcome = simulate({"--scenario", path, "-o", "json"});
  EXPECT_EQ(outcome.code, ExitCode::failed);
  EXPECT_THAT(outcome.err, HasSubstr(path + ":5:26: train: expected waiting, found granted\n"));
  EXPECT_THAT(outcome.out, StartsWith("{\"version\":\"v1\",\"scenarios\":[{\"file\":"));
  EXPECT_THAT(outcome.out, HasSubstr("\"passed\":false"));
}

TEST(SimulateScenario, EndsWithTwoForFilesThatAreNoScenarios) {
  const std::string good = file_of("good.yaml", scenario_with("{workloads: {train: granted}}"));
  const std::string bad = file_of("bad.yaml", "about: x\nfleet: 1x1GiB\nstesp: []\n");
  const Outcome outcome = simulate({"--scenario", bad, good, testing::TempDir() + "absent.yaml"});
  EXPECT_EQ(outcome.code, ExitCode::usage);
  EXPECT_THAT(outcome.err, HasSubstr(bad + ":3:1: stesp: 'stesp' is not a key of 'scenario'; did "
                                           "you mean 'steps'?"));
  EXPECT_THAT(outcome.err, HasSubstr("absent.yaml: the file cannot be read: No such file"));
  EXPECT_THAT(outcome.out, HasSubstr("1 of 1 expectations met"));
  EXPECT_EQ(simulate({"--scenario", testing::TempDir()}).code, ExitCode::usage);
  EXPECT_EQ(simulate({"--scenario", good, "--nodes", "x.csv"}).code, ExitCode::usage);
}

TEST(SimulateScenario, PrintsTheReference) {
  const Outcome outcome = simulate({"--scenario-help"});
  EXPECT_EQ(outcome.code, ExitCode::done);
  EXPECT_THAT(outcome.out, HasSubstr("## expect workload"));
}

}  // namespace
}  // namespace berth::cli
