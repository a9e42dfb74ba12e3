#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_berth_test.h"
#include "scenario/load.h"

namespace berth::cli {
namespace {

using testing::HasSubstr;

// A load and two queue files.
class SimulateWeek : public BerthInAFolder {
 protected:
  void SetUp() override {
    write("load.yaml",
          "load:\n  horizon: 6h\n  sample: 2h\n  streams:\n"
          "    - {name: big, queue: a, preemptible: true, whole: 2, arrivals: {bursts: {at: 1h, "
          "jobs: 3}}, run: {fixed: 1h}}\n"
          "    - {name: small, queue: b, preemptible: true, gpu_memory: 20GiB, arrivals: {times: "
          "[30min]}, run: {fixed: 2h}}\n");
    write("one.yaml", "queues: [{name: a}, {name: b}]\n");
    write("two.yaml",
          "queues: [{name: a, dims: {\"*/devices\": {limit: 2}}}, {name: b, dims: {\"*/devices\": "
          "{deserved: 1}}}]\n");
  }

  Answer simulate(std::vector<std::string> more) const {
    std::vector<std::string> words = {"simulate", "--load", path("load.yaml"), "--fleet",
                                      "4x80GiB:H100"};
    words.insert(words.end(), more.begin(), more.end());
    return berth(words);
  }
};

TEST_F(SimulateWeek, PrintsATableOfQueuesAndNothingElse) {
  const Answer answer = simulate({"--queues", path("one.yaml")});
  EXPECT_EQ(answer.code, ExitCode::done) << answer.err;
  EXPECT_EQ(answer.err, "");
  EXPECT_THAT(answer.out, HasSubstr("1 node, 4 devices, 6 h 00 min from Mon on, seed 42"));
  EXPECT_THAT(answer.out, HasSubstr("4 jobs"));
  EXPECT_THAT(answer.out, HasSubstr("Nothing was evicted."));
}

TEST_F(SimulateWeek, ComparesTwoQueueFilesUnderTheSameWork) {
  const Answer answer = simulate({"--queues", path("one.yaml") + "," + path("two.yaml")});
  EXPECT_EQ(answer.code, ExitCode::done) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("one.yaml -> "));
  // One at a time instead of one beside the small job and then two: 2 h instead of 1 h 30 min.
  EXPECT_THAT(answer.out, testing::ContainsRegex("a +1 h 00 min +1 h 30 min -> 2 h 00 min"));
}

// The whole document of a small run: its form is stable.
TEST_F(SimulateWeek, PrintsTheDocumentOfARun) {
  const Answer answer = simulate({"--queues", path("two.yaml"), "-o", "json"});
  EXPECT_EQ(answer.code, ExitCode::done) << answer.err;
  std::string got = answer.out;
  const std::string folder = folder_.path("");
  for (std::size_t at = got.find(folder); at != std::string::npos; at = got.find(folder))
    got.erase(at, folder.size());
  const std::string golden = std::string(BERTH_SOURCE_DIR) + "/tests/week/small.json";
  if (std::getenv("BERTH_WRITE_GOLDEN") != nullptr) std::ofstream(golden) << got;
  std::ostringstream want;
  want << std::ifstream(golden).rdbuf();
  EXPECT_EQ(got, want.str()) << "run once with BERTH_WRITE_GOLDEN=1 and look at the difference";
}

TEST_F(SimulateWeek, ASeedGivesTheSameBytesAndAnotherSeedOthers) {
  write("load.yaml",
        "load: {horizon: 2d, streams: [{name: x, gpu_memory: 30GiB, arrivals: {poisson: {per_hour: "
        "8}}, run: {exponential: 2h}}]}\n");
  const Answer first = simulate({"-o", "json"});
  EXPECT_EQ(first.code, ExitCode::done) << first.err;
  EXPECT_EQ(first.out, simulate({"-o", "json", "--jobs", "2"}).out);
  EXPECT_EQ(first.out, simulate({"-o", "json", "--seed", "42"}).out);
  EXPECT_NE(first.out, simulate({"-o", "json", "--seed", "43"}).out);
}

TEST_F(SimulateWeek, RefusesBadWordsAndFilesWithExitTwo) {
  write("broken.yaml", "load:\n  horizon: 6h\n  streems: []\n");
  write(
      "strange.yaml",
      "load: {horizon: 6h, streams: [{name: x, queue: aa, whole: 1, arrivals: {times: [0s]}, run: "
      "{fixed: 1h}}]}\n");
  write("held.yaml", "queues: [{name: a, dimms: {}}]\n");
  const std::string fleet = "4x80GiB:H100";
  const std::vector<UsageError> cases = {
      {{"--load", path("load.yaml")}, "--fleet is missing: give SPEC"},
      {{"--load", path("no.yaml"), "--fleet", fleet}, "no.yaml: cannot be read"},
      {{"--load", path("broken.yaml"), "--fleet", fleet},
       "broken.yaml:3:3: streems: 'streems' is not a key of 'load'; did you mean 'streams'?"},
      {{"--load", path("load.yaml"), "--fleet", "4x"}, "--fleet '4x' is neither SPEC"},
      {{"--load", path("load.yaml"), "--fleet", fleet},
       "load.yaml:5:26: queue 'a': without --queues there is only 'default'"},
      {{"--load", path("strange.yaml"), "--fleet", fleet, "--queues", path("one.yaml")},
       "strange.yaml:1:48: queue 'aa'"},
      {{"--load", path("load.yaml"), "--fleet", fleet, "--queues", path("held.yaml")},
       "held.yaml:1:20: dimms: 'dimms' is not a key of 'queue'; did you mean 'dims'?"},
      {{"--load", path("load.yaml"), "--fleet", fleet, "--queues",
        path("one.yaml") + "," + path("one.yaml") + "," + path("one.yaml")},
       "3 files are given; one is played, and two are compared"},
      {{"--load", path("load.yaml"), "--fleet", fleet, "--queues", path("one.yaml"), "--seed",
        "-1"},
       "--seed is \"-1\""},
      {{"--load", path("load.yaml"), "--fleet", fleet, "--queues", path("one.yaml"), "--jobs", "0"},
       "--jobs is \"0\""},
      {{"--load", path("load.yaml"), "--fleet", fleet, "--queues", path("one.yaml"), "--policy",
        "pakc"},
       "pakc"},
      {{"--load", path("load.yaml"), "--fleet", fleet, "--queues", path("one.yaml") + ","},
       "a name is empty"},
      {{"--load", path("load.yaml"), "--fleet", fleet, "--queues", path("one.yaml"), "--report",
        path("one.yaml")},
       "--report and --queues name the same file"},
  };
  expect_usage_errors("simulate", cases);
  EXPECT_THAT(files(), testing::ElementsAre("broken.yaml", "held.yaml", "load.yaml", "one.yaml",
                                            "strange.yaml", "two.yaml"));
}

TEST_F(SimulateWeek, WritesAReportWholeOrNotAtAll) {
  const Answer answer =
      simulate({"--queues", path("one.yaml") + "," + path("two.yaml"), "--report", path("r.html")});
  EXPECT_EQ(answer.code, ExitCode::done);
  EXPECT_EQ(answer.err, "report: " + path("r.html") + "\n");
  const Answer failed =
      simulate({"--queues", path("one.yaml"), "--report", path("no/such/r.html")});
  EXPECT_EQ(failed.code, ExitCode::failed);
  EXPECT_THAT(failed.err, HasSubstr("r.html: cannot be written: No such file or directory"));
  EXPECT_EQ(failed.out, "");
  EXPECT_THAT(files(), testing::ElementsAre("load.yaml", "one.yaml", "r.html", "two.yaml"));
}

TEST_F(SimulateWeek, RecordsARunThatReplays) {
  EXPECT_EQ(simulate({"--queues", path("two.yaml"), "--record", path("run.log")}).code,
            ExitCode::done);
  const Answer answer = berth({"replay", path("run.log")});
  EXPECT_EQ(answer.code, ExitCode::done) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("events replayed, every answer the same"));
}

