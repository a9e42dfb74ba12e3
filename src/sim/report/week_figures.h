// Figures of a week: each turns samples into one piece of HTML with inline SVG.
//
// Queues have the classes p0, p1, … in the order of the page, causes likewise in theirs;
// page_style.cc gives them colours. Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/verdict.h"
#include "sim/week/week.h"

namespace berth::sim {

struct WeekFrame {
  Duration horizon{};
  std::size_t first_day = 0;
  double width = 1040;
  double height = 190;
};

// One queue in one dimension: what it used against what it was entitled to and what it deserves.
// Amounts are shown as they are divided by `unit`; the value axis ends at `top` of them.
struct ShareFigure {
  std::string title;
  const ShareSeries* series = nullptr;
  double unit = 1000;
  double top = 1;
  std::string_view css = "p0";
};
std::string share_figure(const WeekFrame& frame, const ShareFigure& figure);
// A round top that shows everything, of what was only asked for at most twice the rest.
double share_top(const std::vector<const ShareSeries*>& series, double unit);

// Areas on top of each other, up to a line.
struct StackLayer {
  std::string css;
  std::vector<std::int64_t> values;
};
struct StackFigure {
  std::string title;
  std::vector<StackLayer> layers;  // from below
  double unit = 1000;
  double top = 1;
  std::string top_label;
};
std::string stack_figure(const WeekFrame& frame, const StackFigure& figure);

// Hours that jobs waited, day by day, by cause.
struct WaitedFigure {
  std::string title;
  const std::vector<CauseTimes>* days = nullptr;
  std::vector<core::Cause> causes;  // in the order of their colours
  double top_hours = 1;
};
std::string waited_figure(const WeekFrame& frame, const WaitedFigure& figure);
double waited_top(const std::vector<const std::vector<CauseTimes>*>& days);

// What a cause means, in a few words.
std::string cause_phrase(core::Cause cause);

}  // namespace berth::sim
