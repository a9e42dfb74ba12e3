// What the machine says: reports of sources, ends of processes, time.
#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "core/ledger/ledger.h"
#include "core/placement/mig_shares.h"
#include "lease/reasons.h"
#include "lease/service.h"

namespace berth::lease {

namespace {

// How many leases a node carries is a question of memory alone; slots are Kubernetes' notion.
constexpr std::int64_t kSlots = 1'000'000'000;

// A program has loaded its libraries long before so many samples have come.
constexpr int kGuardLooks = 10;

}  // namespace

void Service::set_node(const core::Node& node, Now now) {
  core::Node merged = node;
  merged.pod_slots = kSlots;
  if (const auto known = nodes_.find(node.name); known != nodes_.end()) {
    merged.devices = known->second.devices;
    merged.links = known->second.links;
  }
  put_node(std::move(merged), now);
}

void Service::put_node(core::Node node, Now now) {
  node.labels[core::kShareOnMigLabel] = "true";  // an instance holds a claim like any device
  const auto known = nodes_.find(node.name);
  if (known != nodes_.end() && known->second == node) {
    return;
  }
  dirty_.emplace("node", node.name);
  nodes_.insert_or_assign(node.name, node);
  run(core::NodeUpserted{std::move(node)}, now);
}

void Service::observe(const gpu::Report& report, Now now) {
  run(core::TimeReached{}, now);  // samples grow old also where a report brings nothing new
  if (!report.up) {
    if (source_up_ || why_down_.empty()) {
      events_.push_back({"source-down", "", "", report.why_down});
    }
    source_up_ = false;
    why_down_ = report.why_down;
    set_hold(now);
    check_ends(now);
    check_guards();
    return;
  }
  if (!source_up_) {
    const std::size_t count = report.devices.size();
    events_.push_back(
        {"source-up", "", "", fmt::format("{} device{}", count, count == 1 ? "" : "s")});
  }
  why_down_.clear();
  merge_nodes(report, now);
  for (const gpu::DeviceReport& device : report.devices) {
    observe_device(device, now);
  }
  last_report_ = now.time;
  source_up_ = true;
  reconciled_ = true;
  set_hold(now);
  check_ends(now);
  check_guards();
  check_bursts(now);
}

// A device that is in no report any more is gone; one that a report brings is there.
void Service::merge_nodes(const gpu::Report& report, Now now) {
  std::map<std::string, std::vector<core::Device>> found;
  std::set<std::string> present;
  for (const gpu::DeviceReport& device : report.devices) {
    core::Device described = device.device;
    described.cordoned = drained_.contains(described.uuid);
    if (device.lost) {
      described.health = core::DeviceHealth::unhealthy;
    }
    present.insert(described.uuid);
    found[device.node].push_back(std::move(described));
  }
  for (auto& [uuid, seen] : seen_) {
    if (seen.present && !present.contains(uuid)) {
      seen.present = false;
      events_.push_back({"device-gone", "", uuid, "it is in no sample any more"});
    }
  }
  std::vector<std::string> without;
  for (const auto& [name, node] : nodes_) {
    if (!node.devices.empty() && !found.contains(name)) {
      without.push_back(name);
    }
  }
  for (const std::string& name : without) {
    found[name];
  }
  for (auto& [name, devices] : found) {
    const auto known = nodes_.find(name);
    core::Node node;
    if (known != nodes_.end()) {
      node = known->second;
    } else {
      node.name = name;
      node.cpu = Milli{core::kMaxCpuMilli};
      node.ram = Memory::mib(core::kMaxMemoryMib);
      node.pod_slots = kSlots;
    }
    node.devices = std::move(devices);
    put_node(std::move(node), now);
  }
}

template <typename Each>
void Service::each_on(std::string_view uuid, const Each& each) {
  const core::DeviceId device = engine_->fleet().find_device(uuid);
  if (device.is_none()) {
    return;
  }
  for (const core::Holding& holding : engine_->ledger().book(device).holdings) {
    const Lease* lease = find(engine_->uid(holding.workload));
    if (lease != nullptr && holds(lease->state)) {
      each(*lease);
    }
  }
}

void Service::observe_device(const gpu::DeviceReport& report, Now now) {
  const std::string& uuid = report.device.uuid;
  Seen& seen = seen_[uuid];
  if (report.lost && !seen.lost) {
    lose_device(uuid, report.problem.empty() ? "a critical error" : report.problem, now);
  }
  for (const int xid : report.app_xids) {
    events_.push_back({"xid-application", "", uuid,
                       fmt::format("XID {}: of the program, not of the device", xid)});
  }
  if (!report.problem.empty() && report.problem != seen.report.problem) {
    events_.push_back({"device-problem", "", uuid, report.problem});
  }
  std::vector<local::Proof> proofs;
  if (!report.processes.empty()) {
    each_on(uuid, [&](const Lease& lease) {
      if (lease.proof.has_value()) {
        proofs.push_back(*lease.proof);
      }
    });
  }
  const Time sampled_at = now.time - Duration(report.age_ms);
  const Time at = std::min(sampled_at, now.time);
  const bool first = !seen.present || !seen.sampled;
  seen.lost = report.lost;
  const bool backwards = !first && at < seen.at;
  if (backwards && !std::exchange(seen.skewed, true)) {
    events_.push_back({"clock-skew", "", uuid, "a sample is stamped before the one it follows"});
  }
  if (backwards && !report.restated) {
    // An older sample than the one in force: the newest wins, here as in the engine.
    seen.report.problem = report.problem;
    return;
  }
  if (!backwards && sampled_at <= now.time) {
    seen.skewed = false;
  }
  seen.owners = witness_.attribute(proofs, report.processes);
  seen.report = report;
  seen.sampled_at = sampled_at;
  seen.at = at;
  seen.present = true;
  seen.sampled = true;
  run(observation(seen), now);
  check_overuse(uuid, now);
}

// Each crossing of a limit is told once. Between request and limit use is a burst (bursts.cc).
void Service::check_overuse(const std::string& uuid, Now now) {
  std::map<std::uint64_t, std::int64_t> over;  // bytes above the limit by lease
  const core::DeviceId device = engine_->fleet().find_device(uuid);
  if (device.is_none()) {
    return;
  }
  for (const core::Holding& holding : engine_->ledger().book(device).holdings) {
    const Lease* lease = find(engine_->uid(holding.workload));
    if (lease == nullptr || !holds(lease->state)) {
      continue;
    }
    for (const Held& held : lease->devices) {
      const std::int64_t limit = Memory::mib(held.limit_mib).in_bytes();
      if (held.uuid == uuid && holding.measured > limit) {
        over.emplace(lease->number, holding.measured - limit);
      }
    }
  }
  for (const auto& [number, bytes] : over) {
    if (!overusing_[uuid].contains(number)) {
      Lease& lease = leases_.at(number);
      events_.push_back({"overuse", lease.id, uuid,
                         fmt::format("{} MiB above its limit", Memory::bytes(bytes).ceil_mib())});
      note_overuse(lease, now);
    }
  }
  overusing_[uuid] = std::move(over);
  flush(now);
}

core::DeviceObserved Service::observation(const Seen& seen) {
  const gpu::DeviceReport& report = seen.report;
  core::DeviceObserved observed{
      .uuid = report.device.uuid,
      .sampled_at = seen.sampled_at,
      .used = report.used,
      .attributed = report.attributed,
      .uses = {},
      .health = report.lost ? core::DeviceHealth::unhealthy : report.device.health,
      .restated = report.restated};
  std::map<std::string, std::int64_t> sums;
  for (std::size_t i = 0; i < report.processes.size(); ++i) {
    const local::Attribution& owner = seen.owners[i];
    sums[owner.lease.empty() ? owner.name : owner.lease] += report.processes[i].used.in_bytes();
  }
  for (const auto& [whose, bytes] : sums) {
    observed.uses.push_back({.uid = whose, .used = Memory::bytes(bytes)});
  }
  return observed;
}

// Nothing on it runs on: what was promised there is lost.
void Service::lose_device(const std::string& uuid, std::string_view why, Now now) {
  events_.push_back({"device-lost", "", uuid, std::string(why)});
  std::vector<std::uint64_t> lost;
  each_on(uuid, [&](const Lease& lease) { lost.push_back(lease.number); });
  // No place may be given on it again before the end of this: the engine hears of its health first.
  run(core::DeviceObserved{.uuid = uuid,
                           .sampled_at = now.time,
                           .used = std::nullopt,
                           .uses = {},
                           .health = core::DeviceHealth::unhealthy},
      now);
  for (const std::uint64_t number : lost) {
    end(leases_.at(number), State::lost, Reason::device_lost,
        fmt::format("device {} failed: {}; reserve again with the same key, the age is kept", uuid,
                    why),
        now);
  }
  flush(now);
}

void Service::note_overuse(Lease& lease, Now now) {
  if (config_.overuse == OverusePolicy::block) {
    for (const Held& held : lease.devices) {
      if (!drained_.contains(held.uuid)) {
        drained_.insert(held.uuid);
        dirty_.emplace("drained", held.uuid);
        followups_.emplace_back(core::DeviceCordoned{held.uuid, true});
        events_.push_back(
            {"device-blocked", lease.id, held.uuid, "overuse: drained until somebody undrains it"});
      }
    }
  } else if (config_.overuse == OverusePolicy::kill && !lease.evicting.has_value()) {
    lease.evicting = Eviction{.beneficiary = {},
                              .rule = core::Evicted::Rule::guarantee,
                              .deadline = now.time + config_.grace,
                              .text = "it uses more than it asked for"};
    lease.reason = Reason::overuse;
    events_.push_back({"evicting", lease.id, "", lease.evicting->text});
    changed(lease);
  }
}

// How the limit is held, from the process that was confirmed.
void Service::look_for_guard(Lease& lease) {
  unguarded_.erase(lease.number);
  if (lease.isolation == core::Isolation::hardware) {
    return;
  }
  const bool guarded = lease.ask.guard && witness_.guarded(*lease.proof);
  lease.isolation = guarded ? core::Isolation::library : core::Isolation::advisory;
  if (lease.ask.guard && !guarded && lease.proof->process.has_value()) {
    unguarded_[lease.number] = kGuardLooks;
  }
}

void Service::check_guards() {
  for (auto at = unguarded_.begin(); at != unguarded_.end();) {
    const auto found = leases_.find(at->first);
    const bool holds_it =
        found != leases_.end() && holds(found->second.state) && found->second.proof.has_value();
    const bool guarded = holds_it && witness_.guarded(*found->second.proof);
    if (guarded) {
      found->second.isolation = core::Isolation::library;
      touched(found->second);
    }
    at = guarded || !holds_it || --at->second == 0 ? unguarded_.erase(at) : std::next(at);
  }
}

// Leases that end when no process of theirs is left.
void Service::check_ends(Now now) {
  std::vector<std::uint64_t> gone;
  for (const std::uint64_t number : live_) {
    const Lease& lease = leases_.at(number);
    if (!holds(lease.state)) {
      continue;
    }
    const bool waits_for_end = lease.state == State::suspect || lease.state == State::ending;
    const bool unwatched =
        lease.proof.has_value() && (!lease.proof->process.has_value() || peopled_.contains(number));
    if (!waits_for_end && !unwatched) {
      continue;
    }
    if (lease.proof.has_value() && witness_.alive(*lease.proof)) {
      if (unwatched) {
        peopled_.insert(number);
      }
    } else if (waits_for_end || peopled_.contains(number)) {
      // A cgroup that nobody was ever seen in may still be about to be filled.
      gone.push_back(number);
    }
  }
  for (const std::uint64_t number : gone) {
    end_without_processes(leases_.at(number), now);
  }
  flush(now);
}

void Service::end_without_processes(Lease& lease, Now now) {
  if (lease.state == State::suspect) {
    end(lease, State::expired, Reason::not_renewed, "not renewed, and no process of it is left",
        now);
  } else if (lease.evicting.has_value()) {
    // It did what it was told; asked for again it keeps its age, as after the grace time.
    const std::string text = lease.evicting->text;
    end(lease, State::lost, Reason::evicted, text, now);
  } else {
    end(lease, State::released, Reason::process_ended, "its last process has ended", now);
  }
}

void Service::process_ended(std::string_view id, Now now) {
  Lease* lease = find_mut(id);
  if (lease == nullptr || !holds(lease->state) || !lease->proof.has_value()) {
    return;
  }
  if (witness_.alive(*lease->proof)) {
    peopled_.insert(lease->number);
    return;
  }
  end_without_processes(*lease, now);
  flush(now);
}

std::optional<Time> Service::next_due() const {
  return due_.empty() ? std::nullopt : std::optional(due_.begin()->first);
}

void Service::tick(Now now) {
  run(core::TimeReached{}, now);
  while (!due_.empty() && due_.begin()->first <= now.time) {
    const std::uint64_t number = due_.begin()->second;
    due(leases_.at(number), now);
  }
  flush(now);
}

void Service::due(Lease& lease, Now now) {
  if (holds(lease.state) && lease.evicting.has_value() && lease.evicting->deadline <= now.time) {
    const std::string text = lease.evicting->text;
    const Reason why = lease.reason == Reason::overuse ? Reason::overuse : Reason::evicted;
    end(lease, State::lost, why, text, now);
    flush(now);
    return;
  }
  switch (lease.state) {
    case State::waiting:
      if (lease.deadline.has_value() && *lease.deadline <= now.time) {
        end(lease, State::timed_out, Reason::queue_timeout,
            "queue_timeout_seconds passed before there was room", now);
      } else {
        end(lease, State::expired, Reason::client_silent,
            fmt::format("nobody asked for it for {} s", config_.silence.count() / 1000), now);
      }
      break;
    case State::granted:
      end(lease, State::expired, Reason::not_confirmed,
          "not confirmed in time; reserve again with the same key, the age is kept", now);
      break;
    case State::active:
      if (!lease.wants_gpu()) {
        forget(lease.number);
        return;
      }
      if (lease.proof.has_value() && witness_.alive(*lease.proof)) {
        if (config_.forced != Duration(0)) {
          lease.force_by = now.time + config_.forced;
        }
        become(lease, State::suspect, Reason::not_renewed,
               "not renewed in time; it counts until its processes are gone");
      } else {
        end(lease, State::expired, Reason::not_renewed,
            "not renewed in time, and no process of it is known", now);
      }
      break;
    case State::suspect:
      end(lease, State::expired, Reason::forced, "not renewed for too long", now);
      break;
    case State::ending:
      end(lease, State::released, Reason::forced, "its processes did not end in time", now);
      break;
    default: forget(lease.number); return;
  }
  flush(now);
}

Outcome<void> Service::drain(const Party& party, std::string_view uuid, bool drained, Now now) {
  if (!party.admin) {
    return std::unexpected(Refusal{.status = 403,
                                   .code = "forbidden",
                                   .field = "drained",
                                   .value = std::string(uuid),
                                   .message = fmt::format("{} may not drain devices", party.name),
                                   .hint = "root and the role admin may"});
  }
  const core::Fleet& fleet = engine_->fleet();
  const core::DeviceId found = fleet.find_device(uuid);
  if (found.is_none() || !fleet.present(found)) {
    return std::unexpected(Refusal{.status = 404,
                                   .code = "invalid-field",
                                   .field = "uuid",
                                   .value = std::string(uuid),
                                   .message = fmt::format("no device has the UUID {}", uuid),
                                   .hint = "`berth gpus` lists the devices"});
  }
  const std::string name(uuid);
  if (drained == drained_.contains(name)) {
    return {};
  }
  if (drained) {
    drained_.insert(name);
  } else {
    drained_.erase(name);
  }
  dirty_.emplace("drained", name);
  for (auto& [node_name, node] : nodes_) {
    for (core::Device& device : node.devices) {
      if (device.uuid == name) {
        device.cordoned = drained;
      }
    }
  }
  events_.push_back({drained ? "drained" : "undrained", "", name, party.name});
  run(core::DeviceCordoned{name, drained}, now);
  return {};
}

void Service::adjust(const ServiceConfig& wanted, Now now) {
  config_.confirm = wanted.confirm;
  config_.ttl = wanted.ttl;
  config_.silence = wanted.silence;
  config_.forced = wanted.forced;
  config_.age_memory = wanted.age_memory;
  config_.keep_ended = wanted.keep_ended;
  config_.grace = wanted.grace;
  config_.max_waiting_per_owner = wanted.max_waiting_per_owner;
  config_.max_ended = wanted.max_ended;
  config_.gpu_enabled = wanted.gpu_enabled;
  config_.overuse = wanted.overuse;
  config_.burst_grace = wanted.burst_grace;
  config_.burst = wanted.burst;
  if (config_.engine.policy != wanted.engine.policy) {
    config_.engine.policy = wanted.engine.policy;
    run(core::PolicyChanged{wanted.engine.policy, config_.engine.policy_seed}, now);
  }
}

Result<void> Service::set_queues(core::QueueConfig queues, Now now) {
  config_.queues = queues;
  run(core::QueuesChanged{std::move(queues)}, now);
  return {};
}

}  // namespace berth::lease
