// Why a lease waits or can never be, device by device, and what would help.
#include <algorithm>

#include <fmt/format.h>

#include "api/write.h"
#include "core/placement/registry.h"
#include "core/queue/queue_tree.h"
#include "lease/reasons.h"
#include "scenario/verdict_json.h"

namespace berth::api {

using json::Value;

namespace {

// Why a device that is open to new work does not take this claim; empty if it does.
std::string_view claim_reason(const core::DeviceAsk& ask, const lease::Device& device,
                              std::int64_t claim) {
  const core::DeviceFilter& filter = ask.filter;
  const auto named = [](const std::vector<std::string>& names, const std::string& name) {
    return names.empty() || std::ranges::find(names, name) != names.end();
  };
  if (!named(filter.use_uuids, device.uuid) || !named(filter.models, device.model) ||
      (ask.kind == core::AskKind::mig) != device.mig) {
    return "no-eligible-device";
  }
  if (ask.is_exclusive() ? !device.leases.empty() : device.headroom_mib < claim) {
    return "no-room";
  }
  return {};
}

Value device_row(const lease::Ask& ask, const lease::Device& device) {
  const core::DeviceAsk& gpu = ask.gpu();
  const std::int64_t usable =
      std::max<std::int64_t>(device.total_mib.value_or(0) - device.reserve_mib, 0);
  const std::int64_t claim =
      gpu.kind == core::AskKind::memory ? gpu.mib : core::request_mib_on(gpu, usable, 0);
  std::string reason = device.mig_parent ? "mig-parent" : device.reason;
  if (reason.empty()) {
    reason = claim_reason(gpu, device, claim);
  }
  Value row = device_value(device);
  row.set("eligible", reason.empty());
  row.set("reason", reason.empty() ? Value() : Value(reason));
  row.set("shortfall_mib", std::max<std::int64_t>(claim - device.headroom_mib, 0));
  return row;
}

std::string help_text(const core::Unblock& help) {
  std::string who;
  for (const std::string& workload : help.workloads) {
    who += who.empty() ? "" : " and ";
    who += workload;
  }
  switch (help.kind) {
    case core::Unblock::Kind::free_memory:
      return fmt::format("{} MiB more free on {} of node {}", help.mib, help.device, help.node);
    case core::Unblock::Kind::evict: return fmt::format("the end of {}", who);
    case core::Unblock::Kind::wait: break;
  }
  return fmt::format("waiting for the declared end of {}", who);
}

// The lease's own, else that of the nearest queue above that names one, else the daemon's.
std::string policy_of(const lease::Service& service, const lease::Ask& ask) {
  if (!ask.policy.empty()) {
    return ask.policy;
  }
  const core::QueueTree& tree = service.engine().queues();
  for (std::optional<core::QueueId> at = tree.find(ask.queue); at.has_value() && !at->is_none();
       at = tree.parent(*at)) {
    if (!tree.spec(*at).policy.empty()) {
      return tree.spec(*at).policy;
    }
  }
  return service.engine().config().policy;
}

// What chooses among the devices that fit.
Value policy_value(const std::string& name) {
  const std::span<const core::PolicyInfo> known = core::registered_policies();
  const auto found = std::ranges::find(known, name, &core::PolicyInfo::name);
  return json::object(
      {{"name", name}, {"summary", found != known.end() ? Value(found->summary) : Value()}});
}

}  // namespace

Value explain_value(const lease::Service& service, const lease::Ask& ask, const lease::Lease* lease,
                    const core::Verdict& verdict, lease::Now now) {
  Value value = json::object();
  if (lease != nullptr) {
    value.set("id", lease->id);
    value.set("key", lease->ask.key);
    value.set("state", lease::state_name(lease->state));
  }
  const bool waits = verdict.outcome == core::Outcome::waiting;
  const lease::Reason reason = lease != nullptr ? lease->reason
                               : waits          ? lease::reason_of(verdict.cause)
                               : verdict.outcome == core::Outcome::never
                                   ? lease::never_reason_of(verdict.cause)
                                   : lease::Reason::none;
  value.set("verdict", verdict.outcome == core::Outcome::ended
                           ? "ended"
                           : core::outcome_name(verdict.outcome));
  const std::string_view name = lease::reason_name(reason);
  value.set("reason", name.empty() ? Value() : Value(name));
  value.set("message", lease == nullptr          ? Value(verdict.summary)
                       : verdict.summary.empty() ? Value(lease->message)
                                                 : Value(message_of(service, *lease, verdict)));
  if (lease != nullptr) {
    const auto position = service.position(*lease, verdict);
    value.set("position", position.has_value() ? Value(position->index) : Value());
    value.set("of", position.has_value() ? Value(position->of) : Value());
    value.set("queued_at", time_text(lease->queued_wall));
  }
  Value shortfall;
  if (waits && verdict.devices.has_value()) {
    shortfall =
        std::max<std::int64_t>(verdict.devices->need_mib - verdict.devices->largest_free_mib, 0);
  }
  value.set("shortfall_mib", std::move(shortfall));
  value.set("policy", policy_value(policy_of(service, ask)));
  json::Array rows;
  for (const lease::Device& device : service.devices(now)) {
    rows.push_back(device_row(ask, device));
  }
  value.set("devices", std::move(rows));
  json::Array helps;
  for (const core::Unblock& help : verdict.unblock) {
    helps.emplace_back(help_text(help));
  }
  value.set("would_help", helps.empty() ? Value() : helps.front());
  value.set("alternatives", std::move(helps));
  Result<Value> detail = json::parse(scenario::verdict_json(verdict));
  value.set("detail", detail ? std::move(*detail) : Value());
  return value;
}

Value queues_value(const lease::Service& service) {
  QueueCounts counts;
  for (const std::uint64_t number : service.live()) {
    const lease::Lease& lease = service.lease(number);
    if (lease.state == lease::State::waiting) {
      ++counts[lease.ask.queue].waiting;
    } else if (lease::holds(lease.state) && lease.wants_gpu()) {
      ++counts[lease.ask.queue].running;
    }
  }
  return queues_value(service.engine().queues(), std::move(counts));
}

Value queues_value(const core::QueueTree& tree, QueueCounts counts) {
  json::Array rows;
  const auto row_of = [&](const std::string& name) {
    Value row = json::object({{"name", name}});
    row.set("waiting", counts[name].waiting);
    row.set("running", counts[name].running);
    return row;
  };
  for (std::size_t i = 0; i < tree.queue_slots(); ++i) {
    const core::QueueId id(i);
    if (!tree.is_listed(id) || tree.parent(id).is_none()) {
      continue;
    }
    Value row = row_of(tree.name(id));
    row.set("path", tree.path_name(id));
    row.set("leaf", tree.is_leaf(id));
    const std::string held = tree.held_because(id);
    row.set("held", held.empty() ? Value() : Value(held));
    json::Array figures;
    for (std::size_t d = 0; d < tree.dimensions(); ++d) {
      const core::QuotaDimensionId dimension(d);
      const core::QuotaFigures figure = tree.figures(id, dimension);
      const auto amount = [](std::int64_t n) { return n == core::kUnlimited ? Value() : Value(n); };
      figures.push_back(json::object({{"resource", tree.dimension_name(dimension)},
                                      {"deserved", amount(figure.deserved)},
                                      {"fair_share", amount(figure.fair)},
                                      {"limit", amount(figure.limit)},
                                      {"used", figure.alloc},
                                      {"demand", amount(figure.demand)}}));
    }
    row.set("quota", std::move(figures));
    rows.push_back(std::move(row));
  }
  if (rows.empty()) {
    rows.push_back(row_of("default"));
  }
  return json::object({{"queues", std::move(rows)}});
}

}  // namespace berth::api
