#include "local/job.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/printable.h"
#include "local/processes.h"
#include "local/signals.h"

namespace berth::local {

namespace {

constexpr int kReportMs = 10'000;

std::string beside_our_program() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  if (size <= 0) return "berth-supervise";
  std::string own(path, static_cast<std::size_t>(size));
  return own.substr(0, own.rfind('/') + 1) + "berth-supervise";
}

// The supervisor's report: empty for "ok".
std::string read_report(int fd) {
  std::string text;
  for (;;) {
    pollfd polled = {.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = poll(&polled, 1, kReportMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return "it did not report within 10 s";
    char bytes[1024];
    const ssize_t got = read(fd, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(bytes, static_cast<std::size_t>(got));
  }
  if (text == "ok\n") return {};
  return text.empty() ? "it ended without a report" : text;
}

class SpawnSetup {
 public:
  explicit SpawnSetup(int report) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, report, 3);
    posix_spawnattr_init(&attributes_);
    sigset_t set;
    sigemptyset(&set);
    posix_spawnattr_setsigmask(&attributes_, &set);
    sigfillset(&set);
    posix_spawnattr_setsigdefault(&attributes_, &set);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  int spawn(const std::string& program, const std::string& mode, const std::string& directory) {
    std::string words[] = {"berth-supervise", mode, directory};
    char* const list[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    pid_t pid = 0;
    const int failed = posix_spawn(&pid, program.c_str(), &actions_, &attributes_, list, environ);
    if (failed != 0) return failed;
    // The first process ends as soon as the second one, the supervisor, is there.
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return 0;
  }

 private:
  posix_spawn_file_actions_t actions_ = {};
  posix_spawnattr_t attributes_ = {};
};

// What was the matter if neither a supervisor nor the main process is there.
JobState lost(JobState state, const Processes& processes) {
  state.end = JobEnd::lost;
  state.message = state.boot_id != processes.boot_id()
                      ? "the machine was restarted while it ran"
                      : "its supervisor was killed, and so nobody knows how it ended";
  return state;
}

}  // namespace

std::string outcome_text(const JobStatus& status) {
  if (status.phase == JobPhase::absent) return "not started yet";
  const JobState& state = status.state;
  std::string text;
  switch (state.end) {
    case JobEnd::none: return "running";
    case JobEnd::exited: text = fmt::format("exit status {}", state.code); break;
    case JobEnd::signalled: {
      const char* name = sigabbrev_np(state.code);
      text = fmt::format("killed by signal {} ({})", state.code, name != nullptr ? name : "?");
      break;
    }
    case JobEnd::not_started: text = fmt::format("not started: {}", state.message); break;
    case JobEnd::lost: text = fmt::format("unknown: {}", state.message); break;
  }
  if (state.stopped_by == "time") return text + ", its time was over";
  return state.stopped_by.empty()
             ? text
             : fmt::format("{}, ended on request ({})", text, state.stopped_by);
}

Jobs::Jobs(JobsOptions options)
    : supervisor_(options.supervisor.empty() ? beside_our_program()
                                             : std::move(options.supervisor)) {}

Result<void> Jobs::launch(const std::string& directory, const char* mode) const {
  TRY(Pipe report, make_pipe());
  {
    // Neither the pipe's end that it reads nor anything else of ours reaches it: all closes on
    // exec.
    SpawnSetup setup(report.write.get());
    const int failed = setup.spawn(supervisor_, mode, directory);
    if (failed != 0) {
      return Error(ErrorCode::unavailable,
                   fmt::format("cannot start the supervisor program {}: {}; it belongs beside the "
                               "program berth",
                               printable(supervisor_), errno_text(failed)));
    }
  }
  report.write.reset();
  std::string said = read_report(report.read.get());
  if (said.empty()) return success();
  while (said.ends_with('\n'))
    said.pop_back();
  return Error(ErrorCode::unavailable,
               fmt::format("the supervisor of the job in {} could not start", printable(directory)),
               Error(ErrorCode::unavailable, said));
}

Result<JobStatus> Jobs::start(const std::string& directory, const JobSpec& spec) const {
  const JobFiles files(directory);
  const JobStatus before = status(directory);
  if (before.phase != JobPhase::absent || before.supervised) {
    return Error(ErrorCode::already_exists,
                 fmt::format("a job was started in {} already", printable(directory)));
  }
  // A spec that a daemon left that was killed before the start is written anew.
  if (unlink(files.path("spec").c_str()) != 0 && errno != ENOENT && errno != ENOTDIR)
    return system_error("replace", files.path("spec"), errno);
  TRY_VOID(files.write_spec(spec));
  TRY_VOID(launch(directory, "start"));
  return status(directory);
}

JobStatus Jobs::status(const std::string& directory) const {
  const JobFiles files(directory);
  JobStatus status;
  // The lock first: a supervisor that ends between the two looks has written its state before.
  status.supervised = files.is_locked();
  const auto state = files.read_state();
  if (!state) return status;
  status.state = *state;
  if (state->end != JobEnd::none) {
    status.phase = JobPhase::ended;
    return status;
  }
  status.phase = JobPhase::running;
  if (status.supervised) return status;
  const Processes processes;
  const Process* main = processes.find(state->process);
  if (state->boot_id == processes.boot_id() && main != nullptr && main->lives()) return status;
  status.phase = JobPhase::ended;
  status.state = lost(*state, processes);
  return status;
}

Result<void> Jobs::terminate(const std::string& directory, Duration grace,
                             const std::string& reason) const {
  const JobFiles files(directory);
  const JobStatus now = status(directory);
  if (now.phase == JobPhase::ended) return success();
  if (now.phase == JobPhase::absent) {
    return Error(ErrorCode::not_found,
                 fmt::format("no job was started in {}", printable(directory)));
  }
  TRY_VOID(files.write_order({.grace = grace, .reason = reason}));
  // The order is on disk: a supervisor that starts now finds it there.
  if (now.supervised && signal_process(now.state.supervisor, SIGUSR1)) return success();
  TRY(const JobStatus adopted, adopt(directory));
  if (adopted.phase == JobPhase::running) signal_process(adopted.state.supervisor, SIGUSR1);
  return success();
}

Result<JobStatus> Jobs::adopt(const std::string& directory) const {
  const JobStatus now = status(directory);
  if (now.supervised || now.phase == JobPhase::absent) return now;
  if (now.phase == JobPhase::ended && JobFiles(directory).read_state()->end != JobEnd::none)
    return now;
  // It runs alone, or it is lost: then what it left behind is to be ended, and its end recorded.
  const auto launched = launch(directory, "adopt");
  const JobStatus after = status(directory);
  if (!launched.ok() && !after.supervised && after.phase == JobPhase::running)
    return launched.error();
  return after;
}

}  // namespace berth::local
