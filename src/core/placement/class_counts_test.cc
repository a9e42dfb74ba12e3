#include "core/placement/class_counts.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "core/placement/openb_test.h"

namespace berth::core {
namespace {

TEST(ClassCounts, MergesEqualPodsAndOrdersTheClasses) {
  ClassCounts counts;
  counts.add({.cpu_milli = 6000, .memory_mib = 100, .gpu_milli = 460, .num_gpu = 1});
  counts.add({.cpu_milli = 2000, .memory_mib = 100});
  counts.add({.cpu_milli = 6000, .memory_mib = 100, .gpu_milli = 460, .num_gpu = 1}, 4);
  counts.add({.cpu_milli = 6000, .memory_mib = 50, .gpu_milli = 460, .num_gpu = 1});

  const std::vector<WorkClass> classes = counts.classes();
  ASSERT_EQ(classes.size(), 3u);
  EXPECT_EQ(classes[0].cpu_milli, 2000);
  EXPECT_EQ(classes[1].memory_mib, 50);
  EXPECT_EQ(classes[2].count, 5);
  EXPECT_EQ(counts.pods(), 7);
  EXPECT_EQ(counts.gpu_milli(), 6 * 460);
}

TEST(ClassCounts, DoNotDependOnTheOrderOfArrival) {
  std::vector<WorkClass> pods = openb_pods("gpuspec33");
  ClassCounts in_file_order;
  for (const WorkClass& pod : pods)
    in_file_order.add(pod);
  std::shuffle(pods.begin(), pods.end(), std::mt19937_64(1));
  ClassCounts shuffled;
  for (const WorkClass& pod : pods)
    shuffled.add(pod);
  EXPECT_EQ(in_file_order.classes(), shuffled.classes());
  EXPECT_EQ(typical_classes(in_file_order), typical_classes(shuffled));
}

TEST(ClassCounts, SumUpTheTracesOfTheContractPage) {
  struct Expected {
    const char* list;
    std::int64_t pods;
    std::int64_t gpu_milli;
  };

  for (const Expected& expected :
       {Expected{"default", 8152, 6'086'800}, Expected{"cpu250", 9420, 6'086'800},
        Expected{"gpushare100", 8152, 3'952'670}, Expected{"gpuspec33", 8152, 6'086'800},
        Expected{"multigpu50", 9061, 11'358'800}}) {
    const ClassCounts counts = openb_counts(expected.list);
    EXPECT_EQ(counts.pods(), expected.pods) << expected.list;
    EXPECT_EQ(counts.gpu_milli(), expected.gpu_milli) << expected.list;
  }
}

TEST(ClassCounts, KnowTheFractionSizesOfTheDefaultTrace) {
  const std::vector<FractionSize> expected = {
      {50, 7},    {110, 24},  {140, 1},  {160, 74}, {220, 62},  {230, 140}, {270, 4},
      {290, 1},   {320, 328}, {330, 7},  {350, 6},  {370, 47},  {440, 2},   {460, 128},
      {470, 750}, {480, 19},  {550, 72}, {590, 75}, {650, 253}, {810, 1078}};
  EXPECT_EQ(openb_counts("default").fraction_sizes(), expected);
}

TEST(ClassCounts, RoundFractionsUpToTensForTheValueTableOnly) {
  ClassCounts counts;
  counts.add({.gpu_milli = 451, .num_gpu = 1});
  counts.add({.gpu_milli = 460, .num_gpu = 1});
  counts.add({.gpu_milli = 1, .num_gpu = 2});
  counts.add({.gpu_milli = 991, .num_gpu = 1});
  counts.add({.gpu_milli = 1000, .num_gpu = 1});
  EXPECT_EQ(counts.fraction_sizes(), (std::vector<FractionSize>{{10, 2}, {460, 2}}));
  EXPECT_EQ(counts.classes().size(), 5u);
  EXPECT_EQ(counts.gpu_milli(), 451 + 460 + 2 + 991 + 1000);
}

TEST(ClassCounts, HaveAtMostNinetyNineFractionSizes) {
  ClassCounts counts;
  for (int milli = 1; milli <= 1000; ++milli)
    counts.add({.gpu_milli = milli, .num_gpu = 1});
  EXPECT_EQ(counts.fraction_sizes().size(), 99u);
}

TEST(ClassCounts, CutWhatNoMachineHas) {
  ClassCounts counts;
  counts.add(
      {.cpu_milli = INT64_MAX, .memory_mib = INT64_MAX, .gpu_milli = 1000, .num_gpu = 1 << 30},
      INT64_MAX);
  counts.add({.cpu_milli = -7, .memory_mib = -7, .gpu_milli = -7, .num_gpu = -7}, 3);
  counts.add({.cpu_milli = 1}, 0);
  counts.add({.cpu_milli = 1}, -5);
  const std::vector<WorkClass> classes = counts.classes();
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].cpu_milli, 0);
  EXPECT_TRUE(classes[0].is_cpu_only());
  EXPECT_EQ(classes[0].count, 3);
  EXPECT_EQ(classes[1].num_gpu, ClassCounts::kMaxDevices);
  EXPECT_LE(counts.gpu_milli(), ClassCounts::kMaxGpuMilli);
}

