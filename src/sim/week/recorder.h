// WeekRecorder: writes down what happens to jobs and queues while a week is played. Inside the room
// only.
//
// Invariant: `delivered`, `lost` and the cause times are exact sums of what was reported; shares
// and sentences are samples. Thread-safety: none.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/engine/engine.h"
#include "core/queue/charge.h"
#include "sim/week/job.h"
#include "sim/week/week.h"

namespace berth::sim {

class WeekRecorder {
 public:
  // The engine has its queues. Both must outlive the recorder.
  WeekRecorder(const WeekScene& scene, const WeekSpec& spec, const core::Engine& engine,
               const std::vector<Job>& jobs);

  // Of WeekResult::queues. Requires a leaf of the configuration.
  std::size_t queue_of(const std::string& name) const { return by_name_.at(name); }

  // What happened to the job in slot `slot` of the jobs. Each is told before the job changes.
  void arrived(std::uint32_t slot, Time now);
  void cause_changed(std::uint32_t slot, Time now);
  void holds(std::uint32_t slot, std::int64_t milli);  // so many milli-devices more
  void started(std::uint32_t slot, Time now);
  void finished(std::uint32_t slot);  // it holds nothing any more
  // Returns the group that it is counted in.
  std::size_t evicted(std::uint32_t slot, const core::Evicted& eviction,
                      std::optional<std::uint32_t> beneficiary);
  void lost(std::uint32_t slot);  // it left, holds nothing any more, and waits again
  void never(std::uint32_t slot, core::Cause cause);
  // At the end of the horizon, of each that is left.
  void left_over(std::uint32_t slot, Time now);

  // Shares, the fleet, and the verdicts of those that have waited long. `asked`: those jobs are
  // told what they were told.
  struct Asked {
    std::uint32_t slot = 0;
    std::string sentence;
  };
  std::vector<Asked> sample(Time now);

  // Without events, which the player counts.
  WeekResult finish() &&;

 private:
  using Waiting = std::set<std::pair<Time, std::uint32_t>>;  // by arrival

  void list_queues(core::QueueId queue, int depth);
  void list_dimensions(const core::QueueConfig& config);
  void sample_queues();
  void sample_fleet();
  bool is_among_longest(const QueueWeek& queue, Time from, Duration wait) const;
  void note_wait(const Job& job, Time until, bool started);
  void add_cause_time(const Job& job, Time until);
  std::string sentence_of(const Job& job) const;
  std::size_t day_of(Time time) const;

  const WeekScene& scene_;
  const WeekSpec& spec_;
  const core::Engine& engine_;
  const std::vector<Job>& jobs_;
  WeekResult result_;
  std::vector<core::QueueId> ids_;  // by queue of the result
  std::unordered_map<std::string, std::size_t> by_name_;
  std::vector<Waiting> waiting_;  // by queue of the result; first waits only
  std::int64_t waiting_count_ = 0;
  std::vector<std::int64_t> held_;  // milli-devices, by queue of the result
};

}  // namespace berth::sim
