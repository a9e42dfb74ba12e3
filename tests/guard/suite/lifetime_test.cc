// Lives that go another way than main to exit.
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "machine_test_support.h"

namespace berth::guard_test {
namespace {

TEST(GuardLifetime, AChildHoldsItsOwnAndItsDeadParentsIsGivenBack) {
  const Machine machine({.limit_mib = 500});
  ASSERT_EQ(machine.fake({"set", "fork-works=on"}).exit_code, 0);
  // The child outlives the program that is waited for.
  const Outcome seen = machine.run_program(
      {"sh", "-c", std::string(BERTH_BIN_DIR) + "/../tests/guard_client lifetime fork; sleep 1"});
  // 50 MiB, and the context that the child found current.
  EXPECT_EQ(seen.out, "child 0, reclaimed 1, held 66\n") << seen.err;
}

TEST(GuardLifetime, AChildMadePastLibcDoesNotKeepItsDeadParentsSlot) {
  const Machine machine({.limit_mib = 500});
  ASSERT_EQ(machine.fake({"set", "fork-works=on"}).exit_code, 0);
  const Outcome seen = machine.run_program(
      {"sh", "-c",
       std::string(BERTH_BIN_DIR) + "/../tests/guard_client lifetime raw-fork; sleep 1"});
  EXPECT_EQ(seen.out, "child 0, reclaimed 1, held 66\n") << seen.err;
}

TEST(GuardLifetime, MemoryHandedToAnotherProcessIsCountedOnceForItsMaker) {
  const Machine machine({.limit_mib = 500});
  const Outcome seen = machine.run({"lifetime", "ipc"});
  EXPECT_EQ(seen.out,
            "open: opened 0, take 0, exporter 116, importer 66\n"
            "closed: opened 0, take 0, exporter 116, importer 66\n")
      << seen.err;
}

TEST(GuardLifetime, AnotherProgramInTheSameProcessBeginsWithNothing) {
  const Machine machine({.limit_mib = 500});
  const Outcome seen = machine.run({"lifetime", "exec"});
  EXPECT_EQ(seen.out, "start 0, take 0, held 66\n") << seen.err;
}

TEST(GuardLifetime, ADaemonThatClosesEveryDescriptorIsHeldAndKeepsWhatItHolds) {
  const Machine machine({.limit_mib = 500});
  const Outcome seen = machine.run({"lifetime", "descriptors"});
  EXPECT_EQ(seen.out, "more 0, past 2, reclaimed 0, held 166\n") << seen.err;
}

TEST(GuardLifetime, ACopyInAnotherLinkerNamespaceStaysInert) {
  const Machine machine({.limit_mib = 500});
  const Outcome seen = machine.run(
      {"lifetime", "namespaces", std::string(BERTH_BIN_DIR) + "/../lib/libberth_guard.so"});
  EXPECT_EQ(seen.out, "start 0, take 0, past 2, held 116\n") << seen.err;
}

// What the library took before the guard's constructor ran is still known afterwards.
TEST(GuardLifetime, ALibraryThatStartsBeforeTheGuardIsHeldFromItsFirstCall) {
  const Machine machine({.limit_mib = 500});
  const std::string tests = std::string(BERTH_BIN_DIR) + "/../tests";
  const std::string both =
      std::string(BERTH_BIN_DIR) + "/../lib/libberth_guard.so " + tests + "/libguard_early.so";
  // 100 MiB and two contexts of 16 MiB leave 368.
  for (const auto& [mib, word] : {std::pair{"368", "held"}, std::pair{"369", "code 2"}}) {
    const Outcome seen = machine.run({"hold", mib}, {{"LD_PRELOAD", both}});
    EXPECT_EQ(seen.out, "early 0\n" + std::string(word) + "\n") << mib << seen.err;
  }
}

TEST(GuardLifetime, EightThreadsLeaveOnlyTheContext) {
  const Machine machine({.limit_mib = 500});
  EXPECT_EQ(machine.run({"lifetime", "threads"}).out, "held 16\n");
}

}  // namespace
}  // namespace berth::guard_test
