// Surroundings that a program may find itself in, or make for itself. Each lives in namespaces of
// its own, so that nothing of this machine is touched.
#include <cstdlib>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "machine_test_support.h"

namespace berth::guard_test {
namespace {

constexpr std::int64_t kLimit = 500;  // MiB
const std::string kClient = std::string(BERTH_BIN_DIR) + "/../tests/guard_client";
const std::string kLibrary = std::string(BERTH_BIN_DIR) + "/../lib/libberth_guard.so";
const std::string kFake = std::string(BERTH_BIN_DIR) + "/../fake";

class GuardHostile : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "namespaces and mounts want root";
    const Outcome tried = run_to_end({"unshare", "--mount", "--pid", "--fork", "true"}, {});
    if (tried.exit_code != 0) GTEST_SKIP() << "no namespaces here: " << tried.err;
  }

  // A shell in mount and pid namespaces of its own, under the guard.
  static Outcome in_namespaces(const Machine& machine, const std::string& script,
                               const std::map<std::string, std::string>& extra = {}) {
    return machine.run_program({"unshare", "--mount", "--pid", "--fork", "--kill-child",
                                "--mount-proc", "--propagation", "private", "sh", "-euc", script},
                               extra);
  }
};

// The grant at the fixed path, as a container has it: read-only but for the account.
std::string at_fixed_path(const Machine& machine) {
  return "mount -t tmpfs none /run; mkdir -p /run/agent /run/berth/grant; cp -p " +
         machine.grant_directory() +
         "/* /run/agent/; mount --bind -o ro /run/agent /run/berth/grant; mount --bind "
         "/run/agent/account /run/berth/grant/account; ";
}

TEST_F(GuardHostile, AtTheFixedPathNoVariableNamesAnotherGrant) {
  const Machine machine({.limit_mib = kLimit});
  const Machine larger({.limit_mib = 4096});
  const std::string script =
      at_fixed_path(machine) + kClient + " hold 600; echo; " + kClient + " hold 300";
  for (const std::string& other :
       {larger.grant_directory(), std::string("/nowhere"), std::string()}) {
    const Outcome seen = in_namespaces(machine, "set +e; " + script,
                                       {{"BERTH_GRANT_DIR", other}, {"BERTH_GUARD_DISABLE", "1"}});
    EXPECT_EQ(seen.out, "code 2\n\nheld\n") << other << seen.err;
  }
}

// /etc/ld.so.preload, in a copy of /etc that only the namespace sees.
TEST_F(GuardHostile, ThePreloadFileHoldsAProgramWithAnEmptyEnvironment) {
  const Machine machine({.limit_mib = kLimit});
  const std::string script =
      at_fixed_path(machine) +
      "mkdir -p /run/etc/upper /run/etc/work; mount -t overlay none -o "
      "lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work /etc; echo " +
      kLibrary + " > /etc/ld.so.preload; set +e; env -i BERTH_FAKE_STATE=" + machine.state_file() +
      " LD_LIBRARY_PATH=" + kFake + " " + kClient + " hold 600";
  const Outcome seen = in_namespaces(machine, script, {{"LD_PRELOAD", ""}});
  EXPECT_EQ(seen.out, "code 2\n") << seen.err;
}

TEST_F(GuardHostile, AStrangersPolicyAtTheFixedPathIsClosed) {
  const Machine machine({.limit_mib = kLimit, .closed = false});
  const std::string script = "mount -t tmpfs none /run; mkdir -p /run/berth/grant; cp -p " +
                             machine.grant_directory() +
                             "/* /run/berth/grant/; chown 12345 /run/berth/grant/policy; set +e; ";
  EXPECT_EQ(in_namespaces(machine, script + kClient + " hold 10").out, "code 800\n");
  // Not even one's own, which is good enough elsewhere.
  const Outcome own = in_namespaces(
      machine, script + "chmod -R a+rwX " + machine.folder() +
                   "; setpriv --reuid=12345 --regid=12345 --clear-groups " + kClient + " hold 10");
  EXPECT_EQ(own.out, "code 800\n") << own.err;
}

