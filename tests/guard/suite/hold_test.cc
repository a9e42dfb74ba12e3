// Does the limit hold: races, random sequences, deaths.
#include <cstdlib>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "machine_test_support.h"

namespace berth::guard_test {
namespace {

class GuardRaceSlow : public testing::TestWithParam<int> {};

TEST_P(GuardRaceSlow, SixHundredMebibytesAtABarrierUnderOneGibibyte) {
  const int processes = GetParam();
  const Machine machine({.limit_mib = 1024 + 16 * processes});
  const Outcome seen = machine.run({"race", std::to_string(processes), "10000", "600", "1024"});
  EXPECT_EQ(seen.exit_code, 0) << seen.out << seen.err;
  EXPECT_EQ(seen.out.find("over 0 of 10000, granted "), 0U) << seen.out;
  // Somebody gets it in every round, else the test would show nothing.
  EXPECT_EQ(seen.out.find("granted 0"), std::string::npos) << seen.out;
}

INSTANTIATE_TEST_SUITE_P(Processes, GuardRaceSlow, testing::Values(2, 4, 8),
                         testing::PrintToStringParamName());

struct RandomCase {
  std::uint64_t seed;
  std::int64_t limit_mib;
  std::uint64_t steps;
};

// What the test framework shows, the same on every run.
void PrintTo(const RandomCase& random, std::ostream* out) {
  *out << "seed " << random.seed << ", " << random.limit_mib << " MiB, " << random.steps
       << " steps";
}

class GuardRandomSlow : public testing::TestWithParam<RandomCase> {};

TEST_P(GuardRandomSlow, TheAccountIsTheTruthAfterAnySequence) {
  const Machine machine({.limit_mib = GetParam().limit_mib});
  const Outcome seen = machine.run({"random", std::to_string(GetParam().seed),
                                    std::to_string(GetParam().steps), machine.grant_directory()});
  EXPECT_EQ(seen.exit_code, 0) << seen.out << seen.err;
  EXPECT_EQ(seen.out.find("steps "), 0U) << seen.out;
}

INSTANTIATE_TEST_SUITE_P(Seeds, GuardRandomSlow,
                         testing::Values(RandomCase{1, 4096, 700'000}, RandomCase{2, 1536, 700'000},
                                         RandomCase{3, 700, 700'000}, RandomCase{4, 100, 100'000},
                                         RandomCase{5, 20'000, 200'000}),
                         [](const auto& random) {
                           return "Seed" + std::to_string(random.param.seed);
                         });

TEST(GuardRandomSoak, AHundredMillionSteps) {
  if (std::getenv("BERTH_SOAK") == nullptr) GTEST_SKIP() << "only in make soak";
  for (int seed = 100; seed < 110; ++seed) {
    const Machine machine({.limit_mib = 1536});
    const Outcome seen =
        machine.run({"random", std::to_string(seed), "10000000", machine.grant_directory()});
    EXPECT_EQ(seen.exit_code, 0) << "seed " << seed << ": " << seen.out;
  }
}

TEST(GuardStormSlow, KilledProcessesStallNobodyAndLeaveNothing) {
  const Machine machine({.limit_mib = 1100});
  const Outcome seen = machine.run({"storm", machine.grant_directory(), "8", "42"});
  EXPECT_EQ(seen.exit_code, 0) << seen.out << seen.err;
  EXPECT_NE(seen.out.find("left 0"), std::string::npos) << seen.out;
  const grant::GrantReading reading = machine.reading();
  for (const grant::DeviceReading& device : reading.devices)
    EXPECT_EQ(device.charged.in_bytes(), 0);
}

TEST(GuardLifetimeSlow, AThousandShortProcessesAtOnce) {
  const Machine machine({.gpus = "1x80GiB", .limit_mib = 60'000});
  const Outcome seen = machine.run({"short", "1000"});
  EXPECT_EQ(seen.out, "done 1000 of 1000\n") << seen.err;
}

}  // namespace
}  // namespace berth::guard_test
