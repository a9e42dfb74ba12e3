#include "gpu/exporter_source.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "gpu/dcgm.h"
#include "gpu/exporter.h"
#include "gpu/problems.h"
#include "gpu/prometheus.h"
#include "gpu/xid.h"

namespace berth::gpu {

namespace {

template <class Clock>
std::int64_t milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch())
      .count();
}

// Which XIDs have been told, and which devices have lately had a critical one.
class XidMemory {
 public:
  explicit XidMemory(Duration quiet) : quiet_(quiet) {}

  void settle(Report& report, Time now);

 private:
  struct Known {
    std::vector<int> told;
    int critical = 0;
    Time seen;  // of the critical one
  };

  void settle_one(DeviceReport& device, Known& known, Time now) const;

  Duration quiet_;
  std::map<std::string, Known> known_;  // by UUID
};

void XidMemory::settle_one(DeviceReport& device, Known& known, Time now) const {
  std::vector<int> figures = device.xids;
  figures.insert(figures.end(), device.app_xids.begin(), device.app_xids.end());
  if (!device.xids.empty()) {
    known.critical = device.xids.front();
    known.seen = now;
  } else if (figures.empty() || now - known.seen >= quiet_) {
    known.critical = 0;  // 0 or none: the exporter has begun anew
  } else if (known.critical != 0) {
    device.lost = true;
    device.device.health = core::DeviceHealth::unhealthy;
    add_problem(
        device.problem,
        fmt::format("critical XID {} ({}) not long ago: not used until {} s have been quiet",
                    known.critical, xid_class_name(classify_xid(known.critical)),
                    quiet_.count() / 1000));
  }
  if (figures == known.told) {
    device.xids.clear();
    device.app_xids.clear();
  }
  known.told = std::move(figures);
}

void XidMemory::settle(Report& report, Time now) {
  if (!report.up) return;
  std::set<std::string_view> listed;
  for (DeviceReport& device : report.devices) {
    settle_one(device, known_[device.device.uuid], now);
    listed.insert(device.device.uuid);
  }
  std::erase_if(known_, [&listed](const auto& one) { return !listed.contains(one.first); });
}

ExporterOptions options_of(const ExporterSettings& settings) {
  return {.node = settings.node,
          .safety_margin = settings.safety_margin,
          .wall_ms = settings.wall_ms(),
          .instances = settings.instances};
}

// Pages of exporters, each with the samples that it gave last.
class DcgmSource final : public Source {
 public:
  DcgmSource(DcgmPages pages, ExporterSettings settings)
      : settings_(std::move(settings)), xids_(settings_.quiet) {
    for (std::string& url : pages.urls)
      pages_.push_back({.url = std::move(url), .samples = {}});
  }

  std::string_view name() const override { return "dcgm"; }

  Report read() override;

 private:
  struct Page {
    std::string url;
    std::vector<ExporterSample> samples;
  };

  // Why the page gave nothing new; empty = it did.
  std::string refresh(Page& page, Report& report) const;

  ExporterSettings settings_;
  XidMemory xids_;
  std::vector<Page> pages_;
};

std::string DcgmSource::refresh(Page& page, Report& report) const {
  const auto text = settings_.fetch(page.url);
  if (!text.ok()) return fmt::format("{}: {}", printable(page.url), text.error().to_string());
  DcgmText parsed = parse_dcgm(*text);
  const auto is_memory = [](const ExporterSample& sample) {
    return is_needed(sample.metric) && !sample.labels.uuid.empty();
  };
  if (std::ranges::none_of(parsed.samples, is_memory)) {
    return fmt::format(
        "{}: no series of GPU memory (DCGM_FI_DEV_FB_FREE, DCGM_FI_DEV_FB_USED) on that page",
        printable(page.url));
  }
  const std::int64_t now = settings_.wall_ms();
  for (ExporterSample& sample : parsed.samples) {
    if (!sample.stamp_ms && !sample.stamp_bad) sample.stamp_ms = now;
  }
  page.samples = std::move(parsed.samples);
  for (const std::string& problem : parsed.problems)
    report.problems.push_back(fmt::format("{}: {}", printable(page.url), problem));
  return {};
}

Report DcgmSource::read() {
  Report told;
  std::size_t silent = 0;
  std::vector<ExporterSample> samples;
  for (Page& page : pages_) {
    if (std::string why = refresh(page, told); !why.empty()) {
      ++silent;
      told.problems.push_back(std::move(why));
    }
    samples.insert(samples.end(), page.samples.begin(), page.samples.end());
  }
  Report report;
  if (silent == pages_.size()) {
    report.up = false;
    report.why_down = fmt::format(
        "no dcgm-exporter answers, the first one so: {}; see that it runs and can be reached",
        told.problems.front());
    return report;
  }
  report = report_of(samples, options_of(settings_));
  report.problems.insert(report.problems.end(), told.problems.begin(), told.problems.end());
  xids_.settle(report, settings_.now());
  return report;
}

