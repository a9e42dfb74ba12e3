// The report's figures: each turns a comparison into one piece of HTML with inline SVG.
//
// Policies have the classes p0, p1, … in the order of the comparison, idle causes i0 …, refusal
// reasons r0 …, fills f0 … (empty) to f10 (full); page_style.cc gives them colours.
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "sim/comparison.h"

namespace berth::sim {

inline constexpr int kFigureWidth = 1040;
inline constexpr std::size_t kPolicyColours = 9;

struct CurveWindow {
  int from = 0;
  int to = 130;
  double height = 380;
  bool fit_values = false;  // the value axis shows what is there instead of 0 … 100
};

std::string curve_figure(const Comparison& comparison, const CurveWindow& window);
// What the page's script needs to answer the pointer on curves.
std::string curve_data(const Comparison& comparison);

std::string fragmentation_figure(const Comparison& comparison);
std::string refusal_figure(const Comparison& comparison);
std::string latency_figure(const Comparison& comparison);

// Every device of the fleet at the end of one run: node by node, grouped by model.
std::string heat_figure(const Scene& scene, const RunResult& run);
std::string heat_legend();

}  // namespace berth::sim
