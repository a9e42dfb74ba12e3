#include "fake/state/faults.h"

#include <csignal>
#include <cstring>
#include <ctime>
#include <unistd.h>

namespace berth::fake {

namespace {

constexpr std::uint64_t kBillion = 1'000'000'000;

// splitmix64: the n-th draw of a rule is the same on every run.
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

bool names(const Fault& fault, const char* function) {
  return std::strcmp(fault.function, "*") == 0 || std::strcmp(fault.function, function) == 0;
}

bool is_due(Fault& fault) {
  const std::uint64_t call = fault.calls.fetch_add(1) + 1;
  if (fault.nth != 0) {
    return call >= fault.nth && (fault.times == 0 || call < fault.nth + fault.times);
  }
  return mixed(fault.seed ^ call) % 1'000'000 < fault.per_million;
}

}  // namespace

std::uint64_t now_ns() {
  timespec now{};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kBillion +
         static_cast<std::uint64_t>(now.tv_nsec);
}

void sleep_until(std::uint64_t when_ns) {
  const timespec until{.tv_sec = static_cast<time_t>(when_ns / kBillion),
                       .tv_nsec = static_cast<long>(when_ns % kBillion)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

void spin(std::uint64_t nanoseconds) {
  const std::uint64_t end = now_ns() + nanoseconds;
  while (now_ns() < end) {
  }
}

FaultOutcome apply_faults(State& state, const char* function) {
  FaultOutcome outcome;
  for (Fault& fault : state.faults) {
    if (fault.used.load(std::memory_order_acquire) != 2 || !names(fault, function)) continue;
    if (!is_due(fault)) continue;
    fault.hits.fetch_add(1);
    switch (static_cast<FaultAction>(fault.action)) {
      case FaultAction::delay: sleep_until(now_ns() + fault.delay_ns); break;
      case FaultAction::hang:
        while (true)
          (void)pause();
      case FaultAction::kill: (void)kill(getpid(), SIGKILL); break;
      case FaultAction::poison: outcome.poison = true; [[fallthrough]];
      case FaultAction::code:
        outcome.hit = true;
        outcome.code = static_cast<int>(fault.code);
        return outcome;
    }
  }
  return outcome;
}

}  // namespace berth::fake
