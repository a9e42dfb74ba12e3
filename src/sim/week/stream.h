// Stream: draws the jobs of one stream of a load, one after the other.
//
//   Stream stream(load.streams[0], {.horizon = load.horizon, .first_day = load.first_day, .seed =
//   42}); while (const std::optional<Arrival> job = stream.next()) { … job->at, job->run … }
//
// Draws are integers (fixed_random.h) from two generators of its own, seeded by the load's seed and
// the stream's name: one for arrivals and one for run times. So a stream's jobs stay the same when
// other streams come and go, and when its rate changes the first jobs keep their run times.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/mt19937.h"
#include "base/quantity.h"
#include "scenario/load.h"

namespace berth::sim {

struct Arrival {
  Time at;
  Duration run;             // from its start to its end, if nobody ends it
  std::int64_t number = 0;  // of the stream, from 1
  bool operator==(const Arrival&) const = default;
};

struct StreamClock {
  Duration horizon{};
  std::size_t first_day = 0;  // weekday of time 0
  std::uint64_t seed = 0;
};

class Stream {
 public:
  // The description must outlive the stream.
  Stream(const scenario::LoadStream& description, const StreamClock& clock);

  // In order of time, all before the horizon; empty at the end.
  std::optional<Arrival> next();

 private:
  std::optional<Time> next_time(const scenario::PoissonArrivals& poisson);
  std::optional<Time> next_time(const scenario::BurstArrivals& bursts);
  std::optional<Time> next_time(const scenario::ListedArrivals& listed);
  void draw_burst(const scenario::BurstArrivals& bursts, Time at);
  std::size_t weekday(Time time) const;
  Duration draw_run();

  const scenario::LoadStream* description_;
  StreamClock clock_;
  Mt19937 times_;
  Mt19937 runs_;
  std::int64_t given_ = 0;
  std::int64_t micros_ = 0;    // poisson: of the last candidate
  std::int64_t mean_gap_ = 0;  // poisson: us between candidates, 0 = none ever
  std::int64_t most_ = 0;      // poisson: percent squared of the busiest hour
  std::optional<Time> burst_;  // the next burst
  std::deque<Time> of_burst_;  // jobs of the present one, ascending
  std::size_t listed_ = 0;
};

}  // namespace berth::sim
