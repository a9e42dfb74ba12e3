#include "sim/week/week.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace berth::sim {

std::string_view rule_name(core::Evicted::Rule rule) {
  constexpr std::array<std::string_view, kRuleCount> kNames = {
      "guarantee", "fairShare",    "priority", "consolidation",
      "stale",     "startTimeout", "backfill", "drain"};
  return kNames.at(static_cast<std::size_t>(rule));
}

std::int64_t wait_quantile(const std::vector<std::int64_t>& waits, int percent) {
  if (waits.empty()) return 0;
  const auto rank = (waits.size() * static_cast<std::size_t>(percent) + 99) / 100;
  return waits[std::max<std::size_t>(rank, 1) - 1];
}

double utilisation(const WeekResult& week) {
  double used = 0;
  for (const QueueWeek& queue : week.queues)
    used += static_cast<double>(queue.delivered) + static_cast<double>(queue.lost);
  const double had = static_cast<double>(week.capacity) * static_cast<double>(week.horizon.count());
  return had == 0 ? 0 : 100 * used / had;
}

double fragmentation(const WeekResult& week) {
  double sum = 0;
  std::int64_t samples = 0;
  for (std::size_t i = 0; i < week.fleet.free.size(); ++i) {
    const std::int64_t free = week.fleet.free[i];
    if (free == 0) continue;
    sum += 100.0 * static_cast<double>(free - week.fleet.idle[i] * kWholeMilli.count()) /
           static_cast<double>(free);
    ++samples;
  }
  return samples == 0 ? 0 : sum / static_cast<double>(samples);
}

}  // namespace berth::sim
