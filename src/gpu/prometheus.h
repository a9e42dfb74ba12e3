// Answers of Prometheus' HTTP API about dcgm-exporter's series, read.
//
//   const std::string url = prometheus_url(base, ExporterMetric::used, "{app='x'}", 300);
//   const Report report = read_prometheus({{ExporterMetric::used, text}, …}, options);
//
// An instant vector is stamped with the time of the question, which hides how old a sample is; so
// prometheus_url asks for a range (`…[300s]`), and a matrix is answered whose samples bear their
// own times. Both kinds are read. Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/exporter.h"
#include "gpu/source.h"

namespace berth::gpu {

// "http://host:9090/api/v1/query?query=" + the question about the last `window_s` seconds.
std::string prometheus_url(std::string_view base, ExporterMetric metric, std::string_view selector,
                           std::int64_t window_s);

// The samples of one answer. Errors: no JSON, no answer of this API, or what Prometheus says.
Result<std::vector<ExporterSample>> parse_prometheus(ExporterMetric metric, std::string_view text);

struct PrometheusAnswer {
  ExporterMetric metric = ExporterMetric::free;
  std::string_view text;
};

// Down when an answer about free or used memory is an error; reserve and XIDs may be missing.
Report read_prometheus(std::span<const PrometheusAnswer> answers, const ExporterOptions& options);

// Whether an answer is needed: without it nothing is known.
bool is_needed(ExporterMetric metric);

}  // namespace berth::gpu
