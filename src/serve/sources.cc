#include "serve/sources.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "net/client.h"
#include "serve/clock.h"

namespace berth::serve {

namespace {

// The body of a GET, over a connection of its own: exporters are asked once in a while.
Result<std::string> fetch(const std::string& url, Duration timeout) {
  const std::size_t scheme = url.find("://");
  const std::size_t path = url.find('/', scheme == std::string::npos ? 0 : scheme + 3);
  net::ClientOptions options;
  options.connect_timeout = timeout;
  TRY(net::Client client, net::Client::connect(url.substr(0, path), options));
  TRY(net::Response response,
      client.call(
          {.target = path == std::string::npos ? "/" : url.substr(path), .timeout = timeout}));
  if (response.status != 200) {
    return Error(ErrorCode::unavailable, fmt::format("{} answers {} {}", url, response.status,
                                                     net::reason_phrase(response.status)));
  }
  return std::move(response.body);
}

// "http://host:9090" and "http://host/prometheus" to where queries go.
std::string query_base(std::string base) {
  if (base.ends_with("?query=")) {
    return base;
  }
  while (base.ends_with('/')) {
    base.pop_back();
  }
  return base + (base.ends_with("/api/v1") ? "/query?query=" : "/api/v1/query?query=");
}

}  // namespace

Result<std::unique_ptr<gpu::Source>> make_sources(const SourceOptions& options) {
  std::vector<std::unique_ptr<gpu::Source>> sources;
  if (options.use_nvml) {
    TRY(std::unique_ptr<gpu::Source> nvml, gpu::make_nvml_source(options.nvml));
    sources.push_back(std::move(nvml));
  }
  gpu::ExporterSettings settings;
  settings.fetch = [timeout = options.fetch_timeout](const std::string& url) {
    return fetch(url, timeout);
  };
  settings.node = options.nvml.node;
  settings.safety_margin = options.nvml.safety_margin;
  if (!options.dcgm.empty()) {
    TRY(std::unique_ptr<gpu::Source> dcgm, gpu::make_dcgm_source({.urls = options.dcgm}, settings));
    sources.push_back(std::move(dcgm));
  }
  if (!options.prometheus.empty()) {
    TRY(std::unique_ptr<gpu::Source> prometheus,
        gpu::make_prometheus_source(
            {.base = query_base(options.prometheus), .selector = options.prometheus_selector},
            settings));
    sources.push_back(std::move(prometheus));
  }
  if (sources.empty()) {
    return invalid_argument(
        "no source says what devices there are: allow the driver (nvml), or name dcgm-exporter "
        "pages or a Prometheus");
  }
  return std::unique_ptr<gpu::Source>(
      std::make_unique<MergedSource>(std::move(sources), Clock::real_ms));
}

MergedSource::MergedSource(std::vector<std::unique_ptr<gpu::Source>> sources,
                           std::function<std::int64_t()> real_ms)
    : real_ms_(std::move(real_ms)) {
  for (std::unique_ptr<gpu::Source>& source : sources) {
    sources_.push_back({.source = std::move(source), .last = {}});
  }
}

gpu::Report MergedSource::read() {
  gpu::Report merged{.up = false, .why_down = {}, .devices = {}};
  std::set<std::string> taken;
  const auto take = [&](const gpu::DeviceReport& device, std::int64_t older_ms) {
    if (taken.insert(device.device.uuid).second) {
      merged.devices.push_back(device);
      gpu::DeviceReport& added = merged.devices.back();
      if (older_ms > 0) {
        added.age_ms = std::max<std::int64_t>(added.age_ms, 0) + older_ms;
        added.restated = false;
        added.xids.clear();
        added.app_xids.clear();
      }
    }
  };
  for (Known& known : sources_) {
    gpu::Report report = known.source->read();
    known.answered = report.up;
    if (report.up) {
      merged.up = true;
      known.last = std::move(report);
      known.last_ms = real_ms_();
      for (const gpu::DeviceReport& device : known.last.devices) {
        take(device, 0);
      }
    } else {
      merged.why_down += merged.why_down.empty() ? "" : "; ";
      merged.why_down += fmt::format("{}: {}", known.source->name(), report.why_down);
    }
  }
  // What only a silent one knew.
  for (const Known& known : sources_) {
    if (!known.answered) {
      for (const gpu::DeviceReport& device : known.last.devices) {
        take(device, std::max<std::int64_t>(real_ms_() - known.last_ms, 1));
      }
    }
  }
  if (merged.up) {
    merged.why_down.clear();
  } else {
    merged.devices.clear();
  }
  return merged;
}

}  // namespace berth::serve
