#include "sim/report/week_figures.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "scenario/load.h"
#include "sim/report/svg.h"
#include "sim/week/output.h"

namespace berth::sim {

namespace {

constexpr double kLeft = 52;
constexpr double kRight = 8;
constexpr double kTop = 8;
constexpr double kBottom = 26;
constexpr double kMsPerDay = 86'400'000;
constexpr double kMsPerHour = 3'600'000;
constexpr std::size_t kMostPoints = 700;

// The means of at most kMostPoints equal parts of a series.
std::vector<double> thinned(const std::vector<std::int64_t>& series, double unit) {
  const std::size_t stride =
      std::max<std::size_t>(1, (series.size() + kMostPoints - 1) / kMostPoints);
  std::vector<double> points;
  for (std::size_t from = 0; from < series.size(); from += stride) {
    const std::size_t until = std::min(from + stride, series.size());
    double sum = 0;
    for (std::size_t i = from; i < until; ++i)
      sum += static_cast<double>(series[i]);
    points.push_back(sum / static_cast<double>(until - from) / unit);
  }
  return points;
}

double rounded_up(double value) {
  const std::vector<double> ticks = axis_ticks(0, std::max(value, 1e-9), 4);
  const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : std::max(value, 1.0);
  double top = 0;
  while (top < value)
    top += step;
  return std::max(top, step);
}

// The frame of all figures over time: days along the bottom, amounts along the side.
class TimeFigure {
 public:
  TimeFigure(const WeekFrame& frame, double top, const std::string& title)
      : frame_(frame),
        x_{0, static_cast<double>(frame.horizon.count()), kLeft, frame.width - kRight},
        y_{0, top, frame.height - kBottom, kTop},
        top_(top),
        svg_({.width = frame.width,
              .height = frame.height,
              .title = title,
              .attributes = "class=\"week\""}) {}

  Svg& svg() { return svg_; }
  double right() const { return frame_.width - kRight; }
  double y(double value) const { return y_(std::clamp(value, 0.0, top_)); }

  void axes() {
    const std::vector<double> ticks = axis_ticks(0, top_, 4);
    const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
    for (const double tick : ticks) {
      svg_.line({kLeft, y_(tick)}, {right(), y_(tick)}, "grid");
      svg_.text({kLeft - 7, y_(tick) + 4}, tick_label(tick, step), "tick", Anchor::end);
    }
    const double days = static_cast<double>(frame_.horizon.count()) / kMsPerDay;
    if (days <= 1.5) {
      hours(days);
    } else {
      day_names(days);
    }
    svg_.line({kLeft, y_(0)}, {right(), y_(0)}, "axis");
  }

  std::vector<Point> points(const std::vector<double>& values) const {
    std::vector<Point> line;
    const double last = std::max<double>(1, static_cast<double>(values.size()) - 1);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double time =
          static_cast<double>(frame_.horizon.count()) * static_cast<double>(i) / last;
      line.push_back({x_(time), y(values[i])});
    }
    return line;
  }

 private:
  void day_names(double days) {
    const double stride = days <= 16 ? 1 : days <= 120 ? 7 : 28;
    for (double day = 0; day < days; day += stride) {
      const double at = x_(day * kMsPerDay);
      const double middle = x_(std::min(day + std::min(stride, 1.0) / 2, days) * kMsPerDay);
      if (day > 0) svg_.line({at, kTop}, {at, y_(0)}, "grid day");
      const auto number = static_cast<std::size_t>(day);
      const std::string_view name =
          scenario::day_name((frame_.first_day + number) % scenario::kDaysOfWeek);
      svg_.text({middle, y_(0) + 18},
                days <= 7 ? std::string(name) : fmt::format("{} {}", name, number + 1), "tick",
                Anchor::middle);
    }
  }

  void hours(double days) {
    const double all = days * 24;
    for (const double hour : axis_ticks(0, all, 8)) {
      const double at = x_(hour * kMsPerHour);
      svg_.line({at, kTop}, {at, y_(0)}, "grid");
      svg_.text({at, y_(0) + 18},
                fmt::format("{:02.0f}:{:02.0f}", hour, (hour - static_cast<int>(hour)) * 60),
                "tick", hour == 0 ? Anchor::start : Anchor::middle);
    }
  }

  WeekFrame frame_;
  Scale x_;
  Scale y_;
  double top_;
  Svg svg_;
};

}  // namespace

double share_top(const std::vector<const ShareSeries*>& series, double unit) {
  double top = 0;
  double asked = 0;
  for (const ShareSeries* each : series) {
    for (const auto* values : {&each->used, &each->fair, &each->deserved}) {
      for (const double value : thinned(*values, unit))
        top = std::max(top, value);
    }
    for (const double value : thinned(each->asked, unit))
      asked = std::max(asked, value);
  }
  // A backlog without end would press the rest flat; it goes out of the picture instead.
  constexpr double kMostAsked = 2;
  return rounded_up(std::max(top, std::min(asked, kMostAsked * top)) * 1.04);
}

