// berth-fake-gpu itself: what it makes, and what it says to words that are wrong.
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "fake/checks/machine.h"
#include "fake/state/layout.h"
#include "scenario/fleet_spec.h"

namespace berth::fake::checks {
namespace {

TEST(FakeTool, UuidsAreThoseOfTheRestOfTheProject) {
  const Machine machine("n1=2x16GiB,n2=3x80GiB:H100", {"--node", "n2"});
  const auto fleet = scenario::fleet_from_spec("n1=2x16GiB,n2=3x80GiB:H100");
  ASSERT_TRUE(fleet.ok());
  const nlohmann::json dump = dump_of(machine);
  ASSERT_EQ(dump["devices"].size(), 3U);
  EXPECT_EQ(dump["node"], "n2");
  for (std::size_t device = 0; device < 3; ++device) {
    EXPECT_EQ(dump["devices"][device]["uuid"], (*fleet)[1].devices[device].uuid);
    EXPECT_EQ(dump["devices"][device]["total"], std::uint64_t{80} << 30U);
    EXPECT_EQ(dump["devices"][device]["name"], "NVIDIA H100 80GB HBM3");
  }
}

TEST(FakeTool, ReadsAFleetFromAFile) {
  const Machine machine("1x16GiB");
  const std::string path = machine.folder() + "/fleet.yaml";
  std::ofstream(path)
      << "fleet:\n  nodes:\n    - name: lab\n      devices:\n"
         "        - memory: 24GiB\n          model: NVIDIA L4\n          count: 2\n";
  const Ran ran = machine.tool({"init", path});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(dump_of(machine)["devices"][1]["name"], "NVIDIA L4");
  EXPECT_EQ(dump_of(machine)["devices"][1]["total"], std::uint64_t{24} << 30U);
}

struct Wrong {
  std::vector<std::string> words;
  const char* said;
};

TEST(FakeTool, SaysWhatIsWrongAndEndsWithTwo) {
  const Machine machine("2x16GiB");
  const std::vector<Wrong> wrong = {
      {{}, "a verb is expected"},
      {{"inti", "2x16GiB"}, "did you mean init?"},
      {{"init"}, "expected SPEC"},
      {{"init", "2x16GiB", "3"}, "got 2 words"},
      {{"init", "16GiB"}, "COUNTxSIZE"},
      {{"init", "2x16Gigs"}, "16Gigs"},
      {{"init", "0x16GiB"}, "1 to"},
      {{"init", "17x16GiB"}, "up to 16 GPUs"},
      {{"init", "2x16GiB", "--driver", "440"}, "known are 495, 535, 570, 580, 615, future"},
      {{"init", "2x16GiB", "--driver"}, "needs a value"},
      {{"init", "2x16GiB", "--drvier", "535"}, "did you mean --driver?"},
      {{"init", "2x16GiB", "--node", "n7"}, "not in the fleet, which has n0"},
      {{"init", "2x16GiB", "--context-bytes", "much"}, "is no size"},
      {{"init", "2x16GiB", "--reserve", "16GiB"}, "leaves nothing"},
      {{"dump", "-o", "xml"}, "known are table and json"},
      {{"dump", "more"}, "no operands"},
      {{"fail"}, "FUNCTION is missing"},
      {{"fail", "cuMemAlocc"}, "did you mean cuMemAlloc"},
      {{"fail", "cuInit", "--nth", "0"}, "from 1 to"},
      {{"fail", "cuInit", "--probability", "2"}, "above 0 and up to 1"},
      {{"fail", "cuInit", "--probability", "0.1", "--nth", "2"}, "goes without"},
      {{"fail", "cuInit", "--hang", "--kill"}, "one of"},
      {{"fail", "cuInit", "--hang=yes"}, "takes no value"},
      {{"xid", "0"}, "expected DEVICE CODE"},
      {{"xid", "2", "48"}, "no device is called '2'; there are"},
      {{"xid", "0", "-3"}, "unknown option"},
      {{"xid", "0", "0"}, "from 1 to 1000"},
      {{"lose", "GPU-"}, "no device is called"},
      {{"lose", "GPU-1"}, "begins more than one UUID"},
      {{"foreign", "0", "1GiB"}, "PID"},
      {{"foreign", "12", "lots"}, "BYTES"},
      {{"driver-reload", "--order", "0,0"}, "each of 0 to 1 once"},
      {{"driver-reload", "--order", "1"}, "each of 0 to 1 once"},
      {{"mig", "0", "cut"}, "enable, disable, create PROFILE or destroy"},
      {{"mig", "0", "destroy"}, "no MIG instance"},
      {{"set", "launch-time"}, "KEY=VALUE is expected"},
      {{"set", "launch-tim=1us"}, "did you mean launch-time?"},
      {{"set", "launch-time=fast"}, "is no duration"},
      {{"set", "count=yes"}, "neither on nor off"},
      {{"set", "limits=all"}, "none of dmem, misc, off"},
      {{"set", "compute-mode=shared"}, "none of default, exclusive, prohibited"},
  };
  for (const Wrong& one : wrong) {
    std::string words;
    for (const std::string& word : one.words)
      words += " " + word;
    SCOPED_TRACE(words);
    const Ran ran = machine.tool(one.words);
    EXPECT_EQ(ran.exit, 2) << ran.err;
    EXPECT_NE(ran.err.find(one.said), std::string::npos) << ran.err;
    EXPECT_EQ(ran.err.rfind("berth-fake-gpu: ", 0), 0U) << ran.err;
    EXPECT_EQ(ran.out, "");
  }
  EXPECT_EQ(dump_of(machine)["devices"].size(), 2U) << "nothing wrong has changed anything";
}

TEST(FakeTool, FailsWithOneWhereTheWorldIsWrong) {
  const Machine machine("1x16GiB");
  EXPECT_EQ(machine.tool({"dump", "--state", machine.folder() + "/none"}).exit, 1);
  const std::string garbage = machine.folder() + "/garbage";
  std::ofstream(garbage) << "no state file";
  const Ran refused = machine.tool({"dump", "--state", garbage});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_NE(refused.err.find("wrong size"), std::string::npos) << refused.err;
  std::filesystem::resize_file(garbage, sizeof(State));
  EXPECT_EQ(machine.tool({"dump", "--state", garbage}).exit, 1) << "the right size, but no magic";
  const Ran unwritable = machine.tool({"init", "1x16GiB", "--state", "/proc/none/gpus"});
  EXPECT_EQ(unwritable.exit, 1);
  EXPECT_NE(unwritable.err.find("/proc/none/gpus"), std::string::npos) << unwritable.err;
}

TEST(FakeTool, WithoutAStateFileItSaysHowToNameOne) {
  const Ran ran = run(
      {"env", "-u", "BERTH_FAKE_STATE", std::string(BERTH_BIN_DIR) + "/berth-fake-gpu", "dump"});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_NE(ran.err.find("set BERTH_FAKE_STATE or give --state FILE"), std::string::npos)
      << ran.err;
}

TEST(FakeTool, InitLeavesNoPartialFileAndReplacesAnOldOne) {
  const Machine machine("1x16GiB");
  EXPECT_EQ(machine.tool({"init", "3x16GiB"}).exit, 0);
  EXPECT_EQ(dump_of(machine)["devices"].size(), 3U);
  EXPECT_EQ(machine.tool({"init", "4xbroken"}).exit, 2);
  EXPECT_EQ(dump_of(machine)["devices"].size(), 3U);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(machine.folder())) {
    ++files;
    EXPECT_EQ(entry.path().filename(), "gpus");
  }
  EXPECT_EQ(files, 1);
}

TEST(FakeTool, HelpNamesEveryVerb) {
  const Machine machine("1x16GiB");
  const Ran ran = machine.tool({"--help"});
  EXPECT_EQ(ran.exit, 0);
  for (const char* verb : {"init SPEC", "dump", "fail FUNCTION", "xid DEVICE CODE", "lose DEVICE",
                           "foreign PID BYTES", "driver-reload", "mig DEVICE", "set KEY=VALUE"}) {
    EXPECT_NE(ran.out.find(verb), std::string::npos) << verb;
  }
}

}  // namespace
}  // namespace berth::fake::checks
