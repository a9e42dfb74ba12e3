#include "local/attribution.h"

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "local/child_test_support.h"

namespace berth::local {
namespace {

using testing::HasSubstr;

Proof proof_of(const std::string& lease, std::int64_t pid) {
  auto proof =
      prove(Processes(), {.lease = lease, .uid = static_cast<std::uint32_t>(getuid()), .pid = pid});
  EXPECT_TRUE(proof.ok());
  return proof.ok() ? proof.value() : Proof{};
}

// As "lease by", or the name of what is foreign.
std::string who(const Processes& processes, std::vector<Proof> proofs, std::int64_t pid) {
  const std::int64_t pids[] = {pid};
  const Attribution answer = attribute(processes, proofs, pids).front();
  switch (answer.by) {
    case Evidence::none: return answer.name;
    case Evidence::process: return answer.lease + " process";
    case Evidence::ancestor: return answer.lease + " ancestor";
    case Evidence::environment: return answer.lease + " environment";
    case Evidence::group: return answer.lease + " group";
    case Evidence::cgroup: return answer.lease + " cgroup";
    case Evidence::pod: return answer.lease + " pod";
    case Evidence::session: return answer.lease + " session";
  }
  return "?";
}

std::string who(std::vector<Proof> proofs, std::int64_t pid) {
  return who(Processes(), std::move(proofs), pid);
}

std::string foreign(std::int64_t pid, const std::string& name) {
  return "pid " + std::to_string(pid) + " (" + name + ")";
}

// Tells its own pid and becomes a sleep with this environment, in the background of `work`.
pid_t background(const Tell& tell, const std::vector<std::string>& environment,
                 bool new_session = false) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (new_session) setsid();
    tell(getpid());
    become_sleep(environment);
  }
  return pid;
}

TEST(Attribution, SeveralRunsOfOneTerminalKeepApart) {
  // Two leases and a plain program in one session, as in a shell.
  Child one([](const Tell& tell) {
    background(tell, {});
    sleep_for_ever();
  });
  Child two([](const Tell& tell) {
    background(tell, {});
    sleep_for_ever();
  });
  const Child plain([](const Tell&) { become_sleep({}); });
  const std::int64_t below_one = one.next_process();
  const std::int64_t below_two = two.next_process();
  ASSERT_TRUE(runs_program(below_one, "sleep") && runs_program(below_two, "sleep") &&
              runs_program(plain.pid(), "sleep"));

  const std::vector<Proof> proofs = {proof_of("l-1", one.pid()), proof_of("l-2", two.pid())};
  EXPECT_EQ(who(proofs, one.pid()), "l-1 process");
  EXPECT_EQ(who(proofs, below_one), "l-1 ancestor");
  EXPECT_EQ(who(proofs, below_two), "l-2 ancestor");
  EXPECT_EQ(who(proofs, plain.pid()), foreign(plain.pid(), "sleep"));
  EXPECT_EQ(who({proofs[0]}, plain.pid()), foreign(plain.pid(), "sleep"))
      << "what a user starts beside the only lease of a terminal is not the lease's";
}

TEST(Attribution, TheNearestConfirmedAncestorDecides) {
  Child outer([](const Tell& tell) {
    if (fork() == 0) {
      tell(getpid());
      background(tell, {});
      sleep_for_ever();
    }
    sleep_for_ever();
  });
  const std::int64_t inner = outer.next_process();
  const std::int64_t leaf = outer.next_process();
  ASSERT_TRUE(runs_program(leaf, "sleep"));
  const std::vector<Proof> proofs = {proof_of("l-outer", outer.pid()), proof_of("l-inner", inner)};
  EXPECT_EQ(who(proofs, leaf), "l-inner ancestor");
  EXPECT_EQ(who({proofs[0]}, leaf), "l-outer ancestor");
  EXPECT_TRUE(alive(Processes(), proofs[0]));
  outer.end(SIGKILL);
  EXPECT_TRUE(alive(Processes(), proofs[1]));
}

