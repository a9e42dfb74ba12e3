#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "sim/output.h"
#include "sim/report/figures.h"
#include "sim/report/svg.h"

namespace berth::sim {

namespace {

constexpr double kLeft = 170;
constexpr double kRight = 190;  // room for the totals
constexpr double kBar = 20;
constexpr double kStep = 27;

struct Segment {
  double value = 0;
  std::string css;
  std::string label;  // inside the segment, if there is room
  std::string tooltip;
};

// One horizontal bar of segments, its name at the left and its total at the right.
void draw_bar(Svg& svg, const Scale& x, double y, const std::vector<Segment>& segments) {
  double at = 0;
  for (const Segment& segment : segments) {
    const double left = x(at);
    at += segment.value;
    const double width = x(at) - left;
    if (width < 0.05) continue;
    svg.rect({left, y, width, kBar}, segment.css, segment.tooltip);
    if (width > 9 * static_cast<double>(segment.label.size())) {
      svg.text({left + width / 2, y + kBar - 6}, segment.label, "inside " + segment.css,
               Anchor::middle);
    }
  }
}

std::string legend_entry(std::string_view css, std::string_view text) {
  return fmt::format("<li><span class=\"swatch {}\"></span>{}</li>\n", css, html_escaped(text));
}

}  // namespace

std::string fragmentation_figure(const Comparison& comparison) {
  const double gpus = static_cast<double>(comparison.scene->capacity) / kWholeDeviceMilli;
  double widest = 0.1;
  for (const PolicySummary& policy : comparison.policies) {
    const auto& shares = policy.fragmentation;
    widest = std::max(widest, std::accumulate(shares.begin(), shares.end(), 0.0));
  }
  const Scale x{0, widest, kLeft, kFigureWidth - kRight};
  std::string legend = "<ul class=\"legend\">\n";
  for (std::size_t i = 0; i < kIdleCauses; ++i) {
    legend += legend_entry(fmt::format("i{}", i), idle_cause_sentence(static_cast<IdleCause>(i)));
  }
  legend += "</ul>\n";

  Svg svg({.width = kFigureWidth,
           .height = kStep * static_cast<double>(comparison.policies.size()) + 6,
           .title = "Idle GPU capacity by cause, per policy"});
  double y = 4;
  for (const PolicySummary& policy : comparison.policies) {
    std::vector<Segment> segments;
    double total = 0;
    for (std::size_t i = 0; i < kIdleCauses; ++i) {
      const double share = policy.fragmentation[i];
      total += share;
      segments.push_back({.value = share,
                          .css = fmt::format("i{}", i),
                          .label = fmt::format("{:.1f}", share),
                          .tooltip = fmt::format("{}: {:.2f} % of the fleet, {:.0f} GPUs: {}",
                                                 policy.policy, share, gpus * share / 100,
                                                 idle_cause_sentence(static_cast<IdleCause>(i)))});
    }
    svg.text({kLeft - 12, y + kBar - 5}, policy.policy, "rowname", Anchor::end);
    draw_bar(svg, x, y, segments);
    svg.text({x(total) + 8, y + kBar - 5},
             fmt::format("{:.2f} % = {:.0f} GPUs", total, gpus * total / 100), "total");
    y += kStep;
  }
  return legend + svg.finish();
}

namespace {

// The bars of one kind of work: one per policy, split by reason.
class RefusalRows {
 public:
  explicit RefusalRows(const Comparison& comparison) : comparison_(comparison) {
    for (const PolicySummary& policy : comparison.policies) {
      std::map<WorkKind, double> totals;
      for (const auto& [key, pods] : policy.refused) {
        totals[key.first] += pods;
        used_[static_cast<std::size_t>(key.second)] = true;
      }
      for (const auto& [kind, pods] : totals) {
        kinds_[kind] = true;
        widest_ = std::max(widest_, pods);
      }
    }
  }

  std::string legend() const {
    std::string legend = "<ul class=\"legend\">\n";
    for (std::size_t i = 0; i < kRefusalReasons; ++i) {
      if (!used_[i]) continue;
      legend +=
          legend_entry(fmt::format("r{}", i), refusal_sentence(static_cast<RefusalReason>(i)));
    }
    return legend + "</ul>\n";
  }

  std::string draw() const {
    const auto rows = static_cast<double>(comparison_.policies.size() * kinds_.size());
    const Scale x{0, widest_, kLeft, kFigureWidth - kRight};
    Svg svg({.width = kFigureWidth,
             .height = kStep * rows + 34 * static_cast<double>(kinds_.size()) + 4,
             .title = "Refused pods per run by kind of work, policy and reason"});
    double y = 4;
    for (const auto& [kind, unused] : kinds_) {
      svg.text({4, y + 16}, kind.label(), "group");
      y += 26;
      for (const PolicySummary& policy : comparison_.policies) {
        row(svg, x, y, policy, kind);
        y += kStep;
      }
      y += 8;
    }
    return svg.finish();
  }

  bool empty() const { return kinds_.empty(); }

 private:
  static void row(Svg& svg, const Scale& x, double y, const PolicySummary& policy, WorkKind kind) {
    std::vector<Segment> segments;
    double total = 0;
    const auto asked = policy.asked.find(kind);
    for (std::size_t i = 0; i < kRefusalReasons; ++i) {
      const auto reason = static_cast<RefusalReason>(i);
      const auto found = policy.refused.find({kind, reason});
      const double pods = found == policy.refused.end() ? 0 : found->second;
      total += pods;
      segments.push_back({.value = pods,
                          .css = fmt::format("r{}", i),
                          .label = fmt::format("{:.0f}", pods),
                          .tooltip = fmt::format("{}, {}: {:.1f} pods per run: {}", policy.policy,
                                                 kind.label(), pods, refusal_sentence(reason))});
    }
    svg.text({kLeft - 12, y + kBar - 5}, policy.policy, "rowname", Anchor::end);
    draw_bar(svg, x, y, segments);
    const double of =
        asked == policy.asked.end() || asked->second == 0 ? 0 : 100 * total / asked->second;
    svg.text({x(total) + 8, y + kBar - 5}, fmt::format("{:.0f} ({:.1f} % of them)", total, of),
             "total");
  }

  const Comparison& comparison_;
  std::map<WorkKind, bool> kinds_;
  std::array<bool, kRefusalReasons> used_{};
  double widest_ = 1;
};

}  // namespace

std::string refusal_figure(const Comparison& comparison) {
  const RefusalRows rows(comparison);
  if (rows.empty()) return "<p>Nothing was refused.</p>\n";
  return rows.legend() + rows.draw();
}

}  // namespace berth::sim
