// Programs in our place, with a real terminal where there is one in life.
#include "local/foreground.h"

#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <poll.h>
#include <sstream>
#include <string>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "local/child_test_support.h"

namespace berth::local {
namespace {

using testing::HasSubstr;

// What `berth run` does with a program once it has the lease. Never returns.
[[noreturn]] void run_as_berth_run(const std::vector<std::string>& command) {
  auto program = Foreground::prepare(
      {.command = command, .environment = {"PATH=/usr/bin:/bin", "FOLDER=" + command.back()}});
  if (!program.ok()) _exit(99);
  const ProgramEnd end = program->run({});
  if (end.kind == ProgramEnd::Kind::signalled) die_by(end.code);
  _exit(end.code);
}

// As a script starts it: `script` gets the folder as $0.
int status_of(const std::string& script, const std::string& folder = "/") {
  Child child([&](const Tell&) { run_as_berth_run({"sh", "-c", script, folder}); });
  return child.collect();
}

std::string contents(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool says(const std::string& path, const std::string& text) {
  return soon([&] { return contents(path).find(text) != std::string::npos; });
}

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): the test framework deletes it
class AProgramInOurPlace : public testing::Test {
 protected:
  ~AProgramInOurPlace() override {
    // Programs run on when we are killed.
    if (const std::int64_t pid = program(); pid > 0) kill(static_cast<pid_t>(pid), SIGKILL);
  }

  // Its pid is the runner's; the program says what it has to say in $0/said.
  Child runner(const std::string& script) const {
    return Child([&](const Tell&) { become_runner(script); });
  }

  [[noreturn]] void become_runner(const std::string& script) const {
    run_as_berth_run({"sh", "-c", "echo $$ > $0/pid; " + script, folder_.path()});
  }

  // The program's pid; 0 before it runs.
  std::int64_t program() const {
    std::int64_t pid = 0;
    std::ifstream(folder_.path("pid")) >> pid;
    return pid;
  }

  std::int64_t running_program() const {
    EXPECT_TRUE(soon([&] { return program() > 0; }));
    return program();
  }

  std::string said() const { return folder_.path("said"); }

