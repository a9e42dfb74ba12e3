#include "local/foreground.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace berth::local {

namespace {

constexpr std::array kPassed = {SIGINT,  SIGTERM,  SIGHUP,  SIGQUIT, SIGUSR1,
                                SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};

sigset_t with_our_own(sigset_t set) {
  sigaddset(&set, SIGCHLD);
  // From the background, what we do with the terminal must neither stop us nor fail.
  sigaddset(&set, SIGTTOU);
  return set;
}

std::vector<int> ignored_signals() {
  std::vector<int> list;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action = {};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
      list.push_back(number);
  }
  return list;
}

// A terminal that a shell with job control gave to us alone; else -1.
int terminal_of_our_own() {
  const bool leads = getpgrp() == getpid();
  if (!leads || isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) return -1;
  return tcgetpgrp(STDIN_FILENO) >= 0 ? STDIN_FILENO : -1;  // ours only if it controls our session
}

}  // namespace

sigset_t passed_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kPassed)
    sigaddset(&set, number);
  return set;
}

Result<Foreground> Foreground::prepare(const ForegroundPlan& plan) {
  const int terminal = terminal_of_our_own();
  const bool in_front = terminal >= 0 && tcgetpgrp(terminal) == getpgrp();
  std::vector<int> ignored = ignored_signals();
  std::erase(ignored, SIGCHLD);  // a shell's mistake that would take the exit status from us

  const sigset_t set = with_our_own(passed_signals());
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &set, &before);
  Descriptor signals(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.valid())
    return Error(ErrorCode::exhausted, "cannot wait for signals: " + errno_text(errno));
  struct sigaction normal = {};
  normal.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &normal, nullptr);

  TRY(GatedChild child, GatedChild::fork({.command = plan.command,
                                          .environment = plan.environment,
                                          .new_group = terminal >= 0,
                                          .terminal = in_front ? terminal : -1,
                                          .ignored = ignored}));
  Foreground program(std::move(child));
  program.signals_ = std::move(signals);
  program.ignored_ = std::move(ignored);
  program.own_group_ = terminal >= 0;
  program.terminal_ = terminal;
  program.shells_group_ = in_front ? getpgrp() : -1;
  return program;
}

int Foreground::pending_signal() const {
  sigset_t pending;
  sigpending(&pending);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    if (sigismember(&pending, number) == 1 && std::ranges::find(ignored_, number) == ignored_.end())
      return number;
  }
  return 0;
}

void Foreground::give_up() {
  child_.give_up();
  while (waitpid(static_cast<pid_t>(pid()), nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Foreground::pass_on(int signal) const {
  const auto pid = static_cast<pid_t>(child_.pid());
  kill(own_group_ ? -pid : pid, signal);
}

void Foreground::take_signals() {
  signalfd_siginfo info = {};
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    const auto number = static_cast<int>(info.ssi_signo);
    // The terminal sends its signals to the whole foreground group: without us, or to both.
    // The end of the terminal it tells to who leads the session alone: a login shell that tells its
    // jobs, or us, where no shell is between (ssh -t HOST berth run …).
    const bool hung_up = number == SIGHUP && getsid(0) == getpid();
    const bool by_terminal = info.ssi_code == SI_KERNEL && !hung_up;
    const bool ignored = std::ranges::find(ignored_, number) != ignored_.end();
    if (by_terminal || ignored || std::ranges::find(kPassed, number) == kPassed.end()) continue;
    pass_on(number);
  }
}

void Foreground::give_terminal() const {
  if (terminal_ >= 0 && tcgetpgrp(terminal_) == getpgrp())
    tcsetpgrp(terminal_, static_cast<pid_t>(child_.pid()));
}

void Foreground::take_terminal_back() const {
  if (terminal_ < 0 || shells_group_ < 0) return;
  if (tcgetpgrp(terminal_) == static_cast<pid_t>(child_.pid()))
    tcsetpgrp(terminal_, static_cast<pid_t>(shells_group_));
}

// Stops us as the program was stopped, and lets it go on when we were continued.
void Foreground::stop_like(int signal) {
  if (signal == SIGSTOP && !own_group_) return;
  take_terminal_back();
  struct sigaction normal = {};
  struct sigaction old = {};
  normal.sa_handler = SIG_DFL;
  sigaction(signal, &normal, &old);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  kill(getpid(), signal);
  sigset_t before;
  pthread_sigmask(SIG_UNBLOCK, &one, &before);  // here we stand still until SIGCONT
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  sigaction(signal, &old, nullptr);
  give_terminal();
  pass_on(SIGCONT);
}

// True when it has ended.
bool Foreground::take_changes(ProgramEnd& end) {
  int status = 0;
  for (;;) {
    const pid_t pid = waitpid(static_cast<pid_t>(child_.pid()), &status, WUNTRACED | WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) return false;
    if (WIFSTOPPED(status)) {
      stop_like(WSTOPSIG(status));
      continue;
    }
    end.kind = WIFSIGNALED(status) ? ProgramEnd::Kind::signalled : ProgramEnd::Kind::exited;
    end.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    return true;
  }
}

ProgramEnd Foreground::run(const ForegroundHooks& hooks) {
  ProgramEnd end;
  if (const auto failure = child_.go()) {
    give_up();
    take_terminal_back();
    return {.kind = ProgramEnd::Kind::not_started, .code = failure->exit_code, .why = failure->why};
  }
  const int wait_ms = hooks.tick.count() > 0 ? static_cast<int>(hooks.tick.count()) : -1;
  while (!take_changes(end)) {
    pollfd polled[] = {{.fd = signals_.get(), .events = POLLIN, .revents = 0},
                       {.fd = hooks.fd, .events = POLLIN, .revents = 0}};
    const int ready = poll(polled, std::size(polled), wait_ms);
    take_signals();
    if (ready > 0 && polled[1].revents != 0 && hooks.on_readable) hooks.on_readable();
    if (hooks.on_tick && wait_ms >= 0) hooks.on_tick();
  }
  take_terminal_back();
  return end;
}

void die_by(int signal) {
  // The program left its core, if any; one of ours would take its place.
  const rlimit none = {.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_CORE, &none);
  struct sigaction normal = {};
  normal.sa_handler = SIG_DFL;
  sigaction(signal, &normal, nullptr);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  kill(getpid(), signal);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  _exit(128 + signal);
}

}  // namespace berth::local
