// Foreground: a program in the place of our own process, as `berth run` has it.
//
//   TRY(Foreground program, Foreground::prepare({.command = words, .environment = environment}));
//   … confirm the lease with program.pid() …
//   const ProgramEnd end = program.run(hooks);
//   if (end.kind == ProgramEnd::Kind::signalled) die_by(end.code);     // so the shell sees the
//   same
//
// To the shell, to scripts and to the terminal we behave as the program would by itself:
//
// * It has our terminal, our standard streams and our session. Started by a shell with job control
//   and with the terminal as input and output, it gets a process group of its own and the
//   terminal's foreground with it; in pipelines and scripts it shares our group (`berth run … |
//   less` needs the terminal for less; Ctrl-C must reach the script, too).
// * INT, TERM, HUP, QUIT, USR1, USR2, WINCH, TSTP and CONT sent to us are passed on; those that the
//   terminal sends reach it without us. What was ignored when we were started stays ignored
//   (nohup).
// * If it stops (Ctrl-Z, or reading from the terminal in the background), so do we, by the same
//   signal; when the shell continues us, it goes on, with the terminal if we have it. Where no
//   shell could continue us, a SIGSTOP of somebody for the program is none for us.
// * If we are killed by SIGKILL it runs on.
//
// Thread-safety: one at a time per process, used by one thread. From `prepare` on the signals above
// are blocked in this thread; threads made before must not take them.
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "local/files.h"
#include "local/gated_child.h"

namespace berth::local {

struct ForegroundPlan {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // "NAME=value", all of it
};

struct ProgramEnd {
  enum class Kind : std::uint8_t { exited, signalled, not_started };
  Kind kind = Kind::exited;
  int code = 0;     // exit status, signal, or 125 … 127
  std::string why;  // of not_started
};

// What else there is to do while the program runs.
struct ForegroundHooks {
  int fd = -1;  // on_readable is called when this is readable; the hooks themselves may change it
  std::function<void()> on_readable;
  Duration tick{0};  // on_tick is called so often; zero: never
  std::function<void()> on_tick;
};

class Foreground {
 public:
  // The program is there, with its pid, and does not run yet.
  // Errors: exhausted, unavailable (no process can be made).
  static Result<Foreground> prepare(const ForegroundPlan& plan);

  Foreground(Foreground&&) noexcept = default;
  Foreground& operator=(Foreground&&) noexcept = default;
  ~Foreground() = default;

  std::int64_t pid() const { return child_.pid(); }

  // A signal that came for the program while it waits at the gate; 0: none.
  int pending_signal() const;

  // It never runs.
  void give_up();

  // Lets it run and comes back when it has ended. Once.
  ProgramEnd run(const ForegroundHooks& hooks);

 private:
  explicit Foreground(GatedChild child) : child_(std::move(child)) {}

  void take_signals();
  void pass_on(int signal) const;
  bool take_changes(ProgramEnd& end);
  void stop_like(int signal);
  void give_terminal() const;
  void take_terminal_back() const;

  GatedChild child_;
  Descriptor signals_;
  std::vector<int> ignored_;
  bool own_group_ = false;
  int terminal_ = -1;
  std::int64_t shells_group_ = -1;  // that had the terminal before
};

// Ends this process by this signal, without another core dump; 128 + signal if that does not work.
[[noreturn]] void die_by(int signal);

// The signals that Foreground takes, and that those who wait before it should take too.
sigset_t passed_signals();

}  // namespace berth::local