  TestFolder folder_;
};

TEST_F(AProgramInOurPlace, EndsUsAsItEnds) {
  EXPECT_EQ(WEXITSTATUS(status_of("exit 0")), 0);
  EXPECT_EQ(WEXITSTATUS(status_of("exit 42")), 42);
  const int killed = status_of("kill -SEGV $$");
  ASSERT_TRUE(WIFSIGNALED(killed));
  EXPECT_EQ(WTERMSIG(killed), SIGSEGV);
  EXPECT_FALSE(WCOREDUMP(killed)) << "one core, the program's own";
}

TEST_F(AProgramInOurPlace, ThatCannotBeRunEndsUsAsShellsDo) {
  const auto end_of = [](const std::string& program) {
    Child child([&](const Tell&) { run_as_berth_run({program}); });
    return WEXITSTATUS(child.collect());
  };
  EXPECT_EQ(end_of("trian"), 127);
  EXPECT_EQ(end_of("/no/such/trian"), 127);
  EXPECT_EQ(end_of("/etc"), 126);
  folder_.write("script", "#!/no/such/interpreter\n");
  EXPECT_EQ(end_of(folder_.path("script")), 126);
  std::filesystem::permissions(folder_.path("script"), std::filesystem::perms::owner_all);
  EXPECT_EQ(end_of(folder_.path("script")), 126);
  if (geteuid() != 0) {
    // A folder of the PATH that we may not look into hides nothing.
    std::filesystem::create_directory(folder_.path("closed"));
    std::filesystem::permissions(folder_.path("closed"), std::filesystem::perms::none);
    auto hidden = Foreground::prepare(
        {.command = {"trian"}, .environment = {"PATH=" + folder_.path("closed") + ":/bin"}});
    EXPECT_EQ(hidden->run({}).code, 127);
    std::filesystem::permissions(folder_.path("closed"), std::filesystem::perms::owner_all);
  }
  auto program = Foreground::prepare({.command = {folder_.path("script")}, .environment = {}});
  const ProgramEnd end = program->run({});
  EXPECT_THAT(end.why, HasSubstr("the interpreter that its first line names does not exist"));
}

TEST_F(AProgramInOurPlace, GetsTheSignalsThatWeGet) {
  const std::vector<std::pair<int, std::string>> signals = {
      {SIGINT, "INT"},   {SIGTERM, "TERM"}, {SIGHUP, "HUP"},    {SIGQUIT, "QUIT"},
      {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGWINCH, "WINCH"}};
  std::string script;
  for (const auto& [number, name] : signals)
    script += "trap 'echo " + name + " >> $0/said' " + name + "; ";
  Child child = runner(script + "echo ready > $0/said; while :; do sleep 0.02; done");
  ASSERT_TRUE(says(said(), "ready"));
  for (const auto& [number, name] : signals) {
    kill(static_cast<pid_t>(child.pid()), number);
    EXPECT_TRUE(says(said(), name + "\n")) << name;
  }
}

TEST_F(AProgramInOurPlace, HasOurStandardStreams) {
  int in[2];
  int out[2];
  ASSERT_EQ(pipe(in), 0);
  ASSERT_EQ(pipe(out), 0);
  Child child([&](const Tell&) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    for (const int fd : {in[0], in[1], out[0], out[1]})
      close(fd);
    run_as_berth_run({"tr", "a-z", "A-Z"});
  });
  close(in[0]);
  close(out[1]);
  ASSERT_EQ(write(in[1], "hello", 5), 5);
  close(in[1]);
  char bytes[16] = {};
  EXPECT_EQ(read(out[0], bytes, sizeof bytes), 5);
  EXPECT_STREQ(bytes, "HELLO");
  EXPECT_EQ(read(out[0], bytes, sizeof bytes), 0) << "nobody else holds the pipe";
  EXPECT_EQ(child.collect(), 0);
  close(out[0]);
}

TEST_F(AProgramInOurPlace, KeepsIgnoringWhatWeIgnore) {
  Child child([&](const Tell&) {
    std::signal(SIGHUP, SIG_IGN);  // nohup
    become_runner("echo ready > $0/said; sleep 0.3; echo done >> $0/said");
  });
  ASSERT_TRUE(says(said(), "ready"));
  kill(static_cast<pid_t>(child.pid()), SIGHUP);
  EXPECT_EQ(child.collect(), 0);
  EXPECT_THAT(contents(said()), HasSubstr("done"));
}

TEST_F(AProgramInOurPlace, NeverRunsIfWeAreKilledBeforeItMay) {
  Child child([&](const Tell& tell) {
    auto program =
        Foreground::prepare({.command = {"sh", "-c", "echo ran > $0/said", folder_.path()},
                             .environment = {"PATH=/bin"}});
    tell(program->pid());
    sleep_for_ever();
  });
  const std::int64_t program = child.next_process();
  child.end(SIGKILL);
  EXPECT_TRUE(ended(program));
  EXPECT_EQ(contents(said()), "");
}

TEST_F(AProgramInOurPlace, ThatIsGivenUpNeverRuns) {
  auto program = Foreground::prepare({.command = {"sh", "-c", "echo ran > $0/said", folder_.path()},
                                      .environment = {"PATH=/bin"}});
  ASSERT_TRUE(program.ok());
  const std::int64_t pid = program->pid();
  program->give_up();
  EXPECT_EQ(Processes().find(pid), nullptr);
  EXPECT_EQ(contents(said()), "");
}

TEST_F(AProgramInOurPlace, RunsOnIfWeAreKilled) {
  Child child = runner("exec sleep 1000");
  const std::int64_t program = running_program();
  ASSERT_TRUE(runs_program(program, "sleep"));
  child.end(SIGKILL);
  EXPECT_TRUE(Processes().find(program)->lives());
}

TEST_F(AProgramInOurPlace, WithoutTerminalSharesOurGroup) {
  Child child = runner("exec sleep 1000");
  const std::int64_t program = running_program();
  EXPECT_EQ(Processes().find(program)->group, getpgrp());
  EXPECT_EQ(Processes().find(program)->session, getsid(0));
  // Somebody stops and continues it: nobody could continue us, so we do not stop.
  ASSERT_TRUE(runs_program(program, "sleep"));
  kill(static_cast<pid_t>(program), SIGSTOP);
  ASSERT_TRUE(soon([&] { return Processes().find(program)->state == 'T'; }));
  EXPECT_NE(Processes().find(child.pid())->state, 'T');
  kill(static_cast<pid_t>(program), SIGKILL);
  const int status = child.collect();
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

// A terminal, with a shell of the test that starts one job and does with it as told.
// Its destructor is public and virtual as googletest wants it.
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor)
class OnATerminal : public AProgramInOurPlace {
 protected:
  OnATerminal() : master_(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    EXPECT_EQ(grantpt(master_), 0);
    EXPECT_EQ(unlockpt(master_), 0);
    slave_ = ptsname(master_);  // NOLINT(concurrency-mt-unsafe): one thread
  }
  ~OnATerminal() override { close(master_); }

