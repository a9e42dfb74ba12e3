// `berth run`: a program with a place on a GPU, from reservation to release.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <ostream>
#include <poll.h>
#include <string>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "cli/container_words.h"
#include "cli/ensure_daemon.h"
#include "cli/keeper.h"
#include "cli/lease_wire.h"
#include "cli/place_options.h"
#include "cli/run_lease.h"
#include "cli/run_plan.h"
#include "cli/verbs.h"
#include "cli/words_for_people.h"
#include "local/attribution.h"
#include "local/foreground.h"
#include "local/signals.h"

namespace berth::cli {

namespace {

constexpr int kEvicted = 75;     // EX_TEMPFAIL: the same command may succeed later
constexpr int kTimeOver = 124;   // as timeout(1)
constexpr int kMostGrants = 10;  // lost before they were confirmed, one after the other

constexpr Option kOptions[] = {
    kGpuMemoryOption,
    kLimitOption,
    kGpusOption,
    kFractionOption,
    kMigProfileOption,
    kQueueOption,
    kPriorityOption,
    {.name = "--preemptible", .help = "may be ended for work that its queue owes a place"},
    kWaitTimeoutOption,
    kTimeOption,
    kGraceOption,
    kNoGuardOption,
    {.name = "--container",
     .help = "the command is `docker run …` or `podman run …`: the container gets the granted GPU"},
};

constexpr Operand kCommand{.name = "COMMAND",
                           .help = "the program and its words; write -- before it",
                           .kind = ValueKind::file,
                           .required = true,
                           .repeats = true,
                           .is_command = true};

constexpr Example kExamples[] = {
    {"berth run --gpu-memory 4Gi -- python train.py",
     "waits for 4 GiB on one GPU, then runs there"},
    {"berth run --gpu-memory 4Gi --limit 12Gi -- python train.py",
     "4 GiB for sure, up to 12 GiB while there is room"},
    {"berth run --gpus 2 -- torchrun --nproc-per-node 2 train.py", "two whole GPUs"},
    {"berth run --gpu-memory 8Gi --container -- podman run --rm -it IMAGE nvidia-smi",
     "a container that sees that GPU alone"},
};

constexpr std::string_view kDescription =
    "Waits until the asked memory is free, pins the program to that GPU, holds the limit, and is "
    "otherwise as the program itself: standard streams, terminal, job control, signals and exit "
    "status pass through. While it waits, one line on standard error says at which place, how much "
    "is missing and for what; Ctrl-C leaves the queue.\n\n"
    "The daemon is $BERTH_SOCKET's, else the machine's (/run/berth/berth.sock), else your own; "
    "where "
    "the machine has none, one is started for you. CUDA_VISIBLE_DEVICES and the like in your "
    "environment "
    "have no effect on the program.\n\n"
    "Exit status: the program's; if a signal killed it, we die by the same. 1 no place was got, 2 "
    "wrong usage, 75 it had to leave for others (the same command may succeed later), 124 its "
    "--time was over, 126 it cannot be run, 127 it was not found. If `berth run` itself is killed "
    "by SIGKILL, the program runs on and keeps its place until it ends.";

std::string fresh_key() {
  unsigned char bytes[12] = {};
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) {
    // Before the kernel has randomness a time and a pid are as unlikely to come twice.
    const auto now = static_cast<std::uint64_t>(std::time(nullptr));
    std::copy_n(reinterpret_cast<const unsigned char*>(&now), sizeof now, bytes);
  }
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return fmt::format("run:{}:{}:{:02x}", printable(host), getpid(), fmt::join(bytes, ""));
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry)
    entries.emplace_back(*entry);
  return entries;
}

// Where the engine writes the container's id; gone at the end.
class IdFile {
 public:
  explicit IdFile(bool needed) {
    if (!needed) return;
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");  // NOLINT(concurrency-mt-unsafe)
    std::string pattern = std::string(runtime != nullptr ? runtime : "/tmp") + "/berth-run-XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) directory_ = pattern;
  }
  ~IdFile() {
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  }
  IdFile(const IdFile&) = delete;
  IdFile& operator=(const IdFile&) = delete;

  std::string path() const { return directory_.empty() ? "" : directory_ + "/container"; }

 private:
  std::string directory_;
};