class PrometheusSource final : public Source {
 public:
  PrometheusSource(PrometheusQuestion question, ExporterSettings settings)
      : question_(std::move(question)), settings_(std::move(settings)), xids_(settings_.quiet) {}

  std::string_view name() const override { return "prometheus"; }

  Report read() override;

 private:
  PrometheusQuestion question_;
  ExporterSettings settings_;
  XidMemory xids_;
};

Report PrometheusSource::read() {
  constexpr ExporterMetric kAll[] = {ExporterMetric::free, ExporterMetric::used,
                                     ExporterMetric::reserved, ExporterMetric::xid};
  std::vector<std::string> texts;
  std::vector<ExporterMetric> metrics;
  std::vector<std::string> problems;
  for (const ExporterMetric metric : kAll) {
    const std::string url =
        prometheus_url(question_.base, metric, question_.selector, question_.window_s);
    auto text = settings_.fetch(url);
    if (text.ok()) {
      texts.push_back(std::move(text).value());
      metrics.push_back(metric);
      continue;
    }
    std::string why = fmt::format("Prometheus does not answer: {}", text.error().to_string());
    if (is_needed(metric)) {
      Report down;
      down.up = false;
      down.why_down = std::move(why);
      return down;
    }
    problems.push_back(std::move(why));
  }
  std::vector<PrometheusAnswer> answers;
  for (std::size_t place = 0; place < texts.size(); ++place)
    answers.push_back({.metric = metrics[place], .text = texts[place]});
  Report report = read_prometheus(answers, options_of(settings_));
  report.problems.insert(report.problems.end(), problems.begin(), problems.end());
  xids_.settle(report, settings_.now());
  return report;
}

Result<void> check(ExporterSettings& settings) {
  if (!settings.fetch) return invalid_argument("fetch is missing: a source has to ask somehow");
  if (settings.node.empty()) {
    return invalid_argument("node is empty: series without a host name belong to it; name one");
  }
  if (settings.safety_margin < Memory()) {
    return invalid_argument(fmt::format("safety_margin is {} bytes: it is kept back, so 0 or above",
                                        settings.safety_margin.in_bytes()));
  }
  if (settings.quiet < Duration()) {
    return invalid_argument(
        fmt::format("quiet is {} ms: a time to wait, so 0 or above", settings.quiet.count()));
  }
  if (!settings.wall_ms) settings.wall_ms = milliseconds<std::chrono::system_clock>;
  if (!settings.now) {
    settings.now = [] { return Time(milliseconds<std::chrono::steady_clock>()); };
  }
  return success();
}

}  // namespace

Result<std::unique_ptr<Source>> make_dcgm_source(DcgmPages pages, ExporterSettings settings) {
  TRY_VOID(check(settings));
  if (pages.urls.empty()) {
    return invalid_argument(
        "urls is empty: name the exporters' pages, for example http://n1:9400/metrics");
  }
  return std::unique_ptr<Source>(
      std::make_unique<DcgmSource>(std::move(pages), std::move(settings)));
}

Result<std::unique_ptr<Source>> make_prometheus_source(PrometheusQuestion question,
                                                       ExporterSettings settings) {
  constexpr std::int64_t kMostWindow = 86'400;
  constexpr std::string_view kEnd = "query=";
  TRY_VOID(check(settings));
  if (!question.base.ends_with(kEnd)) {
    return invalid_argument(
        fmt::format("base is \"{}\": it ends with query=, for example "
                    "http://prometheus:9090/api/v1/query?query=",
                    shortened(printable(question.base), 200)));
  }
  if (!question.selector.empty() &&
      (!question.selector.starts_with('{') || !question.selector.ends_with('}'))) {
    return invalid_argument(
        fmt::format("selector is \"{}\": it stands in braces, for example "
                    "{{app='nvidia-dcgm-exporter'}}",
                    shortened(printable(question.selector), 200)));
  }
  if (question.window_s < 1 || question.window_s > kMostWindow) {
    return invalid_argument(
        fmt::format("window_s is {}: 1 to {} seconds", question.window_s, kMostWindow));
  }
  return std::unique_ptr<Source>(
      std::make_unique<PrometheusSource>(std::move(question), std::move(settings)));
}

}  // namespace berth::gpu
