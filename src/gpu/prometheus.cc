#include "gpu/prometheus.h"

#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "json/value.h"

namespace berth::gpu {

namespace {

constexpr std::size_t kMostShown = 120;

std::string escaped(std::string_view text) {
  std::string url;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || c == '.' || c == '~';
    url += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return url;
}

Error no_answer(std::string_view why) {
  return {ErrorCode::unavailable,
          fmt::format("what came is no answer of Prometheus' /api/v1/query: {}; see that the base "
                      "URL ends before `?query=`",
                      shortened(printable(why), kMostShown))};
}

// Seconds with a fraction -> milliseconds; empty when it is no time.
std::optional<std::int64_t> stamp_of(const json::Value& value) {
  constexpr std::int64_t kMostSeconds = 253'402'300'800;  // the year 9999
  if (value.is_integer()) {
    const std::int64_t seconds = value.as_integer();
    if (seconds < 0 || seconds > kMostSeconds) return std::nullopt;
    return seconds * 1000;
  }
  if (!value.is_double()) return std::nullopt;
  const double seconds = value.as_double();
  if (!(seconds >= 0) || seconds > static_cast<double>(kMostSeconds)) return std::nullopt;
  return std::llround(seconds * 1000);
}

// [time, "value"].
void add_pair(const json::Value& pair, const ExporterSample& series,
              std::vector<ExporterSample>& samples) {
  ExporterSample sample = series;
  sample.stamp_bad = true;
  if (pair.is_array() && pair.as_array().size() == 2) {
    const json::Value& value = pair.as_array()[1];
    sample.value = value.is_string() ? value.as_string() : json::dump(value);
    sample.stamp_ms = stamp_of(pair.as_array()[0]);
    sample.stamp_bad = !sample.stamp_ms.has_value();
  }
  samples.push_back(std::move(sample));
}

// A member of `result`: labels, and one `value` or several `values`.
void add_series(const json::Value& result, ExporterMetric metric,
                std::vector<ExporterSample>& samples) {
  ExporterSample series{.metric = metric, .labels = {}, .value = {}, .stamp_ms = {}};
  if (const json::Value* labels = result.find("metric"); labels != nullptr && labels->is_object()) {
    for (const auto& [name, value] : labels->as_object()) {
      if (value.is_string()) set_label(series.labels, name, value.as_string());
    }
  }
  if (const json::Value* one = result.find("value"); one != nullptr) {
    add_pair(*one, series, samples);
  }
  if (const json::Value* many = result.find("values"); many != nullptr && many->is_array()) {
    for (const json::Value& pair : many->as_array())
      add_pair(pair, series, samples);
  }
}

}  // namespace

std::string prometheus_url(std::string_view base, ExporterMetric metric, std::string_view selector,
                           std::int64_t window_s) {
  return fmt::format(
      "{}{}", base,
      escaped(fmt::format("{}{}[{}s]", exporter_metric_name(metric), selector, window_s)));
}

Result<std::vector<ExporterSample>> parse_prometheus(ExporterMetric metric, std::string_view text) {
  auto parsed = json::parse(text);
  if (!parsed.ok()) return no_answer(parsed.error().message());
  if (parsed->text("status") == "error") {
    return Error(ErrorCode::unavailable,
                 fmt::format("Prometheus refuses the question ({}): {}",
                             shortened(printable(parsed->text("errorType")), kMostShown),
                             shortened(printable(parsed->text("error")), kMostShown)));
  }
  const json::Value* data = parsed->find("data");
  const json::Value* result = data == nullptr ? nullptr : data->find("result");
  if (parsed->text("status") != "success" || result == nullptr || !result->is_array()) {
    return no_answer("it has no status, data and result");
  }
  std::vector<ExporterSample> samples;
  for (const json::Value& series : result->as_array())
    add_series(series, metric, samples);
  return samples;
}

bool is_needed(ExporterMetric metric) {
  return metric == ExporterMetric::free || metric == ExporterMetric::used;
}

Report read_prometheus(std::span<const PrometheusAnswer> answers, const ExporterOptions& options) {
  std::vector<ExporterSample> samples;
  std::vector<std::string> problems;
  for (const PrometheusAnswer& answer : answers) {
    auto parsed = parse_prometheus(answer.metric, answer.text);
    if (parsed.ok()) {
      samples.insert(samples.end(), parsed->begin(), parsed->end());
      continue;
    }
    const std::string why =
        fmt::format("{}: {}", exporter_metric_name(answer.metric), parsed.error().message());
    if (is_needed(answer.metric)) {
      Report down;
      down.up = false;
      down.why_down = why;
      return down;
    }
    problems.push_back(why);
  }
  Report report = report_of(samples, options);
  report.problems.insert(report.problems.end(), problems.begin(), problems.end());
  return report;
}

}  // namespace berth::gpu