// Podman knows GPUs by the names of CDI files that NVIDIA's toolkit makes.
bool has_device_names() {
  for (const char* directory : {"/etc/cdi", "/var/run/cdi"}) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
      if (entry.path().filename().string().find("nvidia") != std::string::npos) return true;
    }
  }
  return false;
}

// Inside a container the limit is believed only from files of the container's root.
bool guard_is_believed(const std::string& directory, bool podman) {
  struct stat policy = {};
  if (stat((directory + "/policy").c_str(), &policy) != 0) return false;
  const bool rootless = podman && geteuid() != 0;
  return policy.st_uid == (rootless ? geteuid() : 0);
}

// One run: everything between the usage and the exit status.
class Run {
 public:
  Run(RunPlan plan, Console& console)
      : plan_(std::move(plan)), line_(console), id_file_(plan_.container) {}

  // The exit status; or, as a negative number, the signal to die by.
  int run() {
    const auto daemon = ensure_daemon({});
    if (!daemon.ok()) {
      line_.say(printable_lines(daemon.error().to_string()));
      return static_cast<int>(ExitCode::failed);
    }
    if (daemon->started) {
      line_.say(fmt::format("no daemon was running, so one was started for you; its log is {}",
                            daemon->log));
    }
    address_ = daemon->address;
    wire_.emplace(address_);
    for (int grants = 0; grants < kMostGrants; ++grants) {
      Obtained obtained = obtain_lease(address_, plan_.reservation, signals_, line_);
      if (obtained.kind == Obtained::Kind::signalled) return -obtained.signal;
      if (obtained.kind == Obtained::Kind::refused) return static_cast<int>(obtained.code);
      lease_ = std::move(obtained.lease);
      if (const auto status = start()) return *status;
    }
    line_.say(
        "its place was lost again and again before the program could start; see the log of "
        "the daemon");
    return static_cast<int>(ExitCode::failed);
  }

 private:
  std::string id() const { return std::string(lease_.text("id")); }

  std::string journal() const {
    const json::Value* env = lease_.find("env");
    return env == nullptr ? std::string() : std::string(env->text("BERTH_JOURNAL_ID"));
  }

  void give_back(std::string_view reason) {
    const auto answer = wire_->release(id(), true, reason);
    if (!answer.ok() || !answer->ok()) {
      line_.say(fmt::format("could not give lease {} back ({}); the daemon frees it by itself",
                            id(),
                            printable(answer.ok() ? answer->message : answer.error().message())));
      return;
    }
    if (answer->state() != "ending") return;
    constexpr std::size_t kShown = 3;
    std::vector<std::string> names;
    for (const local::Process& process : local::members(local::Processes(), proof_, kShown))
      names.push_back(local::named(process));
    line_.say(fmt::format("lease {} lasts until what the program left behind has ended{}{}", id(),
                          names.empty() ? "" : ": ", fmt::join(names, ", ")));
  }

  // The words and environment of the program. Errors: what a container may not ask.
  Result<local::ForegroundPlan> program() {
    const auto variables = lease_variables(lease_);
    if (!plan_.container) {
      return local::ForegroundPlan{.command = plan_.command,
                                   .environment = run_environment(own_environment(), variables)};
    }
    ContainerGrant grant;
    grant.id_file = id_file_.path();
    grant.device_names = has_device_names();
    if (const json::Value* devices = lease_.find("devices"); devices != nullptr) {
      for (const json::Value& device : devices->as_array())
        grant.uuids.emplace_back(device.text("uuid"));
    }
    for (const auto& [name, value] : variables) {
      if (name == "LD_PRELOAD") {
        grant.guard_library = value;
      } else if (name == "BERTH_GRANT_DIR") {
        grant.grant_directory = value;
      } else if (name != "CUDA_VISIBLE_DEVICES") {
        grant.environment.emplace_back(name, value);
      }
    }
    // It sees the granted devices alone, counted from 0.
    std::string indices = "0";
    for (std::size_t i = 1; i < grant.uuids.size(); ++i)
      indices += fmt::format(",{}", i);
    grant.environment.emplace_back("CUDA_VISIBLE_DEVICES", indices);
    TRY(ContainerCommand first, rewrite_container(plan_.command, grant));
    const bool podman = first.engine.ends_with("podman");
    const bool carried = !grant.guard_library.empty() && !first.own_user_names &&
                         guard_is_believed(grant.grant_directory, podman);
    if (!grant.guard_library.empty() && !carried) {
      line_.say(
          "the memory limit is not enforced inside this container: its root is another user "
          "than the daemon's files belong to");
      grant.guard_library.clear();
      TRY(first, rewrite_container(plan_.command, grant));
    }
    // In the container its programs may be under any user; the daemon has let in our own alone.
    if (carried) chmod(grant.grant_directory.c_str(), 0755);
    for (const std::string& note : first.notes)
      line_.say(note);
    engine_ = first.engine;
    id_path_ = first.id_file;
    return local::ForegroundPlan{.command = std::move(first.words),
                                 .environment = run_environment(own_environment(), {})};
  }

