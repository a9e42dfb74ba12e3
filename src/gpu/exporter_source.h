// Sources that ask over the network: dcgm-exporter's own pages, or a Prometheus that scrapes them.
//
//   TRY(auto source, make_dcgm_source({.urls = {"http://n1:9400/metrics"}}, settings));
//   TRY(auto source, make_prometheus_source({.base = "http://p:9090/api/v1/query?query="},
//   settings));
//
// They fetch through a function, so that this room knows no network; it should give up after a
// second or so, since read() waits for it. An exporter that does not answer is not one whose
// devices have vanished: its last samples stay and grow old, and only when none answers is the
// source down. An XID is told when the exporter's figure changes. A critical one loses the device
// as long as the figure stands, and for a quiet period after another figure has taken its place.
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "gpu/source.h"

namespace berth::gpu {

// The body of a GET, or why there is none.
using Fetch = std::function<Result<std::string>(const std::string& url)>;

struct ExporterSettings {
  Fetch fetch;                              // required
  std::string node;                         // for series without a host name; required
  Memory safety_margin = Memory::mib(128);  // kept back beside the driver's reserve
  std::map<std::string, std::string, std::less<>> instances = {};  // see ExporterOptions
  Duration quiet{300'000};                     // after a critical XID that another has replaced
  std::function<std::int64_t()> wall_ms = {};  // empty = the system clock
  std::function<Time()> now = {};              // monotonic; empty = the steady clock
};

struct DcgmPages {
  std::vector<std::string> urls;  // one per exporter, that is, per node
};

struct PrometheusQuestion {
  std::string base;             // up to and with "?query="
  std::string selector = {};    // "{app='nvidia-dcgm-exporter'}"; empty = every series
  std::int64_t window_s = 300;  // how far back a last sample is looked for
};

// Errors invalid_argument: the field, the value, the rule.
Result<std::unique_ptr<Source>> make_dcgm_source(DcgmPages pages, ExporterSettings settings);
Result<std::unique_ptr<Source>> make_prometheus_source(PrometheusQuestion question,
                                                       ExporterSettings settings);

}  // namespace berth::gpu
