#include "scenario/words.h"

#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "scenario/figures.h"
#include "scenario/report.h"

namespace berth::scenario {

namespace {

std::string mib_text(std::int64_t mib) { return memory_text(Memory::mib(mib)); }

// Every figure of a part of a verdict, on a line.
template <typename Page>
std::string page_text(std::string_view what, std::span<const Figure<Page>> figures,
                      const Page& page, core::DimensionKind unit = core::DimensionKind::devices) {
  std::string out(what);
  std::string_view before = ": ";
  for (const Figure<Page>& figure : figures) {
    out += fmt::format("{}{} {}", std::exchange(before, ", "), figure.name,
                       figure_value(figure, page, unit));
  }
  return out + "\n";
}

// Queues, gang, topology, victims.
std::string parts_text(const core::Verdict& verdict) {
  std::string out;
  for (const core::Verdict::QuotaRow& row : verdict.quota_chain) {
    out += page_text(fmt::format("queue {} {}", printable(row.queue), printable(row.resource)),
                     quota_figures(), row, unit_of(row.resource));
  }
  if (verdict.gang) out += page_text("gang", gang_figures(), *verdict.gang);
  if (verdict.topology) out += page_text("topology", topology_figures(), *verdict.topology);
  if (verdict.preemption) out += page_text("victims", preemption_figures(), *verdict.preemption);
  return out;
}

// "a, b and c".
std::string joined(const std::vector<std::string>& names) {
  return names.size() < 2
             ? fmt::format("{}", fmt::join(names, ""))
             : fmt::format("{} and {}", fmt::join(names.begin(), names.end() - 1, ", "),
                           names.back());
}

}  // namespace

std::string unblock_text(const core::Unblock& unblock, const World& world) {
  using Kind = core::Unblock::Kind;
  switch (unblock.kind) {
    case Kind::free_memory:
      return fmt::format("free {} on {}", mib_text(unblock.mib),
                         unblock.device.empty() ? unblock.node : world.short_name(unblock.device));
    case Kind::evict: return fmt::format("evict {}", printable(joined(unblock.workloads)));
    case Kind::wait:
      return fmt::format("wait for {} until {}", printable(unblock.workloads.front()),
                         time_text(unblock.until));
  }
  return "?";
}

std::string message_text(const core::Verdict& verdict, const World& world) {
  return world.shorten(core::pod_message(verdict));
}

std::string verdict_text(const core::Verdict& verdict, const World& world) {
  std::string out = fmt::format("{}", core::outcome_name(verdict.outcome));
  if (verdict.cause != core::Cause::none) {
    out += fmt::format(" ({}, stage {}, reason {})", core::cause_name(verdict.cause),
                       core::stage_name(verdict.stage),
                       verdict.reason.empty() ? "none" : verdict.reason);
  }
  out += fmt::format(": {}\n", world.shorten(verdict.summary));
  for (const core::ChosenDevice& chosen : verdict.chosen) {
    out += fmt::format("container {}: {} of {}, limit {}\n", printable(chosen.container),
                       mib_text(chosen.request_mib), world.short_name(chosen.uuid),
                       mib_text(chosen.limit_mib));
  }
  if (const std::string nodes = core::reason_histogram(verdict.nodes); !nodes.empty()) {
    out += nodes + "\n";
  }
  if (verdict.devices && verdict.devices->scanned == 0) {
    out += "no device is of a kind that it may use\n";
  } else if (verdict.devices) {
    const core::Verdict::Devices& devices = *verdict.devices;
    const std::string largest =
        devices.largest_free_uuid.empty()
            ? "nothing is free on one that is open to it"
            : fmt::format("largest free is {} on {}", mib_text(devices.largest_free_mib),
                          world.short_name(devices.largest_free_uuid));
    out += fmt::format("needs {} on a device; {}; {} free on {} {}\n", mib_text(devices.need_mib),
                       largest, mib_text(devices.free_total_mib), devices.scanned,
                       devices.scanned == 1 ? "device" : "devices");
  }
  out += parts_text(verdict);
  if (verdict.position) {
    out += fmt::format("position {} in pool '{}' of queue {}\n", verdict.position->index,
                       printable(verdict.position->pool), printable(verdict.position->queue));
  }
  if (verdict.eta) {
    out += fmt::format("will start at {}\n",
                       verdict.eta->basis == core::EtaEstimate::Basis::unknown
                           ? "a time nobody can know: running work has no declared end"
                           : time_text(verdict.eta->at));
  }
  for (const core::Unblock& unblock : verdict.unblock) {
    out += fmt::format("would help: {}\n", unblock_text(unblock, world));
  }
  out +=
      fmt::format("since {}, evaluated {}, attempts {}, priority {}{}\n", time_text(verdict.since),
                  time_text(verdict.last_evaluated), verdict.attempts, verdict.effective_priority,
                  verdict.search_complete ? "" : ", search budget ended");
  return out;
}

std::string_view notice_name(core::Notice::Kind kind) {
  using Kind = core::Notice::Kind;
  switch (kind) {
    case Kind::overuse: return "overuse";
    case Kind::foreign_changed: return "foreign-changed";
    case Kind::promise_at_risk: return "promise-at-risk";
    case Kind::clock_skew: return "clock-skew";
    case Kind::queue_problem: return "queue-problem";
    case Kind::refused_event: return "refused-event";
  }
  return "?";
}

std::string_view state_name(WantedState state) {
  switch (state) {
    case WantedState::granted: return "granted";
    case WantedState::promised: return "promised";
    case WantedState::waiting: return "waiting";
    case WantedState::never: return "never";
    case WantedState::ended: return "ended";
  }
  return "?";
}

std::string_view verb_name(WorkloadVerb verb) {
  switch (verb) {
    case WorkloadVerb::cancel: return "cancel";
    case WorkloadVerb::confirm: return "confirm";
    case WorkloadVerb::releasing: return "releasing";
    case WorkloadVerb::end: return "end";
    case WorkloadVerb::lost: return "lost";
    case WorkloadVerb::requeue: return "requeue";
    case WorkloadVerb::initialized: return "initialized";
  }
  return "?";
}

std::string_view verb_name(NodeVerb verb) {
  switch (verb) {
    case NodeVerb::down: return "node down";
    case NodeVerb::up: return "node up";
    case NodeVerb::cordon: return "cordon node";
    case NodeVerb::uncordon: return "uncordon node";
    case NodeVerb::remove: return "remove node";
  }
  return "?";
}

std::string_view verb_name(DeviceVerb verb) {
  switch (verb) {
    case DeviceVerb::cordon: return "cordon";
    case DeviceVerb::uncordon: return "uncordon";
    case DeviceVerb::remove: return "remove device";
    case DeviceVerb::restore: return "restore device";
  }
  return "?";
}

std::string_view stop_name(core::QueueStop stop) {
  switch (stop) {
    case core::QueueStop::none: return "release";
    case core::QueueStop::hold: return "hold";
    case core::QueueStop::hold_and_drain: return "drain";
  }
  return "?";
}

std::string_view rule_name(core::Evicted::Rule rule) {
  for (const auto& [name, meaning] : eviction_rules()) {
    if (meaning == rule) return name;
  }
  return "?";
}

}  // namespace berth::scenario
