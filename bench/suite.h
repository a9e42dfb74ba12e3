// Suite: named measurements, and the rows of build/bench.json that they give.
//
// A measurement repeats its workload in one process after a warm-up and reports the best repetition
// with the spread between the repetitions. Every run also times a fixed loop (calibration_ns), and
// each time is reported as a ratio to it too, so that runs on different machines compare.
// Format: interfaces page, section 1.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace berth::bench {

enum class GoalKind : std::uint8_t { none, at_most, at_least };

struct Goal {
  GoalKind kind = GoalKind::none;
  double bound = 0;
  bool holds(double value) const;
};

// One figure of a row; a row with several has an object with these keys.
struct Figure {
  std::string key;  // empty in a row of one figure
  double value = 0;
  Goal goal = {};
  double spread = 0;  // (worst - best) / best over the repetitions, 0 if it does not vary
};

struct Row {
  std::string name;
  std::string unit;
  std::vector<Figure> figures;
  bool is_time = false;                 // gets a ratio to the calibration
  std::optional<double> baseline = {};  // what it is compared with in the same run
  std::optional<std::int64_t> instructions = {};
  bool also_needs = true;  // a condition beside the figures' goals
};

struct Context {
  int repetitions = 5;
  int jobs = 1;               // for measurements that are no times
  std::string data;           // folder with the openb files
  std::string expected;       // the expected runs
  std::string before_queues;  // the figures that place.after_queues is compared with
  std::string self;           // this program, for measurements in a process of their own
  bool count_instructions = true;
};

struct Measurement {
  std::string_view name;  // "place.10k"
  std::string_view what;  // one line
  Result<std::vector<Row>> (*run)(const Context& context);
};

std::span<const Measurement> pack_measurements();
std::span<const Measurement> place_measurements();
std::span<const Measurement> engine_measurements();
std::span<const Measurement> queue_measurements();
std::span<const Measurement> guard_measurements();
std::span<const Measurement> week_measurements();
std::span<const Measurement> claim_measurements();
std::span<const Measurement> lease_measurements();
std::span<const Measurement> store_measurements();

// Instructions inside Engine::apply while `berth-bench --once WORKLOAD` runs under callgrind; empty
// without valgrind.
std::optional<std::int64_t> instructions_of(const Context& context, std::string_view workload);

// Plays the workload of `--once`. Errors: an unknown one, or what ended it.
Result<std::int64_t> play_once(const Context& context, std::string_view workload);

// Nanoseconds of the fixed loop: best of several.
double calibration_nanos();

// Best and spread of values of which the smallest (or the largest) is the best.
Figure best_low(std::string key, std::span<const double> values, Goal goal);
Figure best_high(std::string key, std::span<const double> values, Goal goal);

// Peak resident memory of a process that holds 5,000 nodes and 50,000 grants, in MiB; runs in a
// process of its own (`berth-bench --rss-child`).
Result<double> measure_resident_mib(const Context& context);

}  // namespace berth::bench
