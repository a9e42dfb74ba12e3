#include "local/gated_child.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <grp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/printable.h"

namespace berth::local {

namespace {

enum class Stage : std::uint8_t { session, cgroup, user, directory, streams, terminal, exec };

struct Failure {
  Stage stage;
  int number;  // errno
};

// Everything below up to exec runs in the child of a process that may have had other threads: only
// calls that are safe there, on memory that was made ready before the fork.
struct Ready {
  const ChildPlan& plan;
  std::vector<char*> words;
  std::vector<char*> environment;
  std::vector<gid_t> groups;
  std::string cgroup_file;
};

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> list;
  list.reserve(words.size() + 1);
  for (const std::string& word : words)
    list.push_back(const_cast<char*>(word.c_str()));  // NOLINT: exec takes it so, changes nothing
  list.push_back(nullptr);
  return list;
}

[[noreturn]] void fail(int report, Stage stage) {
  const Failure failure = {.stage = stage, .number = errno};
  // There is nobody else to tell: should this fail, the parent sees the exit status alone.
  [[maybe_unused]] const ssize_t written = write(report, &failure, sizeof failure);
  _exit(125);
}

void reset_signals(const std::vector<int>& ignored) {
  for (int number = 1; number < NSIG; ++number) {
    bool keep = false;
    for (const int other : ignored)
      keep |= other == number;
    struct sigaction action = {};
    action.sa_handler = keep ? SIG_IGN : SIG_DFL;
    sigaction(number, &action, nullptr);  // KILL, STOP and two of libc's refuse; that is right
  }
}

bool enter_cgroup(const std::string& file) {
  const int fd = open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool entered = write(fd, "0", 1) == 1;  // 0: the process that writes
  close(fd);
  return entered;
}

bool become(const RunAs& user, const std::vector<gid_t>& groups) {
  return setgroups(groups.size(), groups.data()) == 0 &&
         setresgid(user.gid, user.gid, user.gid) == 0 &&
         setresuid(user.uid, user.uid, user.uid) == 0;
}

// A daemon that raised its own limit passes on the one it was started with: programs that use
// select() fail above 1024, and some close every file that the limit allows.
void limit_open_files(std::uint64_t wanted) {
  rlimit files = {};
  if (wanted == 0 || getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = std::min<rlim_t>(wanted, files.rlim_max);
  setrlimit(RLIMIT_NOFILE, &files);  // lowering is never refused
}

bool take_streams(const ChildPlan& plan) {
  if (plan.input >= 0 && dup2(plan.input, STDIN_FILENO) < 0) return false;
  return plan.output < 0 ||
         (dup2(plan.output, STDOUT_FILENO) >= 0 && dup2(plan.output, STDERR_FILENO) >= 0);
}

[[noreturn]] void run_child(const Ready& ready, int gate, int report) {
  const ChildPlan& plan = ready.plan;
  if (plan.new_session && setsid() < 0) fail(report, Stage::session);
  if (plan.new_group && setpgid(0, 0) != 0) fail(report, Stage::session);
  if (!ready.cgroup_file.empty() && !enter_cgroup(ready.cgroup_file)) fail(report, Stage::cgroup);
  if (plan.user && !become(*plan.user, ready.groups)) fail(report, Stage::user);
  if (plan.umask) umask(*plan.umask);
  if (!plan.directory.empty() && chdir(plan.directory.c_str()) != 0) fail(report, Stage::directory);

  char opened = 0;
  ssize_t got = 0;
  do {
    got = read(gate, &opened, 1);
  } while (got < 0 && errno == EINTR);
  if (got != 1) _exit(125);  // nobody will open it any more

  if (!take_streams(plan)) fail(report, Stage::streams);
  if (plan.terminal >= 0) {
    // From the background this asks for SIGTTOU, which would stop us.
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGTTOU, &ignore, nullptr);
    if (tcsetpgrp(plan.terminal, getpgrp()) != 0) fail(report, Stage::terminal);
  }
  limit_open_files(plan.open_files);
  reset_signals(plan.ignored);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  environ = const_cast<char**>(ready.environment.data());  // its own PATH finds the program
  execvp(ready.words[0], ready.words.data());
  fail(report, Stage::exec);
}

// The kernel says "permission denied" too if a directory of the PATH may not be looked into.
bool stands_in_path(const std::string& program, std::string_view path) {
  while (!path.empty()) {
    const std::string_view directory = path.substr(0, path.find(':'));
    path.remove_prefix(std::min(directory.size() + 1, path.size()));
    const std::string file = fmt::format("{}/{}", directory.empty() ? "." : directory, program);
    if (access(file.c_str(), F_OK) == 0) return true;
  }
  return false;
}

ExecFailure exec_failure(const std::string& program, std::string_view path, int number) {
  const bool plain = program.find('/') == std::string::npos;
  if (number == EACCES && plain && !stands_in_path(program, path)) number = ENOENT;
  if (number == ENOENT && !plain && access(program.c_str(), F_OK) == 0) {
    return {.exit_code = 126,
            .why = fmt::format("cannot run \"{}\": the interpreter that its first line names does "
                               "not exist",
                               printable(program))};
  }
  if (number == ENOENT || number == ENOTDIR) {
    return {.exit_code = 127,
            .why = fmt::format("cannot run \"{}\": {}", printable(program),
                               plain ? "no such program in the PATH" : errno_text(number))};
  }
  return {.exit_code = 126,
          .why = fmt::format("cannot run \"{}\": {}", printable(program), errno_text(number))};
}

}  // namespace

