#include "local/attribution.h"

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "base/printable.h"

namespace berth::local {

namespace {

// /proc is not read at one instant: parents may seem to lead in a circle.
constexpr int kMostAncestors = 4096;

bool within(std::string_view path, std::string_view cgroup) {
  return path.starts_with(cgroup) && (path.size() == cgroup.size() || path[cgroup.size()] == '/');
}

bool in_cgroup(const Processes& processes, std::int64_t pid, const std::string& cgroup) {
  return !cgroup.empty() && std::ranges::any_of(processes.cgroups(pid), [&](const auto& path) {
    return within(path, cgroup);
  });
}

// The kubelet names a pod's cgroup pod<uid>, and with systemd …pod<uid with underscores>.slice.
bool in_pod(const Processes& processes, std::int64_t pid, const std::string& uid) {
  if (uid.empty()) return false;
  std::string with_underscores = uid;
  std::ranges::replace(with_underscores, '-', '_');
  return std::ranges::any_of(processes.cgroups(pid), [&](const std::string& path) {
    return path.find("pod" + uid) != std::string::npos ||
           path.find("pod" + with_underscores) != std::string::npos;
  });
}

// Ids of leases are unique in one journal only: what runs longer than the confirmed process got its
// variable from another daemon, or from one whose state was deleted.
bool by_environment(const Processes& processes, std::int64_t pid, const Proof& proof) {
  const Process* process = processes.find(pid);
  if (proof.process && process != nullptr &&
      process->key.start_ticks < proof.process->start_ticks) {
    return false;
  }
  const Processes::Environment& environment = processes.environment(pid);
  return !proof.lease.empty() && environment.lease == proof.lease &&
         (proof.journal.empty() || environment.journal == proof.journal) &&
         processes.uid(pid) == proof.uid;
}

// A group or session keeps its leader's pid as long as it has members. If that pid now belongs to
// another process, ours is gone and the number was given again.
bool number_is_still_ours(const Processes& processes, const ProcessKey& leader) {
  const Process* now = processes.find(leader.pid);
  return now == nullptr || now->key == leader;
}

bool in_group(const Processes& processes, const Process& process, const Proof& proof) {
  return proof.leads_group && process.group == proof.process->pid &&
         process.key.start_ticks >= proof.process->start_ticks &&
         number_is_still_ours(processes, *proof.process);
}

bool in_led_session(const Processes& processes, const Process& process, const Proof& proof) {
  return proof.leads_session && process.session == proof.process->pid &&
         process.key.start_ticks >= proof.process->start_ticks &&
         number_is_still_ours(processes, *proof.process);
}

// What a user starts in the same terminal beside `berth run` is not the lease's. Whatever the lease
// started carries its id, so only a process that hides its environment remains in doubt.
bool in_shared_session(const Processes& processes, const Process& process, const Proof& proof) {
  return proof.process && process.session == proof.session &&
         process.key.start_ticks >= proof.process->start_ticks &&
         !processes.environment(process.key.pid).readable;
}

bool holds(const Processes& processes, const Proof& proof) {
  return !proof.process || proof.boot_id == processes.boot_id();
}

// The proofs that hold, ready for questions about one process.
class Judge {
 public:
  Judge(const Processes& processes, std::span<const Proof> proofs) : processes_(processes) {
    for (const Proof& proof : proofs) {
      if (!holds(processes, proof)) continue;
      proofs_.push_back(&proof);
      if (proof.process) confirmed_[*proof.process].push_back(&proof);
    }
  }

  // Fills `lease` and `by`.
  void judge(const Process& process, Attribution& answer) const {
    const std::int64_t pid = process.key.pid;
    const auto only = [&](Evidence evidence, auto&& rule) {
      const Proof* found = nullptr;
      for (const Proof* proof : proofs_) {
        if (!rule(*proof)) continue;
        if (found != nullptr) return false;
        found = proof;
      }
      return settle(answer, found, evidence);
    };
    if (settle_by_ancestors(process, answer)) return;
    const bool settled =
        only(Evidence::environment,
             [&](const Proof& proof) { return by_environment(processes_, pid, proof); }) ||
        only(Evidence::group,
             [&](const Proof& proof) { return in_group(processes_, process, proof); }) ||
        settle_by_cgroup(pid, answer) ||
        only(Evidence::pod,
             [&](const Proof& proof) { return in_pod(processes_, pid, proof.pod_uid); }) ||
        only(Evidence::session,
             [&](const Proof& proof) { return in_led_session(processes_, process, proof); });
    if (settled) return;
    only(Evidence::session,
         [&](const Proof& proof) { return in_shared_session(processes_, process, proof); });
  }

 private:
  static bool settle(Attribution& answer, const Proof* proof, Evidence evidence) {
    if (proof == nullptr) return false;
    answer.lease = proof->lease;
    answer.by = evidence;
    return true;
  }

  // One process may hold several leases; its own environment may name the one it means.
  const Proof* one_of(const std::vector<const Proof*>& same, std::int64_t pid) const {
    if (same.size() == 1) return same.front();
    const auto named = std::ranges::find_if(
        same, [&](const Proof* proof) { return by_environment(processes_, pid, *proof); });
    if (named != same.end()) return *named;
    return *std::ranges::min_element(same, {}, [](const Proof* proof) { return proof->lease; });
  }

