#include "api/write.h"

#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "lease/reasons.h"

namespace berth::api {

using json::Value;
using lease::Lease;
using lease::Now;
using lease::State;

std::string time_text(std::int64_t wall_ms) {
  const std::time_t seconds = wall_ms / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

namespace {

Value time_or_null(const std::optional<Time>& time, Now now) {
  if (!time.has_value()) {
    return {};
  }
  return time_text(now.wall + (*time - now.time).count());
}

Value text_or_null(std::string_view text) { return text.empty() ? Value() : Value(text); }

std::string_view isolation_name(core::Isolation level) {
  switch (level) {
    case core::Isolation::hardware: return "hardware";
    case core::Isolation::driver: return "driver";
    case core::Isolation::library: return "library";
    case core::Isolation::advisory: break;
  }
  return "advisory";
}

std::string_view rule_name(core::Evicted::Rule rule) {
  switch (rule) {
    case core::Evicted::Rule::guarantee: return "guarantee";
    case core::Evicted::Rule::fair_share: return "fair-share";
    case core::Evicted::Rule::priority: return "priority";
    case core::Evicted::Rule::consolidation: return "consolidation";
    case core::Evicted::Rule::stale: return "stale";
    case core::Evicted::Rule::start_timeout: return "start-timeout";
    case core::Evicted::Rule::backfill: return "backfill";
    case core::Evicted::Rule::drain: break;
  }
  return "drain";
}

std::string joined_uuids(const Lease& lease) {
  std::string text;
  for (const lease::Held& held : lease.devices) {
    text += text.empty() ? "" : ",";
    text += held.uuid;
  }
  return text;
}

Value held_value(const Lease& lease, const lease::Held& held) {
  return json::object_of(7)
      .add("uuid", held.uuid)
      .add("node", lease.node)
      .add("index", held.index)
      .add("model", held.model)
      .add("mig", held.mig)
      .add("memory_mib", held.request_mib)
      .add("limit_mib", held.limit_mib);
}

std::int64_t claim_mib(const Lease& lease) {
  if (!lease.devices.empty()) {
    return lease.devices.front().request_mib;
  }
  return lease.ask.gpu().kind == core::AskKind::memory ? lease.ask.gpu().mib : 0;
}

std::int64_t limit_mib(const Lease& lease) {
  if (!lease.devices.empty()) {
    return lease.devices.front().limit_mib;
  }
  return lease.ask.gpu().limit_mib.value_or(claim_mib(lease));
}

std::string_view verdict_name(State state) {
  if (state == State::waiting) {
    return "waiting";
  }
  if (state == State::never) {
    return "never";
  }
  return lease::holds(state) ? "granted" : "ended";
}

// The lease's place in its queue and how much is missing where it is nearest to fitting.
Value queue_value(const lease::Service& service, const Lease& lease, const core::Verdict* verdict) {
  Value value = json::object_of(8).add("name", lease.ask.queue);
  const auto position = verdict == nullptr ? std::nullopt : service.position(lease, *verdict);
  value.add("position", position.has_value() ? Value(position->index) : Value());
  value.add("of", position.has_value() ? position->of : 0);
  Value shortfall;
  Value nearest;
  if (verdict != nullptr) {
    shortfall = shortfall_value(lease.ask, lease.reason, *verdict);
  }
  if (!shortfall.is_null()) {
    nearest = text_or_null(verdict->devices->largest_free_uuid);
  }
  value.add("shortfall_mib", std::move(shortfall));
  value.add("nearest_device", std::move(nearest));
  if (verdict != nullptr && verdict->eta.has_value() &&
      verdict->eta->basis != core::EtaEstimate::Basis::unknown) {
    value.add("eta_seconds", std::max<std::int64_t>(
                                 (verdict->eta->at - service.engine().now()).count() / 1000, 0));
  }
  return value;
}

Value executor_config(const Lease& lease, const Value& gpu_device) {
  Result<Value> config = json::parse(lease.ask.kaapana);
  if (!config || !config->is_object()) {
    return {};
  }
  if (!gpu_device.is_null()) {
    config->set("gpu_device", gpu_device);
  }
  return std::move(*config);
}

}  // namespace

std::string message_of(const lease::Service& service, const Lease& lease,
                       const core::Verdict& verdict) {
  if (lease.state != State::waiting || verdict.summary.empty()) {
    return verdict.summary.empty() ? lease.message : verdict.summary;
  }
  const std::string bursts = service.bursts_in_the_way(lease);
  return bursts.empty() ? verdict.summary : verdict.summary + "; " + bursts;
}

Value shortfall_value(const lease::Ask& ask, lease::Reason reason, const core::Verdict& verdict) {
  const bool no_room = reason == lease::Reason::no_room || reason == lease::Reason::behind_head;
  // The reason is that of the last time when something could have helped; the verdict is of now.
  const core::Cause cause = verdict.cause;
  const bool of_memory =
      cause == core::Cause::insufficient_memory || cause == core::Cause::insufficient_devices ||
      cause == core::Cause::reserved_for_other || cause == core::Cause::backfill_too_long;
  if (!no_room || !of_memory || ask.gpu().is_exclusive() || !verdict.devices.has_value() ||
      verdict.devices->need_mib <= 0) {
    return {};
  }
  return std::max<std::int64_t>(verdict.devices->need_mib - verdict.devices->largest_free_mib, 0);
}

Value environment(const lease::Service& service, const Lease& lease, GuardHouse* guards) {
  Value env = json::object();
  if (!lease.wants_gpu()) {
    env.add("NVIDIA_VISIBLE_DEVICES", "none");
    env.add("CUDA_VISIBLE_DEVICES", "");
    return env;
  }
  const std::string uuids = joined_uuids(lease);
  env.add("NVIDIA_VISIBLE_DEVICES", uuids);
  if (lease.ask.container) {
    std::string indices = "0";
    for (std::size_t i = 1; i < lease.devices.size(); ++i) {
      indices += fmt::format(",{}", i);
    }
    env.add("CUDA_VISIBLE_DEVICES", std::move(indices));
  } else {
    env.add("CUDA_VISIBLE_DEVICES", uuids);
  }
  env.add("BERTH_LEASE_ID", lease.id);
  env.add("BERTH_JOURNAL_ID", service.journal_id());
  env.add("BERTH_DEVICE_UUID", uuids);
  env.add("BERTH_MEMORY_MIB", std::to_string(claim_mib(lease)));
  env.add("BERTH_MEMORY_LIMIT_MIB", std::to_string(limit_mib(lease)));
  if (guards != nullptr && lease.local && !lease.ask.container && lease.ask.guard) {
    if (const auto paths = guards->paths(lease)) {
      env.add("LD_PRELOAD", paths->library);
      env.add("BERTH_GRANT_DIR", paths->directory);
    }
  }
  return env;
}

namespace {

// Where it is, and what its program needs to know.
void add_places(const lease::Service& service, const Lease& lease, GuardHouse* guards,
                Value& value) {
  const bool holds = lease::holds(lease.state);
  Value device;
  Value devices = json::array();
  Value gpu_device;
  if (holds && !lease.devices.empty()) {
    device = held_value(lease, lease.devices.front());
    for (const lease::Held& held : lease.devices) {
      devices.array().push_back(held_value(lease, held));
    }
    const lease::Held& first = lease.devices.front();
    gpu_device = json::object_of(8)
                     .add("gpu_id", std::to_string(first.index))
                     .add("gpu_uuid", first.uuid)
                     .add("gpu_mem", first.request_mib);
  }
  value.add("device", std::move(device));
  value.add("devices", std::move(devices));
  value.add("gpu_device", gpu_device);
  value.add("env", holds ? environment(service, lease, guards) : Value());
  if (!lease.ask.kaapana.empty()) {
    value.add("executor_config", executor_config(lease, gpu_device));
  }
}

void add_times(const lease::Service& service, const Lease& lease, Now now, Value& value) {
  value.add("queued_at", time_text(lease.queued_wall));
  value.add("granted_at",
            lease.granted_at.has_value() ? Value(time_text(lease.granted_wall)) : Value());
  value.add("confirm_by",
            lease.state == State::granted ? time_or_null(lease.confirm_by, now) : Value());
  value.add("renew_by", lease.state == State::active ? time_or_null(lease.renew_by, now) : Value());
  value.add("deadline", time_or_null(lease.deadline, now));
  value.add("ended_at", lease.ended_at.has_value() ? Value(time_text(lease.ended_wall)) : Value());
  const Time until = lease.granted_at.value_or(lease.ended_at.value_or(now.time));
  value.add("waited_seconds", std::max<std::int64_t>((until - lease.queued_at).count() / 1000, 0));
  value.add("ttl_seconds", lease.ask.ttl.value_or(service.config().ttl).count() / 1000);
  if (lease.ask.max_run.has_value()) {
    value.add("max_seconds", lease.ask.max_run->count() / 1000);
  }
}

void add_terms(const Lease& lease, Now now, Value& value) {
  value.add("priority", lease.ask.priority);
  value.add("preemptible", lease.ask.preemptible);
  value.add("owner", lease.ask.owner);
  Value labels = json::object();
  for (const auto& [name, text] : lease.ask.labels) {
    labels.add(name, text);
  }
  value.add("labels", std::move(labels));
  if (lease.evicting.has_value()) {
    value.add("evicting", json::object_of(8)
                              .add("beneficiary", text_or_null(lease.evicting->beneficiary))
                              .add("rule", rule_name(lease.evicting->rule))
                              .add("deadline", time_or_null(lease.evicting->deadline, now))
                              .add("message", lease.evicting->text));
  }
  if (lease.proof.has_value() && lease.proof->process.has_value()) {
    value.add("pid", lease.proof->process->pid);
  }
}

}  // namespace

Value lease_value(const lease::Service& service, const Lease& lease, Now now, GuardHouse* guards) {
  std::optional<core::Verdict> verdict;
  if (lease.state == State::waiting) {
    verdict = service.verdict(lease);
  }
  const bool holds = lease::holds(lease.state);
  const std::int64_t claim = claim_mib(lease);
  const std::int64_t use = holds ? service.use_bytes(lease) : 0;
  Value value = json::object(
      {{"id", lease.id},
       {"key", lease.ask.key},
       {"version", static_cast<std::int64_t>(lease.version)},
       {"state", lease::state_name(lease.state)},
       {"verdict", verdict_name(lease.state)},
       {"reason", text_or_null(lease::reason_name(lease.reason))},
       {"message",
        text_or_null(verdict.has_value() ? message_of(service, lease, *verdict) : lease.message)},
       {"memory_bytes", claim * Memory::kBytesPerMib},
       {"memory_mib", claim},
       {"limit_mib", limit_mib(lease)},
       {"use_bytes", use},
       {"isolation", holds ? Value(isolation_name(lease.isolation)) : Value()}});
  add_places(service, lease, guards, value);
  add_times(service, lease, now, value);
  value.add("queue", queue_value(service, lease, verdict.has_value() ? &*verdict : nullptr));
  add_terms(lease, now, value);
  return value;
}

Value device_value(const lease::Device& device) {
  json::Array leases;
  for (const Lease* lease : device.leases) {
    leases.emplace_back(lease->id);
  }
  json::Array foreign;
  for (const local::Attribution& process : device.foreign) {
    foreign.emplace_back(process.name);
  }
  bool hardware = device.mig;
  bool library = false;
  for (const Lease* lease : device.leases) {
    hardware = hardware && lease->isolation == core::Isolation::hardware;
    library = library || lease->isolation == core::Isolation::library;
  }
  const std::string_view isolation = hardware ? "hardware" : library ? "library" : "advisory";
  const auto some = [](const std::optional<std::int64_t>& number) {
    return number.has_value() ? Value(*number) : Value();
  };
  return json::object(
      {{"uuid", device.uuid},
       {"node", device.node},
       {"index", device.index},
       {"model", device.model},
       {"mig", device.mig},
       {"mig_parent", text_or_null(device.parent)},
       {"eligible", device.reason.empty() && !device.mig_parent},
       {"reason", device.mig_parent ? Value("mig-parent") : text_or_null(device.reason)},
       {"health", device.health},
       {"drained", device.drained},
       {"mode", device.mig_parent ? Value("mig") : Value(device.mode)},
       {"isolation", isolation},
       {"total_mib", some(device.total_mib)},
       {"reserve_mib", device.reserve_mib},
       {"margin_mib", 0},
       {"used_mib", some(device.used_mib)},
       {"foreign_mib", device.foreign_mib},
       {"promised_mib", device.promised_mib},
       {"committed_mib", device.committed_mib},
       {"headroom_mib", device.headroom_mib},
       {"attribution", device.attributed},
       {"sample_age_ms", some(device.sample_age_ms)},
       {"problem", text_or_null(device.problem)},
       {"foreign_processes", std::move(foreign)},
       {"leases", std::move(leases)}});
}

net::Response json_response(int status, const Value& value) {
  net::Response response;
  response.status = status;
  response.body = json::dump(value);
  return response;
}

net::Response refusal_response(const lease::Refusal& refusal) {
  Value error = json::object_of(5)
                    .add("code", refusal.code)
                    .add("field", text_or_null(refusal.field))
                    .add("value", text_or_null(refusal.value))
                    .add("message", refusal.message)
                    .add("hint", refusal.hint);
  if (refusal.reason != lease::Reason::none) {
    error.add("reason", lease::reason_name(refusal.reason));
  }
  if (refusal.largest_mib.has_value()) {
    error.add("largest_mib", *refusal.largest_mib);
  }
  net::Response response =
      json_response(refusal.status, json::object_of(8).add("error", std::move(error)));
  if (refusal.retry_after_s.has_value()) {
    response.headers.emplace_back("Retry-After", std::to_string(*refusal.retry_after_s));
  }
  return response;
}

net::Response wrong_method(const net::Request& request, std::span<const std::string> allowed) {
  const std::string path = request.path.substr(0, 80);
  net::Response response =
      refusal_response({.status = 405,
                        .code = "unknown-call",
                        .field = "method",
                        .value = request.method.substr(0, 20),
                        .message = fmt::format("{} takes {}", path, fmt::join(allowed, ", ")),
                        .hint = "/v1/openapi.json describes every call"});
  response.headers.emplace_back("Allow", fmt::format("{}", fmt::join(allowed, ", ")));
  return response;
}

}  // namespace berth::api
