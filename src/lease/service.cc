// What is common to all calls: the way to the engine and back, and the life of a lease in memory.
#include "lease/service.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/ledger/ledger.h"
#include "lease/reasons.h"
#include "lease/record.h"

namespace berth::lease {

Service::Service(ServiceConfig config, Witness& witness)
    : config_(std::move(config)), witness_(witness) {}

Service::~Service() = default;

Result<std::unique_ptr<Service>> Service::create(ServiceConfig config, Witness& witness, Now now) {
  if (config.ledger_only) {
    config.engine.max_sample_age.reset();  // the books alone decide, however old a sample is
  }
  std::unique_ptr<Service> service(new Service(std::move(config), witness));
  TRY(service->engine_, core::Engine::create(service->config_.engine));
  service->set_hold(now);
  if (service->config_.queues.has_value()) {
    if (auto set = service->set_queues(*service->config_.queues, now); !set) {
      return set.error();
    }
  }
  return service;
}

// --- events and actions ---------------------------------------------------------------------

void Service::run(core::EventBody body, Now now) {
  followups_.push_back(std::move(body));
  flush(now);
}

// What an action makes necessary comes after all actions of its event.
void Service::flush(Now now) {
  const Time time = std::max(now.time, engine_->now());
  while (!followups_.empty()) {
    for (core::EventBody& event : std::exchange(followups_, {})) {
      for (const core::Action& action : engine_->apply({time, std::move(event)})) {
        act(action, now);
      }
    }
  }
}

void Service::act(const core::Action& action, Now now) {
  if (const auto* notice = std::get_if<core::Notice>(&action)) {
    on_notice(*notice);
    return;
  }
  const auto of = [this](core::WorkloadId id) { return find_mut(engine_->uid(id)); };
  if (const auto* granted = std::get_if<core::Granted>(&action)) {
    if (Lease* lease = of(granted->workload)) {
      on_granted(*lease, now);
    }
  } else if (const auto* retracted = std::get_if<core::Retracted>(&action)) {
    if (Lease* lease = of(retracted->workload)) {
      on_retracted(*lease, *retracted, now);
    }
  } else if (const auto* evicted = std::get_if<core::Evicted>(&action)) {
    if (Lease* lease = of(evicted->workload)) {
      on_evicted(*lease, *evicted, now);
    }
  } else if (const auto* verdict = std::get_if<core::VerdictChanged>(&action)) {
    if (Lease* lease = of(verdict->workload)) {
      on_verdict(*lease, verdict->outcome, verdict->cause, now);
    }
  }
}

void Service::on_granted(Lease& lease, Now now) {
  if (lease.state != State::waiting) {
    return;  // adopted after a restart: what it is was read from the books
  }
  lease.granted_at = now.time;
  lease.granted_wall = now.wall;
  lease.confirm_by = now.time + lease.ask.confirm.value_or(config_.confirm);
  fill_grant(lease);
  granted_.insert(lease.number);
  become(lease, State::granted, Reason::none);
  events_.push_back(
      {"granted", lease.id, lease.devices.empty() ? "" : lease.devices.front().uuid,
       fmt::format("{} waited {} ms", lease.ask.key, (now.time - lease.queued_at).count())});
}

void Service::fill_grant(Lease& lease) {
  const core::Grant* grant = engine_->grant(lease.id);
  if (grant == nullptr) {
    return;
  }
  const core::Fleet& fleet = engine_->fleet();
  lease.node = fleet.node(grant->node).name;
  lease.devices.clear();
  lease.isolation = core::Isolation::advisory;
  for (const core::ContainerGrant& container : grant->containers) {
    for (const core::DeviceShare& share : container.shares) {
      const core::Device& device = fleet.device(share.device);
      lease.devices.push_back({.uuid = device.uuid,
                               .index = device.index,
                               .model = device.model,
                               .mig = device.is_mig(),
                               .request_mib = share.request_mib,
                               .limit_mib = share.limit_mib});
      // Alone on its instance; shares of one are as close as those of a GPU.
      if (device.is_mig() && lease.ask.gpu().is_exclusive()) {
        lease.isolation = core::Isolation::hardware;
      }
    }
  }
}

void Service::on_retracted(Lease& lease, const core::Retracted& action, Now now) {
  if (!holds(lease.state)) {
    return;  // a promise that was broken: it waits as before
  }
  if (action.lost) {
    const std::string device = lease.devices.empty() ? "" : lease.devices.front().uuid;
    events_.push_back({"lost", lease.id, device, "its device is gone"});
    end(lease, State::lost, Reason::device_lost,
        fmt::format("device {} is gone; reserve again with the same key, the age is kept", device),
        now);
  }
}

void Service::on_evicted(Lease& lease, const core::Evicted& action, Now now) {
  if (!holds(lease.state) || lease.evicting.has_value()) {
    return;
  }
  lease.evicting = Eviction{.beneficiary = action.beneficiary.is_none()
                                               ? std::string()
                                               : std::string(engine_->uid(action.beneficiary)),
                            .rule = action.rule,
                            .deadline = now.time + config_.grace,
                            .text = action.text};
  events_.push_back(
      {"evicting", lease.id, lease.devices.empty() ? "" : lease.devices.front().uuid, action.text});
  changed(lease);
}

void Service::on_verdict(Lease& lease, core::Outcome outcome, core::Cause cause, Now now) {
  if (lease.state != State::waiting) {
    return;
  }
  if (outcome == core::Outcome::never && !lease.ask.wait_for_hardware && reconciled_ &&
      !created_.contains(lease.number)) {
    // One that was possible when it came; reserve() itself answers those that never were.
    const Refusal why = never(lease);
    events_.push_back({"never", lease.id, "", why.message});
    end(lease, State::never, why.reason, why.message, now);
    return;
  }
  const Reason reason = waiting_reason(cause);
  if (reason != lease.reason) {
    lease.reason = reason;
    changed(lease);
  }
}

void Service::on_notice(const core::Notice& notice) {
  const std::string device = notice.device.is_none() ? "" : engine_->fleet().uuid(notice.device);
  Lease* lease = notice.workload.is_none() ? nullptr : find_mut(engine_->uid(notice.workload));
  std::string_view kind;
  switch (notice.kind) {
    case core::Notice::Kind::overuse: return;  // of the request: check_overuse() knows the limit
    case core::Notice::Kind::foreign_changed: kind = "foreign-changed"; break;
    case core::Notice::Kind::promise_at_risk: kind = "promise-at-risk"; break;
    case core::Notice::Kind::clock_skew: kind = "clock-skew"; break;
    case core::Notice::Kind::queue_problem: kind = "queue-problem"; break;
    case core::Notice::Kind::refused_event: kind = "refused-event"; break;
  }
  std::string text = notice.text;
  if (text.empty()) {
    text = fmt::format("{} MiB", Memory::bytes(notice.bytes).ceil_mib());
  }
  if (notice.kind == core::Notice::Kind::clock_skew) {
    bool& skewed = seen_[device].skewed;
    if (std::exchange(skewed, true)) {
      return;
    }
    text = "its samples are stamped in the future; they count as taken now";
  }
  events_.push_back({kind, lease != nullptr ? lease->id : "", device, std::move(text)});
}

// Nothing is granted before the machine was seen, while nothing can be written down, and while no
// source answers.
void Service::set_hold(Now now) {
  const bool hold = !reconciled_ || !writable_ || (!source_up_ && !config_.ledger_only);
  if (hold != held_) {
    held_ = hold;
    run(core::GrantingHeld{hold}, now);
  }
  refresh_reasons(now);
}

// What the end of a hold, or its other reason, changes without the engine saying so.
void Service::refresh_reasons(Now now) {
  const std::vector<std::uint64_t> numbers(live_.begin(), live_.end());
  for (const std::uint64_t number : numbers) {
    Lease& lease = leases_.at(number);
    if (lease.state == State::waiting) {
      on_verdict(lease, engine_->outcome(lease.id).value_or(core::Outcome::waiting),
                 engine_->cause(lease.id), now);
    }
  }
  flush(now);
}

Reason Service::waiting_reason(core::Cause cause) const {
  if (held_) {
    if (!writable_) {
      return Reason::ledger_unwritable;
    }
    return reconciled_ ? Reason::no_source : Reason::reconciling;
  }
  return reason_of(cause);
}

std::string Service::held_because() const {
  if (!held_) {
    return {};
  }
  if (!writable_) {
    return "nothing is granted: the journal cannot be written";
  }
  if (!reconciled_) {
    return why_down_.empty()
               ? "nothing is granted yet: the daemon starts and has not seen the devices"
               : "nothing is granted: the daemon has not seen the devices since its start (" +
                     why_down_ + ")";
  }
  return "nothing is granted: no source of measurements answers" +
         (why_down_.empty() ? std::string() : " (" + why_down_ + ")");
}

// --- leases in memory -----------------------------------------------------------------------

Lease& Service::add(Lease lease) {
  const std::uint64_t number = lease.number;
  by_id_.emplace(lease.id, number);
  // Of several leases of one key (a lapsed one and its successor) the newest answers for it.
  std::uint64_t& of_key = by_key_[{lease.principal, lease.ask.key}];
  of_key = std::max(of_key, number);
  if (is_live(lease.state)) {
    live_.insert(number);
  }
  if (lease.state == State::waiting) {
    count_waiting(lease, 1);
  }
  if (!is_live(lease.state)) {
    ended_.insert(number);
  }
  Lease& added = leases_.emplace(number, std::move(lease)).first->second;
  set_due(added);
  return added;
}

void Service::count_waiting(const Lease& lease, int by) {
  waiting_of_[lease.principal] += static_cast<std::size_t>(by);
  waiting_in_[lease.ask.queue] += by;
}

Lease* Service::find_mut(std::string_view id) {
  const auto found = by_id_.find(std::string(id));
  return found == by_id_.end() ? nullptr : &leases_.at(found->second);
}

const Lease* Service::find(std::string_view id) const {
  const auto found = by_id_.find(std::string(id));
  return found == by_id_.end() ? nullptr : &leases_.at(found->second);
}

Lease* Service::by_key(std::string_view principal, std::string_view key) {
  const auto found = by_key_.find(std::pair(std::string(principal), std::string(key)));
  return found == by_key_.end() ? nullptr : &leases_.at(found->second);
}

void Service::changed(Lease& lease) {
  ++lease.version;
  rose_.push_back(lease.number);
  touched(lease);
}

void Service::touched(const Lease& lease) {
  dirty_.emplace("lease", lease.id);
  set_due(leases_.at(lease.number));
}

void Service::set_due(Lease& lease) {
  std::optional<Time> due;
  const auto consider = [&due](const std::optional<Time>& time) {
    if (time.has_value() && (!due.has_value() || *time < *due)) {
      due = time;
    }
  };
  switch (lease.state) {
    case State::waiting:
      consider(lease.deadline);
      if (!watchers_.contains(lease.number)) {
        consider(lease.heard_by);
      }
      break;
    case State::granted: consider(lease.confirm_by); break;
    case State::active: consider(lease.wants_gpu() ? lease.renew_by : lease.forget_at); break;
    case State::suspect:
    case State::ending: consider(lease.force_by); break;
    default: consider(lease.forget_at); break;
  }
  if (holds(lease.state) && lease.evicting.has_value()) {
    consider(lease.evicting->deadline);
  }
  const auto before = due_of_.find(lease.number);
  if (before != due_of_.end()) {
    if (due == before->second) {
      return;
    }
    due_.erase({before->second, lease.number});
    due_of_.erase(before);
  }
  if (due.has_value()) {
    due_.emplace(*due, lease.number);
    due_of_.emplace(lease.number, *due);
  }
}

void Service::become(Lease& lease, State state, Reason reason, std::string message) {
  if (lease.state == State::waiting && state != State::waiting) {
    count_waiting(lease, -1);
  }
  if (is_live(lease.state) && !is_live(state)) {
    live_.erase(lease.number);
    peopled_.erase(lease.number);
    ended_.insert(lease.number);
  }
  lease.state = state;
  lease.reason = reason;
  lease.message = std::move(message);
  changed(lease);
}

// The engine is told unless it said so itself.
void Service::end(Lease& lease, State state, Reason reason, std::string message, Now now) {
  const bool waited = lease.state == State::waiting;
  const bool held = engine_->grant(lease.id) != nullptr;
  lease.ended_at = now.time;
  lease.ended_wall = now.wall;
  lease.forget_at = now.time + config_.keep_ended;
  become(lease, state, reason, std::move(message));
  if (waited) {
    followups_.emplace_back(core::WorkloadCancelled{lease.id});
  } else if (held) {
    followups_.emplace_back(core::GrantReleased{lease.id});
  }
}

void Service::forget(std::uint64_t number) {
  const auto found = leases_.find(number);
  const Lease& lease = found->second;
  dirty_.emplace("lease", lease.id);
  by_id_.erase(lease.id);
  if (const auto key = by_key_.find({lease.principal, lease.ask.key});
      key != by_key_.end() && key->second == number) {
    by_key_.erase(key);
  }
  if (const auto due = due_of_.find(number); due != due_of_.end()) {
    due_.erase({due->second, number});
    due_of_.erase(due);
  }
  live_.erase(number);
  if (lease.state == State::waiting) {
    count_waiting(lease, -1);
  }
  ended_.erase(number);
  watchers_.erase(number);
  peopled_.erase(number);
  created_.erase(number);
  granted_.erase(number);
  leases_.erase(found);
}

void Service::forget_surplus() {
  while (ended_.size() > config_.max_ended) {
    forget(*ended_.begin());
  }
}

core::Workload Service::workload_of(const Lease& lease) const {
  core::WorkloadOptions options;
  options.queue = lease.ask.queue;
  options.priority = lease.ask.priority;
  options.preemptible = lease.ask.preemptible;
  options.restartable = false;  // whoever holds it decides whether it comes again
  options.max_run = lease.ask.max_run;
  options.queued_at = lease.queued_at;
  if (!lease.ask.policy.empty()) {
    options.policy = lease.ask.policy;
  }
  return core::Workload::task(lease.id, lease.ask.request, options);
}

}  // namespace berth::lease
