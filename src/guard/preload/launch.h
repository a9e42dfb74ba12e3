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

#include "guard/preload/grant.h"
#include "guard/preload/local.h"
#include "guard/preload/real.h"

namespace berth::guard {

inline bool is_compute_limited() {
  return is_active() &&
         (g_grant.policy->flags.load(std::memory_order_relaxed) & policy_compute) != 0;
}

// GPU time that the thread may still spend, and on which target.
struct ThreadBudget {
  std::int64_t left_ns;
  std::int32_t target_plus_one;
};
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): constant-initialised where it is defined
extern thread_local ThreadBudget t_budget __attribute__((tls_model("initial-exec")));

struct Estimate;

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
  void pay_slowly(CuHandle function, int target, Estimate& estimate);
  void open_sample(CuHandle function, std::uint32_t context);
  void close_sample(int code);

  CuHandle stream_;
  std::uint32_t context_ = kContexts;  // whose events are around this launch
};

}  // namespace berth::guard
