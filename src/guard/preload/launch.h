// The compute share: a launch spends nanoseconds of GPU time (enforcement.md 2.9).
//
// The account holds one bucket per device, refilled by whoever finds it dry. A thread draws from it
// in batches of 2 ms times the share and spends them locally, so the usual launch touches only its
// own thread's counter. What a launch costs is a moving average per function (per executable for
// graphs), measured by a pair of events around single launches: the first of a function, and one
// per batch; they are read when the next is due, never waited for. No thread, no timer.
// Thread-safety: all functions.
#pragma once

#include <cstdint>

#include "guard/preload/depth.h"
#include "guard/preload/grant.h"
#include "guard/preload/local.h"
#include "guard/preload/real.h"

namespace berth::guard {

inline bool is_compute_limited() {
  return is_active() &&
         (g_grant.policy->flags.load(std::memory_order_relaxed) & policy_compute) != 0;
}

// The same without opening the grant. False: certainly not.
inline bool may_be_compute_limited() {
  const Mode known = g_mode.load(std::memory_order_acquire);
  return known == Mode::unknown || (known == Mode::active && is_compute_limited());
}

inline Estimate& estimate_of(Local& own, CuHandle function) {
  const auto key = reinterpret_cast<std::uint64_t>(function);
  static_assert(kEstimates == 1U << 10U);
  return own.estimates[(key * 0x9E3779B97F4A7C15U) >> 54U];
}

// Pays for a launch out of what the thread has left. False: it is no usual launch (the thread's
// first, or one from inside a hook, of a function that was not measured yet, with nothing left, or
// in a grant of several devices), and `Launch` is to look at it. `place` is where the hook lies on
// the stack.
[[gnu::always_inline]] inline bool pay_at_once(CuHandle function, std::uintptr_t place) {
  const std::int64_t left = t_own.only_ns;
  if (left <= 0 || is_inside_above(place)) return false;
  // Whoever has something left has been through Launch, so there is a region.
  const Estimate& estimate = estimate_of(*g_local.load(std::memory_order_acquire), function);
  if (estimate.measured.load(std::memory_order_acquire) !=
      reinterpret_cast<std::uint64_t>(function)) {
    return false;
  }
  t_own.only_ns = left - estimate.cost_ns.load(std::memory_order_relaxed);
  return true;
}

// One launch. The constructor pays for it and may sleep; `ended` is called after it.
class Launch {
 public:
  Launch(CuHandle function, CuHandle stream) : stream_(stream) { pay(function); }

  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  void ended(int code) {
    if (context_ != kContexts) [[unlikely]] {
      close_sample(code);
    }
  }

 private:
  void pay(CuHandle function);
  void open_sample(CuHandle function, std::uint32_t context);
  void close_sample(int code);

  CuHandle stream_;
  std::uint32_t context_ = kContexts;  // whose events are around this launch
};

}  // namespace berth::guard
