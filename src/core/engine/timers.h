// Timers: what becomes due by the mere passing of engine time.
//
// An ordered set; a timer that is no longer wanted is taken out, never left to fire into the void.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <tuple>

#include "base/quantity.h"
#include "core/model/ids.h"

namespace berth::core {

enum class TimerKind : std::uint8_t {
  confirm,    // an unconfirmed grant returns to the pool
  wait,       // a waiting workload has waited as long as it wanted to
  releasing,  // a release is no longer believed to come soon
  samples,    // a sample becomes too old
  stale,      // a gang has been below its minimum for too long
  start,      // a gang should run by now
  back_off,   // a gang may be tried again
  claims,     // somebody may be evicted, or claim, who could not before
  rest,       // a kind whose claim failed at length may ask again
};

struct Timer {
  Time due;
  TimerKind kind = TimerKind::wait;
  WorkloadId workload;
  auto operator<=>(const Timer&) const = default;
};

class Timers {
 public:
  void set(const Timer& timer) { timers_.insert(timer); }

  void clear(const Timer& timer) { timers_.erase(timer); }

  // Takes out and returns the earliest timer that is due.
  std::optional<Timer> take_due(Time now) {
    if (timers_.empty() || timers_.begin()->due > now) {
      return std::nullopt;
    }
    const Timer timer = *timers_.begin();
    timers_.erase(timers_.begin());
    return timer;
  }

  std::optional<Time> next() const {
    return timers_.empty() ? std::nullopt : std::optional(timers_.begin()->due);
  }

  // The earliest that changes more than who may ask for a claim.
  std::optional<Time> next_of_others() const {
    for (const Timer& timer : timers_) {
      if (timer.kind != TimerKind::claims && timer.kind != TimerKind::rest) {
        return timer.due;
      }
    }
    return std::nullopt;
  }

 private:
  std::set<Timer> timers_;
};

}  // namespace berth::core
