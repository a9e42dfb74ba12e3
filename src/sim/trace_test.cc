#include "sim/trace.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/openb_test.h"

namespace berth::sim {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kNodeHeader[] = "sn,cpu_milli,memory_mib,gpu,model\n";
constexpr char kPodHeader[] = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n";

std::string nodes_error(const std::string& text) {
  const auto nodes = parse_nodes(text, "n.csv");
  return nodes.ok() ? "no error" : nodes.error().message();
}

std::string pods_error(const std::string& text) {
  const auto pods = parse_pods(text, "p.csv");
  return pods.ok() ? "no error" : pods.error().message();
}

std::string pod_row_error(const std::string& row) { return pods_error(kPodHeader + row + "\n"); }

// Placement page, section 1.
TEST(Trace, ReadsThePublishedClusterExactly) {
  const std::vector<TraceNode>& nodes = openb_nodes();
  EXPECT_THAT(nodes, SizeIs(1213));
  EXPECT_EQ(capacity_milli(nodes), 6'212'000);
  std::int64_t cpu = 0;
  std::int64_t memory = 0;
  for (const TraceNode& node : nodes) {
    cpu += node.cpu_milli;
    memory += node.memory_mib;
  }
  EXPECT_EQ(cpu, 107'018'000);
  EXPECT_EQ(memory, 503'828'480);
}

TEST(Trace, ReadsTheListWithNodesThatHaveNoDevices) {
  EXPECT_THAT(read_nodes(openb_path("node_list_all_node")).value(), SizeIs(1523));
}

TEST(Trace, ReadsThePublishedPodListsExactly) {
  struct Expected {
    const char* list;
    std::size_t pods;
    std::int64_t milli;
    std::int64_t memory_mib;
  };

  for (const Expected& want : {Expected{"default", 8152, 6'086'800, 303'546'211},
                               Expected{"cpu250", 9420, 6'086'800, 365'787'661},
                               Expected{"gpushare100", 8152, 3'952'670, 203'938'682},
                               Expected{"gpuspec33", 8152, 6'086'800, 303'546'211},
                               Expected{"multigpu50", 9061, 11'358'800, 530'427'459}}) {
    const std::vector<TracePod>& pods = openb_pods(want.list);
    std::int64_t milli = 0;
    std::int64_t memory = 0;
    for (const TracePod& pod : pods) {
      milli += pod.total_milli();
      memory += pod.memory_mib;
    }
    EXPECT_THAT(pods, SizeIs(want.pods)) << want.list;
    EXPECT_EQ(milli, want.milli) << want.list;
    EXPECT_EQ(memory, want.memory_mib) << want.list;
  }
}

TEST(Trace, FindsColumnsByNameInAnyOrder) {
  const auto pods = parse_pods("num_gpu,gpu_milli,name,memory_mib,cpu_milli\n1,500,x,20,10\n", "p");
  ASSERT_TRUE(pods.ok()) << pods.error().message();
  EXPECT_EQ(pods->at(0).name, "x");
  EXPECT_EQ(pods->at(0).cpu_milli, 10);
  EXPECT_EQ(pods->at(0).memory_mib, 20);
  EXPECT_EQ(pods->at(0).gpu_milli, 500);
}

TEST(Trace, ReadsQuotesCarriageReturnsAndAByteOrderMark) {
  const auto nodes = parse_nodes(
      "\xEF\xBB\xBF\"sn\",cpu_milli,memory_mib,gpu,model\r\n\"a, b\",1,2,3,\"T4\"", "n");
  ASSERT_TRUE(nodes.ok()) << nodes.error().message();
  EXPECT_EQ(nodes->at(0).name, "a, b");
  EXPECT_EQ(nodes->at(0).model, "T4");
}

TEST(Trace, NamesAMissingColumn) {
  EXPECT_EQ(nodes_error("sn,cpu_milli,memory_mib,gpu\na,1,1,1\n"),
            "n.csv:1:1: column model is missing from the header line; a node list has the columns "
            "sn, cpu_milli, memory_mib, gpu, model");
}

TEST(Trace, NamesAnExtraAndADuplicateColumn) {
  EXPECT_EQ(nodes_error("sn,cpu_milli,memory_mib,gpu,model,rack\n"),
            "n.csv:1:35: column \"rack\" is not known here; remove it, or name it as one of sn, "
            "cpu_milli, memory_mib, gpu, model");
  EXPECT_EQ(nodes_error("sn,sn,cpu_milli,memory_mib,gpu,model\n"),
            "n.csv:1:4: column sn is there twice; remove one of them");
}

TEST(Trace, NamesARowWithTooFewOrTooManyFields) {
  EXPECT_EQ(
      nodes_error(std::string(kNodeHeader) + "a,1,1\n"),
      "n.csv:2:1: 3 fields where the header line names 5; add what is missing (an empty value "
      "still needs its comma)");
  EXPECT_THAT(nodes_error(std::string(kNodeHeader) + "a,1,1,1,T4,x\n"),
              HasSubstr("n.csv:2:1: 6 fields where the header line names 5; remove"));
  EXPECT_THAT(nodes_error(std::string(kNodeHeader) + "\na,1,1,1,T4\n"),
              HasSubstr("n.csv:2:1: a blank line where the header line names 5"));
}

TEST(Trace, SaysWhichRuleANumberBreaks) {
  const auto cpu_error = [](const std::string& value) {
    return pod_row_error("x," + value + ",1,1,500,");
  };
  const std::string rule =
      "; must be a whole number from 0 to 1000000000; write thousandths of a core";
  EXPECT_EQ(cpu_error("-5"), "p.csv:2:3: cpu_milli is \"-5\": is negative" + rule);
  EXPECT_EQ(cpu_error("abc"), "p.csv:2:3: cpu_milli is \"abc\": is not a number" + rule);
  EXPECT_EQ(cpu_error("NaN"), "p.csv:2:3: cpu_milli is \"NaN\": is not a number" + rule);
  EXPECT_EQ(cpu_error(""), "p.csv:2:3: cpu_milli is \"\": is empty" + rule);
  EXPECT_EQ(cpu_error("1.5"), "p.csv:2:3: cpu_milli is \"1.5\": is no whole number" + rule);
  EXPECT_EQ(cpu_error("1e3"), "p.csv:2:3: cpu_milli is \"1e3\": is no whole number" + rule);
  EXPECT_EQ(cpu_error("+1"), "p.csv:2:3: cpu_milli is \"+1\": has a plus sign" + rule);
  EXPECT_EQ(cpu_error(" 1"), "p.csv:2:3: cpu_milli is \" 1\": is not a number" + rule);
  EXPECT_EQ(cpu_error("-0"), "p.csv:2:3: cpu_milli is \"-0\": is negative" + rule);
  for (const char* large : {"1000000001", "9223372036854775807", "9223372036854775808",
                            "18446744073709551616", "99999999999999999999999999999"}) {
    EXPECT_EQ(cpu_error(large),
              std::string("p.csv:2:3: cpu_milli is \"") + large + "\": is too large" + rule);
  }
}

TEST(Trace, RefusesAMilliAboveOneDevice) {
  EXPECT_EQ(
      pod_row_error("x,1,1,1,1001,"),
      "p.csv:2:9: gpu_milli is \"1001\": is too large; must be a whole number from 0 to 1000; "
      "write thousandths of each device, 1000 for whole ones");
}

TEST(Trace, RefusesAFractionOfTwoDevices) {
  EXPECT_EQ(
      pod_row_error("x,1,1,2,500,"),
      "p.csv:2:9: gpu_milli is \"500\": a fraction is taken from one device, and num_gpu is 2; "
      "write 1000, or set num_gpu to 1");
}

TEST(Trace, RefusesDevicesWithoutAMilliAndAMilliWithoutDevices) {
  EXPECT_THAT(pod_row_error("x,1,1,1,0,"), HasSubstr("nothing of the device is asked for"));
  EXPECT_THAT(pod_row_error("x,1,1,0,500,"), HasSubstr("num_gpu is 0, so there is no device"));
}

TEST(Trace, RefusesAbsurdDeviceCounts) {
  EXPECT_EQ(
      nodes_error(std::string(kNodeHeader) + "a,1,1,65,T4\n"),
      "n.csv:2:7: gpu is \"65\": is too large; must be a whole number from 0 to 64; write how "
      "many devices the node has");
  EXPECT_THAT(pod_row_error("x,1,1,100000,1000,"),
              HasSubstr("num_gpu is \"100000\": is too large"));
}

TEST(Trace, RefusesDuplicateNamesAndSaysWhereTheFirstIs) {
  EXPECT_EQ(pod_row_error("x,1,1,0,0,\ny,1,1,0,0,\nx,1,1,0,0,"),
            "p.csv:4:1: name is \"x\": row 2 has the same name; names must be unique");
}

TEST(Trace, RefusesNodesAndSpecsWithoutAModel) {
  EXPECT_THAT(nodes_error(std::string(kNodeHeader) + "a,1,1,2,\n"),
              HasSubstr("n.csv:2:9: model is \"\": a node with 2 devices must name their model"));
  EXPECT_THAT(pod_row_error("x,1,1,1,500,T4||P100"),
              HasSubstr("a model name is missing beside a |"));
  EXPECT_THAT(pod_row_error("x,1,1,1,500,T4|"), HasSubstr("a model name is missing beside a |"));
  EXPECT_THAT(pod_row_error("x,1,1,1,500,|"), HasSubstr("a model name is missing beside a |"));
}

TEST(Trace, RefusesEmptyFilesAndFilesWithAHeaderOnly) {
  EXPECT_THAT(pods_error(""), HasSubstr("p.csv:1:1: the file is empty; a pod list needs a header"));
  EXPECT_EQ(pods_error(kPodHeader),
            "p.csv:2:1: the pod list has a header line and no rows; add at least one");
}

TEST(Trace, ChecksTheColumnsItDoesNotUse) {
  const std::string header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time\n";
  EXPECT_EQ(pods_error(header + "x,1,1,0,0,\n"), "no error");
  EXPECT_THAT(pods_error(header + "x,1,1,0,0,-3\n"),
              HasSubstr("creation_time is \"-3\": is negative"));
}

TEST(Trace, SaysWhyAFileCannotBeRead) {
  EXPECT_THAT(read_pods("/nonexistent/pods.csv").error().message(),
              HasSubstr("/nonexistent/pods.csv: cannot be read: No such file"));
  EXPECT_THAT(read_pods("/").error().message(), HasSubstr("it is a directory"));
}

TEST(Trace, IsNamedAfterItsFile) {
  EXPECT_EQ(trace_name("bench/data/openb/openb_pod_list_default.csv"), "default");
  EXPECT_EQ(trace_name("mine.csv"), "mine");
  EXPECT_EQ(trace_name("/x/openb_pod_list_"), "");
  EXPECT_EQ(trace_name("plain"), "plain");
}

TEST(Trace, MatchesModelsExactly) {
  const TracePod pod{.gpu_spec = "V100M16|T4"};
  EXPECT_TRUE(pod.allows("T4"));
  EXPECT_TRUE(pod.allows("V100M16"));
  EXPECT_FALSE(pod.allows("V100"));
  EXPECT_FALSE(pod.allows(""));
  EXPECT_TRUE(TracePod{}.allows("anything"));
}

TEST(Trace, FindsWorkThatNoEmptyNodeCouldServeAndSaysWhy) {
  const std::vector<TraceNode> nodes = {
      {.name = "a", .cpu_milli = 8000, .memory_mib = 100, .devices = 2, .model = "T4"},
      {.name = "b", .cpu_milli = 99'000, .memory_mib = 900}};
  const std::vector<TracePod> pods = {
      {.name = "ok", .cpu_milli = 8000, .memory_mib = 100, .num_gpu = 2, .gpu_milli = 1000},
      {.name = "cpu", .cpu_milli = 99'000, .memory_mib = 900},
      {.name = "model", .num_gpu = 1, .gpu_milli = 10, .gpu_spec = "A100"},
      {.name = "model2", .num_gpu = 1, .gpu_milli = 10, .gpu_spec = "A100"},
      {.name = "many", .num_gpu = 3, .gpu_milli = 1000},
      {.name = "fat", .cpu_milli = 9000, .num_gpu = 1, .gpu_milli = 500}};
  const std::vector<Unplaceable> found = find_unplaceable(nodes, pods);
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_EQ(found[0].why, "no node has a device of model A100");
  EXPECT_EQ(found[0].pods, 2);
  EXPECT_EQ(found[1].why, "no node has 3 devices");
  EXPECT_EQ(found[2].why, "no node with such devices has 9000 millicores and 0 MiB");
  EXPECT_THAT(find_unplaceable(openb_nodes(), openb_pods("default")), IsEmpty());
}

}  // namespace
}  // namespace berth::sim
