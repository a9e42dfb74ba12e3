#include "core/placement/value_table.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "core/placement/cutting_stock.h"
#include "core/placement/openb_test.h"
#include "core/placement/wide_arithmetic.h"

namespace berth::core {
namespace {

struct Twelfths {
  std::vector<int> milli;
  int value = 0;
};

void expect_piece_values(const std::string& list, const std::vector<Twelfths>& expected) {
  const std::vector<FractionSize> sizes = openb_counts(list).fraction_sizes();
  const CuttingStock stock = solve_cutting_stock(sizes);
  ASSERT_TRUE(stock.exact) << list;
  std::map<int, int> twelfths;
  for (const Twelfths& row : expected) {
    for (const int milli : row.milli)
      twelfths[milli] = row.value;
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ASSERT_TRUE(twelfths.contains(sizes[i].milli)) << list << ' ' << sizes[i].milli;
    EXPECT_EQ(12 * stock.values[i], twelfths[sizes[i].milli] * stock.scale)
        << list << ' ' << sizes[i].milli;
  }
}

// Devices that the fractions of the list need, in thousandths, rounded.
std::int64_t devices_needed(const std::string& list) {
  const std::vector<FractionSize> sizes = openb_counts(list).fraction_sizes();
  const CuttingStock stock = solve_cutting_stock(sizes);
  std::int64_t worth = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    worth += sizes[i].count * stock.values[i];
  return (1000 * worth + stock.scale / 2) / stock.scale;
}

// The leftovers at which V rises, with the value from there on.
std::vector<std::pair<int, std::int64_t>> steps(const ValueTable& table) {
  std::vector<std::pair<int, std::int64_t>> steps;
  for (int milli = 1; milli <= 1000; ++milli)
    if (table.at(milli) != table.at(milli - 1)) steps.emplace_back(milli, table.at(milli));
  return steps;
}

TEST(CuttingStock, GivesThePieceValuesOfTheContractPage) {
  for (const char* list : {"default", "cpu250", "gpuspec33", "multigpu50"}) {
    expect_piece_values(list, {{{50, 110, 140, 160}, 0},
                               {{220}, 1},
                               {{230, 270, 290}, 3},
                               {{320, 330, 350, 370, 440}, 4},
                               {{460, 470, 480}, 6},
                               {{550, 590, 650}, 8},
                               {{810}, 12}});
  }
  expect_piece_values("gpushare100", {{{50, 110, 140, 160}, 0},
                                      {{220}, 2},
                                      {{230, 270, 290}, 3},
                                      {{320, 330, 350, 370}, 4},
                                      {{440}, 5},
                                      {{460, 470, 480}, 6},
                                      {{550}, 7},
                                      {{590, 650}, 8},
                                      {{810}, 12}});
}

TEST(CuttingStock, NeedsTheDevicesOfTheContractPage) {
  for (const char* list : {"default", "cpu250", "gpuspec33", "multigpu50"})
    EXPECT_EQ(devices_needed(list), 1'964'583) << list;
  EXPECT_EQ(devices_needed("gpushare100"), 4'481'583);
}

TEST(CuttingStock, GivesTheSameValuesWithTheSizesTurnedRound) {
  for (const char* list : {"default", "gpushare100"}) {
    std::vector<FractionSize> sizes = openb_counts(list).fraction_sizes();
    const CuttingStock ascending = solve_cutting_stock(sizes);
    std::reverse(sizes.begin(), sizes.end());
    CuttingStock descending = solve_cutting_stock(sizes);
    std::reverse(descending.values.begin(), descending.values.end());
    EXPECT_EQ(ascending.values, descending.values) << list;
    EXPECT_EQ(ascending.scale, descending.scale) << list;
    EXPECT_LE(std::max(ascending.pivots, descending.pivots), 80) << list;
  }
}

// A plan that cuts everything and needs no more devices than its pieces are worth is best, and the
// values prove it.
void expect_proof_of_optimality(const std::vector<FractionSize>& sizes) {
  const CuttingStock stock = solve_cutting_stock(sizes);
  ASSERT_LE(best_fillings(sizes, stock.values).back(), stock.scale);
  ASSERT_GE(*std::min_element(stock.values.begin(), stock.values.end()), 0);

  double devices = 0;
  std::vector<double> cut(sizes.size(), 0.0);
  for (const PlannedPattern& planned : stock.plan) {
    int milli = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      milli += planned.pieces[i] * sizes[i].milli;
      cut[i] += planned.pieces[i] * planned.devices;
    }
    ASSERT_LE(milli, 1000);
    ASSERT_GE(planned.devices, 0);
    devices += planned.devices;
  }
  double worth = 0;
  double asked = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto count = static_cast<double>(sizes[i].count);
    asked += count;
    worth += count * static_cast<double>(stock.values[i]) / static_cast<double>(stock.scale);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i)
    ASSERT_NEAR(cut[i], static_cast<double>(sizes[i].count), 1e-7 * asked);
  ASSERT_NEAR(devices, worth, 1e-6 * devices);
}

