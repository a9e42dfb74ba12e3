#include "sim/report/week_page.h"

namespace berth::sim {

std::string week_page(const WeekComparison& /*comparison*/) { return {}; }

}  // namespace berth::sim
