#include "local/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <poll.h>
#include <set>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "local/attribution.h"
#include "local/files.h"
#include "local/gated_child.h"
#include "local/job_files.h"
#include "local/job_log.h"
#include "local/processes.h"
#include "local/signals.h"

namespace berth::local {

namespace {

constexpr std::int64_t kLookMs = 100;      // at what is left, while the job is being ended
constexpr std::int64_t kRetryMs = 1000;    // a state that could not be written
constexpr std::size_t kChunk = 65'536;     // of output
constexpr int kPipeBytes = 1 << 20;        // of output that waits while no supervisor lives
constexpr std::size_t kMostLeft = 10'000;  // processes ended per look; the next look sees the rest
constexpr std::size_t kMostTold = 10 * kMostLeft;  // to end; of more, KILL takes care

std::int64_t clock_ms(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// In which start times of processes are told, the time that the machine slept included.
std::int64_t boot_ms() { return clock_ms(CLOCK_BOOTTIME); }

// The kernel's OOM killer may have been told to spare the daemon (OOMScoreAdjust= of its unit), not
// what it starts: a job that eats all memory would outlive everybody else.
void stand_with_all_others() {
  const Descriptor score(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  [[maybe_unused]] const ssize_t written = score.valid() ? write(score.get(), "0", 1) : 0;
}

class Supervisor {
 public:
  explicit Supervisor(const std::string& directory) : files_(directory) {}

  Result<void> start();
  Result<void> adopt();
  void watch();

 private:
  Result<void> prepare();
  Result<Descriptor> open_output(int flags) const;
  std::string make_cgroup() const;
  void remember_cgroup();
  Result<void> run(const ChildPlan& plan);

  void take_output();
  void take_signals();
  void collect();
  void take_order();
  void keep_time();
  void end_all(Duration grace, const std::string& reason);
  void tell(const std::vector<Process>& processes);
  void carry_on_ending();
  std::vector<Process> left() const;
  void record_end(JobEnd end, int code);
  void save();
  std::int64_t time_left_ms() const;
  int wait_ms() const;

  JobFiles files_;
  JobSpec spec_;
  JobState state_;
  Descriptor lock_;
  Descriptor signals_;
  Descriptor output_;
  Descriptor main_;  // pidfd of a main process that is no child of ours
  std::optional<LogWriter> log_;
  std::string cgroup_directory_;

  bool adopted_ = false;
  bool unsaved_ = false;
  std::int64_t next_save_ms_ = 0;
  bool ending_ = false;
  bool killing_ = false;
  std::set<std::pair<ProcessKey, std::string>> told_;  // with their names at the time
  std::int64_t kill_at_ms_ = 0;
  bool finished_ = false;
};

// What both ways begin with. From here on no signal ends this process by accident.
Result<void> Supervisor::prepare() {
  TRY(lock_, files_.lock());
  TRY(spec_, files_.read_spec());
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGCHLD, SIGUSR1, SIGTERM, SIGINT, SIGQUIT, SIGHUP})
    sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
  signals_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) return Error(ErrorCode::exhausted, errno_text(errno));
  log_.emplace(LogPlan{.directory = files_.directory(),
                       .bytes_per_file = spec_.log_bytes_per_file,
                       .files = spec_.log_files});
  return success();
}

// For both directions, so that neither end ever sees the other one gone: no SIGPIPE for the job if
// we are killed, no end of file for us between two of its processes.
Result<Descriptor> Supervisor::open_output(int flags) const {
  const std::string path = files_.path("output");
  if (mkfifo(path.c_str(), 0600) != 0 && errno != EEXIST) return system_error("make", path, errno);
  Descriptor fifo(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags));
  if (!fifo.valid()) return system_error("open", path, errno);
  // Programs open /dev/stdout anew, which asks for the rights of the file.
  if (spec_.user && fchown(fifo.get(), spec_.user->uid, spec_.user->gid) != 0)
    return system_error("give to the job's user", path, errno);
  return fifo;
}

