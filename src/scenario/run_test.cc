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
      {"  - hold_queue: nobody\n", "t.yaml:4:17: 'nobody' is no queue here"},
      {"  - expect: {queues: {nobody: {\"*/devices\": {alloc: 0}}}}\n",
       "t.yaml:4:23: 'nobody' is no queue here"},
      {"  - expect: {queues: {default: {\"*/devices\": {alloc: 0}}}}\n",
       "no queue names the dimension '*/devices'"},
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

// One deserves nothing and runs; the other takes its device.
std::string taken_back(const std::string& head, const std::string& options,
                       const std::string& steps) {
  return "about: taken back\nfleet: {spec: n0=1x100MiB, reserve: 0MiB}\n" + head +
         "queues: [{name: low, dims: {\"*/devices\": {deserved: 0}}}, "
         "{name: high, dims: {\"*/devices\": {deserved: 1}}}]\nsteps:\n"
         "  - submit: {uid: train, queue: low, whole: 1, preemptible: true" +
         options + "}\n  - submit: {uid: claim, queue: high, whole: 1}\n" + steps;
}

TEST(RunScenario, WhatIsEvictedIsGoneAtOnceAndWaitsAgain) {
  const ScenarioReport report = report_of(taken_back("", "", R"(    expect:
      evictions: {train: guarantee for claim}
      workloads: {claim: granted on n0/g0, train: waiting}
      queues: {low: {"*/devices": {alloc: 0, demand: 1}}, high: {"*/devices": {alloc: 1}}}
  - end: claim
    expect: {workloads: {train: granted on n0/g0}}
)"));
  EXPECT_TRUE(report.passed()) << failures_text(report);
  EXPECT_THAT(table_text(report), HasSubstr("train is gone and waits again"));
}

TEST(RunScenario, WhatIsEvictedIsThereForTheGrace) {
  const ScenarioReport report =
      report_of(taken_back("eviction_grace: 30s\n", ", restartable: false", R"(    expect:
      workloads: {claim: promised, train: granted}
  - at: 29s
    expect: {evictions: none, workloads: {claim: promised, train: granted}}
  - at: 30s
    expect: {evictions: none, workloads: {claim: granted, train: ended}}
)"));
  EXPECT_TRUE(report.passed()) << failures_text(report);
}

TEST(RunScenario, WhatEndsByItselfDuringTheGraceIsNotEndedTwice) {
  const ScenarioReport report = report_of(taken_back("eviction_grace: 30s\n", "", R"(  - at: 10s
    end: train
    expect: {workloads: {claim: granted, train: ended}}
  - at: 1h
    expect: {workloads: {claim: granted}}
)"));
  EXPECT_TRUE(report.passed()) << failures_text(report);
}

TEST(RunScenario, SaysWhichEvictionsThereWereInstead) {
  const std::string text = failures_text(report_of(taken_back("", "", R"(    expect:
      evictions: {claim: {rule: fairShare, for: train, says: [x]}}
  - expect: {evictions: {train: stale}}
)")));
  EXPECT_THAT(text, HasSubstr("expected evicted claim by fairShare for train, found train by "
                              "guarantee for claim"));
  EXPECT_THAT(text, HasSubstr("expected evicted train by stale, found no evictions"));
  EXPECT_THAT(text, HasSubstr("expected 1 evictions, found no evictions"));
}

TEST(RunScenario, SaysInWhichDomainsMembersAre) {
  const ScenarioReport report = report_of(R"(about: racks
fleet:
  reserve: 0MiB
  nodes:
    - {name: a-1..2, labels: {rack: r1}, devices: [{memory: 1GiB}]}
    - {name: b, devices: [{memory: 1GiB}]}
topologies: [{name: racks, levels: [rack]}]
steps:
  - submit: {uid: job, members: 3, whole: 1}
    expect:
      domains:
        - {level: rack, of: job/worker-0..1, are: r1}
        - {level: rack, of: job/worker-0..2, count: 1}
        - {level: kubernetes.io/hostname, of: job/worker-0..2, are: [b, a-2, a-1]}
        - {level: rack, of: [job/worker-0, nobody], count: 1}
)");
  const std::string text = failures_text(report);
  EXPECT_EQ(report.unmet(), 2U) << text;
  EXPECT_THAT(text, HasSubstr("expected 1 domains of level rack, found 2: none (b), r1"));
  EXPECT_THAT(text, HasSubstr("nobody: expected a place in some rack, found no grant"));
}

TEST(RunScenario, HoldsQueuesWhileTasksArriveTogether) {
  const ScenarioReport report = report_of(R"(about: together
fleet: {spec: n0=1x100MiB, reserve: 0MiB}
steps:
  - submit_together: [{uid: later, whole: 1}, {uid: urgent, whole: 1, priority: 5}]
    expect: {workloads: {urgent: granted, later: waiting}, decisions: [granted urgent]}
  - hold_queue: default
  - end: urgent
    expect: {workloads: {later: waiting QueueHeld}}
  - release_queue: default
    expect: {workloads: {later: granted}}
)");
  EXPECT_TRUE(report.passed()) << failures_text(report);
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

TEST(ScenarioDocs, HaveExamplesThatRun) {
  const std::string docs = read_file(std::string(BERTH_SOURCE_DIR) + "/docs/scenarios.md");
  std::size_t examples = 0;
  for (std::size_t at = docs.find("```yaml\n"); at != std::string::npos;
       at = docs.find("```yaml\n", at)) {
    const std::size_t begin = at + 8;
    at = docs.find("```", begin);
    ASSERT_NE(at, std::string::npos);
    const ScenarioReport report = report_of(docs.substr(begin, at - begin));
    EXPECT_TRUE(report.passed()) << failures_text(report);
    ++examples;
  }
  EXPECT_GE(examples, 2U);
}

}  // namespace
}  // namespace berth::scenario
