#include "scenario/verdict_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "scenario/run.h"

namespace berth::scenario {
namespace {

// The verdict of the last answer about `uid` in a scenario.
nlohmann::json verdict_of(const std::string& scenario, const std::string& uid) {
  const Result<ScenarioReport> report = run_scenario(scenario, "test.yaml", Verdicts::json);
  EXPECT_TRUE(report.ok()) << report.error().to_string();
  nlohmann::json found;
  for (const TranscriptLine& line : report->cases.front().transcript) {
    if (!line.verdict.empty() && line.text.starts_with(uid + " ")) {
      found = nlohmann::json::parse(line.verdict);
    }
  }
  return found;
}

TEST(VerdictJson, NamesWhatIsMissingAndWhatWouldHelp) {
  const nlohmann::json verdict = verdict_of(R"(
about: a share that does not fit now
fleet: {spec: n0=1x16GiB, reserve: 0MiB}
steps:
  - submit: {uid: holder, gpu_memory: 10GiB, max_run: 60s}
  - at: 10s
    submit: {uid: next, gpu_memory: 8GiB}
    expect: {workloads: {next: waiting}}
)",
                                            "next");
  EXPECT_EQ(verdict["version"], "v1");
  EXPECT_EQ(verdict["outcome"], "waiting");
  EXPECT_EQ(verdict["reason"], "Unschedulable");
  EXPECT_EQ(verdict["cause"], "InsufficientMemory");
  EXPECT_EQ(verdict["stage"], "device");
  EXPECT_EQ(verdict["since"], "1970-01-01T00:00:10Z");
  EXPECT_EQ(verdict["nodes"]["byReason"]["InsufficientMemory"], 1);
  EXPECT_EQ(verdict["devices"]["needMiB"], 8192);
  EXPECT_EQ(verdict["devices"]["largestFreeMiB"], 6144);
  EXPECT_EQ(verdict["eta"]["at"], "1970-01-01T00:01:00Z");
  EXPECT_EQ(verdict["unblock"][0]["mib"], 2048);
}

TEST(VerdictJson, NamesTheDevicesOfAGrant) {
  const nlohmann::json verdict = verdict_of(R"(
about: a grant
fleet: {spec: n0=1x16GiB, reserve: 0MiB}
steps:
  - submit: {uid: task, gpu_memory: 4GiB, gpu_memory_limit: 8GiB}
    expect: {workloads: {task: granted}}
)",
                                            "task");
  EXPECT_EQ(verdict["outcome"], "granted");
  EXPECT_EQ(verdict["granted"][0]["requestMiB"], 4096);
  EXPECT_EQ(verdict["granted"][0]["limitMiB"], 8192);
}

TEST(VerdictJson, SaysWhatQueuesGangAndVictimsCameTo) {
  core::Verdict verdict;
  verdict.quota_chain = {{.queue = "team-a",
                          .resource = "*/devices",
                          .deserved = 2000,
                          .limit = -1,
                          .used = 1500,
                          .need = 1000,
                          .short_of = 500}};
  verdict.gang = {.min = 4, .exist = 3, .placeable = 2};
  verdict.topology = {.level = "rack", .best_domain = "r2", .fits = 3, .need = 4};
  verdict.preemption = {.considered = 5, .priority = 3, .min_runtime = 1, .non_preemptible = 1};
  verdict.unblock = {{.kind = core::Unblock::Kind::evict, .workloads = {"ns/job-9"}}};
  const auto json = nlohmann::json::parse(verdict_json(verdict));
  EXPECT_EQ(json["quotaChain"][0]["queue"], "team-a");
  EXPECT_EQ(json["quotaChain"][0]["limit"], -1);
  EXPECT_EQ(json["quotaChain"][0]["short"], 500);
  EXPECT_EQ(json["gang"], nlohmann::json::parse(R"({"min":4,"exist":3,"placeable":2})"));
  EXPECT_EQ(json["topology"],
            nlohmann::json::parse(R"({"level":"rack","bestDomain":"r2","fits":3,"need":4})"));
  EXPECT_EQ(json["preemption"]["considered"], 5);
  EXPECT_EQ(json["preemption"]["blockedBy"],
            nlohmann::json::parse(R"({"priority":3,"minRuntime":1,"pdb":0,"nonPreemptible":1,
                                      "fairShare":0,"evictionCap":0})"));
  EXPECT_EQ(json["unblock"][0], nlohmann::json::parse(R"({"kind":"evict","workload":"ns/job-9"})"));
}

}  // namespace
}  // namespace berth::scenario