std::string share_figure(const WeekFrame& frame, const ShareFigure& figure) {
  TimeFigure time(frame, figure.top, figure.title);
  const ShareSeries& series = *figure.series;
  const std::vector<Point> used = time.points(thinned(series.used, figure.unit));
  std::vector<double> most = thinned(series.asked, figure.unit);
  const std::vector<double> held = thinned(series.used, figure.unit);
  most.resize(held.size());  // nothing where no queue names the dimension
  for (std::size_t i = 0; i < most.size(); ++i)
    most[i] = std::max(most[i], held[i]);
  std::vector<Point> zero = used;
  for (Point& point : zero)
    point.y = time.y(0);
  time.svg().band(time.points(most), used, "asked");
  time.axes();
  time.svg().band(used, zero, fmt::format("area {}", figure.css));
  time.svg().polyline(used, fmt::format("edge {}", figure.css));
  time.svg().polyline(time.points(thinned(series.deserved, figure.unit)), "deserved");
  time.svg().polyline(time.points(thinned(series.fair, figure.unit)), "entitled");
  return time.svg().finish();
}

std::string stack_figure(const WeekFrame& frame, const StackFigure& figure) {
  TimeFigure time(frame, figure.top, figure.title);
  time.axes();
  std::vector<double> below;
  for (const StackLayer& layer : figure.layers) {
    std::vector<double> above = thinned(layer.values, figure.unit);
    below.resize(above.size());
    for (std::size_t i = 0; i < above.size(); ++i)
      above[i] += below[i];
    time.svg().band(time.points(above), time.points(below), "layer " + layer.css);
    below = std::move(above);
  }
  if (!figure.top_label.empty()) {
    time.svg().line({kLeft, time.y(figure.top)}, {time.right(), time.y(figure.top)}, "bound");
    time.svg().text({time.right() - 6, time.y(figure.top) + 16}, figure.top_label, "note",
                    Anchor::end);
  }
  return time.svg().finish();
}

double waited_top(const std::vector<const std::vector<CauseTimes>*>& days) {
  double top = 0;
  for (const std::vector<CauseTimes>* each : days) {
    for (const CauseTimes& day : *each) {
      const auto total = std::reduce(day.begin(), day.end());
      top = std::max(top, static_cast<double>(total) / kMsPerHour);
    }
  }
  return rounded_up(std::max(top, 1.0));
}

std::string waited_figure(const WeekFrame& frame, const WaitedFigure& figure) {
  Svg svg({.width = frame.width,
           .height = frame.height,
           .title = figure.title,
           .attributes = "class=\"week\""});
  const std::size_t days = figure.days->size();
  const Scale x{0, static_cast<double>(days), kLeft, frame.width - kRight};
  const Scale y{0, figure.top_hours, frame.height - kBottom, kTop};
  const std::vector<double> ticks = axis_ticks(0, figure.top_hours, 4);
  const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
  for (const double tick : ticks) {
    svg.line({kLeft, y(tick)}, {frame.width - kRight, y(tick)}, "grid");
    svg.text({kLeft - 7, y(tick) + 4}, tick_label(tick, step), "tick", Anchor::end);
  }
  const std::size_t stride = (days + 15) / 16;
  for (std::size_t day = 0; day < days; ++day) {
    const std::string_view name =
        scenario::day_name((frame.first_day + day) % scenario::kDaysOfWeek);
    const auto left = static_cast<double>(day);
    if (day % stride == 0) {
      svg.text({x(left + 0.5), y(0) + 18}, days <= 7 ? std::string(name) : std::to_string(day + 1),
               "tick", Anchor::middle);
    }
    double below = 0;
    for (std::size_t c = 0; c < figure.causes.size(); ++c) {
      const std::int64_t ms = figure.days->at(day).at(static_cast<std::size_t>(figure.causes[c]));
      if (ms == 0) continue;
      const double hours = static_cast<double>(ms) / kMsPerHour;
      svg.rect({.x = x(left + 0.14),
                .y = y(below + hours),
                .width = x(1) * 0.72 - x(0) * 0.72,
                .height = y(below) - y(below + hours)},
               fmt::format("layer p{}", c % 9),
               fmt::format("{}: {} of waiting: {}", name, span_text(ms),
                           cause_phrase(figure.causes[c])));
      below += hours;
    }
  }
  svg.line({kLeft, y(0)}, {frame.width - kRight, y(0)}, "axis");
  return svg.finish();
}

std::string cause_phrase(core::Cause cause) {
  using core::Cause;
  switch (cause) {
    case Cause::none: return "not tried yet";
    case Cause::insufficient_devices: return "not enough free devices on one node";
    case Cause::insufficient_memory: return "no device with enough free memory";
    case Cause::insufficient_node_resource: return "not enough free CPU or memory on a node";
    case Cause::device_exclusive: return "every device that could do is held whole";
    case Cause::device_cap: return "as many grants on each device as are allowed";
    case Cause::limit_overcommit: return "the burst limits on each device are used up";
    case Cause::no_pod_slot: return "no node can carry another workload";
    case Cause::over_limit: return "its queue is at its limit";
    case Cause::non_preemptible_over_quota:
      return "may not be evicted, and its queue has used up what it deserves";
    case Cause::queue_held: return "its queue is on hold";
    case Cause::reserved_for_other: return "the room is kept for work that is before it";
    case Cause::backfill_too_long: return "would still run when work before it is due";
    case Cause::waiting_for_release: return "waits for room that is being freed";
    case Cause::preempting: return "what stands in its way is being evicted";
    case Cause::preemption_delay: return "may not evict anything yet";
    case Cause::no_topology_domain: return "no part of the network is free enough";
    case Cause::no_link_set: return "no joined devices are free";
    case Cause::granting_held: return "nothing may be granted for the time being";
    case Cause::back_off: return "starts too slowly and has to pause";
    case Cause::search_budget: return "the search ended before an answer";
    default: return std::string(core::cause_name(cause));
  }
}

}  // namespace berth::sim
