#include "core/placement/pressure.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "core/placement/openb_test.h"

namespace berth::core {
namespace {

constexpr std::int64_t kDevice = kOneInP;

// h(x) of section 5.2 in doubles.
double h_reference(const ClassCounts& counts, double x, bool cpu) {
  double h = 0;
  for (const WorkClass& work : counts.classes()) {
    const auto request = static_cast<double>(cpu ? work.cpu_milli : work.memory_mib);
    if (work.is_cpu_only() || request == 0) continue;
    const double need = request * 1000 / static_cast<double>(work.gpu_milli_per_pod());
    const double missing = std::max(0.0, 1 - x / need);
    h += static_cast<double>(work.gpu_milli_of_all()) / static_cast<double>(counts.gpu_milli()) *
         missing * missing;
  }
  return h;
}

ClassCounts one_hungry_class() {
  ClassCounts counts;
  counts.add({.cpu_milli = 300'000, .memory_mib = 1'000'000, .gpu_milli = 1000, .num_gpu = 1});
  return counts;
}

TEST(Pressure, TabulatesTheMeanSquaredShareOfTheNeedThatIsMissing) {
  for (const char* list : {"default", "gpushare100", "multigpu50"}) {
    const ClassCounts counts = openb_counts(list);
    const PressureTable table(counts);
    for (std::size_t i = 0; i < PressureTable::kPoints; ++i) {
      const auto x = static_cast<double>(i);
      EXPECT_NEAR(static_cast<double>(table.cpu_points()[i]),
                  1e12 * h_reference(counts, 100 * x, true), 2.0);
      EXPECT_NEAR(static_cast<double>(table.memory_points()[i]),
                  1e12 * h_reference(counts, 400 * x, false), 2.0);
    }
  }
}

TEST(Pressure, FallsFromPointToPoint) {
  const PressureTable table(openb_counts("default"));
  for (const auto points : {table.cpu_points(), table.memory_points()}) {
    EXPECT_LE(points.front(), kDevice);
    EXPECT_TRUE(std::is_sorted(points.rbegin(), points.rend()));
    EXPECT_GE(points.back(), 0);
  }
}

TEST(Pressure, TruncatesAfterEachDivisionFromLeftToRight) {
  // 7e12 x 2 / 3 = 4666666666666.67, then 4666666666666 x 2 / 3 = 3111111111110.67.
  EXPECT_TRUE(weighted_square_of_missing_share({.gpu_milli = 7, .need = 3000, .have = 1000}) ==
              3'111'111'111'110);
  EXPECT_TRUE(weighted_square_of_missing_share({.gpu_milli = 7, .need = 3000, .have = 3000}) == 0);
  EXPECT_TRUE(weighted_square_of_missing_share({.gpu_milli = 7, .need = 0, .have = 0}) == 0);
}

TEST(Pressure, OfANodeWithoutCpuIsThriceItsValueIfEveryClassNeedsCpu) {
  ClassCounts counts;
  counts.add({.cpu_milli = 8000, .memory_mib = 0, .gpu_milli = 500, .num_gpu = 1});
  const PressureTable table(counts);
  EXPECT_EQ(table.pressure({.value = 2 * kDevice, .cpu_milli = 0, .memory_mib = 0}), 6 * kDevice);
  // Half of the 16 cores per device that the class needs: a quarter of it, thrice.
  EXPECT_EQ(table.pressure({.value = kDevice, .cpu_milli = 8000, .memory_mib = 0}),
            3 * kDevice / 4);
  EXPECT_EQ(table.pressure({.value = kDevice, .cpu_milli = 16'000, .memory_mib = 0}), 0);
}

TEST(Pressure, IsZeroWithoutHistoryAndWithoutValue) {
  const NodeRoom nothing_left{.value = kDevice, .cpu_milli = 0, .memory_mib = 0};
  EXPECT_EQ(PressureTable().pressure(nothing_left), 0);
  ClassCounts cpu_only;
  cpu_only.add({.cpu_milli = 1000, .memory_mib = 1000});
  EXPECT_EQ(PressureTable(cpu_only).pressure(nothing_left), 0);

  const PressureTable table(openb_counts("default"));
  EXPECT_EQ(table.pressure({.value = 0, .cpu_milli = 0, .memory_mib = 0}), 0);
  EXPECT_EQ(table.pressure({.value = -5, .cpu_milli = 100, .memory_mib = 100}), 0);
  EXPECT_GT(table.pressure(nothing_left), 0);
}

TEST(Pressure, CountsAnOvercommittedResourceAsUsedUp) {
  const PressureTable table(openb_counts("default"));
  EXPECT_EQ(table.pressure({.value = kDevice, .cpu_milli = -1, .memory_mib = -900}),
            table.pressure({.value = kDevice, .cpu_milli = 0, .memory_mib = 0}));
}

TEST(Pressure, ReadsTheLastIntervalsFirstPointBeyondTheTable) {
  const PressureTable table(one_hungry_class());
  const std::int64_t last = table.cpu_points()[PressureTable::kPoints - 2];
  ASSERT_GT(last, 0);
  const std::int64_t enough_memory = 10'000'000;
  const std::int64_t at_the_end =
      table.pressure({.value = kDevice, .cpu_milli = 199'900, .memory_mib = enough_memory});
  for (const std::int64_t cpu_milli : {199'901, 200'000, 1'000'000'000}) {
    EXPECT_EQ(
        table.pressure({.value = kDevice, .cpu_milli = cpu_milli, .memory_mib = enough_memory}),
        at_the_end);
  }
  EXPECT_EQ(at_the_end, 3 * (last + table.memory_points()[PressureTable::kPoints - 2]));
}

// Values and rooms of all magnitudes, with a bias to the edges of the table's intervals.
NodeRoom random_room(std::mt19937_64& random) {
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  NodeRoom room;
  switch (random() % 8) {
    case 0: room.value = below(3); break;
    case 1: room.value = std::int64_t{1} << below(62); break;
    case 2: room.value = below(std::int64_t{1} << below(62)) + below(2); break;
    case 3: room.value = (1 + below(96)) * (kDevice / 12); break;
    default: room.value = below(8 * kDevice); break;
  }
  switch (random() % 8) {
    case 0: break;
    case 1: room.cpu_milli = below(std::int64_t{1} << below(63)) + 1; break;
    case 2: room.cpu_milli = 100 * below(2001); break;
    default: room.cpu_milli = below(128'000); break;
  }
  switch (random() % 8) {
    case 0: break;
    case 1: room.memory_mib = below(std::int64_t{1} << below(63)) + 1; break;
    case 2: room.memory_mib = 400 * below(2001); break;
    default: room.memory_mib = below(786'432); break;
  }
  return room;
}

TEST(Pressure, ItsFastFormEqualsItsDefinition) {
  std::mt19937_64 random(20230711);
  const PressureTable tables[] = {PressureTable(openb_counts("default")),
                                  PressureTable(openb_counts("gpushare100")),
                                  PressureTable(one_hungry_class())};
  int differences = 0;
  for (int i = 0; i < 1'200'000; ++i) {
    const PressureTable& table = tables[i % 3];
    const NodeRoom room = random_room(random);
    const std::int64_t fast = table.pressure(room);
    const std::int64_t exact = table.pressure_by_definition(room);
    if (fast == exact) continue;
    ADD_FAILURE() << "value " << room.value << " cpu " << room.cpu_milli << " memory "
                  << room.memory_mib << ": " << fast << " instead of " << exact;
    if (++differences == 10) break;
  }
}

TEST(Pressure, ItsFastFormIsExactOnBothSidesOfEveryPoint) {
  const PressureTable table(openb_counts("default"));
  for (std::int64_t value :
       {std::int64_t{1}, kDevice / 12, kDevice / 3, kDevice, 8 * kDevice - 1}) {
    for (std::int64_t point = 0; point < PressureTable::kPoints; ++point) {
      const std::int64_t cpu = point * 100 * value / kDevice;
      const std::int64_t memory = point * 400 * value / kDevice;
      for (std::int64_t off = -1; off <= 1; ++off) {
        const NodeRoom room{.value = value, .cpu_milli = cpu + off, .memory_mib = memory + off};
        ASSERT_EQ(table.pressure(room), table.pressure_by_definition(room))
            << value << ' ' << point << ' ' << off;
      }
    }
  }
}

TEST(FastQuotient, EqualsTheWideDivisionWithinItsBounds) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 1'000'000; ++i) {
    const auto divisor = static_cast<std::int64_t>((random() >> (2 + random() % 60)) + 1);
    const auto factor = static_cast<std::int64_t>(random() >> (11 + random() % 50));
    auto by = static_cast<std::int64_t>(random() >> (11 + random() % 50));
    while (Int128{factor} * by / divisor >= (Int128{1} << 50))
      by /= 2;
    const Quotient q{.factor = factor,
                     .by = by,
                     .divisor = divisor,
                     .inverse = 1.0 / static_cast<double>(divisor)};
    ASSERT_EQ(fast_quotient(q), static_cast<std::int64_t>(Int128{factor} * by / divisor))
        << factor << " x " << by << " / " << divisor;
  }
}

}  // namespace
}  // namespace berth::core