Result<GatedChild> GatedChild::fork(const ChildPlan& plan) {
  ASSERT(!plan.command.empty());
  Ready ready{.plan = plan,
              .words = pointers(plan.command),
              .environment = pointers(plan.environment),
              .groups = {},
              .cgroup_file = plan.cgroup.empty() ? "" : plan.cgroup + "/cgroup.procs"};
  if (plan.user) ready.groups.assign(plan.user->groups.begin(), plan.user->groups.end());
  TRY(Pipe gate, make_pipe());
  TRY(Pipe report, make_pipe());

  // No handler of ours may run in the child, and the signals of its group reach it only as program.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  const int number = errno;
  if (pid == 0) {
    gate.write.reset();
    run_child(ready, gate.read.get(), report.write.get());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    return Error(ErrorCode::exhausted,
                 fmt::format("cannot start a process: {}", errno_text(number)));
  }
  // The child does the same; whoever comes first, afterwards it is so for both.
  if (plan.new_group) setpgid(pid, pid);

  GatedChild child;
  child.pid_ = pid;
  child.program_ = plan.command.front();
  for (const std::string& entry : plan.environment) {
    if (entry.starts_with("PATH=")) child.path_ = entry.substr(5);
  }
  child.directory_ = plan.directory;
  child.cgroup_ = plan.cgroup;
  child.gate_ = std::move(gate.write);
  child.failure_ = std::move(report.read);
  return child;
}

std::optional<ExecFailure> GatedChild::go() {
  const char open = 1;
  // A child that ended meanwhile has closed its side; what it left says more than EPIPE would.
  struct sigaction ignore = {};
  struct sigaction old = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &old);
  write_all(gate_.get(), {&open, 1});
  sigaction(SIGPIPE, &old, nullptr);
  gate_.reset();

  Failure failure = {};
  ssize_t got = 0;
  do {
    got = read(failure_.get(), &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  failure_.reset();
  if (got != sizeof failure) return std::nullopt;

  const auto surroundings = [&](std::string_view what) {
    return ExecFailure{.exit_code = 125,
                       .why = fmt::format("cannot run \"{}\": {}: {}", printable(program_), what,
                                          errno_text(failure.number))};
  };
  switch (failure.stage) {
    case Stage::session: return surroundings("no session or process group of its own");
    case Stage::cgroup: return surroundings("cannot enter its cgroup " + cgroup_);
    case Stage::user: return surroundings("cannot become its user");
    case Stage::directory:
      return surroundings("cannot enter its working directory " + printable(directory_));
    case Stage::streams: return surroundings("no standard streams");
    case Stage::terminal: return surroundings("cannot get the terminal");
    case Stage::exec: break;
  }
  return exec_failure(program_, path_, failure.number);
}

}  // namespace berth::local
