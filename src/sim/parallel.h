// run_parallel: independent runs over several threads, answered in the order in which they were
// asked for.
//
//   TRY(auto results, run_parallel<RunResult>({.count = specs.size(), .jobs = 4}, play, report));
//
// Because runs are independent the result does not depend on the number of threads; only times do.
// Thread-safety: blocks its caller; `cancelled` may be set from anywhere, also from a signal.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"

namespace berth::sim {

struct ParallelRuns {
  std::size_t count = 0;
  int jobs = 1;
  const std::atomic<bool>* cancelled = nullptr;
};

// `work(run, stop)` plays one run and gives up with code exhausted once `stop` is true; `tick()` is
// called on the caller's thread a few times per second and once at the end. The error of the first
// run (in order) that failed, else all results. Code exhausted = cancelled.
template <typename R, typename Work, typename Tick>
Result<std::vector<R>> run_parallel(const ParallelRuns& runs, const Work& work, const Tick& tick) {
  constexpr std::chrono::milliseconds kPeriod{200};
  std::vector<std::optional<Result<R>>> results(runs.count);
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stop{runs.cancelled != nullptr && runs.cancelled->load()};
  std::mutex mutex;
  std::condition_variable finished;
  std::size_t done = 0;  // guarded by mutex
  const auto play = [&] {
    for (std::size_t run = next.fetch_add(1); run < runs.count; run = next.fetch_add(1)) {
      results[run] = work(run, stop);
      if (!results[run]->ok()) stop = true;
      const std::lock_guard lock(mutex);
      ++done;
      finished.notify_one();
    }
  };
  {
    std::vector<std::jthread> threads;
    const std::size_t count =
        std::min(static_cast<std::size_t>(std::max(runs.jobs, 1)), runs.count);
    for (std::size_t i = 0; i < count; ++i)
      threads.emplace_back(play);
    std::unique_lock lock(mutex);
    while (done < runs.count) {
      finished.wait_for(lock, kPeriod);
      if (runs.cancelled != nullptr && runs.cancelled->load()) stop = true;
      lock.unlock();
      tick();
      lock.lock();
    }
  }
  tick();
  std::optional<Error> cancelled;
  std::vector<R> all;
  for (std::optional<Result<R>>& result : results) {
    if (result->ok()) {
      all.push_back(std::move(*result).value());
    } else if (result->error().code() != ErrorCode::exhausted) {
      return result->error();
    } else if (!cancelled) {
      cancelled = result->error();
    }
  }
  if (cancelled) return *cancelled;
  return all;
}

}  // namespace berth::sim
