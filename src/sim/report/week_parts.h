// Parts of the week's page. Inside the room only. Each answers with HTML.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/report/week_figures.h"
#include "sim/week/output.h"

namespace berth::sim {

std::string_view week_style();

// What the parts share.
struct WeekPage {
  const WeekComparison* comparison = nullptr;
  std::vector<ComparedQueue> leaves;
  std::vector<core::Cause> causes;  // that anybody waited for, longest first
  std::vector<std::string> names;   // of the weeks, as the page calls them
  bool pair() const { return comparison->weeks.size() > 1; }
};

WeekPage week_page_of(const WeekComparison& comparison);

std::string week_queue_sections(const WeekPage& page);
std::string week_change_table(const WeekPage& page);
std::string week_numbers_table(const WeekPage& page);
std::string week_evictions_table(const WeekPage& page);

}  // namespace berth::sim
