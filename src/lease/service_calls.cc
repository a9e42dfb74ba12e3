// What people and programs ask for: reserve, confirm, renew, release, and questions.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/suggest.h"
#include "core/ledger/ledger.h"
#include "core/placement/rules.h"
#include "core/queue/queue_tree.h"
#include "lease/reasons.h"
#include "lease/service.h"

namespace berth::lease {

namespace {

Refusal unknown_lease(std::string_view id) {
  return {.status = 404,
          .code = "unknown-lease",
          .field = "id",
          .value = std::string(id),
          .message = fmt::format("no lease has the id {}", id),
          .hint = "reserve again with the key; `berth ps` lists the leases that are known"};
}

Refusal forbidden(const Lease& lease) {
  return {.status = 403,
          .code = "forbidden",
          .field = "id",
          .value = lease.id,
          .message = fmt::format("lease {} belongs to {}", lease.id, lease.principal),
          .hint = "its holder, or the role admin, may see and end it"};
}

Refusal gone(const Lease& lease) {
  return {
      .status = 410,
      .code = "lost",
      .field = "id",
      .value = lease.id,
      .message = fmt::format("lease {} is {}{}{}", lease.id, state_name(lease.state),
                             lease.reason == Reason::none ? "" : ": ", reason_name(lease.reason)),
      .hint = "reserve again with the same key; after a loss its age is kept"};
}

Refusal key_conflict(const Lease& lease) {
  return {
      .status = 409,
      .code = "key-conflict",
      .field = "key",
      .value = lease.ask.key,
      .message = fmt::format("the key names lease {}, which asked for something else", lease.id),
      .hint = "use a new key for a new claim; a key of a task should hold its try number"};
}

bool sees(const Party& party, const Lease& lease) {
  return party.admin || party.name == lease.principal;
}

}  // namespace

namespace {

// Numbers are never given twice, also when the leases that had them are forgotten: what is written
// down runs ahead by so many, so that most reservations write nothing about it.
constexpr std::uint64_t kNumbersAhead = 64;

}  // namespace

Outcome<Lease*> Service::owned(const Party& party, std::string_view id) {
  Lease* lease = find_mut(id);
  if (lease == nullptr) {
    return std::unexpected(unknown_lease(id));
  }
  if (!sees(party, *lease)) {
    return std::unexpected(forbidden(*lease));
  }
  return lease;
}

// Of a lease that the engine just called impossible.
Refusal Service::never(const Lease& lease) const {
  const Result<core::Verdict> verdict = engine_->explain(lease.id, core::Engine::Detail::in_short);
  Refusal refusal{.status = 422, .code = "never", .field = "memory"};
  if (!verdict) {
    return refusal;
  }
  std::int64_t largest = 0;
  for (const auto& [name, node] : nodes_) {
    for (const core::Device& device : node.devices) {
      if (!device.mig_enabled &&
          core::static_refusal(lease.ask.gpu(), node, device) == core::Cause::none) {
        largest = std::max(largest, device.usable_mib());
      }
    }
  }
  refusal.reason = never_reason_of(verdict->cause);
  refusal.largest_mib = largest;
  refusal.value = lease.ask.gpu().kind == core::AskKind::memory
                      ? fmt::format("{} MiB", lease.ask.gpu().mib)
                      : std::string();
  refusal.message = verdict->summary;
  refusal.hint = largest > 0
                     ? fmt::format(
                           "do not retry: ask for at most {} MiB, or set wait_for_hardware to "
                           "wait for other devices",
                           largest)
                     : std::string(
                           "do not retry: nothing here serves such a claim; set "
                           "wait_for_hardware to wait for other devices");
  return refusal;
}

// Why no claim of a GPU is taken now, whatever it asks for.
std::optional<Refusal> Service::unwelcome(const Party& party, const Ask& ask) const {
  if (!config_.gpu_enabled) {
    return Refusal{.status = 422,
                   .code = "never",
                   .field = "memory",
                   .value = {},
                   .message = "GPU support is switched off here (gpu.enabled is false)",
                   .hint = "do not retry; the administrator switches it on in the configuration",
                   .reason = Reason::gpu_disabled,
                   .largest_mib = 0};
  }
  if (!writable_) {
    return unwritable();
  }
  if (const auto waiting = waiting_of_.find(party.name);
      waiting != waiting_of_.end() && waiting->second >= config_.max_waiting_per_owner) {
    return Refusal{
        .status = 429,
        .code = "too-many-waiting",
        .field = "key",
        .value = ask.key,
        .message = fmt::format("{} has {} leases waiting, the most that one owner may have",
                               party.name, waiting->second),
        .hint = "wait until some are granted, or release those that are not needed",
        .retry_after_s = 30};
  }
  return std::nullopt;
}

Outcome<Reserved> Service::reserve(const Party& party, Ask ask, Now now,
                                   std::string_view supersedes) {
  std::optional<Time> age;
  std::int64_t age_wall = 0;
  std::optional<std::uint64_t> before;  // of the same key
  if (Lease* known = by_key(party.name, ask.key)) {
    before = known->number;
    if (known->state != State::never) {
      if (!(known->ask.request == ask.request)) {
        return std::unexpected(key_conflict(*known));
      }
      if (known->state != State::expired && known->state != State::lost) {
        if (known->state == State::waiting) {
          known->heard_by = now.time + config_.silence;
          set_due(*known);
        }
        return Reserved{known, true};
      }
      if (known->ended_at.has_value() && now.time - *known->ended_at <= config_.age_memory) {
        age = known->queued_at;
        age_wall = known->queued_wall;
      }
    }
  }
  if (ask.request.wants_gpu()) {
    if (std::optional<Refusal> refusal = unwelcome(party, ask)) {
      return std::unexpected(std::move(*refusal));
    }
  }
  if (!supersedes.empty() && possible(party, ask, now)) {
    supersede(party, supersedes, ask.key, now);
  }
  Lease lease;
  lease.number = next_number_++;
  lease.id = fmt::format("l-{:04x}", lease.number);
  lease.principal = party.name;
  lease.local = party.local;
  lease.uid = party.uid;
  lease.gid = party.gid;
  lease.queued_at = age.value_or(now.time);
  lease.queued_wall = age.has_value() ? age_wall : now.wall;
  lease.ask = std::move(ask);
  if (lease.ask.owner.empty()) {
    lease.ask.owner = party.name;
  }
  if (next_number_ > numbers_promised_) {
    numbers_promised_ = next_number_ + kNumbersAhead;
    dirty_.emplace("service", "numbers");
  }
  if (!lease.wants_gpu()) {
    lease.state = State::active;
    lease.granted_at = now.time;
    lease.granted_wall = now.wall;
    lease.forget_at = now.time + config_.keep_ended;
    Lease& added = add(std::move(lease));
    created_.insert(added.number);
    touched(added);
    return Reserved{&added, false};
  }
  lease.heard_by = now.time + config_.silence;
  if (lease.ask.queue_timeout.has_value()) {
    // From now on, however old it is: it may have held its device for hours.
    lease.deadline = now.time + *lease.ask.queue_timeout;
  }
  Lease& added = add(std::move(lease));
  created_.insert(added.number);
  touched(added);
  run(core::WorkloadSubmitted{workload_of(added)}, now);
  const std::pair<std::string, std::string> key(added.principal, added.ask.key);
  Outcome<Reserved> outcome = submitted(added, now);
  if (!outcome && before.has_value()) {
    by_key_[key] = *before;  // what was refused takes no key away from what was there
  }
  return outcome;
}

// Would it be accepted? A try that is refused must not end the one before it.
bool Service::possible(const Party& party, const Ask& ask, Now now) const {
  if (!ask.request.wants_gpu()) {
    return true;
  }
  const Outcome<core::Verdict> verdict = dry_run(party, ask, now);
  return verdict.has_value() &&
         (verdict->outcome != core::Outcome::never || !reconciled_ || ask.wait_for_hardware);
}

// What came of a lease that was just submitted.
Outcome<Reserved> Service::submitted(Lease& lease, Now now) {
  if (lease.state == State::granted) {
    return Reserved{&lease, false};
  }
  const std::optional<core::Outcome> outcome = engine_->outcome(lease.id);
  const core::Cause cause = engine_->cause(lease.id);
  std::optional<Refusal> refusal;
  if (!outcome.has_value()) {
    refusal = Refusal{.status = 500, .code = "internal", .message = "the engine refused the lease"};
  } else if (cause == core::Cause::unknown_queue || cause == core::Cause::not_a_leaf_queue) {
    refusal = bad_queue(lease.ask.queue);
  } else if (*outcome == core::Outcome::never && reconciled_ && !lease.ask.wait_for_hardware) {
    refusal = never(lease);
  }
  if (refusal.has_value()) {
    const std::string id = lease.id;
    const std::uint64_t number = lease.number;
    if (outcome.has_value()) {
      run(core::WorkloadCancelled{id}, now);
    }
    forget(number);
    dirty_.erase({"lease", id});
    return std::unexpected(std::move(*refusal));
  }
  const Reason reason = waiting_reason(cause);
  lease.reason = reason;
  return Reserved{&lease, false};
}

Refusal Service::bad_queue(std::string_view name) const {
  std::vector<std::string> leaves;
  const core::QueueTree& tree = engine_->queues();
  for (std::size_t i = 0; i < tree.queue_slots(); ++i) {
    if (tree.is_leaf(core::QueueId(i))) {
      leaves.push_back(tree.name(core::QueueId(i)));
    }
  }
  if (leaves.empty()) {
    leaves.emplace_back("default");
  }
  return {.status = 400,
          .code = "invalid-field",
          .field = "queue",
          .value = std::string(name),
          .message = fmt::format("no queue {} takes work", name),
          .hint = fmt::format("did you mean {}? `berth queues` lists them; work goes into leaves",
                              nearest(name, leaves))};
}

Refusal Service::unwritable() {
  return {.status = 503,
          .code = "ledger-unwritable",
          .message = "the journal cannot be written: nothing was granted",
          .hint =
              "repeat with the same key; the administrator looks at the disk of the state "
              "directory (`berth doctor`)",
          .retry_after_s = 2};
}

void Service::supersede(const Party& party, std::string_view prefix, std::string_view key,
                        Now now) {
  std::vector<std::uint64_t> gone;
  for (auto at = by_key_.lower_bound(std::pair(party.name, std::string(prefix)));
       at != by_key_.end() && at->first.first == party.name && at->first.second.starts_with(prefix);
       ++at) {
    if (at->first.second != key && is_live(leases_.at(at->second).state)) {
      gone.push_back(at->second);
    }
  }
  for (const std::uint64_t number : gone) {
    end_or_wait(leases_.at(number), true, Reason::superseded, fmt::format("superseded by {}", key),
                now);
  }
  flush(now);
}

// Ends a lease; with `if_gone` only when no process of it is left, and until then it is `ending`.
void Service::end_or_wait(Lease& lease, bool if_gone, Reason reason, std::string message, Now now) {
  if (lease.state == State::waiting) {
    end(lease, State::cancelled, reason, std::move(message), now);
    return;
  }
  if (if_gone && lease.proof.has_value() && witness_.alive(*lease.proof)) {
    if (lease.state != State::ending) {
      if (config_.forced != Duration(0)) {
        lease.force_by = now.time + config_.forced;
      }
      become(lease, State::ending, Reason::process_alive,
             "its end was asked for; it counts until its processes are gone");
    }
    return;
  }
  end(lease, State::released, reason, std::move(message), now);
}

Outcome<const Lease*> Service::confirm(const Party& party, std::string_view id,
                                       const local::Confirmation& confirmation, Now now) {
  const Outcome<Lease*> found = owned(party, id);
  if (!found) {
    return std::unexpected(found.error());
  }
  Lease& lease = **found;
  if (lease.state == State::waiting) {
    return std::unexpected(Refusal{.status = 409,
                                   .code = "not-granted",
                                   .field = "id",
                                   .value = lease.id,
                                   .message = fmt::format("lease {} still waits", lease.id),
                                   .hint = "wait until its state is granted; nothing may start"});
  }
  if (!holds(lease.state) || lease.state == State::ending) {
    return std::unexpected(gone(lease));
  }
  const bool proves =
      confirmation.pid.has_value() || !confirmation.cgroup.empty() || !confirmation.pod_uid.empty();
  if (proves && lease.wants_gpu()) {
    local::Confirmation asked = confirmation;
    asked.lease = lease.id;
    asked.uid = lease.uid;
    asked.journal = config_.journal_id;
    Result<local::Proof> proof = witness_.prove(asked);
    if (!proof) {
      return std::unexpected(Refusal{
          .status = proof.error().code() == ErrorCode::conflict ? 403 : 400,
          .code = proof.error().code() == ErrorCode::conflict ? "forbidden" : "invalid-field",
          .field = confirmation.pid.has_value()  ? "pid"
                   : confirmation.cgroup.empty() ? "pod_uid"
                                                 : "cgroup",
          .value = confirmation.pid.has_value() ? std::to_string(*confirmation.pid)
                                                : confirmation.cgroup + confirmation.pod_uid,
          .message = proof.error().message(),
          .hint = "name a process of this machine that lives and belongs to the caller"});
    }
    lease.proof = std::move(*proof);
    peopled_.erase(lease.number);
    if (lease.isolation != core::Isolation::hardware) {
      lease.isolation = lease.ask.guard && witness_.guarded(*lease.proof)
                            ? core::Isolation::library
                            : core::Isolation::advisory;
    }
  }
  renewed(lease, now);
  if (lease.state == State::granted) {
    lease.confirm_by.reset();
    become(lease, State::active, Reason::none);
    run(core::GrantConfirmed{lease.id}, now);
  } else {
    touched(lease);
  }
  return &lease;
}

// A sign of life of what holds.
void Service::renewed(Lease& lease, Now now) {
  if (!lease.wants_gpu()) {
    lease.forget_at = now.time + config_.keep_ended;
    return;
  }
  lease.renew_by = now.time + lease.ask.ttl.value_or(config_.ttl);
  lease.force_by.reset();
  if (lease.state == State::suspect) {
    become(lease, State::active, Reason::none);
  }
}

Outcome<const Lease*> Service::renew(const Party& party, std::string_view id, Now now) {
  const Outcome<Lease*> found = owned(party, id);
  if (!found) {
    return std::unexpected(found.error());
  }
  Lease& lease = **found;
  switch (lease.state) {
    case State::waiting:
      lease.heard_by = now.time + config_.silence;
      set_due(lease);
      break;
    case State::granted: break;  // only a confirmation prolongs it
    case State::active:
    case State::suspect:
      renewed(lease, now);
      touched(lease);
      break;
    default: return std::unexpected(gone(lease));
  }
  return &lease;
}

Outcome<Service::Release> Service::release(const Party& party, std::string_view id, bool if_gone,
                                           std::string_view reason, Now now) {
  Lease* lease = find_mut(id);
  if (lease == nullptr) {
    return Release{};
  }
  if (!sees(party, *lease)) {
    return std::unexpected(forbidden(*lease));
  }
  if (!is_live(lease->state) || (lease->state == State::ending && if_gone)) {
    return Release{lease, false};
  }
  end_or_wait(*lease, if_gone, Reason::none, std::string(reason), now);
  flush(now);
  return Release{lease, true};
}

Outcome<Service::Release> Service::release_key(const Party& party, std::string_view key,
                                               bool if_gone, std::string_view reason, Now now) {
  const Lease* lease = by_key(party.name, key);
  if (lease == nullptr && party.admin) {
    // An administrator's hook knows the task only; its key may be anybody's, but not of two.
    const Lease* only = nullptr;
    for (const auto& [name, number] : by_key_) {
      if (name.second == key && is_live(leases_.at(number).state)) {
        if (only != nullptr) {
          return std::unexpected(Refusal{.status = 409,
                                         .code = "key-conflict",
                                         .field = "key",
                                         .value = std::string(key),
                                         .message = "the key is used by several owners",
                                         .hint = "release by id; `berth ps` lists them"});
        }
        only = &leases_.at(number);
      }
    }
    lease = only;
  }
  if (lease == nullptr) {
    return Release{};
  }
  return release(party, std::string(lease->id), if_gone, reason, now);
}

Outcome<const Lease*> Service::read(const Party& party, std::string_view id, Now now) {
  const Outcome<Lease*> found = owned(party, id);
  if (!found) {
    return std::unexpected(found.error());
  }
  Lease& lease = **found;
  if (lease.state == State::waiting && party.name == lease.principal) {
    lease.heard_by = now.time + config_.silence;
    set_due(lease);
  }
  return &lease;
}

void Service::watching(std::string_view id, bool open, Now now) {
  Lease* lease = find_mut(id);
  if (lease == nullptr) {
    return;
  }
  if (open) {
    ++watchers_[lease->number];
  } else if (const auto at = watchers_.find(lease->number); at != watchers_.end()) {
    if (--at->second == 0) {
      watchers_.erase(at);
    }
  }
  if (lease->state == State::waiting) {
    lease->heard_by = now.time + config_.silence;
  }
  set_due(*lease);
}

std::vector<const Lease*> Service::list(const Party& party, const Filter& filter) const {
  const auto wanted = [&](const Lease& lease) {
    return sees(party, lease) &&
           (filter.states.empty() ||
            std::ranges::find(filter.states, lease.state) != filter.states.end()) &&
           (filter.owner.empty() || lease.ask.owner == filter.owner) &&
           lease.ask.key.starts_with(filter.key_prefix) &&
           (filter.node.empty() || lease.node == filter.node) &&
           (filter.queue.empty() || lease.ask.queue == filter.queue) &&
           (filter.device.empty() || std::ranges::any_of(lease.devices, [&](const Held& held) {
              return held.uuid == filter.device;
            }));
  };
  std::vector<const Lease*> waiting;
  std::vector<const Lease*> others;
  for (const auto& [number, lease] : leases_) {
    if (wanted(lease)) {
      (lease.state == State::waiting ? waiting : others).push_back(&lease);
    }
  }
  std::unordered_map<std::string_view, std::size_t> places;
  const std::vector<core::WaitingItem> order =
      waiting.empty() ? std::vector<core::WaitingItem>() : engine_->waiting();
  for (std::size_t i = 0; i < order.size(); ++i) {
    places.emplace(order[i].uid, i);
  }
  const auto place = [&](const Lease* lease) {
    const auto at = places.find(lease->id);
    return at == places.end() ? order.size() : at->second;
  };
  std::ranges::stable_sort(waiting, {}, place);
  waiting.insert(waiting.end(), others.begin(), others.end());
  return waiting;
}

Outcome<core::Verdict> Service::explain(const Party& party, std::string_view id) const {
  const Lease* lease = find(id);
  if (lease == nullptr) {
    return std::unexpected(unknown_lease(id));
  }
  if (!sees(party, *lease)) {
    return std::unexpected(forbidden(*lease));
  }
  Result<core::Verdict> verdict = engine_->explain(id);
  if (!verdict) {
    core::Verdict ended;
    ended.outcome = core::Outcome::ended;
    ended.summary = lease->message;
    return ended;
  }
  if (held_ && lease->state == State::waiting) {
    verdict->summary = held_because();
  }
  return std::move(*verdict);
}

}  // namespace berth::lease