TEST_F(GuardHostile, AnAccountThatCannotBeWrittenFailsAsThePolicySays) {
  for (const bool closed : {true, false}) {
    const Machine machine({.limit_mib = kLimit, .closed = closed});
    const Outcome seen = in_namespaces(
        machine, "mount --bind " + machine.grant_directory() + " " + machine.grant_directory() +
                     "; mount -o remount,bind,ro " + machine.grant_directory() + "; set +e; " +
                     kClient + " hold 600");
    EXPECT_EQ(seen.out, closed ? "code 800\n" : "held\n") << seen.err;
  }
}

TEST_F(GuardHostile, WithoutProcTheLimitHoldsAndTheDeadAreReclaimed) {
  const Machine machine({.limit_mib = kLimit});
  const Outcome seen =
      in_namespaces(machine, "mount -t tmpfs none /proc; set +e; for i in 1 2 3; do " + kClient +
                                 " hold 300 </dev/null; done; " + kClient + " hold 600 </dev/null");
  EXPECT_EQ(seen.out, "held\nheld\nheld\ncode 2\n") << seen.err;
}

// Both are process 1, each in a namespace of its own.
TEST_F(GuardHostile, TwoProcessesOfTheSameNumberShareTheLimit) {
  const Machine machine({.limit_mib = kLimit});
  const std::string fifo = machine.folder() + "/fifo";
  const std::string one = "unshare --pid --fork --kill-child " + kClient + " hold 300";
  const Outcome seen = in_namespaces(
      machine, "set +e; mkfifo " + fifo + "; " + one + " <" + fifo + " >" + machine.folder() +
                   "/first & exec 3>" + fifo + "; while ! grep -q held " + machine.folder() +
                   "/first 2>/dev/null; do sleep 0.02; done; " + one +
                   " </dev/null; exec 3>&-; wait; " + one + " </dev/null");
  EXPECT_EQ(seen.out, "code 2\nheld\n") << seen.err;
}

// The number of the dead process is given out again at once.
TEST_F(GuardHostile, AProcessWithTheNumberOfADeadOneDoesNotInheritItsMemory) {
  const Machine machine({.limit_mib = kLimit});
  const Outcome seen = in_namespaces(
      machine,
      "set +e; for i in 1 2 3 4; do echo 4000 > /proc/sys/kernel/ns_last_pid; " + kClient +
          " hold 300 </dev/null; done; echo 4000 > /proc/sys/kernel/ns_last_pid; sh -c 'exec " +
          kClient + " hold 450 </dev/null'");
  EXPECT_EQ(seen.out, "held\nheld\nheld\nheld\nheld\n") << seen.err;
}

struct Forbidden {
  const char* name;
  const char* within;  // 300 MiB of 500, by a closed policy
  const char* past;    // 600 MiB
};

TEST(GuardForbidden, SystemCallsThatFailRaiseNoLimit) {
  for (const auto& [name, within, past] :
       {Forbidden{"wipe-on-fork", "held\n", "code 2\n"},
        Forbidden{"dont-fork", "held\n", "code 2\n"},
        Forbidden{"other-memory", "held\n", "code 2\n"}, Forbidden{"sleep", "held\n", "code 2\n"},
        Forbidden{"locks", "code 2\n", "code 2\n"},
        Forbidden{"stat", "code 800\n", "code 800\n"}}) {
    const Machine machine({.limit_mib = kLimit});
    const Outcome small = machine.run({"forbidden", name, "300"});
    if (small.out == "no filter\n") GTEST_SKIP() << "no seccomp here";
    EXPECT_EQ(small.out, within) << name << small.err;
    EXPECT_EQ(machine.run({"forbidden", name, "600"}).out, past) << name;
  }
}

TEST(GuardForbidden, WithoutLocksAnOpenPolicyLetsPassAndCountsIt) {
  const Machine machine({.limit_mib = kLimit, .closed = false});
  const Outcome seen = machine.run({"forbidden", "locks", "600"});
  if (seen.out == "no filter\n") GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(seen.out, "held\n") << seen.err;
  EXPECT_EQ(machine.reading().devices.at(0).overshoot, Memory::mib(616));
}

TEST(GuardMessage, SaysWhenThereIsNoSlot) {
  const Machine machine({.limit_mib = kLimit});
  const Outcome seen = machine.run({"forbidden", "locks", "300"});
  if (seen.out == "no filter\n") GTEST_SKIP() << "no seccomp here";
  EXPECT_NE(seen.err.find(", since the process could take no slot of the account\n"),
            std::string::npos)
      << seen.err;
}

}  // namespace
}  // namespace berth::guard_test
