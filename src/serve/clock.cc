#include "serve/clock.h"

#include <algorithm>
#include <ctime>
#include <fstream>

#include "json/value.h"

namespace berth::serve {

namespace {

std::int64_t milliseconds(clockid_t clock) {
  timespec at{};
  clock_gettime(clock, &at);
  return std::int64_t{at.tv_sec} * 1000 + at.tv_nsec / 1'000'000;
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace

Clock::Clock(bool manual)
    : manual_(manual),
      origin_(milliseconds(CLOCK_BOOTTIME)),
      wall_base_(milliseconds(CLOCK_REALTIME)) {}

std::int64_t Clock::real_ms() { return milliseconds(CLOCK_MONOTONIC); }

std::int64_t Clock::since_boot() const { return milliseconds(CLOCK_BOOTTIME); }

void Clock::restore(std::string_view record) {
  const Result<json::Value> value = json::parse(record);
  if (!value || !value->is_object()) {
    return;
  }
  const std::int64_t time = std::max<std::int64_t>(value->integer("time"), 0);
  if (manual_) {
    set_ = Time(time);
    wall_base_ = value->integer("wall", wall_base_ + time) - time;
    return;
  }
  origin_ = since_boot();
  base_ = time;
  const std::int64_t then = value->integer("since_boot");
  if (value->text("boot_id") == boot_id() && then <= origin_) {
    base_ += origin_ - then;
  }
}

std::string Clock::record() const {
  const lease::Now at = now();
  return json::dump(json::object({{"time", at.time.ms()},
                                  {"wall", at.wall},
                                  {"since_boot", since_boot()},
                                  {"boot_id", boot_id()}}));
}

lease::Now Clock::now() const {
  if (manual_) {
    return {.time = set_, .wall = wall_base_ + set_.ms()};
  }
  return {.time = Time(base_ + since_boot() - origin_), .wall = milliseconds(CLOCK_REALTIME)};
}

void Clock::set(Time time) { set_ = std::max(set_, time); }

}  // namespace berth::serve