TEST(Attribution, ADaemonIsKnownByItsEnvironmentAfterItsParentsEnded) {
  const Subreaper subreaper;
  Child run([](const Tell& tell) {
    if (fork() == 0) {
      background(tell, {"BERTH_LEASE_ID=l-1"}, true);  // the double fork of a daemon
      _exit(0);
    }
    sleep_for_ever();
  });
  const std::int64_t daemon = run.next_process();
  ASSERT_TRUE(runs_program(daemon, "sleep"));
  const Proof proof = proof_of("l-1", run.pid());
  const Proof other = proof_of("l-2", getpid());
  run.end(SIGKILL);
  EXPECT_EQ(who({proof}, daemon), "l-1 environment");
  EXPECT_TRUE(alive(Processes(), proof));
  EXPECT_EQ(members(Processes(), proof, 10).size(), 1U);
  EXPECT_EQ(who({other}, daemon), "l-2 ancestor") << "it is below this process now";

  kill(static_cast<pid_t>(daemon), SIGKILL);
  ASSERT_TRUE(ended(daemon));
  EXPECT_FALSE(alive(Processes(), proof));
}

TEST(Attribution, AnEnvironmentIsBelievedOnlyOfTheLeasesOwnUser) {
  const Child claims([](const Tell&) { become_sleep({"BERTH_LEASE_ID=l-1"}); });
  ASSERT_TRUE(runs_program(claims.pid(), "sleep"));
  Proof proof;
  proof.lease = "l-1";
  proof.uid = static_cast<std::uint32_t>(getuid());
  EXPECT_EQ(who({proof}, claims.pid()), "l-1 environment") << "not even confirmed with a pid";
  EXPECT_TRUE(alive(Processes(), proof));
  proof.uid += 1;
  EXPECT_EQ(who({proof}, claims.pid()), foreign(claims.pid(), "sleep"));
  EXPECT_FALSE(alive(Processes(), proof));
}

TEST(Attribution, AnEnvironmentOfAnEarlierTimeIsAnothersLeaseOfTheSameId) {
  const Child earlier([](const Tell&) { become_sleep({"BERTH_LEASE_ID=l-1"}); });
  ASSERT_TRUE(runs_program(earlier.pid(), "sleep"));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // start times have 10 ms
  const Child run([](const Tell&) { sleep_for_ever(); });
  const Proof proof = proof_of("l-1", run.pid());
  EXPECT_EQ(who({proof}, earlier.pid()), foreign(earlier.pid(), "sleep"));
  EXPECT_EQ(members(Processes(), proof, 10).size(), 1U);
}

TEST(Attribution, ALeaseOfTheSameIdInAnotherJournalIsAnother) {
  const Child child(
      [](const Tell&) { become_sleep({"BERTH_LEASE_ID=l-1", "BERTH_JOURNAL_ID=a"}); });
  ASSERT_TRUE(runs_program(child.pid(), "sleep"));
  Proof proof;
  proof.lease = "l-1";
  proof.uid = static_cast<std::uint32_t>(getuid());
  proof.journal = "b";
  EXPECT_EQ(who({proof}, child.pid()), foreign(child.pid(), "sleep"));
  EXPECT_FALSE(alive(Processes(), proof));
  proof.journal = "a";
  EXPECT_EQ(who({proof}, child.pid()), "l-1 environment");
}

TEST(Attribution, AnOrphanWithoutEnvironmentIsKnownByTheGroup) {
  const Subreaper subreaper;
  Child run([](const Tell& tell) {
    setpgid(0, 0);
    background(tell, {"PATH=/bin"});
    sleep_for_ever();
  });
  const std::int64_t orphan = run.next_process();
  ASSERT_TRUE(runs_program(orphan, "sleep"));
  const Proof proof = proof_of("l-1", run.pid());
  EXPECT_TRUE(proof.leads_group);
  EXPECT_FALSE(proof.leads_session);
  run.end(SIGKILL);
  EXPECT_EQ(who({proof}, orphan), "l-1 group");
  EXPECT_TRUE(alive(Processes(), proof));
  kill(static_cast<pid_t>(orphan), SIGKILL);
  ASSERT_TRUE(ended(orphan));
  EXPECT_FALSE(alive(Processes(), proof));
}

TEST(Attribution, ASessionThatTheLeaseLedIsItsOwn) {
  const Subreaper subreaper;
  Child run([](const Tell& tell) {
    setsid();
    const pid_t in_own_group = fork();
    if (in_own_group == 0) {
      setpgid(0, 0);
      tell(getpid());
      become_sleep({});
    }
    sleep_for_ever();
  });
  const std::int64_t orphan = run.next_process();
  ASSERT_TRUE(runs_program(orphan, "sleep"));
  const Proof proof = proof_of("l-1", run.pid());
  EXPECT_TRUE(proof.leads_session);
  run.end(SIGKILL);
  EXPECT_EQ(who({proof}, orphan), "l-1 session");
  EXPECT_TRUE(alive(Processes(), proof));
}