  // Becomes the shell of this terminal, whose job is `job`: told are the job's pid, and then each
  // of its changes as waitpid gives it. Commands come as signals: USR1 = fg, USR2 = bg.
  void shell(const Tell& tell, const std::function<void()>& job, bool in_front = true) const {
    setsid();
    const int terminal = open(slave_.c_str(), O_RDWR);
    ioctl(terminal, TIOCSCTTY, 0);
    for (int stream = 0; stream <= 2; ++stream)
      dup2(terminal, stream);
    close(terminal);
    std::signal(SIGTTOU, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGUSR1, SIGUSR2, SIGCHLD})
      sigaddset(&set, number);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      setpgid(0, 0);
      if (in_front) tcsetpgrp(0, getpgrp());
      std::signal(SIGTTOU, SIG_DFL);
      sigprocmask(SIG_UNBLOCK, &set, nullptr);
      job();
      _exit(98);
    }
    setpgid(pid, pid);
    tell(pid);
    for (;;) {
      int number = 0;
      sigwait(&set, &number);
      if (number == SIGCHLD) {
        int status = 0;
        while (waitpid(pid, &status, WUNTRACED | WNOHANG) > 0) {
          // What the shell finds when it takes its terminal back.
          tell(tcgetpgrp(0) == pid ? 1 : 0);
          tcsetpgrp(0, getpgrp());
          tell(status);
        }
        continue;
      }
      if (number == SIGUSR1) tcsetpgrp(0, pid);
      kill(-pid, SIGCONT);
    }
  }

  void type(const std::string& keys) const {
    ASSERT_EQ(write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }

  int master_;
  std::string slave_;
};

TEST_F(OnATerminal, AProgramHasItAndGivesItBack) {
  Child shell_process([&](const Tell& tell) {
    shell(tell, [&] {
      become_runner(
          "trap 'echo INT >> $0/said; exit 3' INT; echo > $0/ready; "
          "read line; echo \"$line\" > $0/said; while :; do sleep 0.02; done");
    });
  });
  const std::int64_t job = shell_process.next_process();
  ASSERT_GT(running_program(), 0);
  const std::int64_t program = running_program();
  ASSERT_TRUE(soon([&] { return std::filesystem::exists(folder_.path("ready")); }));
  EXPECT_EQ(Processes().find(program)->group, program) << "a group of its own";
  EXPECT_EQ(Processes().find(program)->session, Processes().find(job)->session);
  type("typed\n");
  EXPECT_TRUE(says(said(), "typed\n"));
  type("\x03");
  EXPECT_EQ(shell_process.next(), 1) << "the terminal is the job's again, as the shell left it";
  EXPECT_EQ(WEXITSTATUS(shell_process.next()), 3);
  EXPECT_EQ(contents(said()), "typed\nINT\n") << "once";
}

