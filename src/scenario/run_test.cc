#include "scenario/run.h"

#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenario/reference.h"

namespace berth::scenario {
namespace {

using ::testing::HasSubstr;

ScenarioReport report_of(std::string_view text) {
  auto report = run_scenario(text, "t.yaml");
  EXPECT_TRUE(report.ok()) << report.error().message();
  return report.ok() ? *report : ScenarioReport{};
}

std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

constexpr std::string_view kShare = R"(about: a share
fleet: {spec: n0=2x100MiB, reserve: 0MiB}
steps:
  - submit: {uid: train, gpu_memory: 40MiB}
    expect:
      workloads: {train: granted on n0/g0}
      devices: {n0/g0: {headroom: 60MiB, use: shared}, n0/g1: {use: free}}
)";

TEST(RunScenario, CountsEveryExpectationThatIsMet) {
  const ScenarioReport report = report_of(kShare);
  EXPECT_TRUE(report.passed()) << failures_text(report);
  EXPECT_EQ(report.expectations(), 5U);
  EXPECT_EQ(failures_text(report), "");
}

TEST(RunScenario, SaysPlaceWantedFoundAndVerdictOfWhatIsNotMet) {
  const ScenarioReport report = report_of(R"(about: a share
fleet: {spec: n0=1x100MiB, reserve: 0MiB}
steps:
  - submit: {uid: train, gpu_memory: 40MiB}
    expect:
      workloads:
        train: waiting InsufficientMemory
      devices: {n0/g0: {headroom: 50MiB}}
)");
  EXPECT_FALSE(report.passed());
  const std::string text = failures_text(report);
  EXPECT_THAT(text, HasSubstr("t.yaml:7:9: train: expected waiting, found granted\n"));
  EXPECT_THAT(text, HasSubstr("    granted"));
  EXPECT_THAT(text,
              HasSubstr("t.yaml:8:35: n0/g0: expected headroom 50MiB, found headroom 60MiB\n"));
  EXPECT_THAT(text, HasSubstr("    usable: 100MiB, headroom: 60MiB"));
}

TEST(RunScenario, FailsAScenarioThatExpectsNothing) {
  const ScenarioReport report =
      report_of("about: idle\nfleet: n0=1x16GiB\nsteps:\n  - submit: {uid: a, gpu_memory: 1GiB}\n");
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(failures_text(report), "t.yaml:1:1: 'idle' expects nothing: add an expect to a step\n");
}

TEST(RunScenario, FailsOneDocumentOfSeveral) {
  const ScenarioReport report =
      report_of(std::string(kShare) + "---\nabout: idle\nfleet: n0=1x16GiB\nsteps: []\n");
  ASSERT_EQ(report.cases.size(), 2U);
  EXPECT_EQ(report.cases[0].unmet(), 0U);
  EXPECT_FALSE(report.passed());
}

TEST(RunScenario, FailsWhenTheEngineRefusesAnEventThatNobodyExpected) {
  const ScenarioReport report = report_of(
      "about: x\nfleet: n0=1x16GiB\nsteps:\n  - {end: nobody, expect: {decisions: []}}\n");
  EXPECT_THAT(failures_text(report), HasSubstr("the step: expected events that the engine obeys"));
}

TEST(RunScenario, RefusesNamesThatStandForNothing) {
  const std::pair<const char*, const char*> kCases[] = {
      {"  - cordon: n0/g7\n", "t.yaml:4:13: 'n0/g7' is no device of the fleet"},
      {"  - cordon: n0\n", "'n0' is no device of the fleet"},
      {"  - cordon: n0/g99999999999999999999\n", "is no device of the fleet"},
      {"  - node_down: n7\n", "t.yaml:4:16: 'n7' is no node of the fleet"},
      {"  - observe: {device: n7/g0, used: 0MiB}\n", "'n7/g0' is no device of the fleet"},
      {"  - expect: {devices: {n7/g0: {headroom: 0MiB}}}\n", "'n7/g0' is no device of the fleet"},
      {"  - expect: {nodes: {n7: {cpu_free: 0}}}\n", "'n7' is no node of the fleet"},
      {"  - restore_device: n0/g0\n", "is away or there already"},
      {"  - remove_device: [n0/g0, n0/g0]\n", "is away or there already"},
      {"  - renumber: {node: n0, indices: [1, 0]}\n", "n0 has 1 devices and 2 indices are given"},
      {"  - {at: 10s}\n  - {at: 9s}\n", "t.yaml:5:5: at 9s: time has reached 10s already"},
      {"  - adopt: {uid: a, gpu_memory: 1GiB, on: n0/g3}\n", "'n0/g3' is no device of the fleet"},
      {"  - add_device: {node: n9, device: {memory: 1GiB, uuid: GPU-x}}\n", "is not there"},
  };
  for (const auto& [steps, message] : kCases) {
    const auto report =
        run_scenario(std::string("about: x\nfleet: n0=1x16GiB\nsteps:\n") + steps, "t.yaml");
    ASSERT_FALSE(report.ok()) << steps;
    EXPECT_THAT(report.error().message(), HasSubstr(message)) << steps;
  }
}

TEST(RunScenario, RefusesOneIndexForTwoDevices) {
  const auto report = run_scenario(R"(about: renumbered
fleet: {spec: n0=2x100MiB, reserve: 0MiB}
steps:
  - renumber: {node: n0, indices: [1, 1]}
    expect: {devices: {n0/g0: {use: free}}}
)",
                                   "t.yaml");
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message(), HasSubstr("index 1 is given to two devices of n0"));
}