TEST(Attribution, APidThatWasGivenAgainIsSomebodyElse) {
  const Child child([](const Tell&) { become_sleep({}); });
  ASSERT_TRUE(runs_program(child.pid(), "sleep"));
  Proof proof = proof_of("l-1", child.pid());
  proof.process->start_ticks -= 1;
  proof.leads_group = proof.leads_session = true;
  EXPECT_EQ(who({proof}, child.pid()), foreign(child.pid(), "sleep"));
  EXPECT_FALSE(alive(Processes(), proof));
}

TEST(Attribution, AnotherBootsProcessesProveNothing) {
  const Child child([](const Tell&) { sleep_for_ever(); });
  Proof proof = proof_of("l-1", child.pid());
  EXPECT_TRUE(alive(Processes(), proof));
  proof.boot_id = "another";
  EXPECT_EQ(who({proof}, child.pid()), foreign(child.pid(), "local_test"));
  EXPECT_FALSE(alive(Processes(), proof));
}

TEST(Attribution, WhoHoldsTwoLeasesIsAskedWhichItMeans) {
  const Child child([](const Tell&) { become_sleep({"BERTH_LEASE_ID=l-2"}); });
  const Child silent([](const Tell&) { become_sleep({}); });
  ASSERT_TRUE(runs_program(child.pid(), "sleep") && runs_program(silent.pid(), "sleep"));
  EXPECT_EQ(who({proof_of("l-1", child.pid()), proof_of("l-2", child.pid())}, child.pid()),
            "l-2 process");
  EXPECT_EQ(who({proof_of("l-2", silent.pid()), proof_of("l-1", silent.pid())}, silent.pid()),
            "l-1 process");
}

TEST(Attribution, WhoHasEndedIsForeignAndNamedByPid) {
  Child child([](const Tell&) {});
  const std::int64_t pid = child.pid();
  child.collect();
  EXPECT_EQ(who({}, pid), "pid " + std::to_string(pid));
}

TEST(Proofs, AreTakenOfLivingProcessesOfOnesOwn) {
  Child child([](const Tell&) {});
  const std::int64_t pid = child.pid();
  ASSERT_TRUE(ended(pid));
  const auto dead = prove(Processes(), {.lease = "l-1", .uid = 0, .pid = pid});
  ASSERT_FALSE(dead.ok());
  EXPECT_EQ(dead.error().code(), ErrorCode::not_found);
  EXPECT_THAT(dead.error().message(), HasSubstr("no process " + std::to_string(pid)));

  const auto owner = static_cast<std::uint32_t>(getuid()) + 1;
  const auto foreign = prove(Processes(), {.lease = "l-1", .uid = owner, .pid = getpid()});
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.error().code(), ErrorCode::conflict);
  EXPECT_THAT(foreign.error().message(), HasSubstr("(local_test) does not belong to you"));
}

TEST(Proofs, RefuseCgroupsThatHoldEverybody) {
  for (const std::string cgroup : {"/", "//", "docker/4f1c", "4f1c"}) {
    const auto proof = prove(Processes(), {.lease = "l-1", .uid = 0, .cgroup = cgroup});
    ASSERT_FALSE(proof.ok()) << cgroup;
    EXPECT_THAT(proof.error().message(), HasSubstr("must be a path below the root"));
  }
  EXPECT_EQ(prove(Processes(), {.lease = "l-1", .cgroup = "/docker/4f1c/"})->cgroup,
            "/docker/4f1c");
  EXPECT_FALSE(prove(Processes(), {.lease = "l-1", .pod_uid = "7"}).ok());
}

// Containers as /proc shows them, from recorded files: pids 10 and above.
class Containers : public testing::Test {
 protected:
  Containers() { folder_.write("sys/kernel/random/boot_id", "a-boot\n"); }

  void process(std::int64_t pid, const std::string& cgroup, std::int64_t parent = 1,
               std::int64_t session = 1, const std::string& environ = "") const {
    const std::string id = std::to_string(pid);
    folder_.write(id + "/stat", id + " (python) S " + std::to_string(parent) + " " + id + " " +
                                    std::to_string(session) + " 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 " +
                                    id + " 0\n");
    folder_.write(id + "/cgroup", cgroup + "\n");
    folder_.write(id + "/status", "Name:\tpython\nUid:\t1000\t1000\t1000\t1000\n");
    if (!environ.empty()) folder_.write(id + "/environ", environ);
  }

  static Proof in_cgroup(const std::string& lease, const std::string& cgroup) {
    Proof proof;
    proof.lease = lease;
    proof.cgroup = cgroup;
    return proof;
  }

