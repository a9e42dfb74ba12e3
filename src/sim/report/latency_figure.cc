#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/output.h"
#include "sim/report/figures.h"
#include "sim/report/svg.h"

namespace berth::sim {

namespace {

constexpr double kLeft = 52;
constexpr double kRight = 150;
constexpr double kTop = 12;
constexpr double kBottom = 44;
constexpr double kHeight = 250;

using Shares = std::array<double, LatencyStats::kBuckets>;

Shares shares_of(const LatencyStats& latency) {
  const auto counts = latency.histogram();
  Shares shares{};
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto all = static_cast<double>(std::max<std::int64_t>(latency.count(), 1));
    shares[i] = 100 * static_cast<double>(counts[i]) / all;
  }
  return shares;
}

std::string duration_label(double us) {
  if (us < 1) return fmt::format("{:g} ns", us * 1000);
  if (us < 1000) return fmt::format("{:g} µs", us);
  return us < 1e6 ? fmt::format("{:g} ms", us / 1000) : fmt::format("{:g} s", us / 1e6);
}

}  // namespace

std::string latency_figure(const Comparison& comparison) {
  std::vector<Shares> all;
  double highest = 1;
  std::size_t first = LatencyStats::kBuckets - 1;
  std::size_t last = 0;
  for (const PolicySummary& policy : comparison.policies) {
    all.push_back(shares_of(policy.latency));
    for (std::size_t i = 0; i < all.back().size(); ++i) {
      if (all.back()[i] <= 0) continue;
      highest = std::max(highest, all.back()[i]);
      first = std::min(first, i);
      last = std::max(last, i);
    }
  }
  if (last < first) return "<p>No decision was timed.</p>\n";
  const auto log_of = [](double us) { return std::log10(us); };
  const Scale x{log_of(LatencyStats::bucket_floor_us(first)),
                log_of(LatencyStats::bucket_floor_us(last + 1)), kLeft, kFigureWidth - kRight};
  const Scale y{0, highest * 1.08, kHeight - kBottom, kTop};
  Svg svg({.width = kFigureWidth,
           .height = kHeight,
           .title = "Distribution of decision times per policy, logarithmic time axis"});
  for (const double tick : axis_ticks(0, y.to, 4)) {
    svg.line({kLeft, y(tick)}, {kFigureWidth - kRight, y(tick)}, "grid");
    svg.text({kLeft - 8, y(tick) + 4}, fmt::format("{:g} %", tick), "tick", Anchor::end);
  }
  const double base = kHeight - kBottom;
  for (double decade = 0.1; decade < 1e8; decade *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double at = x(log_of(decade * factor));
      if (at < kLeft - 0.5 || at > kFigureWidth - kRight + 0.5) continue;
      svg.line({at, base}, {at, base + 5}, "axis");
      svg.text({at, base + 19}, duration_label(decade * factor), "tick", Anchor::middle);
    }
  }
  svg.line({kLeft, base}, {kFigureWidth - kRight, base}, "axis");
  svg.text({(kLeft + kFigureWidth - kRight) / 2, kHeight - 6},
           "time of one decision (share of decisions per quarter of a doubling)", "label",
           Anchor::middle);
  for (std::size_t p = all.size(); p-- > 0;) {
    std::vector<Point> points;
    for (std::size_t i = first; i <= last; ++i) {
      points.push_back({x(log_of(LatencyStats::bucket_floor_us(i))), y(all[p][i])});
      points.push_back({x(log_of(LatencyStats::bucket_floor_us(i + 1))), y(all[p][i])});
    }
    svg.polyline(points, fmt::format("line p{}", p % kPolicyColours));
    svg.text({kFigureWidth - kRight + 10, kTop + 14 + 17 * static_cast<double>(p)},
             comparison.policies[p].policy, fmt::format("end p{}", p % kPolicyColours));
  }
  return svg.finish();
}

}  // namespace berth::sim