TEST(RunScenario, SuggestsOnlyCausesThatHaveAName) {
  const auto report = run_scenario(R"(about: a cause that is none
fleet: {spec: n0=1x100MiB, reserve: 0MiB}
steps:
  - submit: {uid: a, gpu_memory: 1MiB}
    expect: {workloads: {a: {cause: x}}}
)",
                                   "t.yaml");
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message(), HasSubstr("known are NoNodeMatches, "));
  EXPECT_THAT(report.error().message(), testing::Not(HasSubstr("did you mean ''")));
}

TEST(RunScenario, ShowsControlCharactersAsNumbers) {
  const ScenarioReport report = report_of(R"(about: "a \e[31m name"
fleet: {spec: n0=1x100MiB, reserve: 0MiB}
steps:
  - submit: {uid: "a\e[2J", gpu_memory: 1MiB}
    expect: {workloads: {"a\e[2J": waiting}}
)");
  for (const std::string& text : {table_text(report), failures_text(report)}) {
    EXPECT_THAT(text, HasSubstr("a\\x1b[2J"));
    EXPECT_THAT(text, testing::Not(HasSubstr("\x1b")));
  }
}

TEST(RunScenario, GivesTheSameTranscriptEveryTime) {
  EXPECT_EQ(json_text({report_of(kShare)}), json_text({report_of(kShare)}));
  const std::string table = table_text(report_of(kShare));
  EXPECT_THAT(table, HasSubstr("t.yaml:1  a share\n"));
  EXPECT_THAT(table, HasSubstr("0s  submit train\n"));
  EXPECT_THAT(table, HasSubstr("train granted on n0/g0: 40MiB\n"));
  EXPECT_THAT(table, HasSubstr("5 of 5 expectations met\n"));
}

TEST(RunScenario, EscapesTextsInJson) {
  const std::string json =
      json_text({report_of("about: \"a \\\"quoted\\\" \\\\ name\"\nfleet: n0=1x16GiB\nsteps: "
                           "[{expect: {actions: 0}}]\n")});
  EXPECT_THAT(json, HasSubstr(R"("about":"a \"quoted\" \\ name")"));
}

TEST(ScenarioDocs, EndWithTheReferenceOfTheTables) {
  const std::string path = std::string(BERTH_SOURCE_DIR) + "/docs/scenarios.md";
  const std::string docs = read_file(path);
  const std::size_t marker = docs.find(kReferenceMarker);
  ASSERT_NE(marker, std::string::npos) << path;
  EXPECT_EQ(docs.substr(marker), kReferenceMarker + std::string("\n\n") + reference_text())
      << "the tables changed: run\n  sed -i '/^<!-- From here on/,$d' docs/scenarios.md && "
         "build/bin/berth simulate --scenario-help >> docs/scenarios.md";
}

TEST(ScenarioDocs, BeginWithAnExampleThatRuns) {
  const std::string docs = read_file(std::string(BERTH_SOURCE_DIR) + "/docs/scenarios.md");
  const std::size_t begin = docs.find("```yaml\n") + 8;
  const std::size_t end = docs.find("```", begin);
  ASSERT_LT(begin, end);
  const ScenarioReport report = report_of(docs.substr(begin, end - begin));
  EXPECT_TRUE(report.passed()) << failures_text(report);
}

}  // namespace
}  // namespace berth::scenario
