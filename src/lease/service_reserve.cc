// Reservations: what is taken, what is refused, and why.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/suggest.h"
#include "core/placement/rules.h"
#include "core/queue/queue_tree.h"
#include "lease/reasons.h"
#include "lease/service.h"

namespace berth::lease {

namespace {

Refusal key_conflict(const Lease& lease) {
  return {
      .status = 409,
      .code = "key-conflict",
      .field = "key",
      .value = lease.ask.key,
      .message = fmt::format("the key names lease {}, which asked for something else", lease.id),
      .hint = "use a new key for a new claim; a key of a task should hold its try number"};
}

// Numbers are never given twice, also when the leases that had them are forgotten: what is written
// down runs ahead by so many, so that most reservations write nothing about it.
constexpr std::uint64_t kNumbersAhead = 64;

}  // namespace

namespace {

// The field of the request that can never be served.
std::string field_of(core::Cause cause, const core::DeviceAsk& gpu) {
  using core::Cause;
  switch (cause) {
    case Cause::no_node_matches:
    case Cause::no_devices: return "node";
    case Cause::type_mismatch: return "models";
    case Cause::uuid_mismatch: return "devices";
    case Cause::insufficient_devices: return "count";
    case Cause::over_limit:
    case Cause::unknown_queue: return "queue";
    case Cause::insufficient_node_resource:
    case Cause::exceeds_fleet: return "cpu_milli";
    default: break;
  }
  return gpu.kind == core::AskKind::mig        ? "mig_profile"
         : gpu.kind == core::AskKind::whole    ? "exclusive"
         : gpu.kind == core::AskKind::fraction ? "fraction"
                                               : "memory";
}

}  // namespace

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
  refusal.message = verdict->summary;
  refusal.field = field_of(verdict->cause, lease.ask.gpu());
  if (refusal.field == "cpu_milli" && std::ranges::any_of(nodes_, [&](const auto& node) {
        return node.second.cpu >= lease.ask.request.cpu();
      })) {
    refusal.field = "ram_mib";
  }
  refusal.value = refusal.field == "memory"  ? fmt::format("{} MiB", lease.ask.gpu().mib)
                  : refusal.field == "count" ? std::to_string(lease.ask.gpu().count)
                  : refusal.field == "queue" ? lease.ask.queue
                                             : std::string();
  const bool less_would_do = verdict->cause == core::Cause::largest_device_too_small && largest > 0;
  refusal.hint = less_would_do
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

}  // namespace berth::lease
