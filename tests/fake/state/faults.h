// Injected faults: which rule of the state file a call meets, and what follows.
#pragma once

#include <cstdint>

#include "fake/state/layout.h"

namespace berth::fake {

struct FaultOutcome {
  bool hit = false;  // the call ends here, with `code`
  bool poison = false;
  int code = 0;
};

// Delays, hangs and SIGKILL happen in here.
FaultOutcome apply_faults(State& state, const char* function);

// Burns CPU time: what a call to a real driver costs.
void spin(std::uint64_t nanoseconds);
std::uint64_t now_ns();  // CLOCK_MONOTONIC
void sleep_until(std::uint64_t when_ns);

}  // namespace berth::fake
