// Why a lease waits or can never be, device by device, and what would help.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "api/write.h"
#include "core/engine/sentence_words.h"
#include "core/ledger/ledger.h"
#include "core/placement/registry.h"
#include "core/placement/rules.h"
#include "core/queue/queue_tree.h"
#include "lease/reasons.h"
#include "scenario/verdict_json.h"

namespace berth::api {

using json::Value;

namespace {

// What a claim meets on one device.
struct Meeting {
  core::Cause cause = core::Cause::none;
  std::int64_t missing_mib = 0;  // memory that must come free there, whatever else is in the way
};

// The least of the caps that hold for its queue.
int device_cap(const lease::Service& service, const lease::Ask& ask) {
  int cap = service.engine().config().device_cap.value_or(0);
  const core::QueueTree& tree = service.engine().queues();
  for (std::optional<core::QueueId> at = tree.find(ask.queue); at.has_value() && !at->is_none();
       at = tree.parent(*at)) {
    const auto& own = tree.spec(*at).device_cap;
    if (own.has_value() && (cap == 0 || *own < cap)) {
      cap = static_cast<int>(std::max<std::int64_t>(*own, 1));
    }
  }
  return cap;
}

Meeting meeting(const lease::Service& service, const lease::Ask& ask, std::string_view uuid) {
  const core::Fleet& fleet = service.engine().fleet();
  const core::DeviceId id = fleet.find_device(uuid);
  const core::Node& node = fleet.node(fleet.node_of(id));
  const core::Device& device = fleet.device(id);
  const core::DeviceAsk& gpu = ask.gpu();
  Meeting meeting{.cause = core::constraint_refusal(ask.request.nodes(), node)};
  if (meeting.cause == core::Cause::none) {
    meeting.cause = core::static_refusal(gpu, node, device);
  }
  if (meeting.cause != core::Cause::none) {
    return meeting;
  }
  const core::Ledger& ledger = service.engine().ledger();
  const core::DeviceFace face = ledger.face_without(id, [](const core::Holding&) { return false; });
  const core::DeviceNeed need =
      core::need_on(gpu, device.usable_mib(), node.gpu_replicas, device_cap(service, ask));
  meeting.cause = core::device_refusal(need, face);
  const std::int64_t missing =
      !need.exclusive ? need.request - face.headroom
      : meeting.cause == core::Cause::foreign_use
          ? ledger.book(id).foreign - core::whole_foreign_ceiling(ledger.rules(), device)
          : 0;
  meeting.missing_mib = Memory::bytes(std::max<std::int64_t>(missing, 0)).ceil_mib();
  return meeting;
}

// The largest claim of this kind that a device holds when it is empty.
std::int64_t largest_mib(const lease::Service& service, const lease::Ask& ask,
                         const std::vector<lease::Device>& devices) {
  const core::Fleet& fleet = service.engine().fleet();
  std::int64_t largest = 0;
  for (const lease::Device& row : devices) {
    const core::DeviceId id = fleet.find_device(row.uuid);
    const core::Device& device = fleet.device(id);
    if (!row.mig_parent && core::static_refusal(ask.gpu(), fleet.node(fleet.node_of(id)), device) ==
                               core::Cause::none) {
      largest = std::max(largest, device.usable_mib());
    }
  }
  return largest;
}

// In a word or two, what "no-room" means where it does not mean memory.
std::string_view hindrance(core::Cause cause) {
  switch (cause) {
    case core::Cause::device_exclusive: return "in use";
    case core::Cause::foreign_use: return "foreign use";
    case core::Cause::compute_mode_conflict: return "other mode";
    case core::Cause::insufficient_compute: return "compute";
    case core::Cause::limit_overcommit: return "sum of limits";
    default: return {};
  }
}

Value device_row(const lease::Service& service, const lease::Ask& ask, core::Cause verdict,
                 const lease::Device& device) {
  const Meeting met = meeting(service, ask, device.uuid);
  std::string reason = device.mig_parent ? "mig-parent" : device.reason;
  if (reason.empty() && met.cause != core::Cause::none) {
    reason = lease::reason_name(lease::reason_of(met.cause));
  }
  if (reason.empty() &&
      (verdict == core::Cause::reserved_for_other || verdict == core::Cause::backfill_too_long)) {
    reason = lease::reason_name(lease::reason_of(verdict));
  }
  const std::string_view why = hindrance(met.cause);
  Value row = device_value(device);
  row.set("eligible", reason.empty());
  row.set("reason", reason.empty() ? Value() : Value(reason));
  row.set("hindrance", reason != "no-room" || why.empty() ? Value() : Value(why));
  row.set("shortfall_mib", met.missing_mib);
  return row;
}

// What could be done about devices that have the room and are not open, or whose room is used by
// what has no lease. The engine's own ways are about its own work.
void add_ways(const lease::Service& service, const lease::Ask& ask, core::Cause verdict,
              const std::vector<lease::Device>& devices, json::Array& ways) {
  // Room that is kept for others is none for it.
  const bool kept =
      verdict == core::Cause::reserved_for_other || verdict == core::Cause::backfill_too_long;
  std::map<std::string_view, int> fitting;  // by node
  for (const lease::Device& device : devices) {
    const bool fits = meeting(service, ask, device.uuid).cause == core::Cause::none;
    fitting[device.node] += fits && !kept ? 1 : 0;
  }
  for (const lease::Device& device : devices) {
    if (fitting[device.node] + 1 != ask.gpu().count) {
      continue;  // one more there would not be enough, or is not what is missing
    }
    const Meeting met = meeting(service, ask, device.uuid);
    const bool fits = met.missing_mib == 0;
    const std::string where = fmt::format("{} of node {}", device.uuid, device.node);
    switch (met.cause) {
      case core::Cause::device_cordoned:
        if (fits) {
          ways.emplace_back(fmt::format("{} open to new work again (`berth undrain`)", where));
        }
        break;
      case core::Cause::device_unhealthy:
        if (fits) {
          ways.emplace_back(fmt::format("{} healthy again{}", where,
                                        device.problem.empty() ? "" : ": now " + device.problem));
        }
        break;
      case core::Cause::stale_observation:
        if (fits) {
          ways.emplace_back(fmt::format("a fresh sample of {}: the last is {} s old", where,
                                        device.sample_age_ms.value_or(0) / 1000));
        }
        break;
      case core::Cause::no_usable_memory:
        ways.emplace_back(fmt::format("a sample of {} that says how much memory is used", where));
        break;
      case core::Cause::insufficient_memory:
      case core::Cause::foreign_use:
        if (device.foreign_mib > 0 && device.foreign_mib >= met.missing_mib) {
          std::string who;
          for (const local::Attribution& process : device.foreign) {
            who += who.empty() ? ": " : ", ";
            who += process.name;
          }
          ways.emplace_back(fmt::format("the end of what uses {} MiB of {} without a lease{}",
                                        device.foreign_mib, where, who));
        }
        break;
      default: break;
    }
  }
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
  value.set("message", lease != nullptr ? Value(message_of(service, *lease, verdict))
                                        : Value(verdict.summary));
  value.set("asked", core::amount_text(ask.gpu()));
  if (lease != nullptr) {
    const auto position = service.position(*lease, verdict);
    value.set("position", position.has_value() ? Value(position->index) : Value());
    value.set("of", position.has_value() ? Value(position->of) : Value());
    value.set("queued_at", time_text(lease->queued_wall));
  }
  value.set("shortfall_mib", waits ? shortfall_value(ask, reason, verdict) : Value());
  value.set("policy", policy_value(policy_of(service, ask)));
  json::Array rows;
  const std::vector<lease::Device> devices = service.devices(now);
  value.set("largest_mib", verdict.outcome == core::Outcome::never
                               ? Value(largest_mib(service, ask, devices))
                               : Value());
  for (const lease::Device& device : devices) {
    rows.push_back(device_row(service, ask, waits ? verdict.cause : core::Cause::none, device));
  }
  value.set("devices", std::move(rows));
  json::Array helps;
  for (const core::Unblock& help : verdict.unblock) {
    helps.emplace_back(help_text(help));
  }
  if (waits && (lease == nullptr || lease->state == lease::State::waiting)) {
    add_ways(service, ask, verdict.cause, devices, helps);
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