TEST_F(SimulateWeek, TellsTheLongestWaitsInTheWordsOfTheirVerdicts) {
  const Answer answer = simulate({"--queues", path("one.yaml"), "-o", "wide"});
  EXPECT_THAT(answer.out, HasSubstr("The longest waits of each day:\n"));
  EXPECT_THAT(answer.out, HasSubstr("a, Mon 01:00: big-"));
}

// docs/simulate-week.md, and the files that it names.
TEST(SimulateWeekDocs, TheExamplesRunAndTheLoadOfThePageIsRead) {
  const std::string week = std::string(BERTH_SOURCE_DIR) + "/docs/examples/week/";
  const Answer answer =
      berth({"simulate", "--fleet", week + "fleet.yaml", "--load", week + "load.yaml", "--queues",
             week + "queues.yaml," + week + "queues-guarantees.yaml"});
  EXPECT_EQ(answer.code, ExitCode::done) << answer.err;
  EXPECT_EQ(answer.err, "");
  EXPECT_THAT(answer.out, HasSubstr("20 nodes, 160 devices, 7 days from Mon on, seed 42"));

  std::ostringstream page;
  page << std::ifstream(std::string(BERTH_SOURCE_DIR) + "/docs/simulate-week.md").rdbuf();
  const std::string text = page.str();
  const std::size_t begin = text.find("```yaml\n") + 8;
  const auto load = scenario::parse_load(text.substr(begin, text.find("```", begin) - begin),
                                         "docs/simulate-week.md");
  EXPECT_TRUE(load.ok()) << (load.ok() ? "" : load.error().message());
}

}  // namespace
}  // namespace berth::cli
