// What /proc says of the processes of this machine.
//
//   const Processes processes;
//   if (const Process* found = processes.find(4711); found != nullptr && found->lives()) …
//
// A `Processes` is a view at one time: each file is read at most once, when first asked for, so
// that what is said of one process does not change within a decision. Processes come and go
// meanwhile: a parent may already be missing, and no answer is more than what was true a moment
// ago. Thread-safety: none, also not for const access (what is read is remembered); make one per
// task.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::local {

// A process for ever: a pid is given again some day, with its start time it is not. Ticks are those
// of the kernel's clock since boot (proc(5), field 22 of stat).
struct ProcessKey {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;

  auto operator<=>(const ProcessKey&) const = default;
};

struct Process {
  ProcessKey key;
  std::int64_t parent = 0;
  std::int64_t group = 0;
  std::int64_t session = 0;
  std::int64_t threads = 0;
  char state = '?';
  std::string name;  // at most 15 bytes, chosen by the process itself: any bytes

  // False for what only waits to be collected by its parent. A process whose first thread has ended
  // lives as long as another thread does.
  bool lives() const { return (state != 'Z' && state != 'X') || threads > 1; }
};

// "pid 4711 (python)", safe to print.
std::string named(const Process& process);

// The text of /proc/PID/stat. Empty: not of that form.
std::optional<Process> parse_stat(std::string_view text);

// The paths of /proc/PID/cgroup over all hierarchies (v1, v2 or both), each once. Left out are the
// root, which says nothing, and paths outside of the reader's cgroup namespace ("/../…").
std::vector<std::string> parse_cgroups(std::string_view text);

// The value of `name` in the text of /proc/PID/environ.
std::optional<std::string> environment_value(std::string_view environ, std::string_view name);

class Processes {
 public:
  explicit Processes(std::string root = "/proc");

  // Null: no such process. Valid as long as the view. Ended ones that were not collected yet are
  // found; see lives().
  const Process* find(std::int64_t pid) const;

  // Exactly this process; null also if its pid was given to another one.
  const Process* find(const ProcessKey& key) const;

  // Every process, by pid.
  std::vector<const Process*> all() const;

  // See parse_cgroups. Empty too if there is no such process.
  const std::vector<std::string>& cgroups(std::int64_t pid) const;

  // The real uid; empty: no such process.
  std::optional<std::uint32_t> uid(std::int64_t pid) const;

  // Of a process's environment as it was when its program started. `readable` is false for
  // processes of others that we may not look into.
  struct Environment {
    bool readable = false;
    std::string lease;    // BERTH_LEASE_ID; empty: not set
    std::string journal;  // BERTH_JOURNAL_ID: of the daemon that gave the lease its id
  };
  const Environment& environment(std::int64_t pid) const;

  // Of this boot of the machine: start times of another boot mean nothing. Empty: unknown.
  const std::string& boot_id() const;

 private:
  std::optional<std::string> file(std::int64_t pid, std::string_view name) const;

  std::string root_;
  mutable std::map<std::int64_t, std::optional<Process>> known_;
  mutable std::map<std::int64_t, std::vector<std::string>> cgroups_;
  mutable std::map<std::int64_t, std::optional<std::uint32_t>> uids_;
  mutable std::map<std::int64_t, Environment> environments_;
  mutable std::optional<std::string> boot_id_;
  mutable bool all_known_ = false;
};

}  // namespace berth::local
