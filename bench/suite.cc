#include "suite.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace berth::bench {

bool Goal::holds(double value) const {
  if (kind == GoalKind::none) return true;
  return kind == GoalKind::at_most ? value <= bound : value >= bound;
}

// A walk with a dependent load, a multiplication and a branch per step, in first-level cache: what
// a scheduler's inner loops are made of.
double calibration_nanos() {
  using Clock = std::chrono::steady_clock;
  std::vector<std::uint32_t> table(1024);
  std::uint32_t mixed = 12345;
  for (std::uint32_t& entry : table) {
    mixed = mixed * 1664525U + 1013904223U;
    entry = mixed;
  }
  double best = 0;
  std::uint32_t kept = 0;
  for (int repetition = 0; repetition < 7; ++repetition) {
    const Clock::time_point begin = Clock::now();
    std::uint32_t at = kept & 1023U;
    std::uint32_t sum = 0;
    for (std::uint32_t step = 0; step < 2'000'000; ++step) {
      sum += (table[at] & 1U) != 0 ? table[at] * 3U : step;
      at = (table[at] ^ sum) & 1023U;
    }
    kept += sum;
    const double nanos = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
    if (repetition == 1 || (repetition > 1 && nanos < best)) best = nanos;  // the first warms up
  }
  return kept == 1 ? best + 1 : best;  // `kept` must be computed
}

namespace {

Figure figure_of(std::string key, double best, double worst, Goal goal) {
  return {.key = std::move(key),
          .value = best,
          .goal = goal,
          .spread = best == 0 ? 0 : std::abs(worst - best) / best};
}

}  // namespace

Figure best_low(std::string key, std::span<const double> values, Goal goal) {
  const auto [low, high] = std::ranges::minmax(values);
  return figure_of(std::move(key), low, high, goal);
}

Figure best_high(std::string key, std::span<const double> values, Goal goal) {
  const auto [low, high] = std::ranges::minmax(values);
  return figure_of(std::move(key), high, low, goal);
}

}  // namespace berth::bench