  bool settle_by_ancestors(const Process& process, Attribution& answer) const {
    const Process* at = &process;
    for (int step = 0; at != nullptr && step < kMostAncestors; ++step) {
      if (const auto found = confirmed_.find(at->key); found != confirmed_.end()) {
        return settle(answer, one_of(found->second, process.key.pid),
                      at == &process ? Evidence::process : Evidence::ancestor);
      }
      at = processes_.find(at->parent);
    }
    return false;
  }

  bool settle_by_cgroup(std::int64_t pid, Attribution& answer) const {
    const Proof* found = nullptr;
    bool ambiguous = false;
    for (const Proof* proof : proofs_) {
      if (!in_cgroup(processes_, pid, proof->cgroup)) continue;
      if (found != nullptr && proof->cgroup.size() < found->cgroup.size()) continue;
      ambiguous = found != nullptr && proof->cgroup.size() == found->cgroup.size();
      found = proof;
    }
    return settle(answer, ambiguous ? nullptr : found, Evidence::cgroup);
  }

  const Processes& processes_;
  std::vector<const Proof*> proofs_;
  std::map<ProcessKey, std::vector<const Proof*>> confirmed_;
};

bool below(const Processes& processes, const Process& process, const ProcessKey& ancestor) {
  const Process* at = &process;
  for (int step = 0; at != nullptr && step < kMostAncestors; ++step) {
    if (at->key == ancestor) return true;
    // A child is never older than its parent.
    if (at->key.start_ticks < ancestor.start_ticks) return false;
    at = processes.find(at->parent);
  }
  return false;
}

bool belongs(const Processes& processes, const Process& process, const Proof& proof) {
  if (!process.lives()) return false;
  const std::int64_t pid = process.key.pid;
  if (proof.process &&
      (below(processes, process, *proof.process) || in_group(processes, process, proof) ||
       in_led_session(processes, process, proof)))
    return true;
  return in_cgroup(processes, pid, proof.cgroup) || in_pod(processes, pid, proof.pod_uid) ||
         by_environment(processes, pid, proof);
}

Result<void> read_process(const Processes& processes, const Confirmation& confirmation,
                          Proof& proof) {
  const std::int64_t pid = *confirmation.pid;
  const Process* process = processes.find(pid);
  if (process == nullptr || !process->lives()) {
    return Error(ErrorCode::not_found,
                 fmt::format("there is no process {} on this machine (any more); confirm with the "
                             "pid of a process that runs, as this machine counts pids",
                             pid));
  }
  const auto owner = processes.uid(pid);
  if (confirmation.uid != 0 && owner != confirmation.uid) {
    return Error(
        ErrorCode::conflict,
        fmt::format("{} does not belong to you (uid {}); confirm with a process of your own",
                    named(*process), confirmation.uid));
  }
  proof.boot_id = processes.boot_id();
  proof.process = process->key;
  proof.session = process->session;
  proof.leads_group = process->group == pid;
  proof.leads_session = process->session == pid;
  return success();
}

}  // namespace

Result<Proof> prove(const Processes& processes, const Confirmation& confirmation) {
  Proof proof;
  proof.lease = confirmation.lease;
  proof.journal = confirmation.journal;
  proof.uid = confirmation.uid;
  proof.cgroup = confirmation.cgroup;
  while (proof.cgroup.ends_with('/'))
    proof.cgroup.pop_back();
  if (!confirmation.cgroup.empty() && !proof.cgroup.starts_with('/')) {
    return invalid_argument(
        fmt::format("cgroup \"{}\" must be a path below the root as in /proc/PID/cgroup, such as "
                    "/system.slice/docker-4f1c.scope",
                    printable(confirmation.cgroup)));
  }
  proof.pod_uid = confirmation.pod_uid;
  // Uids of pods have 32 characters and more; a short word would be found in other names.
  if (!proof.pod_uid.empty() && proof.pod_uid.size() < 8) {
    return invalid_argument(fmt::format("pod_uid \"{}\" is too short for the uid of a pod",
                                        printable(confirmation.pod_uid)));
  }
  if (confirmation.pid) TRY_VOID(read_process(processes, confirmation, proof));
  return proof;
}

std::vector<Attribution> attribute(const Processes& processes, std::span<const Proof> proofs,
                                   std::span<const std::int64_t> pids) {
  const Judge judge(processes, proofs);
  std::vector<Attribution> answers;
  for (const std::int64_t pid : pids) {
    Attribution answer;
    answer.pid = pid;
    if (const Process* process = processes.find(pid)) {
      answer.name = named(*process);
      judge.judge(*process, answer);
    } else {
      answer.name = fmt::format("pid {}", pid);
    }
    answers.push_back(std::move(answer));
  }
  return answers;
}

std::vector<Process> members(const Processes& processes, const Proof& proof, std::size_t most) {
  std::vector<Process> found;
  if (!holds(processes, proof)) return found;
  for (const Process* process : processes.all()) {
    if (found.size() >= most) break;
    if (belongs(processes, *process, proof)) found.push_back(*process);
  }
  return found;
}

bool alive(const Processes& processes, const Proof& proof) {
  if (proof.process && holds(processes, proof)) {
    // Nearly always the answer, and one file instead of thousands.
    const Process* confirmed = processes.find(*proof.process);
    if (confirmed != nullptr && confirmed->lives()) return true;
  }
  return !members(processes, proof, 1).empty();
}

}  // namespace berth::local
