#include "sim/sweep.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace berth::sim {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kProgressPeriod{200};

// What the threads of one sweep share.
struct Shared {
  std::atomic<std::size_t> next_run{0};
  std::atomic<std::int64_t> events{0};
  std::atomic<bool> stop{false};  // one run failed, or the caller cancelled
  std::mutex mutex;
  std::condition_variable finished;
  std::size_t runs_done = 0;  // guarded by mutex
};

void work(const Scene& scene, const std::vector<RunSpec>& specs, OutputFile* record,
          std::vector<std::optional<Result<RunResult>>>& results, Shared& shared) {
  while (true) {
    const std::size_t run = shared.next_run.fetch_add(1);
    if (run >= specs.size()) return;
    results[run] = play_run(
        scene, specs[run], {.cancelled = &shared.stop, .events = &shared.events, .record = record});
    if (!results[run]->ok()) shared.stop = true;
    const std::lock_guard lock(shared.mutex);
    ++shared.runs_done;
    shared.finished.notify_one();
  }
}

}  // namespace

Result<std::vector<RunResult>> run_sweep(const Scene& scene, const std::vector<RunSpec>& specs,
                                         const SweepOptions& options) {
  ASSERT(options.record == nullptr || specs.size() <= 1, specs.size());
  if (specs.empty()) return std::vector<RunResult>{};
  // Arrivals of different seeds differ by a handful of pods: for progress one count stands for all.
  TRY(const std::int64_t events_each, count_events(scene, specs.front()));
  const std::int64_t total = events_each * static_cast<std::int64_t>(specs.size());
  std::vector<std::optional<Result<RunResult>>> results(specs.size());
  Shared shared;
  shared.stop = options.cancelled != nullptr && options.cancelled->load();  // before it began
  const Clock::time_point begin = Clock::now();
  const auto report = [&] {
    if (!options.on_progress) return;
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    options.on_progress({.events_done = std::min(shared.events.load(), total),
                         .events_total = total,
                         .seconds = seconds});
  };
  {
    std::vector<std::jthread> threads;
    const std::size_t jobs =
        std::min(static_cast<std::size_t>(std::max(options.jobs, 1)), specs.size());
    for (std::size_t i = 0; i < jobs; ++i) {
      threads.emplace_back([&] { work(scene, specs, options.record, results, shared); });
    }
    std::unique_lock lock(shared.mutex);
    while (shared.runs_done < specs.size()) {
      shared.finished.wait_for(lock, kProgressPeriod);
      if (options.cancelled != nullptr && options.cancelled->load()) shared.stop = true;
      lock.unlock();
      report();
      lock.lock();
    }
  }
  report();
  std::optional<Error> cancelled;
  std::vector<RunResult> done;
  for (std::optional<Result<RunResult>>& result : results) {
    if (result->ok()) {
      done.push_back(std::move(*result).value());
    } else if (result->error().code() != ErrorCode::exhausted) {
      return result->error();
    } else if (!cancelled) {
      cancelled = result->error();
    }
  }
  if (cancelled) return *cancelled;
  return done;
}

}  // namespace berth::sim
