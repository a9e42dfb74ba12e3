// Plays a load against the production engine in virtual time.
//
// Work arrives, waits, runs for its drawn time and leaves. What the engine evicts runs on for the
// load's grace and then waits again with its old age, its progress lost. After the horizon
// everything is taken away, and the books must be empty. Thread-safety: play_week may run on
// several threads for one scene.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "sim/files.h"
#include "sim/week/week.h"

namespace berth::sim {

struct WeekHooks {
  const std::atomic<bool>* cancelled = nullptr;    // looked at between events
  std::atomic<std::int64_t>* played_ms = nullptr;  // counted up as virtual time goes by
  OutputFile* record = nullptr;                    // takes the decision log
};

// Errors: invalid_argument for what the engine says of policy, fleet or queues, and for a load of
// too many jobs; internal for books that differ; exhausted when cancelled.
Result<WeekResult> play_week(const WeekScene& scene, const WeekSpec& spec,
                             const WeekHooks& hooks = {});

// Several configurations under the same load, over several threads; the result does not depend on
// how many. `on_progress`: called now and then with the virtual time that was played, of all.
struct WeekPlan {
  int jobs = 1;
  const std::atomic<bool>* cancelled = nullptr;
  OutputFile* record = nullptr;  // requires a single spec
  std::function<void(std::int64_t played_ms)> on_progress = {};
};

Result<std::vector<WeekResult>> play_weeks(const WeekScene& scene,
                                           const std::vector<WeekSpec>& specs,
                                           const WeekPlan& plan);

inline constexpr std::int64_t kMostWeekJobs = 10'000'000;

}  // namespace berth::sim