TEST(CuttingStock, ProvesItsPlanBestOnAnyWorkload) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 120; ++round) {
    ClassCounts counts;
    const std::uint64_t kinds = 1 + random() % (round % 4 == 0 ? 400 : 25);
    const std::uint64_t magnitude = 1 + random() % 20;
    for (std::uint64_t i = 0; i < kinds; ++i) {
      counts.add({.gpu_milli = static_cast<int>(1 + random() % 990), .num_gpu = 1},
                 static_cast<std::int64_t>(1 + (random() % 1000 >> (random() % magnitude))));
    }
    SCOPED_TRACE(round);
    expect_proof_of_optimality(counts.fraction_sizes());
    if (HasFatalFailure()) return;
  }
}

TEST(CuttingStock, EndsOnAllNinetyNineSizesAlike) {
  std::vector<FractionSize> sizes;
  for (int milli = 10; milli < 1000; milli += 10)
    sizes.push_back({.milli = milli, .count = 1});
  expect_proof_of_optimality(sizes);
  EXPECT_LT(solve_cutting_stock(sizes).pivots, 3000);
}

TEST(CuttingStock, NeverOverratesADeviceWhenThePivotsRunOut) {
  const std::vector<FractionSize> sizes = openb_counts("default").fraction_sizes();
  for (int most_pivots = 0; most_pivots < 57; ++most_pivots) {
    const CuttingStock stock = solve_cutting_stock(sizes, most_pivots);
    EXPECT_LE(best_fillings(sizes, stock.values).back(), stock.scale) << most_pivots;
    EXPECT_GE(*std::min_element(stock.values.begin(), stock.values.end()), 0) << most_pivots;
    EXPECT_GT(*std::max_element(stock.values.begin(), stock.values.end()), 0) << most_pivots;
  }
  EXPECT_FALSE(solve_cutting_stock(sizes, 0).exact);
}

TEST(CuttingStock, OfNothingIsNothing) {
  const CuttingStock stock = solve_cutting_stock({});
  EXPECT_TRUE(stock.values.empty());
  EXPECT_TRUE(stock.plan.empty());
}

TEST(ValueTable, RisesInTheStepsOfTheContractPage) {
  const std::vector<std::pair<int, std::int64_t>> expected = {
      {220, 83'333'333'333},  {230, 250'000'000'000},  {320, 333'333'333'333},
      {460, 500'000'000'000}, {550, 666'666'666'666},  {690, 750'000'000'000},
      {780, 916'666'666'666}, {810, 1'000'000'000'000}};
  for (const char* list : {"default", "cpu250", "gpuspec33", "multigpu50"})
    EXPECT_EQ(steps(ValueTable(openb_counts(list))), expected) << list;

  const std::vector<std::pair<int, std::int64_t>> gpushare100 = {
      {220, 166'666'666'666},  {230, 250'000'000'000}, {320, 333'333'333'333},
      {440, 416'666'666'666},  {460, 500'000'000'000}, {550, 583'333'333'333},
      {590, 666'666'666'666},  {690, 750'000'000'000}, {780, 833'333'333'333},
      {810, 1'000'000'000'000}};
  EXPECT_EQ(steps(ValueTable(openb_counts("gpushare100"))), gpushare100);
}

TEST(ValueTable, IsTheSizeItselfWithoutHistory) {
  ClassCounts cpu_only;
  cpu_only.add({.cpu_milli = 4000});
  EXPECT_EQ(ValueTable(cpu_only), ValueTable());
  for (int milli = 0; milli <= 1000; ++milli)
    EXPECT_EQ(ValueTable().at(milli), milli * 1'000'000'000LL);
}

TEST(ValueTable, OfWholeDevicesOnlyGivesPartsNoValue) {
  ClassCounts counts;
  counts.add({.gpu_milli = 1000, .num_gpu = 8}, 3);
  const std::vector<std::pair<int, std::int64_t>> expected = {{1000, kOneInP}};
  EXPECT_EQ(steps(ValueTable(counts)), expected);
}

TEST(ValueTable, OfOneSizeCountsHowOftenItFits) {
  ClassCounts counts;
  counts.add({.gpu_milli = 300, .num_gpu = 1}, 7);
  const std::vector<std::pair<int, std::int64_t>> expected = {
      {300, 333'333'333'333}, {600, 666'666'666'666}, {900, kOneInP}};
  EXPECT_EQ(steps(ValueTable(counts)), expected);
}

TEST(ValueTable, NeverFallsAndNeverGainsFromCutting) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 80; ++round) {
    ClassCounts counts;
    const std::uint64_t kinds = 1 + random() % 120;
    for (std::uint64_t i = 0; i < kinds; ++i) {
      counts.add({.gpu_milli = static_cast<int>(1 + random() % 1000), .num_gpu = 1},
                 static_cast<std::int64_t>(1 + random() % 2000));
    }
    const ValueTable table(counts);
    ASSERT_EQ(table.at(0), 0);
    ASSERT_EQ(table.at(1000), kOneInP);
    ASSERT_TRUE(std::is_sorted(table.values().begin(), table.values().end()));
    for (int a = 0; a <= 1000; a += 10) {
      for (int b = a; a + b <= 1000; b += 10)
        ASSERT_LE(table.at(a) + table.at(b), table.at(a + b)) << a << ' ' << b;
    }
  }
}

}  // namespace
}  // namespace berth::core