  // Nothing: the grant was lost before it could be confirmed.
  std::optional<int> start() {
    auto words = program();
    if (!words.ok()) {
      give_back("the container's options were refused");
      line_.say(words.error().message());
      return static_cast<int>(ExitCode::usage);
    }
    auto prepared = local::Foreground::prepare(*words);
    if (!prepared.ok()) {
      give_back("no process could be made");
      line_.say(prepared.error().to_string());
      return static_cast<int>(ExitCode::failed);
    }
    auto answer = wire_->confirm(id(), json::object({{"pid", prepared->pid()}}));
    if (!answer.ok()) answer = wire_->confirm(id(), json::object({{"pid", prepared->pid()}}));
    if (!answer.ok() || !answer->ok()) {
      prepared->give_up();
      if (answer.ok() && (answer->code == "lost" || answer->code == "unknown-lease"))
        return std::nullopt;
      give_back("it could not be confirmed");
      line_.say(fmt::format("nothing was started: {}",
                            printable(answer.ok() ? answer->message : answer.error().to_string())));
      return static_cast<int>(ExitCode::failed);
    }
    lease_ = std::move(answer->lease);
    int signal = signals_.take();
    if (signal == 0) signal = prepared->pending_signal();
    if (signal != 0) {  // as early as that it would be the program's first and last
      prepared->give_up();
      give_back("berth run was interrupted before the program ran");
      return -signal;
    }
    if (auto proof = local::prove(local::Processes(), {.lease = id(),
                                                       .uid = static_cast<std::uint32_t>(getuid()),
                                                       .pid = prepared->pid(),
                                                       .journal = journal()});
        proof.ok())
      proof_ = std::move(*proof);
    return watch(*prepared);
  }