// A cgroup only makes it surer to find all of a job: without the right to make one there is none.
std::string Supervisor::make_cgroup() const {
  if (spec_.cgroup.empty()) return {};
  const std::string& own = files_.directory();
  std::string path =
      fmt::format("{}/berth-{}", spec_.cgroup, own.substr(own.find_last_of('/') + 1));
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return {};
  if (access((path + "/cgroup.procs").c_str(), W_OK) == 0) return path;
  rmdir(path.c_str());
  return {};
}

void Supervisor::remember_cgroup() {
  if (cgroup_directory_.empty()) return;
  const std::string name = cgroup_directory_.substr(cgroup_directory_.find_last_of('/'));
  const Processes processes;
  for (const std::string& path : processes.cgroups(state_.process.pid)) {
    if (path.ends_with(name)) state_.cgroup = path;
  }
}

Result<void> Supervisor::start() {
  TRY_VOID(prepare());
  if (files_.read_state())
    return Error(ErrorCode::already_exists, "a job was started in its directory already");
  stand_with_all_others();
  // What the job starts and leaves stays below us.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  TRY(output_, open_output(O_NONBLOCK));
  fcntl(output_.get(), F_SETPIPE_SZ, kPipeBytes);  // more than a user may: it stays smaller
  TRY(const Descriptor for_job, open_output(0));
  const Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  cgroup_directory_ = make_cgroup();
  return run({.command = spec_.command,
              .environment = spec_.environment,
              .directory = spec_.directory,
              .user = spec_.user,
              .umask = spec_.umask,
              .open_files = spec_.open_files,
              .input = nothing.get(),
              .output = for_job.get(),
              .new_session = true,
              .cgroup = cgroup_directory_});
}

Result<void> Supervisor::run(const ChildPlan& plan) {
  TRY(GatedChild child, GatedChild::fork(plan));
  const Processes processes;
  const Process* self = processes.find(getpid());
  const Process* main = processes.find(child.pid());
  if (self == nullptr || main == nullptr)
    return Error(ErrorCode::unavailable, "/proc does not show this process: is it mounted?");
  state_.supervisor = self->key;
  state_.process = main->key;
  state_.boot_id = processes.boot_id();
  state_.started_at_ms = clock_ms(CLOCK_REALTIME);
  remember_cgroup();
  // Who reads this may already end it; should the write fail, the gate stays shut.
  TRY_VOID(files_.write_state(state_, false));
  files_.reserve_state();
  if (const auto failure = child.go()) {
    state_.message = failure->why;
    log_->write(fmt::format("berth: {}\n", failure->why));
    waitpid(static_cast<pid_t>(child.pid()), nullptr, 0);
    record_end(JobEnd::not_started, failure->exit_code);
  } else if (!cgroup_directory_.empty() && state_.cgroup.empty()) {
    remember_cgroup();  // at the fork it had perhaps not entered it yet
    if (!state_.cgroup.empty()) save();
  }
  return success();
}

Result<void> Supervisor::adopt() {
  TRY_VOID(prepare());
  const auto state = files_.read_state();
  if (!state) return Error(ErrorCode::not_found, "no job was started in its directory");
  state_ = *state;
  adopted_ = true;
  finished_ = state_.end != JobEnd::none;
  if (finished_) return success();
  TRY(output_, open_output(O_NONBLOCK));
  const Processes processes;
  if (const Process* self = processes.find(getpid())) state_.supervisor = self->key;
  main_.reset(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(state_.process.pid), 0)));
  const std::string name = state_.cgroup.substr(state_.cgroup.find_last_of('/') + 1);
  if (!state_.cgroup.empty()) cgroup_directory_ = spec_.cgroup + "/" + name;
  TRY_VOID(files_.write_state(state_, false));
  files_.reserve_state();
  return success();
}

