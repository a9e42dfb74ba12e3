// Jobs with the real supervisor program and real signals.
#include "local/job.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "local/child_test_support.h"
#include "local/job_log.h"
#include "local/job_test_support.h"

namespace berth::local {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

TEST_F(JobsOfATest, RunAndTellHowTheyEnded) {
  const JobStatus started = start(shell("echo out; echo err >&2; cat; sleep 0.1; exit 3"));
  EXPECT_EQ(started.phase, JobPhase::running);
  EXPECT_TRUE(started.supervised);
  EXPECT_EQ(outcome_text(started), "running");
  const JobStatus ended = end();
  EXPECT_EQ(ended.state.end, JobEnd::exited);
  EXPECT_EQ(ended.state.code, 3);
  EXPECT_EQ(ended.state.stopped_by, "");
  EXPECT_GE(ended.state.ended_at_ms, ended.state.started_at_ms);
  EXPECT_EQ(outcome_text(ended), "exit status 3");
  EXPECT_EQ(log(), "out\nerr\n") << "and the standard input is empty";
  EXPECT_FALSE(std::filesystem::exists(folder_.path("job/output")));
}

TEST_F(JobsOfATest, LeadASessionOfTheirOwnInTheRecordedSurroundings) {
  std::filesystem::create_directory(folder_.path("a b"));
  JobSpec spec = shell("pwd; umask; echo $BERTH_LEASE_ID; echo \"$HOME.\"; sleep 1000");
  spec.directory = folder_.path("a b");
  spec.umask = 0027;
  const JobStatus started = start(spec);
  EXPECT_TRUE(logs(folder_.path("a b") + "\n0027\n" + lease_ + "\n.\n")) << log();
  const Processes processes;
  const Process* main = processes.find(started.state.process);
  ASSERT_NE(main, nullptr);
  EXPECT_EQ(main->session, main->key.pid);
  EXPECT_EQ(main->group, main->key.pid);
  EXPECT_EQ(main->parent, started.state.supervisor.pid);
  EXPECT_NE(processes.find(started.state.supervisor)->parent, getpid())
      << "the supervisor is nobody's child";
  // Only what was meant for it is open: no file of the daemon's or of the supervisor's.
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(main->key.pid) + "/fd"))
    EXPECT_LE(std::stoi(entry.path().filename()), 2) << std::filesystem::read_symlink(entry.path());
}

TEST_F(JobsOfATest, AreSparedByTheOomKillerNoMoreThanOthersAre) {
  const auto set_own = [](const char* score) {
    std::ofstream("/proc/self/oom_score_adj") << score;
  };
  set_own("300");  // to lower it takes rights; whatever the daemon has, its jobs do not inherit it
  start(shell("cat /proc/self/oom_score_adj"));
  set_own("0");
  end();
  EXPECT_EQ(log(), "0\n");
}

TEST_F(JobsOfATest, SayWhichSignalKilledThem) {
  start(shell("kill -SEGV $$"));
  const JobStatus ended = end();
  EXPECT_EQ(ended.state.end, JobEnd::signalled);
  EXPECT_EQ(ended.state.code, SIGSEGV);
  EXPECT_EQ(outcome_text(ended), "killed by signal 11 (SEGV)");
}

TEST_F(JobsOfATest, WithoutAProgramTellWhy) {
  JobSpec spec = shell("");
  spec.command = {"trian", "--fast"};
  const JobStatus started = start(spec);
  EXPECT_EQ(started.phase, JobPhase::ended);
  EXPECT_EQ(started.state.end, JobEnd::not_started);
  EXPECT_EQ(started.state.code, 127);
  EXPECT_EQ(outcome_text(started),
            "not started: cannot run \"trian\": no such program in the PATH");
  end();
  EXPECT_EQ(log(), "berth: cannot run \"trian\": no such program in the PATH\n");
}

TEST_F(JobsOfATest, WithoutTheirDirectoryDoNotStart) {
  JobSpec spec = shell("echo ran");
  spec.directory = folder_.path("gone");
  const JobStatus started = start(spec);
  EXPECT_EQ(started.state.end, JobEnd::not_started);
  EXPECT_EQ(started.state.code, 125);
  EXPECT_THAT(started.state.message, HasSubstr("cannot enter its working directory " +
                                               folder_.path("gone") + ": No such file"));
  end();
  EXPECT_THAT(log(), Not(HasSubstr("ran")));
}

