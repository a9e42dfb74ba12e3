#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/document.h"
#include "sim/report/figures.h"
#include "sim/report/svg.h"

namespace berth::sim {

namespace {

constexpr double kLeft = 52;
constexpr double kRight = 150;  // room for the labels at the lines' ends
constexpr double kTop = 14;
constexpr double kBottom = 44;

const std::optional<CurvePoint>* point_of(const PolicySummary& policy, int percent) {
  const auto index = static_cast<std::size_t>(percent);
  if (index >= policy.curve.size() || !policy.curve[index]) return nullptr;
  return &policy.curve[index];
}

struct ValueRange {
  double from = 0;
  double to = 100;
};

ValueRange value_range(const Comparison& comparison, const CurveWindow& window) {
  if (!window.fit_values) return {};
  double low = 100;
  double high = 0;
  for (const PolicySummary& policy : comparison.policies) {
    for (int percent = window.from; percent <= window.to; ++percent) {
      if (const auto* point = point_of(policy, percent)) {
        low = std::min(low, (*point)->low);
        high = std::max(high, (*point)->high);
      }
    }
  }
  if (high <= low) return {};
  if (comparison.bounds && comparison.bounds->no_reject > low) {
    high = std::max(high, comparison.bounds->no_reject);
  }
  const double margin = std::max(0.15, 0.06 * (high - low));
  return {.from = std::max(0.0, low - margin), .to = std::min(100.0, high + margin)};
}

class CurveFigure {
 public:
  CurveFigure(const Comparison& comparison, const CurveWindow& window)
      : comparison_(comparison),
        window_(window),
        range_(value_range(comparison, window)),
        x_{static_cast<double>(window.from), static_cast<double>(window.to), kLeft,
           kFigureWidth - kRight},
        y_{range_.from, range_.to, window.height - kBottom, kTop},
        title_(
            fmt::format("GPU allocation in percent, from {} to {} percent of the fleet asked for",
                        window.from, window.to)),
        attributes_(fmt::format("class=\"curve\" data-from=\"{}\" data-to=\"{}\" data-left=\"{}\" "
                                "data-right=\"{}\" data-top=\"{}\" data-bottom=\"{}\"",
                                window.from, window.to, kLeft, kFigureWidth - kRight, kTop,
                                window.height - kBottom)),
        svg_({.width = kFigureWidth,
              .height = window.height,
              .title = title_,
              .attributes = attributes_}) {}

  std::string draw() {
    axes();
    if (window_.from == 0) {
      svg_.line({x_(0), y_(0)}, {x_(100), y_(100)}, "ideal");
      svg_.text({x_(46), y_(50) - 6}, "everything placed", "note", Anchor::end);
    }
    for (std::size_t i = comparison_.policies.size(); i-- > 0;)
      curve(i);
    bound();
    labels();
    return svg_.finish();
  }

 private:
  void axes() {
    const double right = kFigureWidth - kRight;
    const double bottom = window_.height - kBottom;
    const std::vector<double> values = axis_ticks(range_.from, range_.to, 6);
    const double step = values.size() > 1 ? values[1] - values[0] : 1;
    for (const double tick : values) {
      svg_.line({kLeft, y_(tick)}, {right, y_(tick)}, "grid");
      svg_.text({kLeft - 8, y_(tick) + 4}, tick_label(tick, step), "tick", Anchor::end);
    }
    for (const double tick : axis_ticks(window_.from, window_.to, 10)) {
      svg_.line({x_(tick), bottom}, {x_(tick), bottom + 5}, "axis");
      svg_.text({x_(tick), bottom + 19}, tick_label(tick, 1), "tick", Anchor::middle);
    }
    svg_.line({kLeft, bottom}, {right, bottom}, "axis");
    svg_.text({(kLeft + right) / 2, window_.height - 6},
              "GPU asked for so far, percent of the fleet", "label", Anchor::middle);
  }

  void curve(std::size_t index) {
    const PolicySummary& policy = comparison_.policies[index];
    std::vector<Point> mean;
    std::vector<Point> high;
    std::vector<Point> low;
    for (int percent = window_.from; percent <= window_.to; ++percent) {
      const auto* point = point_of(policy, percent);
      if (point == nullptr) continue;
      mean.push_back({x_(percent), y_((*point)->mean)});
      high.push_back({x_(percent), y_((*point)->high)});
      low.push_back({x_(percent), y_((*point)->low)});
    }
    if (mean.empty()) return;
    const std::size_t colour = index % kPolicyColours;
    if (comparison_.seeds.size() > 1) svg_.band(high, low, fmt::format("band p{}", colour));
    svg_.polyline(mean, fmt::format("line p{}", colour));
    ends_.push_back({.y = mean.back().y,
                     .text = fmt::format("{} {:.2f}", policy.policy, end_value(policy)),
                     .css = fmt::format("end p{}", colour)});
  }

  double end_value(const PolicySummary& policy) const {
    for (int percent = window_.to; percent >= window_.from; --percent) {
      if (const auto* point = point_of(policy, percent)) return (*point)->mean;
    }
    return 0;
  }

  void bound() {
    if (!comparison_.bounds) return;
    const double bound = comparison_.bounds->no_reject;
    if (bound < range_.from || bound > range_.to) return;
    svg_.line({kLeft, y_(bound)}, {kFigureWidth - kRight, y_(bound)}, "bound");
    ends_.push_back(
        {.y = y_(bound), .text = fmt::format("bound {:.2f}", bound), .css = "end boundtext"});
  }

  // Labels at the lines' ends, moved apart where lines end close together.
  void labels() {
    constexpr double kApart = 16;
    std::ranges::stable_sort(ends_, {}, &End::y);
    double total = 0;
    for (std::size_t i = 1; i < ends_.size(); ++i) {
      const double pushed = std::max(ends_[i].y, ends_[i - 1].y + kApart);
      total += pushed - ends_[i].y;
      ends_[i].y = pushed;
    }
    const double lowest = window_.height - kBottom;
    const double over = ends_.empty() ? 0 : std::max(0.0, ends_.back().y - lowest);
    for (End& end : ends_) {
      svg_.text({kFigureWidth - kRight + 10, end.y - over + 4}, end.text, end.css);
    }
  }

  struct End {
    double y = 0;
    std::string text;
    std::string css;
  };

  const Comparison& comparison_;
  CurveWindow window_;
  ValueRange range_;
  Scale x_;
  Scale y_;
  std::string title_;
  std::string attributes_;
  Svg svg_;
  std::vector<End> ends_;
};

}  // namespace

std::string curve_figure(const Comparison& comparison, const CurveWindow& window) {
  return CurveFigure(comparison, window).draw();
}

std::string curve_data(const Comparison& comparison) {
  Document policies = Document::array();
  for (const PolicySummary& policy : comparison.policies) {
    Document means = Document::array();
    for (const std::optional<CurvePoint>& point : policy.curve) {
      means.push(Document::fixed(point ? std::optional(point->mean) : std::nullopt, 2));
    }
    policies.push(Document::object().add("name", policy.policy).add("mean", std::move(means)));
  }
  std::string json = policies.json();
  // Inside a script element only this could end it early.
  for (std::size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at)) {
    json.replace(at, 1, "\\u003c");
  }
  return json;
}

}  // namespace berth::sim