// Everything of the job that lives, also what left its session.
std::vector<Process> Supervisor::left() const {
  const Processes processes;
  Proof proof;
  proof.lease = spec_.lease;
  constexpr std::string_view kJournal = "BERTH_JOURNAL_ID=";
  for (const std::string& word : spec_.environment) {
    if (word.starts_with(kJournal)) proof.journal = word.substr(kJournal.size());
  }
  proof.uid = spec_.user ? spec_.user->uid : static_cast<std::uint32_t>(getuid());
  proof.boot_id = state_.boot_id;
  proof.process = state_.process;
  proof.session = state_.process.pid;
  proof.leads_group = proof.leads_session = true;
  proof.cgroup = state_.cgroup;
  std::vector<Process> found = members(processes, proof, kMostLeft);
  if (adopted_) return found;
  Proof below;  // we are its subreaper: what lost its parents is below us
  below.boot_id = state_.boot_id;
  below.process = state_.supervisor;
  for (const Process& process : members(processes, below, kMostLeft)) {
    const bool known =
        std::ranges::any_of(found, [&](const Process& one) { return one.key == process.key; });
    if (process.key != state_.supervisor && !known) found.push_back(process);
  }
  return found;
}

void Supervisor::end_all(Duration grace, const std::string& reason) {
  const std::int64_t kill_at = clock_ms(CLOCK_MONOTONIC) + grace.count();
  if (state_.end == JobEnd::none && state_.stopped_by.empty() && !reason.empty()) {
    state_.stopped_by = reason;
    save();
  }
  if (ending_) {
    kill_at_ms_ = std::min(kill_at_ms_, kill_at);
    return;
  }
  ending_ = true;
  kill_at_ms_ = kill_at;
  if (grace.count() <= 0) return;  // the next look kills
  tell(left());
}

// Each program once: a second TERM makes many give up what they do on the first. One that was told
// between fork and exec may have lost it in the handler of what it was until then.
void Supervisor::tell(const std::vector<Process>& processes) {
  for (const Process& process : processes) {
    if (told_.size() >= kMostTold || !told_.emplace(process.key, process.name).second) continue;
    signal_process(process.key, SIGTERM);
    signal_process(process.key, SIGCONT);  // what is stopped could not obey
  }
}

