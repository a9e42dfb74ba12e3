#include "local/processes.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "local/child_test_support.h"

namespace berth::local {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Processes, KnowsTheProcessThatAsks) {
  const Processes processes;
  const Process* self = processes.find(getpid());
  ASSERT_NE(self, nullptr);
  EXPECT_EQ(self->key.pid, getpid());
  EXPECT_EQ(self->parent, getppid());
  EXPECT_EQ(self->group, getpgrp());
  EXPECT_EQ(self->session, getsid(0));
  EXPECT_TRUE(self->lives());
  EXPECT_EQ(named(*self), "pid " + std::to_string(getpid()) + " (local_test)");
  EXPECT_EQ(processes.uid(getpid()), getuid());
  EXPECT_EQ(processes.find(self->key), self);
  EXPECT_EQ(processes.find(ProcessKey{getpid(), self->key.start_ticks + 1}), nullptr);
}

TEST(Processes, ListsEverybodyByPid) {
  const Child child([](const Tell&) { sleep_for_ever(); });
  const Processes processes;
  std::int64_t last = 0;
  bool seen = false;
  for (const Process* process : processes.all()) {
    EXPECT_GT(process->key.pid, last);
    last = process->key.pid;
    seen |= process->key.pid == child.pid();
  }
  EXPECT_TRUE(seen);
  EXPECT_EQ(processes.boot_id().size(), 36U);
}

TEST(Processes, ReadsNamesThatLookLikeOtherFields) {
  const Child child([](const Tell& tell) {
    prctl(PR_SET_NAME, "a) R (b 7\n");
    tell(1);
    sleep_for_ever();
  });
  ASSERT_EQ(child.next(), 1);
  const Processes processes;
  const Process* found = processes.find(child.pid());
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->name, "a) R (b 7\n");
  EXPECT_EQ(found->parent, getpid());
  EXPECT_EQ(named(*found), "pid " + std::to_string(child.pid()) + " (a) R (b 7\\n)");
}

TEST(Processes, TellsTheDeadFromTheLiving) {
  Child child([](const Tell&) {});
  ASSERT_TRUE(ended(child.pid()));
  const std::int64_t pid = child.pid();
  const Processes before;
  ASSERT_NE(before.find(pid), nullptr) << "not collected yet";
  EXPECT_FALSE(before.find(pid)->lives());
  child.collect();
  EXPECT_EQ(Processes().find(pid), nullptr);
  EXPECT_EQ(Processes().uid(pid), std::nullopt);
  EXPECT_THAT(Processes().cgroups(pid), IsEmpty());
}

TEST(Processes, AProcessWhoseFirstThreadEndedLives) {
  Child child([](const Tell& tell) {
    std::thread([tell] {
      tell(1);
      sleep_for_ever();
    }).detach();
    syscall(SYS_exit, 0);  // of this thread alone
  });
  ASSERT_EQ(child.next(), 1);
  ASSERT_TRUE(soon([&] { return Processes().find(child.pid())->state == 'Z'; }));
  EXPECT_TRUE(Processes().find(child.pid())->lives());
  child.end(SIGKILL);
}

TEST(Processes, ReadsTheLeaseOfAnEnvironment) {
  const Child with(
      [](const Tell&) { become_sleep({"A=BERTH_LEASE_ID=l-0", "BERTH_LEASE_ID=l-7"}); });
  const Child without([](const Tell&) { become_sleep({"PATH=/bin"}); });
  ASSERT_TRUE(runs_program(with.pid(), "sleep") && runs_program(without.pid(), "sleep"));
  const Processes processes;
  EXPECT_TRUE(processes.environment(with.pid()).readable);
  EXPECT_EQ(processes.environment(with.pid()).lease, "l-7");
  EXPECT_TRUE(processes.environment(without.pid()).readable);
  EXPECT_EQ(processes.environment(without.pid()).lease, "");
}

TEST(Processes, ReadsLargeEnvironmentsToTheEnd) {
  const std::string big = "BIG=" + std::string(100'000, 'x');
  const Child child([&](const Tell&) { become_sleep({big, big, "BERTH_LEASE_ID=l-9"}); });
  ASSERT_TRUE(runs_program(child.pid(), "sleep"));
  EXPECT_EQ(Processes().environment(child.pid()).lease, "l-9");
}

TEST(Processes, AViewDoesNotChange) {
  Child child([](const Tell&) { sleep_for_ever(); });
  const std::int64_t pid = child.pid();
  const Processes processes;
  ASSERT_NE(processes.find(pid), nullptr);
  child.end(SIGKILL);
  EXPECT_NE(processes.find(pid), nullptr);
  EXPECT_EQ(Processes().find(pid), nullptr);
}

TEST(Cgroups, OfVersionOneTwoAndBoth) {
  EXPECT_THAT(parse_cgroups("0::/user.slice/user-1000.slice/session-3.scope\n"),
              ElementsAre("/user.slice/user-1000.slice/session-3.scope"));
  EXPECT_THAT(parse_cgroups("9:name=systemd:/\n4:memory:/docker/4f1c\n3:cpu,cpuacct:/docker/4f1c\n"
                            "0::/system.slice/a:b.service\n"),
              ElementsAre("/docker/4f1c", "/system.slice/a:b.service"));
  EXPECT_THAT(parse_cgroups("0::/\n"), IsEmpty());
  EXPECT_THAT(parse_cgroups("0::/../outside\n"), IsEmpty());
  EXPECT_THAT(parse_cgroups(""), IsEmpty());
  EXPECT_THAT(parse_cgroups("nonsense"), IsEmpty());
}

TEST(Stat, RefusesWhatHasNotItsForm) {
  EXPECT_FALSE(parse_stat(""));
  EXPECT_FALSE(parse_stat("12 (a"));
  EXPECT_FALSE(parse_stat("12 (a)"));
  EXPECT_FALSE(parse_stat("(a) S 1 1 1"));
  EXPECT_FALSE(parse_stat("x (a) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0"));
  EXPECT_FALSE(parse_stat("12 (a) S 1 1 1 0 -1"));
  const auto good = parse_stat("12 (a) S 2 3 4 0 -1 0 0 0 0 0 0 0 0 0 20 0 5 0 77 0\n");
  ASSERT_TRUE(good);
  EXPECT_EQ(good->key, (ProcessKey{12, 77}));
  EXPECT_EQ(good->parent, 2);
  EXPECT_EQ(good->group, 3);
  EXPECT_EQ(good->session, 4);
  EXPECT_EQ(good->threads, 5);
}

}  // namespace
}  // namespace berth::local
