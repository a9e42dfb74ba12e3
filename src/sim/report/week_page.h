// The report of weeks: one self-contained HTML page that works from disk, in light and dark, on
// paper, and read aloud: who used how much of what it was entitled to, who waited and why, who was
// evicted for whom. Deterministic. Thread-safety: pure functions.
#pragma once

#include <string>

#include "sim/week/output.h"

namespace berth::sim {

std::string week_page(const WeekComparison& comparison);

// The result in one sentence, plain text.
std::string week_headline(const WeekComparison& comparison);

}  // namespace berth::sim
