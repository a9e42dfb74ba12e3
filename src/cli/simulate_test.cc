#include <algorithm>
#include <cstdlib>
#include <filesystem>
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

// A tiny fleet and some work.
class Simulate : public BerthInAFolder {
 protected:
  void SetUp() override {
    write("nodes.csv",
          "sn,cpu_milli,memory_mib,gpu,model\na,32000,65536,4,T4\nb,32000,65536,4,P100\n");
    write("pods.csv",
          "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
          "p1,1000,1024,1,500,\np2,1000,1024,1,300,T4\np3,4000,8192,2,1000,\np4,2000,100,0,0,\n");
  }

  Answer simulate(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"simulate", "--nodes", path("nodes.csv"), "--pods",
                                      path("pods.csv")};
    words.insert(words.end(), more.begin(), more.end());
    return berth(words);
  }
};

TEST_F(Simulate, PrintsATableAndNothingElse) {
  const Answer answer = simulate({"--policy", "pack,fgd", "--seeds", "1-3"});
  EXPECT_EQ(answer.code, ExitCode::done);
  EXPECT_THAT(answer.out, HasSubstr("trace pods: 4 pods on 2 nodes with 8 GPUs, 3 seeds"));
  EXPECT_THAT(answer.out, HasSubstr("\npack "));
  EXPECT_THAT(answer.out, HasSubstr("\nfgd "));
  EXPECT_EQ(answer.err, "");
}

TEST_F(Simulate, PrintsJsonAndYaml) {
  EXPECT_THAT(simulate({"-o", "json", "--bound"}).out, HasSubstr("\"bound\": {\"no_reject\": "));
  EXPECT_THAT(simulate({"-o", "yaml"}).out,
              HasSubstr("version: \"v1\"\nruns:\n  - trace: \"pods\""));
}

TEST_F(Simulate, SaysWhatToGiveWhereAPathIsMissing) {
  const Answer nothing = berth({"simulate"});
  EXPECT_EQ(nothing.code, ExitCode::usage);
  EXPECT_THAT(nothing.err, HasSubstr("what is to be played is missing: --nodes FILE --pods FILE"));
  EXPECT_THAT(nothing.err, HasSubstr("--fleet FLEET --load FILE"));
  const Answer answer = berth({"simulate", "--pods", path("pods.csv")});
  EXPECT_EQ(answer.code, ExitCode::usage);
  EXPECT_THAT(answer.err, HasSubstr("--nodes is missing: name the node list (CSV), for instance "
                                    "bench/data/openb/openb_node_list_gpu_node.csv"));
}

TEST_F(Simulate, RefusesBadWordsWithExitTwo) {
  EXPECT_THAT(simulate({"--policy", "pakc"}).err, HasSubstr("did you mean 'pack'?"));
  EXPECT_THAT(simulate({"--seeds", "50-42"}).err, HasSubstr("50-42 runs backwards; write 42-50"));
  EXPECT_THAT(simulate({"--jobs", "0"}).err, HasSubstr("--jobs is \"0\": must be a whole number"));
  EXPECT_THAT(simulate({"--arrival", "0"}).err, HasSubstr("--arrival is \"0\""));
  EXPECT_THAT(simulate({"--record", path("log"), "--seeds", "1-2"}).err,
              HasSubstr("give one policy and one seed"));
  EXPECT_THAT(simulate({"--generate", "nodes=x"}).err, HasSubstr("--generate nodes is \"x\""));
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--policy", "pakc"},
                                             {"--seeds", "50-42"},
                                             {"--jobs", "0"},
                                             {"--policy", "nodes=x,devices=y"},
                                             {"--policy", "pack,pack"},
                                             {"--generate", "fill=9"},
                                             {"--generate", "nodes=2", "--bound"}}) {
    const Answer answer = simulate(words);
    EXPECT_EQ(answer.code, ExitCode::usage) << words[1];
    EXPECT_EQ(answer.out, "") << words[1];
  }
}

TEST_F(Simulate, RefusesOptionsThatItWouldIgnore) {
  const std::vector<UsageError> cases = {
      {{"--load", "l.yaml", "--fleet", "1x1GiB", "--nodes", "n.csv"},
       "--nodes belongs to --generate or a trace (--nodes, --pods); leave it out with --load"},
      {{"--fleet", "1x1GiB"}, "--fleet belongs to --load: give --load FILE with it, or leave"},
      {{"--generate", "nodes=2", "--bound"},
       "--bound belongs to a trace (--nodes, --pods); leave it out with --generate"},
      {{"--generate", "nodes=2", "--arrival", "10"}, "--arrival belongs to a trace"},
      {{"--scenario", "s.yaml", "--policy", "pack"}, "leave it out with --scenario"},
      {{"--scenario", "s.yaml", "--seed", "1"}, "--seed belongs to --load"},
      {{"--scenario", "s.yaml", "--load", "l.yaml"},
       "--scenario and --load are simulations of their own: give one of them"},
  };
  expect_usage_errors("simulate", cases);
}

TEST_F(Simulate, NeverWritesOverAnInput) {
  for (const std::string option : {"--report", "--record"}) {
    EXPECT_THAT(simulate({option, path("pods.csv")}).err,
                HasSubstr(option + " and --pods name the same file"));
  }
  EXPECT_THAT(simulate({"--generate", "nodes=2", "--record", path("nodes.csv")}).err,
              HasSubstr("--record and --nodes name the same file"));
  EXPECT_THAT(simulate({"--report", path("x"), "--record", path("x")}).err,
              HasSubstr("--record and --report name the same file"));
  EXPECT_THAT(files(), testing::ElementsAre("nodes.csv", "pods.csv"));
}

