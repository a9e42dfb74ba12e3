#include "cli/run_lease.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <ostream>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/daemon_client.h"
#include "cli/run_plan.h"
#include "cli/words_for_people.h"

namespace berth::cli {

namespace {

constexpr Duration kLookOnTerminal{2'000};  // places and estimates change without a new version
constexpr Duration kLookElsewhere{30'000};
constexpr std::int64_t kAgainMs = 300'000;
constexpr std::int64_t kPatienceMs = 120'000;  // with a daemon that does not answer
// What would end us by default, and with us the place in the queue that nobody else gives back.
constexpr std::array kEnding = {SIGINT,  SIGTERM, SIGHUP,    SIGQUIT, SIGUSR1,
                                SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU};

std::int64_t now_ms() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

std::size_t columns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
  return size.ws_col;
}

class Obtaining {
 public:
  Obtaining(const std::string& address, const json::Value& reservation, const SignalWatch& signals,
            StatusLine& line)
      : wire_(address, signals.fd()),
        reservation_(reservation),
        signals_(signals),
        line_(line),
        on_terminal_(isatty(STDERR_FILENO) == 1) {}

  Obtained run() {
    for (;;) {
      Result<LeaseAnswer> answer = ask();
      if (const int signal = signals_.take(); signal != 0) return leave(signal);
      if (!answer.ok()) {
        if (!be_patient(answer.error())) return refused(ExitCode::failed);
        continue;
      }
      silent_since_ = 0;
      if (!answer->ok()) {
        if (const auto end = judge(*answer)) return *end;
        continue;
      }
      lease_ = std::move(answer->lease);
      if (const auto end = look()) return *end;
    }
  }

 private:
  Result<LeaseAnswer> ask() {
    if (lease_.is_null() || again_) {
      again_ = false;
      return wire_.reserve(reservation_);
    }
    return wire_.read(lease_.text("id"), on_terminal_ ? kLookOnTerminal : kLookElsewhere,
                      lease_.integer("version"));
  }

  static Obtained refused(ExitCode code) { return {.kind = Obtained::Kind::refused, .code = code}; }

  // Ctrl-C: nothing of it may be granted later, whatever became of the last call.
  Obtained leave(int signal) {
    LeaseWire wire(wire_.address());
    const auto released =
        wire.release_key(reservation_.text("key"), "berth run was interrupted while it waited");
    line_.clear();
    if (released.ok() && released->ok()) {
      line_.say("left the queue");
    } else {
      line_.say(
          "could not tell the daemon to take it from the queue; it leaves by itself when nobody "
          "asks for it");
    }
    return {.kind = Obtained::Kind::signalled, .signal = signal};
  }

  // Sleeps; a signal ends it early.
  void pause(Duration most) const {
    pollfd polled = {.fd = signals_.fd(), .events = POLLIN, .revents = 0};
    poll(&polled, 1, static_cast<int>(most.count()));
  }

  // False: enough of it.
  bool be_patient(const Error& error) {
    const std::int64_t now = now_ms();
    if (silent_since_ == 0) silent_since_ = now;
    if (now - silent_since_ > kPatienceMs) {
      line_.clear();
      line_.say(fmt::format("the daemon has not answered for {}: {}", span_text(kPatienceMs / 1000),
                            printable(error.to_string())));
      line_.say("nothing was started; `berth doctor` looks for the reason");
      return false;
    }
    line_.show(
        fmt::format("the daemon does not answer ({}); trying again", printable(error.message())),
        "silent");
    again_ = true;  // it may have been replaced: the same key leads to the same lease
    pause(Duration(1'000));
    return true;
  }

  // A refusal. Nothing: ask again.
  std::optional<Obtained> judge(const LeaseAnswer& answer) {
    again_ = true;
    if (answer.code == "unknown-lease" || answer.code == "lost") return std::nullopt;
    const bool passes = answer.status == 503 || answer.status == 429 || answer.status == 500;
    if (passes) {
      line_.show(fmt::format("waiting: {}", printable(answer.message)), answer.code);
      pause(answer.retry_after.value_or(Duration(1'000)));
      return std::nullopt;
    }
    line_.clear();
    line_.say(printable(in_words(answer.message)));
    if (answer.largest_mib) {
      line_.say(fmt::format("waiting would not help; ask for at most {} MiB on one GPU",
                            *answer.largest_mib));
    } else if (answer.code == "never") {
      line_.say("waiting would not help: nothing here could ever serve that");
    } else if (!answer.hint.empty()) {
      line_.say(printable(answer.hint));
    }
    return refused(answer.status == 400 ? ExitCode::usage : ExitCode::failed);
  }

  // An answer with the lease. Nothing: go on waiting.
  std::optional<Obtained> look() {
    const std::string_view state = lease_.text("state");
    if (state == "granted" || state == "active" || state == "suspect") {
      line_.clear();
      if (waited_) {
        line_.say(fmt::format("{} after {}", granted_line(lease_),
                              span_text(lease_.integer("waited_seconds"))));
      }
      return Obtained{.kind = Obtained::Kind::granted, .lease = lease_};
    }
    if (state == "waiting") {
      waited_ = true;
      lease_.set("message", in_words(lease_.text("message")));
      line_.show(waiting_line(lease_), fmt::format("{} {}", state, lease_.text("reason")));
      return std::nullopt;
    }
    if (state == "expired" || state == "lost") {  // its age is kept
      again_ = true;
      return std::nullopt;
    }
    line_.clear();
    line_.say(end_text(state));
    return refused(ExitCode::failed);
  }

  // GPUs by the numbers that people use; as it is, if the daemon does not tell them.
  std::string in_words(std::string_view sentence) {
    if (!sentence.contains("GPU-") && !sentence.contains("MIG-")) {
      return std::string(sentence);
    }
    if (!names_.has_value()) {
      Result<DaemonClient> daemon =
          DaemonClient::open({.address = wire_.address(), .token_file = {}, .ca_file = {}});
      const Result<json::Array> devices =
          daemon ? daemon->list("/v1/devices", "devices") : Result<json::Array>(json::Array());
      names_.emplace(devices ? *devices : json::Array());
    }
    return names_->in_words(sentence);
  }

  std::string end_text(std::string_view state) const {
    const std::string why = printable(lease_.text("message"));
    if (state == "timed-out") {
      return fmt::format("there was no place within {}, as long as --wait-timeout lets it wait",
                         span_text(lease_.integer("waited_seconds")));
    }
    if (state == "cancelled" || state == "released")
      return fmt::format("it was taken from the queue{}{}", why.empty() ? "" : ": ", why);
    return fmt::format("it cannot start ({}){}{}", state, why.empty() ? "" : ": ", why);
  }

  LeaseWire wire_;
  const json::Value& reservation_;
  const SignalWatch& signals_;
  StatusLine& line_;
  bool on_terminal_;
  json::Value lease_;
  bool again_ = false;
  bool waited_ = false;
  std::optional<DeviceNames> names_;
  std::int64_t silent_since_ = 0;
};

}  // namespace

void StatusLine::show(const std::string& text, const std::string& kind) {
  const std::string line = "berth run: " + text;
  if (console_.err_is_terminal) {
    console_.err << "\r" << shortened(line, columns() - 1) << "\x1b[K" << std::flush;
    shown_ = true;
    return;
  }
  const std::int64_t now = now_ms();
  if (kind == last_kind_ && now - last_ms_ < kAgainMs) return;
  last_kind_ = kind;
  last_ms_ = now;
  console_.err << line << "\n" << std::flush;
}

void StatusLine::clear() {
  if (shown_) console_.err << "\r\x1b[K" << std::flush;
  shown_ = false;
}

void StatusLine::say(const std::string& text) {
  clear();
  console_.err << "berth run: " << text << "\n" << std::flush;
}

SignalWatch::SignalWatch() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kEnding) {
    struct sigaction action = {};
    // What was ignored from the start (nohup) stays so.
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      sigaddset(&set, number);
  }
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

int SignalWatch::take() const {
  signalfd_siginfo info = {};
  return read(signals_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                                 : 0;
}

Obtained obtain_lease(const std::string& address, const json::Value& reservation,
                      const SignalWatch& signals, StatusLine& line) {
  return Obtaining(address, reservation, signals, line).run();
}

}  // namespace berth::cli