  static Proof in_session(const std::string& lease, const ProcessKey& process) {
    Proof proof;
    proof.lease = lease;
    proof.boot_id = "a-boot";
    proof.process = process;
    proof.session = 1;
    return proof;
  }

  Processes seen() const { return Processes(folder_.path()); }

  TestFolder folder_;
};

TEST_F(Containers, BelongByTheirCgroupOrOneBelow) {
  process(10, "0::/system.slice/docker-4f1c.scope");
  process(11, "0::/system.slice/docker-4f1c.scope/nested");
  process(12, "0::/system.slice/docker-4f1cc.scope");
  process(13, "4:memory:/docker/77aa\n0::/");
  const std::vector<Proof> proofs = {in_cgroup("l-1", "/system.slice/docker-4f1c.scope"),
                                     in_cgroup("l-2", "/docker/77aa")};
  EXPECT_EQ(who(seen(), proofs, 10), "l-1 cgroup");
  EXPECT_EQ(who(seen(), proofs, 11), "l-1 cgroup");
  EXPECT_EQ(who(seen(), proofs, 12), "pid 12 (python)");
  EXPECT_EQ(who(seen(), proofs, 13), "l-2 cgroup");
  EXPECT_EQ(members(seen(), proofs[0], 10).size(), 2U);
  EXPECT_TRUE(alive(seen(), proofs[1]));
  EXPECT_FALSE(alive(seen(), in_cgroup("l-3", "/docker/none")));
}

TEST_F(Containers, TheInnermostCgroupDecidesAndASharedOneDoesNot) {
  process(10, "0::/a/b/c");
  EXPECT_EQ(
      who(seen(), {in_cgroup("l-1", "/a"), in_cgroup("l-2", "/a/b"), in_cgroup("l-3", "/a")}, 10),
      "l-2 cgroup");
  EXPECT_EQ(who(seen(), {in_cgroup("l-1", "/a"), in_cgroup("l-3", "/a")}, 10), "pid 10 (python)");
}

TEST_F(Containers, OfAPodBelongByItsUid) {
  process(10,
          "0::/kubepods.slice/kubepods-burstable.slice/"
          "kubepods-burstable-pod0f9a4c9e_1111_4b52_9f0e_3a1f9c1d2e4b.slice/cri-c.scope");
  process(11, "4:memory:/kubepods/besteffort/pod0f9a4c9e-1111-4b52-9f0e-3a1f9c1d2e4b/c");
  process(12, "0::/kubepods.slice/kubepods-pod0f9a4c9e_2222_4b52_9f0e_3a1f9c1d2e4b.slice/c");
  Proof proof;
  proof.lease = "l-1";
  proof.pod_uid = "0f9a4c9e-1111-4b52-9f0e-3a1f9c1d2e4b";
  EXPECT_EQ(who(seen(), {proof}, 10), "l-1 pod");
  EXPECT_EQ(who(seen(), {proof}, 11), "l-1 pod");
  EXPECT_EQ(who(seen(), {proof}, 12), "pid 12 (python)");
}

TEST_F(Containers, InASharedSessionOnlyWhatHidesItsEnvironmentIsInDoubt) {
  const std::string none = "0::/";
  process(10, none);
  process(20, none);                                        // hides it
  process(21, none, 1, 1, std::string("PATH=/bin\0", 10));  // shows it: not ours
  process(9, none);                                         // older than the lease
  const Proof one = in_session("l-1", {10, 10});
  EXPECT_EQ(who(seen(), {one}, 20), "l-1 session");
  EXPECT_EQ(who(seen(), {one}, 21), "pid 21 (python)");
  EXPECT_EQ(who(seen(), {one}, 9), "pid 9 (python)");
  EXPECT_EQ(who(seen(), {one, in_session("l-2", {11, 11})}, 20), "pid 20 (python)")
      << "two leases were confirmed in this session";
  std::filesystem::remove_all(folder_.path("10"));
  EXPECT_FALSE(alive(seen(), one)) << "what shares a terminal keeps no lease alive";
}

TEST_F(Containers, ParentsThatSeemToLeadInACircleEndNowhere) {
  process(30, "0::/", 31, 1, std::string("A=b\0", 4));
  process(31, "0::/", 30, 1, std::string("A=b\0", 4));
  EXPECT_EQ(who(seen(), {in_session("l-1", {10, 10})}, 30), "pid 30 (python)");
}

}  // namespace
}  // namespace berth::local
