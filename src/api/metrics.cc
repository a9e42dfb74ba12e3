// /metrics: what the books say, what the devices show, and what has happened.
#include <algorithm>
#include <map>

#include "api/api.h"
#include "api/exposition.h"

namespace berth::api {

namespace {

constexpr std::int64_t kMib = Memory::kBytesPerMib;

// What somebody may want to be woken for (docs/administration.md).
constexpr std::string_view kAlarmingEvents[] = {
    "burst-in-the-way", "device-blocked", "device-gone", "device-lost", "device-problem",
    "evicting",         "lost",           "never",       "overuse",     "promise-at-risk",
    "queue-problem",    "refused-event",  "source-down"};

void write_devices(Exposition& text, const std::vector<lease::Device>& devices) {
  text.family("berth_device_memory_bytes", "gauge",
              "Memory of a device by state; allocated is what leases were promised, used what the "
              "driver reports.");
  for (const lease::Device& device : devices) {
    const auto sample = [&](std::string_view state, std::int64_t mib) {
      text.sample({{"node", device.node}, {"uuid", device.uuid}, {"state", state}}, mib * kMib);
    };
    if (device.total_mib.has_value()) {
      sample("total", *device.total_mib);
      sample("usable", std::max<std::int64_t>(*device.total_mib - device.reserve_mib, 0));
    }
    sample("reserved", device.reserve_mib);
    sample("allocated", device.promised_mib);
    sample("foreign", device.foreign_mib);
    sample("headroom", device.headroom_mib);
    if (device.used_mib.has_value()) {
      sample("used", *device.used_mib);
    }
  }
  text.family("berth_accounting_drift_bytes", "gauge",
              "Memory in use on a device that no lease explains.");
  for (const lease::Device& device : devices) {
    text.sample({{"node", device.node}, {"uuid", device.uuid}}, device.foreign_mib * kMib);
  }
  text.family("berth_device_health", "gauge", "1 if the device may take new work, 0 if not.");
  for (const lease::Device& device : devices) {
    text.sample({{"node", device.node}, {"uuid", device.uuid}, {"reason", device.reason}},
                device.reason.empty() && !device.mig_parent ? 1 : 0);
  }
  text.family("berth_device_sample_age_seconds", "gauge", "Age of the last sample of a device.");
  for (const lease::Device& device : devices) {
    if (device.sample_age_ms.has_value()) {
      text.sample_seconds({{"node", device.node}, {"uuid", device.uuid}}, *device.sample_age_ms);
    }
  }
}

void write_leases(Exposition& text, const lease::Service& service, lease::Now now) {
  std::map<std::pair<std::string, std::string_view>, std::int64_t> states;
  std::map<std::string, std::int64_t> oldest;
  for (const auto& [number, lease] : service.leases()) {
    ++states[{lease.ask.queue, lease::state_name(lease.state)}];
    if (lease.state == lease::State::waiting) {
      std::int64_t& age = oldest[lease.ask.queue];
      age = std::max(age, (now.time - lease.queued_at).count());
    }
  }
  text.family("berth_leases", "gauge",
              "Leases by queue and state, ended ones as long as they are kept.");
  for (const auto& [of, count] : states) {
    text.sample({{"queue", of.first}, {"state", of.second}}, count);
  }
  text.family("berth_pending_seconds", "gauge", "Age of the oldest waiting lease of a queue.");
  for (const auto& [queue, age] : oldest) {
    text.sample_seconds({{"queue", queue}}, age);
  }
  text.family("berth_lease_memory_bytes", "gauge",
              "Memory of a live lease on one device: request, limit and measured use.");
  for (const auto& [number, lease] : service.leases()) {
    if (!lease::holds(lease.state)) {
      continue;
    }
    for (const lease::Held& held : lease.devices) {
      const auto sample = [&](std::string_view kind, std::int64_t bytes) {
        text.sample({{"lease", lease.id}, {"uuid", held.uuid}, {"kind", kind}}, bytes);
      };
      sample("request", held.request_mib * kMib);
      sample("limit", held.limit_mib * kMib);
    }
    text.sample({{"lease", lease.id},
                 {"uuid", lease.devices.empty() ? "" : lease.devices.front().uuid},
                 {"kind", "used"}},
                service.use_bytes(lease));
  }
}

}  // namespace

std::string Api::metrics_text(const Moment& moment) const {
  Exposition text;
  text.family("berth_build_info", "gauge", "Version of the program.");
  text.sample({{"version", options_.version}}, 1);
  text.family("berth_ready", "gauge", "1 if leases can be granted.");
  text.sample(service_.ready() ? 1 : 0);
  write_devices(text, service_.devices(moment.now));
  write_leases(text, service_, moment.now);
  text.family("berth_schedule_attempts_total", "counter", "Reservations by their first answer.");
  for (const auto& [result, count] : answers_) {
    text.sample({{"result", result}}, static_cast<std::int64_t>(count));
  }
  text.family("berth_events_total", "counter", "What happened, by kind.");
  // From the start, at 0: what appears with its first event never rises in the eyes of Prometheus.
  std::map<std::string_view, std::uint64_t> events;
  for (const std::string_view kind : kAlarmingEvents) {
    events.emplace(kind, 0);
  }
  for (const auto& [kind, count] : events_) {
    events[kind] = count;
  }
  for (const auto& [kind, count] : events) {
    text.sample({{"kind", kind}}, static_cast<std::int64_t>(count));
  }
  text.family("berth_watches", "gauge", "Open long polls and streams.");
  text.sample(static_cast<std::int64_t>(watches_.size()));
  std::string all = text.take();
  if (options_.more_metrics) {
    all += options_.more_metrics();
  }
  return all;
}

}  // namespace berth::api
