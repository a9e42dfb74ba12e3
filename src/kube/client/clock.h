// Time and chance as inputs of this room, so that tests hold both.
//
// Thread-safety: Clock is for any thread, Chance and Timers for one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/quantity.h"

namespace berth::kube {

using Task = std::move_only_function<void()>;

class Clock {
 public:
  virtual ~Clock() = default;
  // Since the machine started, time asleep included; never set by anybody.
  virtual Time now() const = 0;
  // Of the calendar, microseconds since 1970: for what others read, never for a decision of ours.
  virtual std::int64_t wall_us() const = 0;
};

// The machine's own.
const Clock& machine_clock();

// Chance for jitter: splitmix64 from a seed.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next();
  // Uniform over from … to, both included. Requires from <= to.
  Duration between(Duration from, Duration to);

 private:
  std::uint64_t state_;
};

// What is due when. A task runs once and may add and cancel others, itself included.
class Timers {
 public:
  using Id = std::uint64_t;

  explicit Timers(const Clock& clock) : clock_(clock) {}

  Id after(Duration delay, Task task);
  // Of one that ran or never was: nothing.
  void cancel(Id id);

  // Runs what is due by now, in order of time and then of adding; what those tasks add waits for
  // the next call. Returns how many ran.
  std::size_t run_due();
  // Until the next one; empty: none waits.
  std::optional<Duration> until_next() const;

  const Clock& clock() const { return clock_; }

 private:
  using Key = std::pair<Time, Id>;

  const Clock& clock_;
  Id last_ = 0;
  std::map<Key, Task> waiting_;
  std::unordered_map<Id, Time> when_;
};

// Delays between tries: from `first` doubling to `most`, each with up to half of it more; starts
// over after `quiet` without a failure (kubernetes-api.md 1).
struct BackoffRule {
  Duration first{800};
  Duration most{30'000};
  Duration quiet{120'000};
};

class Backoff {
 public:
  Backoff(const Clock& clock, Chance& chance, BackoffRule rule = {});

  // The delay before the next try. `asked`: what the server wants; less is never returned.
  Duration next(Duration asked = {});
  // How many delays since it last started over.
  int failures() const { return failures_; }
  void reset();

 private:
  const Clock& clock_;
  Chance& chance_;
  BackoffRule rule_;
  int failures_ = 0;
  Duration delay_;
  Time last_;
};

}  // namespace berth::kube
