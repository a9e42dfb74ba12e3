// Which lease a process belongs to, and whether any process of a lease is left.
//
//   TRY(Proof proof, prove(processes, {.lease = "l-7f3a", .uid = 1000, .pid = 4711}));  // at
//   confirm … for (const Attribution& use : attribute(processes, proofs, pids_on_the_device)) …
//
// Several `berth run` share one terminal and so one session: what is nearest and surest decides.
//   1. the confirmed process itself, or its nearest confirmed ancestor
//   2. BERTH_LEASE_ID and BERTH_JOURNAL_ID in its environment, if the lease belongs to the same uid
//      (background processes whose parent is gone)
//   3. the process group that the confirmed process led
//   4. the confirmed cgroup, equal or below, the longest; or the pod that its cgroup names
//   5. the session that the confirmed process led; of a session that it shares with others only
//      what started later, hides its environment, and only if one lease was confirmed there
// else foreign. Where one rule names two leases equally, the next rule decides.
//
// Thread-safety: functions of their arguments (Processes: one thread at a time).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "local/processes.h"

namespace berth::local {

// What ties processes to a lease, taken when the lease is confirmed. Worth keeping on disk: it
// holds until the machine boots again.
struct Proof {
  std::string lease;
  std::string journal;    // whose ids these are: two daemons both have an l-0001
  std::uint32_t uid = 0;  // owner of the lease
  std::string boot_id;    // of the machine when `process` was read
  std::optional<ProcessKey> process;
  std::int64_t session = 0;  // of the process
  bool leads_group = false;
  bool leads_session = false;
  std::string cgroup;   // "/system.slice/docker-….scope"; never the root
  std::string pod_uid;  // of Kubernetes
};

struct Confirmation {
  std::string lease;
  std::uint32_t uid = 0;
  std::optional<std::int64_t> pid = {};
  std::string cgroup = {};
  std::string pod_uid = {};
  std::string journal = {};
};

// Errors: not_found (no such process, or it has ended); conflict (the process belongs to another
// user; root may name any); invalid_argument (cgroup is the root or no absolute path; pod uid).
Result<Proof> prove(const Processes& processes, const Confirmation& confirmation);

enum class Evidence : std::uint8_t {
  none,  // foreign
  process,
  ancestor,
  environment,
  group,
  cgroup,
  pod,
  session,
};

struct Attribution {
  std::int64_t pid = 0;
  std::string lease;  // empty: foreign
  Evidence by = Evidence::none;
  std::string name;  // "pid 4711 (python)"; "pid 4711" if it has ended meanwhile
};

// One for each pid, in their order. Give the proofs of the leases on the device that the pids use.
std::vector<Attribution> attribute(const Processes& processes, std::span<const Proof> proofs,
                                   std::span<const std::int64_t> pids);

// Processes of the lease that live, by pid: the confirmed one, everything below it, and what one of
// the rules 2 to 4 or a session that it led ties to it. A process of a lease within the lease
// counts for both. At most `most`.
std::vector<Process> members(const Processes& processes, const Proof& proof, std::size_t most);

// Is any left?
bool alive(const Processes& processes, const Proof& proof);

}  // namespace berth::local