  // Lets the program run and tells how we end.
  int watch(local::Foreground& program) {
    started_ms_ = boot_ms();
    local::ForegroundHooks hooks;
    hooks.tick = Duration(1'000);
    if (plan_.container) hooks.tick = Duration(200);
    if (plan_.run_time) hooks.tick = std::min(hooks.tick, Duration(plan_.run_time->count() / 2));
    hooks.on_tick = [&] {
      keep(program.pid());
      hooks.fd = keeper_ && keeper_->alive() ? keeper_->fd() : -1;
    };
    hooks.on_readable = [&] {
      for (const KeeperNews& news : keeper_->take_news())
        tell(news);
      if (!keeper_->alive()) hooks.fd = -1;
    };
    const local::ProgramEnd end = program.run(hooks);
    if (keeper_) {
      for (const KeeperNews& news : keeper_->take_news())
        tell(news);
      if (told_to_end_ms_) end_rest();
      keeper_->stop();
    }
    using Kind = local::ProgramEnd::Kind;
    if (end.kind == Kind::not_started) line_.say(printable(end.why));
    give_back(end.kind == Kind::exited      ? fmt::format("exit status {}", end.code)
              : end.kind == Kind::signalled ? fmt::format("killed by signal {}", end.code)
                                            : end.why);
    if (status_) return *status_;
    return end.kind == Kind::signalled ? -end.code : end.code;
  }

  // The program was told to end and has; what it started may take its time like the program, not
  // more. Another signal for us is impatience.
  void end_rest() const {
    constexpr std::int64_t kAfterKillMs = 5'000;  // what does not even die then is the kernel's
    const std::int64_t kill_at = *told_to_end_ms_ + plan_.grace.count();
    const std::int64_t give_up_at = std::max(kill_at, boot_ms()) + kAfterKillMs;
    bool now = false;
    for (;;) {
      const auto left = local::members(local::Processes(), proof_, 1000);
      if (left.empty() || boot_ms() > give_up_at) return;
      now = now || boot_ms() >= kill_at;
      for (const local::Process& process : left) {
        if (now) local::signal_process(process.key, SIGKILL);
      }
      pollfd polled = {.fd = signals_.fd(), .events = POLLIN, .revents = 0};
      if (poll(&polled, 1, 50) > 0 && signals_.take() != 0) now = true;
    }
  }

  static std::int64_t boot_ms() {
    timespec now = {};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
  }

  // Starts the keeper when the program has turned out to last, and again should it be killed.
  void keep(std::int64_t pid) {
    constexpr std::int64_t kAgainMs = 5'000;
    if ((keeper_ && keeper_->alive()) || boot_ms() < keep_at_ms_) return;
    keep_at_ms_ = boot_ms() + kAgainMs;
    KeeperPlan plan{
        .address = address_,
        .lease = id(),
        .journal = journal(),
        .program = pid,
        .life = Duration(std::max<std::int64_t>(1, lease_.integer("ttl_seconds", 120)) * 1000),
        .grace = plan_.grace,
        .container_id_file = id_path_,
        .container_engine = engine_};
    if (plan_.run_time) plan.end_at_ms = started_ms_ + plan_.run_time->count();
    keeper_.reset();
    if (auto keeper = Keeper::start(plan); keeper.ok()) keeper_.emplace(std::move(*keeper));
  }

  void tell(const KeeperNews& news) {
    const std::string why = news.text.empty() ? "" : ": " + news.text;
    const bool ends = news.kind == KeeperNews::Kind::time || news.kind == KeeperNews::Kind::leaving;
    if (ends && !told_to_end_ms_) told_to_end_ms_ = boot_ms();
    switch (news.kind) {
      case KeeperNews::Kind::note: line_.say(news.text); break;
      case KeeperNews::Kind::time:
        line_.say(fmt::format("its time of {} is over; it was told to end",
                              span_text(plan_.run_time->count() / 1000)));
        status_ = kTimeOver;
        break;
      case KeeperNews::Kind::leaving:
        if (news.reason == "evicted") {
          line_.say(fmt::format("it has to leave{}; it was told to end", why));
          status_ = kEvicted;
        } else if (news.reason == "overuse") {
          line_.say(fmt::format("it uses more GPU memory than it may{}; it was told to end", why));
          status_ = static_cast<int>(ExitCode::failed);
        } else {
          line_.say(fmt::format("lease {} was cancelled{}; it was told to end", id(), why));
        }
        break;
      case KeeperNews::Kind::lost:
        line_.say(
            fmt::format("lease {} is lost ({}){}; the program runs on, but its place is no "
                        "longer kept",
                        id(), news.reason, why));
        break;
    }
  }

  RunPlan plan_;
  StatusLine line_;
  SignalWatch signals_;
  IdFile id_file_;
  std::string address_;
  std::optional<LeaseWire> wire_;
  json::Value lease_;
  local::Proof proof_;
  std::optional<Keeper> keeper_;
  std::string engine_;
  std::string id_path_;
  std::optional<int> status_;
  std::optional<std::int64_t> told_to_end_ms_;
  std::int64_t started_ms_ = 0;
  std::int64_t keep_at_ms_ = 0;
};

ExitCode run_program_on_gpu(const Arguments& arguments, Console& console) {
  auto plan = read_run_plan(arguments, fresh_key());
  if (plan.ok()) plan->container = arguments.has("--container");
  if (plan.ok() && plan->container) {
    // Refused before anything is reserved.
    if (const auto checked = rewrite_container(plan->command, {}); !checked.ok())
      plan = checked.error();
  }
  if (!plan.ok()) {
    console.err << "berth run: " << plan.error().message() << "\nTry: berth run --help\n";
    return ExitCode::usage;
  }
  if (const std::string_view engine = started_engine(plan->command);
      !engine.empty() && !plan->container) {
    console.err << fmt::format(
        "berth run: warning: what `{} run` starts is not below this process; its GPU memory counts "
        "as foreign and it may see every GPU. Add --container before the --\n",
        engine);
  }
  int status = 0;
  {
    Run run(std::move(*plan), console);
    status = run.run();
  }
  console.err.flush();
  if (status < 0) local::die_by(-status);
  return static_cast<ExitCode>(status);
}

}  // namespace

constinit const Command kRunCommand{
    .name = "run",
    .summary = "run a program with a place on a GPU",
    .description = kDescription,
    .options = kOptions,
    .operand = kCommand,
    .examples = kExamples,
    .run = run_program_on_gpu,
};

}  // namespace berth::cli