TEST_F(OnATerminal, WeDieOfCtrlCAsTheProgramDoes) {
  Child shell_process([&](const Tell& tell) {
    shell(tell, [&] { become_runner("echo ready > $0/said; exec sleep 1000"); });
  });
  shell_process.next_process();
  ASSERT_TRUE(says(said(), "ready"));
  type("\x03");
  shell_process.next();
  const int status = static_cast<int>(shell_process.next());
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGINT);
}

TEST_F(OnATerminal, StopsAndGoesOnAsTheShellSays) {
  Child shell_process([&](const Tell& tell) {
    shell(tell, [&] { become_runner("while :; do read line; echo \"$line\" >> $0/said; done"); });
  });
  const std::int64_t job = shell_process.next_process();
  ASSERT_GT(running_program(), 0);
  const std::int64_t program = running_program();
  type("one\n");
  ASSERT_TRUE(says(said(), "one\n"));

  type("\x1a");  // Ctrl-Z
  shell_process.next();
  int status = static_cast<int>(shell_process.next());
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(WSTOPSIG(status), SIGTSTP);
  EXPECT_EQ(Processes().find(program)->state, 'T');
  EXPECT_EQ(Processes().find(job)->state, 'T');

  kill(static_cast<pid_t>(shell_process.pid()), SIGUSR1);  // fg
  type("two\n");
  EXPECT_TRUE(says(said(), "two\n"));

  type("\x1a");
  shell_process.next();
  shell_process.next();
  kill(static_cast<pid_t>(shell_process.pid()), SIGUSR2);  // bg: it reads, and so stops again
  shell_process.next();
  status = static_cast<int>(shell_process.next());
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(WSTOPSIG(status), SIGTTIN);

  kill(static_cast<pid_t>(shell_process.pid()), SIGUSR1);
  type("three\n");
  EXPECT_TRUE(says(said(), "three\n"));
  kill(static_cast<pid_t>(job), SIGTERM);
  shell_process.next();
  EXPECT_EQ(WTERMSIG(static_cast<int>(shell_process.next())), SIGTERM);
}

TEST_F(OnATerminal, StartedInTheBackgroundTheProgramDoesNotTakeIt) {
  Child shell_process(
      [&](const Tell& tell) { shell(tell, [&] { become_runner("sleep 0.2; exit 5"); }, false); });
  shell_process.next_process();
  ASSERT_GT(running_program(), 0);
  EXPECT_EQ(shell_process.next(), 0);
  EXPECT_EQ(WEXITSTATUS(static_cast<int>(shell_process.next())), 5);
}

TEST_F(OnATerminal, InAPipelineTheOthersKeepIt) {
  Child shell_process([&](const Tell& tell) {
    shell(tell, [&] {
      int ends[2];
      if (pipe(ends) != 0) _exit(97);
      if (fork() == 0) {  // `berth run … | reader`: the reader asks at the terminal, as less does
        dup2(ends[0], STDIN_FILENO);
        close(ends[1]);
        const int terminal = open("/dev/tty", O_RDONLY);
        char key = 0;
        const bool got = read(terminal, &key, 1) == 1;
        std::ofstream(folder_.path("said")) << (got ? "key" : "none");
        _exit(0);
      }
      dup2(ends[1], STDOUT_FILENO);
      close(ends[0]);
      close(ends[1]);
      become_runner("sleep 1000");
    });
  });
  const std::int64_t job = shell_process.next_process();
  ASSERT_GT(running_program(), 0);
  EXPECT_EQ(Processes().find(running_program())->group, job);
  type("q\n");
  EXPECT_TRUE(says(said(), "key"));
  type("\x03");
  shell_process.next();
  EXPECT_EQ(WTERMSIG(static_cast<int>(shell_process.next())), SIGINT);
}

}  // namespace
}  // namespace berth::local
