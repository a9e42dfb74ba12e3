// Sweep: several runs over several threads, answered in the order in which they were asked for.
//
// Runs are independent, so the result does not depend on the number of threads; only times do.
// Thread-safety: run_sweep blocks its caller; `cancelled` may be set from anywhere, also from a
// signal.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "sim/protocol.h"

namespace berth::sim {

// Called on the caller's thread a few times per second and once at the end.
struct SweepProgress {
  std::int64_t events_done = 0;
  std::int64_t events_total = 0;
  double seconds = 0;  // since the beginning
};

struct SweepOptions {
  int jobs = 1;
  const std::atomic<bool>* cancelled = nullptr;
  OutputFile* record = nullptr;  // takes the decision log of a single run
  std::function<void(const SweepProgress&)> on_progress = {};
};

// Requires at most one run if `record` is given. The error of the first run (in order) that failed,
// else all results. Code exhausted = cancelled.
Result<std::vector<RunResult>> run_sweep(const Scene& scene, const std::vector<RunSpec>& specs,
                                         const SweepOptions& options);

}  // namespace berth::sim
