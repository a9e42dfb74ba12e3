#include "sim/metrics.h"

#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::sim {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Eq;
using testing::Optional;

constexpr std::int64_t kSlots = 1001;

double share(const Fragmentation& shares, IdleCause cause) {
  return shares[static_cast<std::size_t>(cause)];
}

TEST(AllocationCurve, AveragesTheEventsWhoseArrivedShareRoundsToAPoint) {
  AllocationCurve curve(1000, 130);
  curve.add(96, 90);   // 9.6 % -> 10
  curve.add(104, 94);  // 10.4 % -> 10
  curve.add(106, 99);  // 10.6 % -> 11
  EXPECT_THAT(curve.at(10), Optional(DoubleNear(9.2, 1e-12)));
  EXPECT_THAT(curve.at(11), Optional(DoubleNear(9.9, 1e-12)));
  EXPECT_EQ(curve.at(12), std::nullopt);
}

TEST(AllocationCurve, RoundsHalvesToEven) {
  AllocationCurve curve(1000, 130);
  curve.add(105, 50);  // 10.5 % -> 10
  curve.add(115, 70);  // 11.5 % -> 12
  EXPECT_THAT(curve.at(10), Optional(DoubleNear(5.0, 1e-12)));
  EXPECT_EQ(curve.at(11), std::nullopt);
  EXPECT_THAT(curve.at(12), Optional(DoubleNear(7.0, 1e-12)));
}

TEST(AllocationCurve, LeavesOutWhatLiesBehindItsEnd) {
  AllocationCurve curve(1000, 20);
  curve.add(210, 100);
  EXPECT_EQ(curve.at(21), std::nullopt);
  EXPECT_EQ(curve.points().size(), 21U);
}

// One node with one T4 half used and one idle, 4 free cores; work that is half fractions of 0.6,
// half work without GPU that needs 8 cores.
TEST(Fragmentation, SplitsIdleCapacityByWhatEachTypicalClassSees) {
  FleetState state(
      {{.name = "a", .cpu_milli = 8000, .memory_mib = 1000, .devices = 2, .model = "T4"}}, kSlots);
  state.take({.node = 0, .parts = {{.device = 0, .milli = 500}}, .cpu_milli = 4000});
  const std::vector<core::WorkClass> typical = {
      {.cpu_milli = 1000, .gpu_milli = 600, .num_gpu = 1, .count = 5},
      {.cpu_milli = 8000, .count = 5}};
  const Fragmentation shares = measure_fragmentation(state, typical);
  EXPECT_DOUBLE_EQ(share(shares, IdleCause::lack_gpu), 12.5);  // half of 500 of 2000
  EXPECT_DOUBLE_EQ(share(shares, IdleCause::usable), 25);
  EXPECT_DOUBLE_EQ(share(shares, IdleCause::xr), 37.5);
  EXPECT_DOUBLE_EQ(std::accumulate(shares.begin(), shares.end(), 0.0), 75);
}

TEST(Fragmentation, TellsLackOfCoresFromLackOfDevicesAndFromModels) {
  const std::vector<TraceNode> nodes = {
      {.name = "a", .cpu_milli = 1000, .memory_mib = 10, .devices = 1, .model = "T4"}};
  const FleetState state(nodes, kSlots);
  const auto cause_of = [&](core::WorkClass work) {
    work.count = 1;
    const Fragmentation shares = measure_fragmentation(state, std::vector{work});
    for (std::size_t i = 0; i < kIdleCauses; ++i) {
      if (shares[i] == 100) return idle_cause_key(static_cast<IdleCause>(i));
    }
    return std::string_view("none");
  };
  EXPECT_EQ(cause_of({.cpu_milli = 1000, .gpu_milli = 1000, .num_gpu = 1}), "usable");
  EXPECT_EQ(cause_of({.cpu_milli = 1001, .gpu_milli = 1000, .num_gpu = 1}), "lack_cpu");
  EXPECT_EQ(cause_of({.cpu_milli = 1000, .gpu_milli = 1000, .num_gpu = 2}), "lack_gpu");
  EXPECT_EQ(cause_of({.cpu_milli = 1001, .gpu_milli = 1000, .num_gpu = 2}), "lack_both");
  EXPECT_EQ(cause_of({.gpu_milli = 1000, .num_gpu = 1, .models = {"P100"}}), "no_access");
  EXPECT_EQ(cause_of({.cpu_milli = 1000}), "xl");
  EXPECT_EQ(cause_of({.cpu_milli = 1001}), "xr");
}

