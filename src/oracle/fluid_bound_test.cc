#include "oracle/fluid_bound.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "oracle/tiny_packer.h"

namespace berth::oracle {
namespace {

BoundNodeType node_with(int gpus) {
  return {.model = "T4", .gpus = gpus, .cpu_milli = 100'000, .memory_mib = 1'000'000, .count = 1};
}

BoundClass fraction(int milli, std::int64_t count) {
  return {.cpu_milli = 100,
          .memory_mib = 100,
          .gpu_milli = milli,
          .num_gpu = 1,
          .models = {},
          .count = count};
}

BoundClass whole(int gpus, std::int64_t count) {
  return {.cpu_milli = 100,
          .memory_mib = 100,
          .gpu_milli = 1000,
          .num_gpu = gpus,
          .models = {},
          .count = count};
}

double no_reject(const BoundInput& input) {
  const Result<FluidBound> bound = no_reject_bound(input);
  EXPECT_TRUE(bound.ok()) << bound.error().to_string();
  return bound->percent;
}

double choose_any(const BoundInput& input) {
  const Result<FluidBound> bound = choose_any_bound(input);
  EXPECT_TRUE(bound.ok()) << bound.error().to_string();
  return bound->percent;
}

// The benchmark's files have neither quotes nor blanks; the simulator's reader is for files of
// users.
std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);)
    parts.push_back(part);
  return parts;
}

std::vector<std::vector<std::string>> rows_of(const std::string& file) {
  std::ifstream stream(std::string(BERTH_SOURCE_DIR) + "/bench/data/openb/" + file);
  EXPECT_TRUE(stream.is_open()) << file;
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(stream, line);
  while (std::getline(stream, line))
    rows.push_back(split(line, ','));
  return rows;
}

BoundInput openb(const std::string& trace) {
  BoundInput input;
  for (const auto& row : rows_of("openb_node_list_gpu_node.csv")) {
    input.nodes.push_back({.model = row[4],
                           .gpus = std::stoi(row[3]),
                           .cpu_milli = std::stoll(row[1]),
                           .memory_mib = std::stoll(row[2])});
  }
  for (const auto& row : rows_of("openb_pod_list_" + trace + ".csv")) {
    input.classes.push_back(
        {.cpu_milli = std::stoll(row[1]),
         .memory_mib = std::stoll(row[2]),
         .gpu_milli = std::stoi(row[4]),
         .num_gpu = std::stoi(row[3]),
         .models = row.size() > 5 ? split(row[5], '|') : std::vector<std::string>()});
  }
  return input;
}

struct Published {
  std::string trace;
  double no_reject;
  double choose_any;
};

void PrintTo(const Published& published, std::ostream* out) { *out << published.trace; }

class OpenbBound : public testing::TestWithParam<Published> {};

TEST_P(OpenbBound, IsThePublishedOne) {
  const BoundInput input = openb(GetParam().trace);
  EXPECT_NEAR(no_reject(input), GetParam().no_reject, 0.005);
  EXPECT_NEAR(choose_any(input), GetParam().choose_any, 0.005);
}

INSTANTIATE_TEST_SUITE_P(Traces, OpenbBound,
                         testing::Values(Published{"default", 96.32, 99.89},
                                         Published{"cpu250", 96.32, 99.89},
                                         Published{"gpushare100", 88.20, 91.61},
                                         Published{"gpuspec33", 76.73, 99.79},
                                         Published{"multigpu50", 97.99, 100.00}),
                         [](const auto& trace) { return trace.param.trace; });

TEST(FluidBound, OfOpenbIsTheCuttingStockBoundWhereOnlyDevicesBind) {
  // Whole devices and, from the cutting-stock program, the devices that all fractions need.
  EXPECT_NEAR(no_reject(openb("default")), 100 * 6086.8 / (4355 + 1964.0 + 7.0 / 12), 1e-4);
  EXPECT_NEAR(no_reject(openb("gpushare100")), 100 * 3952.67 / (4481 + 7.0 / 12), 1e-4);
  EXPECT_NEAR(no_reject(openb("multigpu50")), 100 * 11358.8 / (9627 + 1964.0 + 7.0 / 12), 1e-4);
}

