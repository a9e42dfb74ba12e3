// The report of a comparison: one self-contained HTML page that works from disk, in light and dark,
// on paper, and read aloud.
//
// It keeps the claims rules of the placement page, 11: the whole curve and not only its end, FGD on
// the same arrivals beside what was published for it, the bound next to the result, and what a
// policy knew beforehand. Deterministic but for decision times. Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "sim/comparison.h"

namespace berth::sim {

std::string report_page(const Comparison& comparison);

// The result in one sentence, plain text.
std::string headline(const Comparison& comparison);

// Inline style and script of the page (page_style.cc).
std::string_view page_style();
std::string_view page_script();

}  // namespace berth::sim
