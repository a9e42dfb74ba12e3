#include "kube/client/clock.h"

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace berth::kube {

namespace {

std::int64_t read_clock(clockid_t which, std::int64_t per_second) {
  timespec at{};
  clock_gettime(which, &at);
  return static_cast<std::int64_t>(at.tv_sec) * per_second +
         static_cast<std::int64_t>(at.tv_nsec) / (1'000'000'000 / per_second);
}

class MachineClock final : public Clock {
 public:
  Time now() const override { return Time(read_clock(CLOCK_BOOTTIME, 1'000)); }
  std::int64_t wall_us() const override { return read_clock(CLOCK_REALTIME, 1'000'000); }
};

}  // namespace

const Clock& machine_clock() {
  static const MachineClock clock;
  return clock;
}

std::uint64_t Chance::next() {
  state_ += 0x9E3779B97F4A7C15U;
  std::uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBU;
  return mixed ^ (mixed >> 31U);
}

Duration Chance::between(Duration from, Duration to) {
  ASSERT(from <= to, from.count(), to.count());
  const auto width = static_cast<std::uint64_t>((to - from).count()) + 1;
  return from + Duration(static_cast<std::int64_t>(next() % width));
}

Timers::Id Timers::after(Duration delay, Task task) {
  const Id id = ++last_;
  const Time at = clock_.now() + std::max(delay, Duration(0));
  waiting_.emplace(Key(at, id), std::move(task));
  when_.emplace(id, at);
  return id;
}

void Timers::cancel(Id id) {
  const auto found = when_.find(id);
  if (found == when_.end()) return;
  waiting_.erase(Key(found->second, id));
  when_.erase(found);
}

std::size_t Timers::run_due() {
  const Key most(clock_.now(), last_);
  std::size_t ran = 0;
  while (!waiting_.empty() && waiting_.begin()->first <= most) {
    const auto first = waiting_.begin();
    if (first->first.second > most.second) {  // added meanwhile; nothing older can follow it
      break;
    }
    Task task = std::move(first->second);
    when_.erase(first->first.second);
    waiting_.erase(first);
    task();
    ++ran;
  }
  return ran;
}

std::optional<Duration> Timers::until_next() const {
  if (waiting_.empty()) return std::nullopt;
  return std::max(waiting_.begin()->first.first - clock_.now(), Duration(0));
}

Backoff::Backoff(const Clock& clock, Chance& chance, BackoffRule rule)
    : clock_(clock), chance_(chance), rule_(rule), delay_(rule.first) {}

Duration Backoff::next(Duration asked) {
  const Time now = clock_.now();
  if (failures_ > 0 && now - last_ >= rule_.quiet) reset();
  last_ = now;
  ++failures_;
  const Duration base = delay_;
  delay_ = std::min(delay_ * 2, rule_.most);
  const Duration jittered =
      std::min(base + chance_.between(Duration(0), Duration(base.count() / 2)), rule_.most);
  return std::max(jittered, asked);
}

void Backoff::reset() {
  failures_ = 0;
  delay_ = rule_.first;
}

}  // namespace berth::kube