TEST_F(JobsOfATest, StartOnce) {
  start(shell("sleep 1000"));
  const auto again = jobs_.start(job(), shell("echo again"));
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code(), ErrorCode::already_exists);
  ASSERT_TRUE(jobs_.terminate(job(), Duration(1000), "test").ok());
  end();
  EXPECT_FALSE(jobs_.start(job(), shell("echo again")).ok()) << "not after the end either";
}

TEST_F(JobsOfATest, ThatWereNeverStartedMayBe) {
  EXPECT_EQ(status().phase, JobPhase::absent);
  ASSERT_TRUE(JobFiles(job()).write_spec(shell("exit 1")).ok());  // and then the daemon was killed
  EXPECT_EQ(status().phase, JobPhase::absent);
  EXPECT_EQ(jobs_.adopt(job())->phase, JobPhase::absent);
  EXPECT_EQ(jobs_.terminate(job(), Duration(0), "x").error().code(), ErrorCode::not_found);
  start(shell("exit 2"));
  EXPECT_EQ(end().state.code, 2) << "what the second call says";
}

TEST_F(JobsOfATest, RefuseWhatCannotBeWritten) {
  JobSpec spec = shell("");
  spec.command = {};
  EXPECT_EQ(jobs_.start(job(), spec).error().code(), ErrorCode::invalid_argument);
  spec.command = {std::string("a\0b", 3)};
  EXPECT_EQ(jobs_.start(job(), spec).error().code(), ErrorCode::invalid_argument);
  const auto nowhere = jobs_.start(folder_.path("no/such/job"), shell("true"));
  ASSERT_FALSE(nowhere.ok());
  EXPECT_THAT(nowhere.error().to_string(), HasSubstr("No such file or directory"));
  const Jobs without({.supervisor = folder_.path("nothing")});
  const auto started = without.start(job(), shell("true"));
  ASSERT_FALSE(started.ok());
  EXPECT_THAT(started.error().message(), HasSubstr("it belongs beside the program berth"));
  EXPECT_EQ(status().phase, JobPhase::absent);
}