void Supervisor::carry_on_ending() {
  const std::vector<Process> still = left();
  if (still.empty()) {
    finished_ = state_.end != JobEnd::none;
    return;
  }
  if (clock_ms(CLOCK_MONOTONIC) < kill_at_ms_) {
    // What the job started while it was told, to save its work with perhaps, is its own affair as
    // long as the job lives. What it leaves behind is not.
    if (state_.end != JobEnd::none) tell(still);
    return;
  }
  killing_ = true;
  if (!cgroup_directory_.empty()) {
    const Descriptor file(open((cgroup_directory_ + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
    if (file.valid()) write_all(file.get(), "1");  // also what is being forked now (Linux 5.14)
  }
  for (const Process& process : still)
    signal_process(process.key, SIGKILL);
}

void Supervisor::record_end(JobEnd end, int code) {
  state_.end = end;
  state_.code = code;
  state_.ended_at_ms = clock_ms(CLOCK_REALTIME);
  take_output();  // so that who sees the end finds the whole log
  log_->finish();
  save();
  end_all(spec_.grace, "");
}

void Supervisor::save() {
  const Result<void> saved = files_.write_state(state_, state_.end != JobEnd::none);
  // Where the job's directory was deleted nobody will ever read it: trying on would be for ever.
  unsaved_ = !saved.ok() && saved.error().code() != ErrorCode::not_found;
  if (unsaved_) {
    next_save_ms_ = clock_ms(CLOCK_MONOTONIC) + kRetryMs;
  } else if (saved.ok() && state_.end == JobEnd::none) {
    files_.reserve_state();
  }
}

void Supervisor::take_output() {
  if (!output_.valid()) return;
  char bytes[kChunk];
  // At most what the pipe holds: a job that never stops printing must not keep us here.
  for (std::size_t taken = 0; taken < std::size_t{kPipeBytes};) {
    const ssize_t got = read(output_.get(), bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    log_->write({bytes, static_cast<std::size_t>(got)});
    taken += static_cast<std::size_t>(got);
  }
}

void Supervisor::collect() {
  int status = 0;
  pid_t pid = 0;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (adopted_ || pid != state_.process.pid || state_.end != JobEnd::none) continue;
    if (WIFSIGNALED(status)) {
      record_end(JobEnd::signalled, WTERMSIG(status));
    } else {
      record_end(JobEnd::exited, WEXITSTATUS(status));
    }
  }
  if (!adopted_ || state_.end != JobEnd::none) return;
  const Processes processes;
  const Process* main = processes.find(state_.process);
  if (state_.boot_id == processes.boot_id() && main != nullptr && main->lives()) return;
  state_.message = state_.boot_id == processes.boot_id()
                       ? "its first supervisor was killed, and so nobody knows how it ended"
                       : "the machine was restarted while it ran";
  record_end(JobEnd::lost, 0);
}

void Supervisor::take_order() {
  if (const auto order = files_.read_order()) end_all(order->grace, order->reason);
}

void Supervisor::take_signals() {
  signalfd_siginfo info = {};
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    const auto number = static_cast<int>(info.ssi_signo);
    if (number == SIGTERM || number == SIGINT || number == SIGQUIT)
      end_all(spec_.grace, "its supervisor got the signal to end");
  }
}

void Supervisor::keep_time() {
  if (spec_.max_time && !ending_ && time_left_ms() <= 0) end_all(spec_.grace, "time");
}

// Of the job's own limit, counted from its start; a new supervisor goes on counting.
std::int64_t Supervisor::time_left_ms() const {
  const auto ticks = static_cast<std::int64_t>(state_.process.start_ticks);
  return ticks * 1000 / sysconf(_SC_CLK_TCK) + spec_.max_time->count() - boot_ms();
}

// Until there is something to do without being called.
int Supervisor::wait_ms() const {
  std::int64_t wait = 3'600'000;
  const std::int64_t now = clock_ms(CLOCK_MONOTONIC);
  if (ending_) wait = std::min(wait, kLookMs);
  if (unsaved_) wait = std::min(wait, next_save_ms_ - now);
  if (spec_.max_time && !ending_) wait = std::min(wait, time_left_ms());
  if (adopted_ && !main_.valid()) wait = std::min(wait, kLookMs);  // without pidfds: look
  return static_cast<int>(std::max<std::int64_t>(0, wait));
}

void Supervisor::watch() {
  take_order();  // one may have come before us
  if (!finished_) collect();
  while (!finished_ || unsaved_) {
    pollfd polled[] = {
        {.fd = signals_.get(), .events = POLLIN, .revents = 0},
        {.fd = output_.get(), .events = POLLIN, .revents = 0},
        {.fd = state_.end == JobEnd::none ? main_.get() : -1, .events = POLLIN, .revents = 0}};
    poll(polled, std::size(polled), wait_ms());
    take_output();
    take_signals();
    collect();
    take_order();
    keep_time();
    if (ending_ && !finished_) carry_on_ending();
    if (unsaved_ && clock_ms(CLOCK_MONOTONIC) >= next_save_ms_) save();
  }
  take_output();
  log_->finish();
  if (!cgroup_directory_.empty()) rmdir(cgroup_directory_.c_str());
  // Nothing of the job lives, nobody writes to it any more.
  unlink(files_.path("output").c_str());
}

void leave_the_daemons_surroundings() {
  setsid();
  umask(0077);
  const Descriptor nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (int stream = STDIN_FILENO; nothing.valid() && stream <= STDERR_FILENO; ++stream)
    dup2(nothing.get(), stream);
  // Do not keep alive what an administrator wants to unmount.
  [[maybe_unused]] const int moved = chdir("/");
}

}  // namespace

int supervise(const std::string& directory, SuperviseMode mode, int report) {
  fcntl(report, F_SETFD, FD_CLOEXEC);
  // Whatever else the daemon, or who started it, left open.
  close_range(static_cast<unsigned>(report) + 1, ~0U, 0);
  const pid_t second = fork();
  if (second != 0) return second > 0 ? 0 : 1;
  Supervisor supervisor(std::filesystem::absolute(directory).string());
  leave_the_daemons_surroundings();
  const auto begun = mode == SuperviseMode::start ? supervisor.start() : supervisor.adopt();
  // Should the daemon be gone, nobody reads it, and the job goes on all the same.
  write_all(report, begun.ok() ? "ok\n" : begun.error().to_string() + "\n");
  close(report);
  if (!begun.ok()) return 1;
  supervisor.watch();
  return 0;
}

}  // namespace berth::local
