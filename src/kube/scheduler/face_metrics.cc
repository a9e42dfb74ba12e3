// /metrics: what the books say, and what has happened since this process began to lead.
#include <algorithm>
#include <map>

#include "api/exposition.h"
#include "core/ledger/ledger.h"
#include "kube/scheduler/face.h"

namespace berth::kube {

namespace {

using api::Exposition;

void write_devices(Exposition& text, const core::Engine& engine) {
  text.family("berth_device_memory_bytes", "gauge",
              "Memory of a device by state; allocated is what grants were promised.");
  for (std::size_t i = 0; i < engine.fleet().node_slots(); ++i) {
    const core::NodeId node(i);
    if (!engine.fleet().present(node)) {
      continue;
    }
    for (const core::DeviceId id : engine.fleet().devices_of(node)) {
      const core::Device& device = engine.fleet().device(id);
      const core::DeviceBook& book = engine.ledger().book(id);
      const auto sample = [&](std::string_view state, std::int64_t bytes) {
        text.sample(
            {{"node", engine.fleet().node(node).name}, {"uuid", device.uuid}, {"state", state}},
            bytes);
      };
      std::int64_t foreign = 0;
      for (const core::Holding& holding : book.holdings) {
        foreign += holding.foreign ? holding.request : 0;
      }
      sample("total", device.total.value_or(Memory()).in_bytes());
      sample("usable", book.usable);
      sample("allocated", book.requests - foreign);
      sample("foreign", foreign);
    }
  }
}

void write_pods(Exposition& text, const Harbour& harbour, Time now) {
  std::map<std::pair<std::string, std::string>, std::int64_t> pending;  // queue, reason
  std::map<std::string, std::int64_t> oldest;
  std::int64_t running = 0;
  std::int64_t on_their_way = 0;
  for (const std::string& id : harbour.ours()) {
    const auto pod = harbour.view(id);
    switch (pod->phase) {
      case PodPhase::confirmed: ++running; break;
      case PodPhase::preparing:
      case PodPhase::granted:
      case PodPhase::sent:
      case PodPhase::bound: ++on_their_way; break;
      default: {
        ++pending[{pod->queue, harbour.reason(id)}];
        std::int64_t& age = oldest[pod->queue];
        age = std::max(age, now.ms() - pod->created_ms);
      }
    }
  }
  text.family("berth_pods", "gauge", "Pods of this scheduler that have a node, by state.");
  text.sample({{"state", "bound"}}, running);
  text.sample({{"state", "binding"}}, on_their_way);
  text.family("berth_pending", "gauge", "Pods that wait, by queue and reason of their condition.");
  for (const auto& [of, count] : pending) {
    text.sample({{"queue", of.first}, {"reason", of.second}}, count);
  }
  text.family("berth_pending_seconds", "gauge", "Age of the oldest waiting pod of a queue.");
  for (const auto& [queue, age] : oldest) {
    text.sample_seconds({{"queue", queue}}, age);
  }
}

void write_counts(Exposition& text, const HarbourFigures& figures) {
  const auto counter = [&](std::string_view name, std::string_view help, std::int64_t value) {
    text.family(name, "counter", help);
    text.sample(value);
  };
  counter("berth_decisions_total", "Places that were decided.", figures.decisions);
  counter("berth_bindings_total", "Bindings that the API server confirmed.", figures.bound);
  counter("berth_withdrawn_total", "Decisions taken back before anything was sent.",
          figures.withdrawn);
  counter("berth_binding_conflicts_total", "Bindings answered with a conflict.", figures.conflicts);
  counter("berth_bindings_refused_total", "Bindings that the API server refused.", figures.refused);
  counter("berth_bindings_unknown_total", "Bindings without an answer.", figures.unknown);
  counter("berth_conditions_total", "Conditions of waiting pods that were written.",
          figures.patches);
  counter("berth_events_total", "Events that were written.", figures.events);
  counter("berth_alarms_total", "What the books and the cluster disagree about; see the log.",
          figures.alarms);
}

}  // namespace

net::Response Face::metrics() const {
  Exposition text;
  text.family("berth_build_info", "gauge", "Always 1; the version is a label.");
  text.sample({{"version", facts_.version}}, 1);
  text.family("berth_leader", "gauge", "1 if this process decides.");
  text.sample(facts_.leads ? 1 : 0);
  const ClientFigures calls = facts_.client->figures();
  const auto counter = [&](std::string_view name, std::string_view help, std::uint64_t value) {
    text.family(name, "counter", help);
    text.sample(static_cast<std::int64_t>(value));
  };
  counter("berth_api_calls_total", "Calls of the API server.", calls.calls);
  counter("berth_api_retries_total", "Of these, repeated ones.", calls.retries);
  counter("berth_api_unknown_total", "Calls whose outcome was never answered.", calls.unknown);
  counter("berth_api_received_bytes_total", "Bytes received from the API server.",
          calls.received_bytes);
  if (facts_.harbour != nullptr) {
    text.family("berth_ready", "gauge", "1 if every cache that is needed was read.");
    text.sample(facts_.harbour->ready() ? 1 : 0);
    write_counts(text, facts_.harbour->figures());
    write_pods(text, *facts_.harbour, facts_.now);
    write_devices(text, facts_.harbour->engine());
  }
  text.family("berth_watch_objects", "gauge", "Objects that a watch knows.");
  for (const Caches::Row& row : facts_.caches->figures()) {
    text.sample({{"resource", row.name}}, static_cast<std::int64_t>(row.figures.objects));
  }
  text.family("berth_watch_readings_total", "counter", "Times that everything was read anew.");
  for (const Caches::Row& row : facts_.caches->figures()) {
    text.sample({{"resource", row.name}}, static_cast<std::int64_t>(row.figures.readings));
  }
  return {.content_type = "text/plain; version=0.0.4", .body = text.take()};
}

}  // namespace berth::kube
