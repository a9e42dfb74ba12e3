// The daemon dies, the supervisor dies, the machine restarts, the disk is full.
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <string>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "local/child_test_support.h"
#include "local/job.h"
#include "local/job_log.h"
#include "local/job_test_support.h"
#include "local/signals.h"

namespace berth::local {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class JobsInTrouble : public JobsOfATest {};

TEST_F(JobsInTrouble, SurviveTheDaemon) {
  {
    Child daemon([&](const Tell& tell) {
      tell(start(shell("sleep 0.3; echo done; exit 7")).phase == JobPhase::running ? 1 : 2);
      sleep_for_ever();
    });
    ASSERT_EQ(daemon.next(), 1);
    daemon.end(SIGKILL);
  }
  EXPECT_TRUE(jobs_.adopt(job())->supervised);
  EXPECT_EQ(end().state.code, 7);
  EXPECT_EQ(log(), "done\n");
}

TEST_F(JobsInTrouble, RunOnWhenTheirSupervisorIsKilled) {
  const JobStatus started =
      start(shell("i=0; while :; do echo line $i; i=$((i+1)); sleep 0.02; done"));
  ASSERT_TRUE(logs("line 3"));
  ASSERT_TRUE(signal_process(started.state.supervisor, SIGKILL));
  ASSERT_TRUE(soon([&] { return !status().supervised; }));
  EXPECT_EQ(status().phase, JobPhase::running);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(status().phase, JobPhase::running);

  const auto adopted = jobs_.adopt(job());
  ASSERT_TRUE(adopted.ok()) << adopted.error().to_string();
  EXPECT_TRUE(adopted->supervised);
  EXPECT_EQ(adopted->state.process, started.state.process);
  EXPECT_NE(adopted->state.supervisor, started.state.supervisor);
  ASSERT_TRUE(logs("line 30"));
  ASSERT_TRUE(jobs_.terminate(job(), Duration(5000), "test").ok());
  const JobStatus ended = end();
  EXPECT_EQ(ended.state.end, JobEnd::lost);
  EXPECT_EQ(ended.state.stopped_by, "test");
  EXPECT_EQ(outcome_text(ended),
            "unknown: its first supervisor was killed, and so nobody knows how it ended, ended on "
            "request (test)");
  // Not a line is missing, also of the time without supervisor.
  std::istringstream lines(log());
  std::string expected;
  int number = 0;
  for (std::string line; std::getline(lines, line); ++number)
    EXPECT_EQ(line, "line " + std::to_string(number));
  EXPECT_GT(number, 30);
}

TEST_F(JobsInTrouble, EndingWithoutSupervisorAreLost) {
  const JobStatus started = start(shell("sleep 1000 & echo $! > $FOLDER/left; exec sleep 1000"));
  const std::int64_t left = number_in("left");
  ASSERT_TRUE(signal_process(started.state.supervisor, SIGKILL));
  ASSERT_TRUE(soon([&] { return !status().supervised; }));
  ASSERT_TRUE(signal_process(started.state.process, SIGKILL));
  ASSERT_TRUE(soon([&] { return status().phase == JobPhase::ended; }));
  EXPECT_EQ(status().state.end, JobEnd::lost);
  ASSERT_TRUE(jobs_.adopt(job()).ok());
  EXPECT_EQ(end().state.end, JobEnd::lost);
  EXPECT_TRUE(local::ended(left)) << "what it left was ended by the new supervisor";
  EXPECT_EQ(JobFiles(job()).read_state()->end, JobEnd::lost) << "on disk";
}

TEST_F(JobsInTrouble, WhoseSupervisorWasKilledEndOnRequestAllTheSame) {
  const JobStatus started = start(shell("exec sleep 1000"));
  ASSERT_TRUE(signal_process(started.state.supervisor, SIGKILL));
  ASSERT_TRUE(soon([&] { return !status().supervised; }));
  ASSERT_TRUE(jobs_.terminate(job(), Duration(5000), "cancelled").ok());
  EXPECT_EQ(end().state.stopped_by, "cancelled");
  EXPECT_TRUE(local::ended(started.state.process.pid));
}

TEST_F(JobsInTrouble, WhoseDirectoryIsDeletedLeaveNoSupervisorBehind) {
  const JobStatus started = start(shell("exec sleep 1000"));
  std::filesystem::remove_all(job());
  ASSERT_TRUE(signal_process(started.state.process, SIGKILL));
  EXPECT_TRUE(soon([&] { return local::ended(started.state.supervisor.pid); }));
}

TEST_F(JobsInTrouble, KeepTheirTimeLimitUnderANewSupervisor) {
  JobSpec spec = shell("exec sleep 1000");
  spec.max_time = Duration(700);
  const JobStatus started = start(spec);
  ASSERT_TRUE(signal_process(started.state.supervisor, SIGKILL));
  ASSERT_TRUE(soon([&] { return !status().supervised; }));
  ASSERT_TRUE(jobs_.adopt(job())->supervised);
  EXPECT_EQ(end().state.stopped_by, "time");
}

TEST_F(JobsInTrouble, OfAnEarlierBootAreLost) {
  start(shell("exec sleep 1000"));
  JobState state = *JobFiles(job()).read_state();
  ASSERT_TRUE(jobs_.terminate(job(), Duration(0), "test").ok());
  end();
  state.boot_id = "another";
  ASSERT_TRUE(JobFiles(job()).write_state(state, false).ok());
  EXPECT_EQ(outcome_text(status()), "unknown: the machine was restarted while it ran");
}

// The second process of a supervisor's start, in our hands: it runs from system call to system
// call.
class SteppedSupervisor {
 public:
  explicit SteppedSupervisor(const std::string& directory) {
    const pid_t first = fork();
    if (first == 0) {
      const int nothing = open("/dev/null", O_WRONLY);
      dup2(nothing, 3);  // nobody reads the report
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      raise(SIGSTOP);
      execl(BERTH_BIN_DIR "/berth-supervise", "berth-supervise", "start", directory.c_str(),
            nullptr);
      _exit(127);
    }
    int status = 0;
    waitpid(first, &status, 0);
    ptrace(PTRACE_SETOPTIONS, first, nullptr, PTRACE_O_TRACEFORK | PTRACE_O_EXITKILL);
    for (;;) {
      ptrace(PTRACE_CONT, first, nullptr, nullptr);
      if (waitpid(first, &status, 0) != first || WIFEXITED(status) || WIFSIGNALED(status)) return;
      if (status >> 8 == (SIGTRAP | PTRACE_EVENT_FORK << 8)) break;
    }
    unsigned long second = 0;
    ptrace(PTRACE_GETEVENTMSG, first, nullptr, &second);
    ptrace(PTRACE_DETACH, first, nullptr, nullptr);
    waitpid(first, nullptr, 0);
    pid_ = static_cast<pid_t>(second);
    waitpid(pid_, &status, __WALL);
    ptrace(PTRACE_SETOPTIONS, pid_, nullptr, PTRACE_O_EXITKILL);  // its job runs freely
  }
  ~SteppedSupervisor() { kill(); }
  SteppedSupervisor(const SteppedSupervisor&) = delete;
  SteppedSupervisor& operator=(const SteppedSupervisor&) = delete;

