#include "sim/sweep.h"

#include <algorithm>
#include <chrono>

#include "sim/parallel.h"

namespace berth::sim {

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Result<std::vector<RunResult>> run_sweep(const Scene& scene, const std::vector<RunSpec>& specs,
                                         const SweepOptions& options) {
  ASSERT(options.record == nullptr || specs.size() <= 1, specs.size());
  if (specs.empty()) return std::vector<RunResult>{};
  // Arrivals of different seeds differ by a handful of pods: for progress one count stands for all.
  TRY(const std::int64_t events_each, count_events(scene, specs.front()));
  const std::int64_t total = events_each * static_cast<std::int64_t>(specs.size());
  std::atomic<std::int64_t> events{0};
  const Clock::time_point begin = Clock::now();
  const auto work = [&](std::size_t run, const std::atomic<bool>& stop) {
    return play_run(scene, specs[run],
                    {.cancelled = &stop, .events = &events, .record = options.record});
  };
  const auto report = [&] {
    if (!options.on_progress) return;
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    options.on_progress(
        {.events_done = std::min(events.load(), total), .events_total = total, .seconds = seconds});
  };
  return run_parallel<RunResult>(
      {.count = specs.size(), .jobs = options.jobs, .cancelled = options.cancelled}, work, report);
}

}  // namespace berth::sim