TEST(FluidBound, NamesThePodOfOpenbThatFitsNoNode) {
  const BoundInput input =
      openb("gpuspec33");  // one pod wants 120 cores of a model whose nodes have 96
  const Result<FluidBound> bound = no_reject_bound(input);
  ASSERT_EQ(bound->unplaceable.size(), 1u);
  EXPECT_EQ(input.classes[bound->unplaceable[0]].cpu_milli, 120'000);
  EXPECT_EQ(input.classes[bound->unplaceable[0]].models, std::vector<std::string>{"G2"});
}

TEST(FluidBound, IsFullWhenPiecesFillDevicesExactly) {
  EXPECT_NEAR(no_reject({{node_with(4)}, {fraction(500, 3), whole(2, 1)}}), 100, 1e-6);
}

TEST(FluidBound, LosesWhatNoPieceCanUse) {
  EXPECT_NEAR(no_reject({{node_with(8)}, {fraction(600, 10)}}), 60, 1e-6);
  EXPECT_NEAR(choose_any({{node_with(8)}, {fraction(600, 10)}}), 60, 1e-6);
}

TEST(FluidBound, CountsPiecesThatAreNoMultipleOfTenMilliExactly) {
  EXPECT_NEAR(no_reject({{node_with(2)}, {fraction(333, 2), fraction(334, 1)}}), 100, 1e-6);
  EXPECT_NEAR(no_reject({{node_with(2)}, {fraction(334, 9)}}), 66.8, 1e-6);
}

TEST(FluidBound, RefusingTheUnfitFillsMore) {
  // The mix asks for as much in pieces of 600 as in pieces of 500; only the latter fill a device.
  // Serving all of it at scale a takes a (n/2 + n/2 / 0.6) of n devices; choosing, 65 % are filled
  // with halves and the rest to 60 %.
  const BoundInput input{{node_with(6)}, {fraction(600, 5), fraction(500, 6)}};
  EXPECT_NEAR(no_reject(input), 100 / (0.5 + 0.5 / 0.6), 1e-6);
  EXPECT_NEAR(choose_any(input), 100 * (0.65 + 0.35 * 0.6), 1e-6);
}

TEST(FluidBound, StopsWhereCpuEnds) {
  BoundInput input{{node_with(10)}, {whole(1, 10)}};
  input.classes[0].cpu_milli = 20'000;  // 5 of them use up the node's 100 cores
  EXPECT_NEAR(no_reject(input), 50, 1e-6);
  EXPECT_NEAR(choose_any(input), 50, 1e-6);
}

TEST(FluidBound, CountsTheCpuOfPodsWithoutDevice) {
  BoundInput input{{node_with(10)}, {whole(1, 10)}};
  input.classes[0].cpu_milli = 0;
  input.classes.push_back({.cpu_milli = 2'000, .count = 100});  // 200 cores asked, 100 there
  EXPECT_NEAR(no_reject(input), 50, 1e-6);
  EXPECT_NEAR(choose_any(input), 100, 1e-6);
}

TEST(FluidBound, StopsWhereMemoryEnds) {
  BoundInput input{{node_with(10)}, {fraction(500, 20)}};
  input.classes[0].memory_mib = 200'000;  // 5 halves use up the node's memory
  EXPECT_NEAR(no_reject(input), 25, 1e-6);
}

TEST(FluidBound, StopsWhereTheAllowedModelEnds) {
  BoundInput input{{node_with(2), node_with(6)}, {whole(1, 4), whole(1, 4)}};
  input.nodes[1].model = "A10";
  input.classes[0].models = {"T4"};
  EXPECT_NEAR(no_reject(input), 50, 1e-6);
  EXPECT_NEAR(choose_any(input), 90, 1e-6);  // 2 on the T4, 1.3 x 4 on the A10
}

TEST(FluidBound, DoesNotSpreadAPodOverNodes) {
  const Result<FluidBound> bound =
      no_reject_bound({{node_with(2), node_with(2)}, {whole(1, 2), whole(4, 1)}});
  EXPECT_NEAR(bound->percent, 0, 1e-6);
  EXPECT_EQ(bound->unplaceable, std::vector<std::size_t>{1});
  EXPECT_NEAR(choose_any({{node_with(2), node_with(2)}, {whole(1, 2), whole(4, 1)}}),
              100 * 1.3 * 2 / 6, 1e-6);
}

TEST(FluidBound, DoesNotDependOnOrderOrGroupingOfTheInput) {
  BoundInput input = openb("gpuspec33");
  const double expected = no_reject(input);
  std::mt19937 random(7);
  std::ranges::shuffle(input.nodes, random);
  std::ranges::shuffle(input.classes, random);
  for (BoundClass& pod : input.classes)
    std::ranges::reverse(pod.models);
  EXPECT_EQ(no_reject(input), expected);
}

TEST(FluidBound, ReportsProgressThatEndsAtTheBound) {
  std::vector<BoundProgress> seen;
  const Result<FluidBound> bound = no_reject_bound(
      openb("default"), [&](const BoundProgress& progress) { seen.push_back(progress); });
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back().percent, bound->percent);
  EXPECT_EQ(seen.back().round, bound->stats.rounds);
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(bound->stats.rounds));
  EXPECT_TRUE(std::ranges::is_sorted(
      seen, [](const auto& a, const auto& b) { return a.percent + 1e-9 < b.percent; }));
  EXPECT_EQ(bound->stats.node_types, 15);
  EXPECT_EQ(bound->stats.classes, 151);
}

TEST(FluidBound, SaysWhichValueIsOutOfRange) {
  const auto message = [](const BoundInput& input) {
    const Result<FluidBound> bound = no_reject_bound(input);
    return bound.ok() ? "" : bound.error().message();
  };
  const BoundNodeType node = node_with(1);
  EXPECT_EQ(message({{}, {whole(1, 1)}}), "fluid bound: the nodes have no GPU");
  EXPECT_EQ(message({{node}, {}}), "fluid bound: no pod asks for a GPU");
  EXPECT_EQ(message({{node}, {whole(1, 1), fraction(1001, 1)}}),
            "fluid bound: class 1: num_gpu is 1 and gpu_milli 1001, on one device gpu_milli must "
            "be 1 to 1000");
  EXPECT_EQ(message({{node}, {{.gpu_milli = 500, .num_gpu = 2}}}),
            "fluid bound: class 0: num_gpu is 2 and gpu_milli 500, on several devices gpu_milli "
            "must be 1000");
  EXPECT_EQ(
      message({{node}, {{.gpu_milli = 500, .num_gpu = 0}}}),
      "fluid bound: class 0: num_gpu is 0 and gpu_milli 500, without a device gpu_milli must be 0");
  EXPECT_EQ(message({{node}, {whole(1, -1)}}),
            "fluid bound: class 0: count is -1, must be 0 to 10^12");
  EXPECT_EQ(message({{{.gpus = 1, .cpu_milli = -5}}, {whole(1, 1)}}),
            "fluid bound: node type 0: cpu_milli is -5, must be 0 to 10^12");
}

// A mix of which all pods were really placed at once shows a share that every true bound must
// reach.
TEST(FluidBound, IsNeverBelowWhatAnExhaustivePackerPlaces) {
  std::mt19937 random(20'240'501);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int packed = 0;
  for (int round = 0; round < 1500; ++round) {
    BoundInput input;
    TinyWorld world;
    for (int n = 0; n <= below(3); ++n) {
      input.nodes.push_back({.model = "T4",
                             .gpus = 1 + below(3),
                             .cpu_milli = 1000 * (1 + below(8)),
                             .memory_mib = 10});
      TinyNode node{
          .cpu = Milli(input.nodes.back().cpu_milli), .ram = Memory::mib(10), .devices = {}};
      node.devices.assign(static_cast<std::size_t>(input.nodes.back().gpus),
                          TinyDevice{.usable = Memory::bytes(1000), .free = Memory::bytes(1000)});
      world.nodes.push_back(node);
    }
    std::vector<TinyItem> items;
    int gpu_milli = 0;
    for (int i = 0; i <= below(8); ++i) {
      const int gpus = below(4) == 0 ? 1 + below(2) : below(5) == 0 ? 0 : 1;
      const bool is_whole = gpus > 1 || below(3) == 0;
      const int milli = gpus == 0 ? 0 : is_whole ? 1000 : 1 + below(999);
      const int cpu = 500 * below(5);
      input.classes.push_back(
          {.cpu_milli = cpu, .memory_mib = below(4), .gpu_milli = milli, .num_gpu = gpus});
      items.push_back({.devices = gpus,
                       .memory = Memory::bytes(milli),
                       .whole = milli == 1000,
                       .cpu = Milli(cpu),
                       .ram = Memory::mib(input.classes.back().memory_mib)});
      gpu_milli += milli * gpus;
    }
    const Result<PackAnswer> answer = can_pack_all(world, items);
    if (gpu_milli == 0 || answer->outcome != PackOutcome::proved_possible) continue;
    ++packed;
    const Result<FluidBound> bound = no_reject_bound(input);
    EXPECT_GE(bound->served_gpus, gpu_milli / 1000.0 - 1e-6) << "round " << round;
    EXPECT_GE(choose_any_bound(input)->percent, bound->percent - 1e-6) << "round " << round;
  }
  EXPECT_GT(packed, 300);
}

}  // namespace
}  // namespace berth::oracle