TEST(WhyRefused, NamesWhatWouldHaveBeenEnough) {
  FleetState state(
      {{.name = "a", .cpu_milli = 4000, .memory_mib = 100, .devices = 2, .model = "T4"},
       {.name = "b", .cpu_milli = 4000, .memory_mib = 100, .devices = 1, .model = "P100"}},
      kSlots);
  state.take({.node = 0, .parts = {{0, 600}, {1, 600}}});
  const auto reason = [&](const TracePod& pod) {
    return refusal_key(why_refused(state, pod, true));
  };
  EXPECT_EQ(reason({.cpu_milli = 5000, .num_gpu = 1, .gpu_milli = 400}), "cpu");
  EXPECT_EQ(reason({.memory_mib = 101, .num_gpu = 1, .gpu_milli = 400}), "memory");
  EXPECT_EQ(reason({.cpu_milli = 5000, .memory_mib = 101, .num_gpu = 1, .gpu_milli = 400}),
            "cpu_memory");
  EXPECT_EQ(reason({.num_gpu = 1, .gpu_milli = 500, .gpu_spec = "T4"}), "model");
  EXPECT_EQ(reason({.num_gpu = 2, .gpu_milli = 1000}), "full");
  state.take({.node = 1, .parts = {{0, 500}}});
  EXPECT_EQ(reason({.num_gpu = 1, .gpu_milli = 1000}), "scattered");
  EXPECT_EQ(reason({.cpu_milli = 5000}), "cpu");
  EXPECT_EQ(refusal_key(why_refused(state, {}, false)), "never_fits");
}

TEST(WorkKinds, ComeInTheOrderOfTheirSize) {
  const WorkKind cpu = work_kind({});
  const WorkKind whole = work_kind({.num_gpu = 1, .gpu_milli = 1000});
  const WorkKind part = work_kind({.num_gpu = 1, .gpu_milli = 999});
  const WorkKind eight = work_kind({.num_gpu = 8, .gpu_milli = 1000});
  EXPECT_EQ(cpu.label(), "CPU only");
  EXPECT_EQ(part.label(), "fraction");
  EXPECT_EQ(whole.label(), "1 GPU");
  EXPECT_EQ(eight.label(), "8 GPUs");
  EXPECT_LT(cpu, part);
  EXPECT_LT(part, whole);
  EXPECT_LT(whole, eight);
}

TEST(LatencyStats, ReportsNearestRankQuantilesAndRate) {
  LatencyStats stats;
  for (int i = 1; i <= 100; ++i)
    stats.add(i * 1000);
  EXPECT_DOUBLE_EQ(stats.quantile_us(0.5), 50);
  EXPECT_DOUBLE_EQ(stats.quantile_us(0.99), 99);
  EXPECT_DOUBLE_EQ(stats.quantile_us(1), 100);
  EXPECT_NEAR(stats.per_second(), 19802, 1);
  EXPECT_DOUBLE_EQ(LatencyStats().quantile_us(0.5), 0);
}

TEST(LatencyStats, CountsEveryTimeInItsBucket) {
  LatencyStats stats;
  stats.add(10);              // below the first floor: the first bucket
  stats.add(1'000);           // 1 us
  stats.add(10'000'000'000);  // far beyond: the last one
  const auto counts = stats.histogram();
  EXPECT_EQ(counts.front(), 1);
  EXPECT_EQ(counts[8], 1);
  EXPECT_DOUBLE_EQ(LatencyStats::bucket_floor_us(8), 1);
  EXPECT_EQ(counts.back(), 1);
}

}  // namespace
}  // namespace berth::sim