TEST(ClassCounts, AskForDevicesExactlyIfTheyAskForAShareOfThem) {
  ClassCounts counts;
  counts.add({.cpu_milli = 1, .gpu_milli = 500, .num_gpu = 0});
  counts.add({.cpu_milli = 1, .gpu_milli = 0, .num_gpu = 4});
  ASSERT_EQ(counts.classes().size(), 1u);
  EXPECT_EQ(counts.classes()[0].count, 2);
  EXPECT_TRUE(counts.classes()[0].is_cpu_only());
}

TEST(ClassCounts, KeepTheModelsOfTheTraceFilesAsTheyAreWritten) {
  // add() sorts the models, and typical_classes() compares them joined: so the files must be
  // sorted.
  for (const WorkClass& pod : openb_pods("gpuspec33")) {
    EXPECT_TRUE(std::is_sorted(pod.models.begin(), pod.models.end())) << joined_models(pod);
  }
  const WorkClass repeats{.models = {"V100M16", "V100M32", "V100M32"}};
  EXPECT_EQ(joined_models(repeats), "V100M16|V100M32|V100M32");
}

TEST(TypicalClasses, AreAsManyAsOnTheContractPage) {
  EXPECT_EQ(typical_classes(openb_counts("default")).size(), 35u);
  EXPECT_EQ(typical_classes(openb_counts("cpu250")).size(), 34u);
  EXPECT_EQ(typical_classes(openb_counts("gpushare100")).size(), 21u);
  EXPECT_EQ(typical_classes(openb_counts("gpuspec33")).size(), 127u);
  EXPECT_EQ(typical_classes(openb_counts("multigpu50")).size(), 43u);
}

TEST(TypicalClasses, StopAtNinetyFivePercentOfThePodsAndForgetTheMemory) {
  ClassCounts counts;
  counts.add({.cpu_milli = 1, .memory_mib = 1}, 40);
  counts.add({.cpu_milli = 1, .memory_mib = 2}, 40);
  counts.add({.cpu_milli = 2, .gpu_milli = 500, .num_gpu = 1}, 14);
  counts.add({.cpu_milli = 3}, 3);
  counts.add({.cpu_milli = 4}, 3);
  const std::vector<WorkClass> typical = typical_classes(counts);
  ASSERT_EQ(typical.size(), 3u);
  EXPECT_EQ(typical[0].count, 80);
  EXPECT_EQ(typical[0].memory_mib, 0);
  EXPECT_EQ(typical[1].count, 14);
  EXPECT_EQ(typical[2].cpu_milli, 4);  // of equal counts the greater class
}

TEST(TypicalClasses, ReachingNinetyFivePercentExactlyIsEnough) {
  ClassCounts counts;
  counts.add({.cpu_milli = 1}, 95);
  counts.add({.cpu_milli = 2}, 5);
  EXPECT_EQ(typical_classes(counts).size(), 1u);
}

TEST(TypicalClasses, OfNothingAreNone) { EXPECT_TRUE(typical_classes(ClassCounts()).empty()); }

}  // namespace
}  // namespace berth::core