TEST_F(JobsOfATest, EndOnRequest) {
  start(shell("trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(logs("ready"));
  ASSERT_TRUE(jobs_.terminate(job(), Duration(5000), "cancelled by ada").ok());
  const JobStatus ended = end();
  EXPECT_EQ(ended.state.code, 4);
  EXPECT_EQ(ended.state.stopped_by, "cancelled by ada");
  EXPECT_EQ(outcome_text(ended), "exit status 4, ended on request (cancelled by ada)");
  EXPECT_THAT(log(), EndsWith("bye\n"));
  EXPECT_TRUE(jobs_.terminate(job(), Duration(0), "again").ok());
  EXPECT_EQ(status().state.stopped_by, "cancelled by ada");
}

TEST_F(JobsOfATest, WhatTheyStartWhileTheyAreToldIsLeftAloneUntilTheyEnd) {
  start(
      shell("trap 'sh -c \"sleep 0.4; echo saved\"; exit 4' TERM; echo ready; "
            "while :; do sleep 0.05; done"));
  ASSERT_TRUE(logs("ready"));
  ASSERT_TRUE(jobs_.terminate(job(), Duration(20'000), "test").ok());
  EXPECT_EQ(end().state.code, 4);
  EXPECT_THAT(log(), EndsWith("saved\n"));
}

TEST_F(JobsOfATest, WhatTheyStartedWhileTheyWereToldIsToldAfterThem) {
  start(shell("trap 'sleep 1000 & exit 4' TERM; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(logs("ready"));
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(jobs_.terminate(job(), Duration(20'000), "test").ok());
  EXPECT_EQ(end().state.code, 4);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10))
      << "its sleep has not waited for KILL";
}

TEST_F(JobsOfATest, ThatDoNotObeyAreKilledAfterTheGraceTime) {
  start(shell("trap '' TERM; echo ready; sleep 1000 & wait; sleep 1000"));
  ASSERT_TRUE(logs("ready"));
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(jobs_.terminate(job(), Duration(300), "test").ok());
  const JobStatus ended = end();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(300));
  EXPECT_EQ(ended.state.end, JobEnd::signalled);
  EXPECT_EQ(ended.state.code, SIGKILL);
}

TEST_F(JobsOfATest, AreKilledEarlierIfAskedAgainWithLessGrace) {
  start(shell("trap '' TERM; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(logs("ready"));
  ASSERT_TRUE(jobs_.terminate(job(), Duration(3'600'000), "first").ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(status().phase, JobPhase::running);
  ASSERT_TRUE(jobs_.terminate(job(), Duration(0), "second").ok());
  EXPECT_EQ(end().state.stopped_by, "first");
}

TEST_F(JobsOfATest, ThatAreStoppedEndOnRequestToo) {
  const JobStatus started = start(shell("trap 'exit 5' TERM; echo ready; kill -STOP $$"));
  ASSERT_TRUE(logs("ready"));
  ASSERT_TRUE(soon([&] { return Processes().find(started.state.process)->state == 'T'; }));
  ASSERT_TRUE(jobs_.terminate(job(), Duration(10'000), "test").ok());
  EXPECT_EQ(end().state.code, 5);
}

TEST_F(JobsOfATest, LeaveNothingBehind) {
  // A daemon by double fork, in a session of its own, without the lease in its environment.
  start(
      shell("(setsid env -i sh -c 'echo $$ > '$FOLDER'/daemon; exec sleep 1000' &) ; "
            "while ! test -s $FOLDER/daemon; do sleep 0.02; done; exit 0"));
  const std::int64_t daemon = number_in("daemon");
  ASSERT_GT(daemon, 0);
  const JobStatus ended = end();
  EXPECT_EQ(ended.state.end, JobEnd::exited);
  EXPECT_EQ(ended.state.code, 0);
  EXPECT_EQ(ended.state.stopped_by, "");
  EXPECT_TRUE(local::ended(daemon));
}

TEST_F(JobsOfATest, TellTheirEndBeforeWhatTheyLeftIsGone) {
  JobSpec spec =
      shell("(trap '' TERM; echo left; sleep 1000 & wait; sleep 1000) & sleep 0.2; exit 6");
  spec.grace = Duration(1000);
  start(spec);
  ASSERT_TRUE(soon([&] { return status().phase == JobPhase::ended; }));
  EXPECT_EQ(status().state.code, 6);
  EXPECT_TRUE(status().supervised) << "until the grace time of what is left is over";
  EXPECT_EQ(end().state.code, 6);
}

TEST_F(JobsOfATest, EndWhenTheirTimeIsOver) {
  JobSpec spec = shell("exec sleep 1000");
  spec.max_time = Duration(300);
  const JobStatus started = start(spec);
  EXPECT_EQ(started.phase, JobPhase::running);
  const JobStatus ended = end();
  EXPECT_EQ(ended.state.stopped_by, "time");
  EXPECT_EQ(outcome_text(ended), "killed by signal 15 (TERM), its time was over");
  EXPECT_GE(ended.state.ended_at_ms - ended.state.started_at_ms, 250);
}

TEST_F(JobsOfATest, RunAsTheirUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may start jobs of others";
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  JobSpec spec = shell(
      "id -u; id -g; id -G; echo again > /dev/stdout; "
      "grep NoNewPrivs: /proc/self/status; exec sleep 1000");
  spec.user = RunAs{.uid = 65534, .gid = 65534, .groups = {65534, 4711}};
  spec.directory = "/tmp";
  const JobStatus started = start(spec);
  EXPECT_TRUE(logs("65534\n65534\n65534 4711\nagain\n")) << log();
  EXPECT_EQ(Processes().uid(started.state.process.pid), 65534U);
  struct stat mode = {};
  ASSERT_EQ(stat((job() + "/spec").c_str(), &mode), 0);
  EXPECT_EQ(mode.st_mode & 0777U, 0600U) << "environments hold secrets";
  ASSERT_TRUE(jobs_.terminate(job(), Duration(5000), "test").ok());
  EXPECT_EQ(end().state.code, SIGTERM);
}

TEST_F(JobsOfATest, HaveACgroupWherePermitted) {
  std::string parent;
  for (const std::string root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    if (access((root + "/cgroup.procs").c_str(), W_OK) == 0) parent = root;
  }
  if (parent.empty()) GTEST_SKIP() << "no cgroup (v2) may be made here";
  JobSpec spec = shell(
      "setsid env -i sleep 1000 & echo $! > $FOLDER/left; trap '' TERM; "
      "while :; do sleep 0.05; done");
  spec.cgroup = parent;
  const std::string own = folder_.path("job-" + std::to_string(getpid()));
  const auto started = jobs_.start(own, spec);
  ASSERT_TRUE(started.ok());
  number_in("left");
  EXPECT_TRUE(soon([&] {
    return jobs_.status(own).state.cgroup == "/berth-job-" + std::to_string(getpid());
  })) << jobs_.status(own).state.cgroup;
  ASSERT_TRUE(jobs_.terminate(own, Duration(100), "test").ok());
  EXPECT_TRUE(soon([&] { return !jobs_.status(own).supervised; }));
  EXPECT_FALSE(std::filesystem::exists(parent + "/berth-job-" + std::to_string(getpid())));
}

TEST_F(JobsOfATest, GoWithoutCgroupWhereNot) {
  JobSpec spec = shell("exit 0");
  spec.cgroup = folder_.path("no/cgroup");
  start(spec);
  EXPECT_EQ(end().state.code, 0);
}

TEST_F(JobsOfATest, HaveLogsOfLimitedSize) {
  JobSpec spec = shell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done");
  spec.log_bytes_per_file = 20'000;
  spec.log_files = 3;
  start(spec);
  ASSERT_EQ(end().state.code, 0);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(job())) {
    if (!entry.path().filename().string().starts_with("log.")) continue;
    ++files;
    EXPECT_LE(entry.file_size(), 20'000U + 65'536U);
  }
  EXPECT_EQ(files, 3);
  const LogPart part = read_log(job(), 0, 1 << 24);
  EXPECT_GT(part.offset, 0) << "the beginning was deleted";
  EXPECT_EQ(part.end, part.offset + static_cast<std::int64_t>(part.bytes.size()));
  EXPECT_THAT(part.bytes, EndsWith("line 19998\nline 19999\n"));
  const LogPart tail = read_log(job(), -11, 100);
  EXPECT_EQ(tail.bytes, "line 19999\n");
  EXPECT_EQ(tail.end, part.end);
  std::stringstream linked;
  linked << std::ifstream(job() + "/log").rdbuf();
  EXPECT_THAT(linked.str(), EndsWith("line 19999\n"));
}

TEST(JobFilesOfATest, GiveBackWhatWasWritten) {
  JobSpec spec;
  spec.command = {"python", "a b=c\n", ""};
  spec.environment = {"A=1=2", "B="};
  spec.directory = "/x\ny";
  spec.lease = "l-1";
  spec.user = RunAs{.uid = 1, .gid = 2, .groups = {3, 4}};
  spec.umask = 077;
  spec.max_time = Duration(5);
  spec.grace = Duration(6);
  spec.log_bytes_per_file = 7;
  spec.log_files = 8;
  spec.cgroup = "/sys/fs/cgroup/x";
  const auto back = decode_spec(encode(spec));
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  EXPECT_EQ(encode(*back), encode(spec));
  EXPECT_EQ(back->command, spec.command);
  EXPECT_EQ(back->user->groups, spec.user->groups);
  EXPECT_EQ(back->max_time, spec.max_time);

  JobState state;
  state.supervisor = {10, 11};
  state.process = {12, 13};
  state.boot_id = "b";
  state.end = JobEnd::not_started;
  state.code = 127;
  state.message = "two\nlines";
  state.stopped_by = "by ada, for good reason";
  const auto state_back = decode_state(encode(state));
  ASSERT_TRUE(state_back);
  EXPECT_EQ(state_back->process, state.process);
  EXPECT_EQ(state_back->message, "two\\nlines");
  EXPECT_EQ(state_back->stopped_by, state.stopped_by);
}

TEST(JobFilesOfATest, RefuseOthersFiles) {
  EXPECT_FALSE(decode_spec("").ok());
  EXPECT_FALSE(decode_spec("berth-job-spec 2").ok());
  EXPECT_FALSE(decode_spec("berth-job-spec 1").ok()) << "no program";
  using std::string_literals::operator""s;
  EXPECT_FALSE(decode_spec("berth-job-spec 1\0word=a\0umask=x"s).ok());
  EXPECT_FALSE(decode_spec("berth-job-spec 1\0word=a\0colour=red"s).ok());
  EXPECT_FALSE(decode_spec("berth-job-spec 1\0gid=1\0word=a"s).ok());
  EXPECT_FALSE(decode_state(""));
  EXPECT_FALSE(decode_state("berth-job-state 1\nprocess x y\n"));
  EXPECT_FALSE(decode_state("berth-job-state 1\nend sometimes\n"));
}

}  // namespace
}  // namespace berth::local
