#include "cli/keeper.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/lease_wire.h"
#include "cli/words_for_people.h"
#include "local/attribution.h"
#include "local/container.h"
#include "local/processes.h"
#include "local/signals.h"
#include "net/client.h"
#include "net/target.h"

namespace berth::cli {

namespace {

using Kind = KeeperNews::Kind;

constexpr std::array<std::pair<Kind, std::string_view>, 4> kKinds = {
    {{Kind::note, "note"}, {Kind::leaving, "leaving"}, {Kind::time, "time"}, {Kind::lost, "lost"}}};
constexpr Duration kTick{250};
constexpr std::int64_t kRetryMs = 1000;            // after the daemon did not answer
constexpr std::int64_t kGuardAfterMs = 1000;       // by then the program's libraries are loaded
constexpr std::int64_t kContainerForMs = 600'000;  // images may have to be pulled
constexpr std::int64_t kLookMs = 2000;  // at what is left of a program whose berth run is gone
constexpr std::size_t kMostProcesses = 10'000;

std::int64_t clock_ms(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

std::int64_t now_ms() { return clock_ms(CLOCK_BOOTTIME); }

void sleep_tick() {
  const timespec tick = {.tv_sec = 0, .tv_nsec = kTick.count() * 1'000'000};
  nanosleep(&tick, nullptr);
}

// What the keeper does, in its own process.
class Work {
 public:
  Work(KeeperPlan plan, local::Proof proof, local::Descriptor news, pid_t parent)
      : plan_(std::move(plan)),
        proof_(std::move(proof)),
        news_(std::move(news)),
        parent_(parent),
        wire_(plan_.address),
        started_ms_(now_ms()),
        renew_at_ms_(started_ms_ + renewal_ms()) {}

  void run() {
    while (!over_) {
      listen();
      // The daemon does not answer, or is being replaced.
      const std::int64_t again = now_ms() + kRetryMs;
      while (!over_ && now_ms() < again && tick())
        sleep_tick();
    }
  }

 private:
  std::int64_t renewal_ms() const { return std::max<std::int64_t>(plan_.life.count() / 3, 500); }

  void tell(Kind kind, std::string reason, std::string text) const {
    if (!news_.valid()) return;
    local::write_all(news_.get(), encode({kind, std::move(reason), std::move(text)}));
  }

  // Hears of the lease until the stream ends.
  void listen() {
    Result<net::Client> client = net::Client::connect(plan_.address);
    if (!client.ok()) return;
    const auto response = client->stream({
        .target = "/v1/leases/" + net::percent_encoded(plan_.lease) + "/events",
        .on_event = [this](const net::SseEvent& event) { return hear(event); },
        .on_tick = [this] { return tick(); },
        .tick = kTick,
    });
    if (response.ok() && (response->status == 404 || response->status == 403))
      lose("unknown", "the daemon does not know the lease any more");
  }

  bool hear(const net::SseEvent& event) {
    const Result<json::Value> lease = json::parse(event.data);
    if (!lease.ok()) return true;
    const std::string_view state = lease->text("state");
    if (const json::Value* evicting = lease->find("evicting");
        evicting != nullptr && evicting->is_object()) {
      const std::string_view why = evicting->text("message");
      leave(lease->text("reason") == "overuse" ? "overuse" : "evicted",
            why.empty() ? "its place is needed by others" : printable(why),
            seconds_since(evicting->text("deadline")).value_or(0));
    }
    if (state == "active" || state == "granted" || state == "suspect" || state == "ending")
      return true;
    const std::string reason(lease->text("reason"));
    const std::string why = printable(lease->text("message"));
    if (reason == "evicted" || reason == "overuse") {
      leave(reason, why, 0);
      kill_at_ms_ = std::min(*kill_at_ms_, now_ms());  // the deadline is over
    } else if (state == "released" || state == "cancelled") {
      leave("cancelled", why, 0);
    } else {
      lose(reason, why);
    }
    return true;
  }

  // `past_deadline_s`: seconds since the daemon's own deadline, negative before it; 0: none.
  void leave(const std::string& reason, const std::string& why, std::int64_t past_deadline_s) {
    lease_gone_ |= reason == "cancelled";
    if (kill_at_ms_) return;
    tell(Kind::leaving, reason, why);
    end_program();
    if (past_deadline_s < 0)
      kill_at_ms_ = std::min(*kill_at_ms_, now_ms() - past_deadline_s * 1000);
  }

  void lose(const std::string& reason, const std::string& why) {
    if (lease_gone_) return;
    lease_gone_ = true;
    if (!kill_at_ms_) tell(Kind::lost, reason, why);
  }

  void end_program() {
    kill_at_ms_ = now_ms() + plan_.grace.count();
    send(SIGTERM);
    send(SIGCONT);  // what is stopped could not obey
  }

  void send(int signal) const {
    const local::Processes processes;
    for (const local::Process& process : local::members(processes, proof_, kMostProcesses))
      local::signal_process(process.key, signal);
  }

  // What there is to do from time to time. False: the stream may end.
  bool tick() {
    const std::int64_t now = now_ms();
    if (plan_.end_at_ms && now >= *plan_.end_at_ms && !kill_at_ms_) {
      tell(Kind::time, "time", "");
      end_program();
    }
    if (kill_at_ms_ && now >= *kill_at_ms_) {
      send(SIGKILL);
      kill_container();
      kill_at_ms_ = now + kRetryMs;
    }
    if (!lease_gone_ && now >= renew_at_ms_) renew(now);
    if (!guard_seen_ && now >= started_ms_ + kGuardAfterMs) {
      guard_seen_ = true;
      // The daemon looks at the program's libraries: at the first confirmation it had none yet.
      (void)wire_.confirm(plan_.lease, json::object({{"pid", plan_.program}}));
    }
    find_container(now);
    if (getppid() != parent_) go_on_alone();
    return !over_;
  }

  void renew(std::int64_t now) {
    const Result<LeaseAnswer> answer = wire_.renew(plan_.lease);
    renew_at_ms_ = now + (answer.ok() && answer->ok() ? renewal_ms() : kRetryMs);
    if (answer.ok() && (answer->code == "lost" || answer->code == "unknown-lease"))
      lose(answer->code, printable(answer->message));
  }

  void find_container(std::int64_t now) {
    if (plan_.container_id_file.empty() || !proof_.cgroup.empty() ||
        now > started_ms_ + kContainerForMs)
      return;
    std::string id = local::read_file(plan_.container_id_file).value_or("");
    while (id.ends_with('\n'))
      id.pop_back();
    container_ = id;
    const std::string cgroup = local::container_cgroup(local::Processes(), id);
    if (cgroup.empty()) return;
    const Result<LeaseAnswer> answer =
        wire_.confirm(plan_.lease, json::object({{"pid", plan_.program}, {"cgroup", cgroup}}));
    if (answer.ok()) proof_.cgroup = cgroup;  // refused too: once is enough
  }

  // Of a container's processes some may be out of our reach; the engine reaches them.
  void kill_container() const {
    if (plan_.container_engine.empty() || container_.empty()) return;
    std::array<std::string, 3> words = {plan_.container_engine, "kill", container_};
    std::array<char*, 4> list = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    pid_t pid = 0;
    if (posix_spawnp(&pid, list[0], nullptr, nullptr, list.data(), environ) != 0) return;
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  // berth run was killed: the lease lives as long as its processes.
  void go_on_alone() {
    news_.reset();
    if (now_ms() < look_at_ms_) return;
    look_at_ms_ = now_ms() + kLookMs;
    if (local::alive(local::Processes(), proof_)) return;
    (void)wire_.release(plan_.lease, true, "its processes have ended; berth run was killed before");
    over_ = true;
  }

  KeeperPlan plan_;
  local::Proof proof_;
  local::Descriptor news_;
  pid_t parent_;
  LeaseWire wire_;
  std::int64_t started_ms_;
  std::int64_t renew_at_ms_;
  std::int64_t look_at_ms_ = 0;
  std::optional<std::int64_t> kill_at_ms_;
  std::string container_;
  bool lease_gone_ = false;
  bool guard_seen_ = false;
  bool over_ = false;
};

[[noreturn]] void become_keeper(const KeeperPlan& plan, const local::Proof& proof,
                                local::Descriptor news, pid_t parent) {
  setsid();
  prctl(PR_SET_NAME, "berth-keeper");
  // None of the program's streams: who waits for their end must not wait for us.
  const int nothing = open("/dev/null", O_RDWR);
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    dup2(nothing, stream);
  const int kept = fcntl(news.get(), F_DUPFD_CLOEXEC, 3);
  news.reset(kept);
  if (kept > 3) close_range(3, static_cast<unsigned>(kept) - 1, 0);
  close_range(static_cast<unsigned>(kept) + 1, ~0U, 0);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction normal = {};
    normal.sa_handler = number == SIGPIPE || number == SIGHUP ? SIG_IGN : SIG_DFL;
    sigaction(number, &normal, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  [[maybe_unused]] const int moved = chdir("/");
  Work(plan, proof, std::move(news), parent).run();
  _exit(0);
}

}  // namespace

std::string encode(const KeeperNews& news) {
  const auto* kind =
      std::ranges::find(kKinds, news.kind, &std::pair<Kind, std::string_view>::first);
  return fmt::format("{}\t{}\t{}\n", kind->second, printable(news.reason), printable(news.text));
}

std::optional<KeeperNews> decode_news(std::string_view line) {
  const std::size_t first = line.find('\t');
  const std::size_t second = line.find('\t', first == std::string_view::npos ? first : first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const auto* kind =
      std::ranges::find(kKinds, line.substr(0, first), &std::pair<Kind, std::string_view>::second);
  if (kind == kKinds.end()) return std::nullopt;
  return KeeperNews{.kind = kind->first,
                    .reason = std::string(line.substr(first + 1, second - first - 1)),
                    .text = std::string(line.substr(second + 1))};
}

Result<Keeper> Keeper::start(const KeeperPlan& plan) {
  TRY(const local::Proof proof,
      local::prove(local::Processes(), {.lease = plan.lease,
                                        .uid = static_cast<std::uint32_t>(getuid()),
                                        .pid = plan.program,
                                        .journal = plan.journal}));
  TRY(local::Pipe pipe, local::make_pipe());
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0)
    return Error(ErrorCode::exhausted, "cannot start a process: " + local::errno_text(errno));
  if (pid == 0) become_keeper(plan, proof, std::move(pipe.write), parent);
  fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return Keeper(pid, std::move(pipe.read));
}

std::vector<KeeperNews> Keeper::take_news() {
  std::vector<KeeperNews> all;
  char bytes[4096];
  for (;;) {
    const ssize_t got = read(news_.get(), bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) news_.reset();  // it is gone
    if (got <= 0) break;
    partial_.append(bytes, static_cast<std::size_t>(got));
  }
  for (std::size_t end = partial_.find('\n'); end != std::string::npos; end = partial_.find('\n')) {
    if (auto news = decode_news(std::string_view(partial_).substr(0, end)))
      all.push_back(std::move(*news));
    partial_.erase(0, end + 1);
  }
  return all;
}

void Keeper::stop() {
  if (pid_ <= 0) return;
  kill(static_cast<pid_t>(pid_), SIGKILL);
  while (waitpid(static_cast<pid_t>(pid_), nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  news_.reset();
}

}  // namespace berth::cli
