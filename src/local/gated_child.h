// GatedChild: a program that is there, with its pid, before it runs.
//
//   TRY(GatedChild child, GatedChild::fork({.command = {"python", "train.py"}}));
//   … confirm the lease with child.pid() …
//   if (const auto failed = child.go()) return failed->exit_code;      // 127, 126
//
// The child process waits at a gate until `go`; only then it becomes the program. If whoever holds
// the gate ends first, by kill -9 too, the child ends without having run anything: no program ever
// starts without its lease.
//
// The child is not tied to its parent's life afterwards (no PR_SET_PDEATHSIG: that follows the
// *thread* that forked, is lost at exec of programs with privileges, and would kill a training run
// because its terminal's helper was killed). Thread-safety: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "local/files.h"

namespace berth::local {

// The user that a program runs as; only root may choose.
struct RunAs {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups = {};  // supplementary
};

struct ChildPlan {
  std::vector<std::string> command;         // at least one word
  std::vector<std::string> environment;     // "NAME=value", all of it
  std::string directory = {};               // empty: stays
  std::optional<RunAs> user = {};           // absent: as we are
  std::optional<std::uint32_t> umask = {};  // absent: stays
  std::uint64_t open_files = 0;             // soft RLIMIT_NOFILE; 0: stays
  int input = -1;                           // becomes stdin; -1: stays
  int output = -1;                          // becomes stdout and stderr; -1: stay
  bool new_session = false;                 // setsid
  bool new_group = false;                   // its own process group
  int terminal = -1;                        // its group gets this terminal's foreground
  std::string cgroup = {};                  // directory of a cgroup (v2) to move into
  std::vector<int> ignored = {};            // signals that stay ignored; others: default
};

// Why no program runs: as shells number it.
struct ExecFailure {
  int exit_code = 0;  // 127: not found; 126: found, cannot be run; 125: the surroundings fail
  std::string why;    // 'cannot run "trian": no such program'
};

class GatedChild {
 public:
  // Errors: exhausted (no process or descriptor left), unavailable.
  static Result<GatedChild> fork(const ChildPlan& plan);

  GatedChild(GatedChild&&) noexcept = default;
  GatedChild& operator=(GatedChild&&) noexcept = default;
  ~GatedChild() = default;

  std::int64_t pid() const { return pid_; }

  // Opens the gate and waits until the program runs, or tells why it does not (the child has ended
  // then and waits to be collected).
  std::optional<ExecFailure> go();

  // The child ends without running anything. Without go() the destructor does the same.
  void give_up() { gate_.reset(); }

 private:
  GatedChild() = default;

  std::int64_t pid_ = -1;
  std::string program_;
  std::string path_;  // variable of its environment
  std::string directory_;
  std::string cgroup_;
  Descriptor gate_;
  Descriptor failure_;
};

}  // namespace berth::local
