// What `berth simulate --load` prints: tables for people, a document for programs.
//
// The document's form is stable: fields are added, never renamed. Times are in seconds from the
// beginning, amounts of shares in the unit of their dimension, device time in device hours.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/document.h"
#include "sim/week/week.h"

namespace berth::sim {

// All of one scene: the same load under each configuration.
struct WeekComparison {
  const WeekScene* scene = nullptr;
  std::uint64_t seed = 42;
  std::vector<WeekResult> weeks;
};

Document week_document(const WeekComparison& comparison);

enum class WeekDetail : std::uint8_t { summary, long_waits };
std::string week_table(const WeekComparison& comparison, WeekDetail detail);

// "45 s", "12 min", "3 h 05 min", "2 d 4 h": for people, rounded.
std::string span_text(std::int64_t ms);
// Device time in hours.
double device_hours(std::int64_t milli_ms);
// The cause for which jobs waited longest in all, and its part in percent; nothing waited: none.
struct MainCause {
  core::Cause cause = core::Cause::none;
  double percent = 0;
};
MainCause main_cause(const QueueWeek& queue);
// Leaf queues that exist in the first week, each with its place in every week (or none).
struct ComparedQueue {
  std::string name;
  std::vector<const QueueWeek*> weeks;  // null: not a leaf there
};
std::vector<ComparedQueue> compared_queues(const WeekComparison& comparison);
// The mean of a series of samples.
double mean_of(const std::vector<std::int64_t>& series);

}  // namespace berth::sim