TEST_F(Simulate, RefusesBadFilesWithFileLineAndColumn) {
  write("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\na,32000,65536,-4,T4\n");
  const Answer answer = simulate();
  EXPECT_EQ(answer.code, ExitCode::usage);
  EXPECT_EQ(answer.err,
            "berth simulate: " + path("nodes.csv") +
                ":2:15: gpu is \"-4\": is negative; must be a whole number from 0 to 64; "
                "write how many devices the node has\n");
  EXPECT_EQ(berth({"simulate", "--nodes", "/nowhere", "--pods", "/nowhere"}).code, ExitCode::usage);
}

TEST_F(Simulate, CountsWorkThatCanNeverFitAsRefusedAndWarns) {
  write("pods.csv",
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np1,1,1,1,500,\np2,1,1,1,500,A100\n");
  const Answer answer = simulate({"-o", "json"});
  EXPECT_EQ(answer.code, ExitCode::done);
  EXPECT_EQ(
      answer.err,
      "berth simulate: warning: pod p2 fits no node of this fleet, even an empty one: no node "
      "has a device of model A100; it counts as refused work\n");
  EXPECT_THAT(answer.out, HasSubstr("\"reason\": \"never_fits\""));
}

TEST_F(Simulate, WritesAReportWholeOrNotAtAll) {
  const Answer answer = simulate({"--report", path("report.html")});
  EXPECT_EQ(answer.code, ExitCode::done);
  EXPECT_EQ(answer.err, "report: " + path("report.html") + "\n");
  std::ifstream file(path("report.html"));
  std::string first;
  std::getline(file, first);
  EXPECT_EQ(first, "<!DOCTYPE html>");
  EXPECT_THAT(files(), testing::ElementsAre("nodes.csv", "pods.csv", "report.html"));
}

TEST_F(Simulate, FailsBeforeTheRunWhereTheReportCannotBeWritten) {
  const Answer answer = simulate({"--report", path("no/such/report.html")});
  EXPECT_EQ(answer.code, ExitCode::failed);
  EXPECT_THAT(answer.err, HasSubstr("report.html: cannot be written: No such file or directory"));
  EXPECT_EQ(answer.out, "");
  EXPECT_EQ(simulate({"--report", folder_.name()}).code, ExitCode::failed);
  EXPECT_THAT(files(), testing::ElementsAre("nodes.csv", "pods.csv"));
}

TEST_F(Simulate, LeavesNoReportBehindWhenBadInputEndsIt) {
  EXPECT_EQ(simulate({"--report", path("r.html"), "--policy", "pakc"}).code, ExitCode::usage);
  EXPECT_THAT(files(), testing::ElementsAre("nodes.csv", "pods.csv"));
}

TEST_F(Simulate, RecordsARunThatReplays) {
  EXPECT_EQ(simulate({"--record", path("run.log")}).code, ExitCode::done);
  const Answer answer = berth({"replay", path("run.log")});
  EXPECT_EQ(answer.code, ExitCode::done) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("events replayed, every answer the same"));
  EXPECT_EQ(answer.err, "");
}

TEST_F(Simulate, ReplaySaysThatALogWasCutOffBetweenTwoRecords) {
  EXPECT_EQ(simulate({"--record", path("run.log")}).code, ExitCode::done);
  constexpr std::uintmax_t kEndMark = 8;
  std::filesystem::resize_file(path("run.log"),
                               std::filesystem::file_size(path("run.log")) - kEndMark);
  const Answer cut = berth({"replay", path("run.log")});
  EXPECT_EQ(cut.code, ExitCode::done);
  EXPECT_THAT(cut.err, HasSubstr("the log has no end mark"));
  std::filesystem::resize_file(path("run.log"), std::filesystem::file_size(path("run.log")) - 1);
  const Answer torn = berth({"replay", path("run.log")});
  EXPECT_EQ(torn.code, ExitCode::usage);
  EXPECT_THAT(torn.err, HasSubstr("is cut off"));
}

TEST_F(Simulate, ReplayRefusesWhatIsNoDecisionLog) {
  const Answer answer = berth({"replay", path("nodes.csv")});
  EXPECT_EQ(answer.code, ExitCode::usage);
  EXPECT_THAT(answer.err, HasSubstr(path("nodes.csv")));
}

TEST_F(Simulate, PlaysGeneratedLoad) {
  const Answer answer =
      simulate({"--generate", "nodes=6,decisions=300,fill=60-80", "-o", "json", "--check"});
  EXPECT_EQ(answer.code, ExitCode::done) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("\"fleet\": {\"nodes\": 6, \"gpus\": 24}"));
  EXPECT_THAT(answer.out, HasSubstr("\"decisions\": {\"count\": 300"));
}

TEST(Policies, AreListedWithWhatTheyDo) {
  const Answer answer = berth({"policies"});
  EXPECT_EQ(answer.code, ExitCode::done);
  for (const char* name : {"\npack ", "\nfgd ", "\nbest-fit ", "\nrandom "}) {
    EXPECT_THAT(answer.out, HasSubstr(name));
  }
  EXPECT_THAT(berth({"policies", "-o", "json"}).out, HasSubstr("\"name\": \"pack\""));
}

}  // namespace
}  // namespace berth::cli