  // To the next beginning or end of a system call; false: it has ended.
  bool step() {
    int status = 0;
    if (pid_ < 0) return false;
    ptrace(PTRACE_SYSCALL, pid_, nullptr, nullptr);
    waitpid(pid_, &status, __WALL);
    if (WIFEXITED(status) || WIFSIGNALED(status)) pid_ = -1;
    return pid_ > 0;
  }

  void kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, __WALL);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

// The supervisor is killed at every system call of its start. Whatever the point: a program that
// ran is known, and one that is not known did not run.
TEST_F(JobsInTrouble, AreKnownIfTheyRanWhereverTheirSupervisorIsKilled) {
  const Subreaper subreaper;
  int known = 0;
  int unknown = 0;
  bool ended = false;
  // Each of the first 200; later ones, of a job that runs, further and further apart.
  for (int stop = 0; !ended; stop += 1 + std::max(0, stop - 200) / 4) {
    const std::string directory = folder_.path("stop-" + std::to_string(stop));
    const std::string mark = folder_.path("ran-" + std::to_string(stop));
    JobSpec spec = shell("echo > " + mark);
    spec.lease += "-" + std::to_string(stop);
    spec.environment[1] = "BERTH_LEASE_ID=" + spec.lease;
    ASSERT_TRUE(JobFiles(directory).write_spec(spec).ok());
    SteppedSupervisor supervisor(directory);
    for (int i = 0; i < stop && !ended; ++i)
      ended = !supervisor.step();
    supervisor.kill();
    ASSERT_TRUE(soon([&] { return jobs_.status(directory).phase != JobPhase::running; })) << stop;
    if (jobs_.status(directory).phase == JobPhase::absent) {
      ++unknown;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_FALSE(std::filesystem::exists(mark)) << "stopped at " << stop;
    } else {
      ++known;
    }
  }
  EXPECT_GT(known, 0);
  EXPECT_GT(unknown, 10);
}

// A disk of 1 MiB of one's own, in a mount namespace of one's own.
TEST_F(JobsInTrouble, SurviveAFullDisk) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may mount a disk of its own";
  Child world([&](const Tell& tell) {
    const std::string disk = folder_.path("disk");
    std::filesystem::create_directory(disk);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, "") != 0 ||
        mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1m") != 0) {
      tell(0);
      return;
    }
    const std::string own = disk + "/job";
    JobSpec spec = shell(
        "echo first; while ! test -e $FOLDER/full; do sleep 0.02; done; "
        "head -c 300000 /dev/zero | tr '\\0' x && echo printed || echo failed; "
        "touch $FOLDER/printed; "
        "while ! test -e $FOLDER/free; do sleep 0.02; done; echo last; exit 9");
    const bool started = jobs_.start(own, spec).ok();
    soon([&] { return !read_log(own, 0, 100).bytes.empty(); });
    {
      std::ofstream filler(disk + "/filler");
      const std::string block(4096, 'f');
      for (int i = 0; i < 512; ++i)
        filler << block << std::flush;
    }
    std::ofstream(folder_.path("full")) << "x";
    soon([&] { return std::filesystem::exists(folder_.path("printed")); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const bool lives = jobs_.status(own).phase == JobPhase::running;
    std::filesystem::remove(disk + "/filler");
    std::ofstream(folder_.path("free")) << "x";
    soon([&] {
      return jobs_.status(own).phase == JobPhase::ended && !jobs_.status(own).supervised;
    });
    const std::string kept = read_log(own, 0, 1 << 20).bytes;
    std::ofstream(folder_.path("kept")) << kept;
    tell(started && lives && jobs_.status(own).state.code == 9 ? 1 : 2);
  });
  const std::int64_t answer = world.next();
  if (answer == 0) GTEST_SKIP() << "no mount namespace here";
  EXPECT_EQ(answer, 1);
  std::stringstream kept;
  kept << std::ifstream(folder_.path("kept")).rdbuf();
  EXPECT_THAT(kept.str(), StartsWith("first\n"));
  EXPECT_THAT(kept.str(),
              HasSubstr("bytes of output could not be kept: No space left on device]\n"));
  EXPECT_THAT(kept.str(), EndsWith("last\n"));
}

// The end itself is recorded on a disk that stays full.
TEST_F(JobsInTrouble, TellTheirEndOnAFullDisk) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may mount a disk of its own";
  Child world([&](const Tell& tell) {
    const std::string disk = folder_.path("disk");
    std::filesystem::create_directory(disk);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, "") != 0 ||
        mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=256k") != 0) {
      tell(0);
      return;
    }
    const std::string own = disk + "/job";
    (void)jobs_.start(own, shell("head -c 900000 /dev/zero; sleep 0.1; exit 8"));
    soon([&] {
      return jobs_.status(own).phase == JobPhase::ended && !jobs_.status(own).supervised;
    });
    tell(jobs_.status(own).state.end == JobEnd::exited ? jobs_.status(own).state.code : 1);
  });
  const std::int64_t answer = world.next();
  if (answer == 0) GTEST_SKIP() << "no mount namespace here";
  EXPECT_EQ(answer, 8);
}

}  // namespace
}  // namespace berth::local
