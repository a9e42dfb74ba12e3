// Where the daemon's knowledge of devices comes from: the driver of this machine first, exporters
// and Prometheus for what it does not see (leases.md 5).
//
//   TRY(auto source, make_sources({.nvml = {.node = "n0"}, .dcgm = {"http://n1:9400/metrics"}}));
//   const gpu::Report report = source->read();
//
// A device that several know is taken from the first that answers. A source that stops answering
// does not take its devices away: what it said last stays and grows old, so that nothing new is
// granted there and nothing that runs is lost. Only when none answers is the whole down.
// Thread-safety: one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/exporter_source.h"
#include "gpu/nvml.h"
#include "gpu/source.h"

namespace berth::serve {

struct SourceOptions {
  bool use_nvml = true;
  gpu::NvmlOptions nvml;
  std::vector<std::string> dcgm;    // URLs of exporters' pages
  std::string prometheus;           // base URL of its HTTP API, as http://host:9090
  std::string prometheus_selector;  // as in PromQL, "{app='nvidia-dcgm-exporter'}"
  Duration fetch_timeout{1'000};
};

// Errors: invalid_argument, those of the sources.
Result<std::unique_ptr<gpu::Source>> make_sources(const SourceOptions& options);

class MergedSource final : public gpu::Source {
 public:
  // The order is that of preference. `real_ms`: a monotonic clock, for ages of what stays.
  MergedSource(std::vector<std::unique_ptr<gpu::Source>> sources,
               std::function<std::int64_t()> real_ms);

  std::string_view name() const override { return "merged"; }
  gpu::Report read() override;

 private:
  struct Known {
    std::unique_ptr<gpu::Source> source;
    gpu::Report last;
    std::int64_t last_ms = 0;
    bool answered = false;
  };

  std::vector<Known> sources_;
  std::function<std::int64_t()> real_ms_;
};

}  // namespace berth::serve
