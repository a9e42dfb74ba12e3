#include <algorithm>
#include <cstdlib>
#include <filesystem>
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

struct Answer {
  ExitCode code;
  std::string out;
  std::string err;
};

Answer berth(const std::vector<std::string>& words) {
  std::ostringstream out;
  std::ostringstream err;
  Console console{.out = out, .err = err};
  const ExitCode code = run_program(all_commands(), words, console);
  return {code, out.str(), err.str()};
}

// A folder with a tiny fleet and some work, gone at the end.
class Simulate : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/berth_simulate_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    write("nodes.csv",
          "sn,cpu_milli,memory_mib,gpu,model\na,32000,65536,4,T4\nb,32000,65536,4,P100\n");
    write("pods.csv",
          "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
          "p1,1000,1024,1,500,\np2,1000,1024,1,300,T4\np3,4000,8192,2,1000,\np4,2000,100,0,0,\n");
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  Answer simulate(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"simulate", "--nodes", path("nodes.csv"), "--pods",
                                      path("pods.csv")};
    words.insert(words.end(), more.begin(), more.end());
    return berth(words);
  }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }

  std::string folder_;
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
  const Answer answer = berth({"simulate"});
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
  EXPECT_EQ(simulate({"--report", folder_}).code, ExitCode::failed);
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
