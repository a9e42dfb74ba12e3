// Job: one job of a load while it waits or runs. Inside the room only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "core/model/verdict.h"

namespace berth::sim {

enum class JobState : std::uint8_t {
  waiting,
  running,
  leaving,  // evicted, and still running for its grace
};

struct JobMember {
  std::string uid;
  std::int64_t milli = 0;
};

struct Job {
  std::string uid;
  bool gang = false;
  std::size_t queue = 0;  // of WeekResult::queues
  Time submitted;
  Time since;    // of its present state, or of its present cause while it waits
  Duration run;  // from start to end
  JobState state = JobState::waiting;
  core::Cause cause = core::Cause::none;
  bool started = false;          // once before
  std::uint32_t runs = 0;        // tells an end of this run from one of an earlier run
  std::int64_t milli = 0;        // devices that it holds …
  Time held_since;               // … since then
  std::int64_t device_time = 0;  // of this run up to then
  std::size_t eviction = 0;      // of its queue's groups, while it leaves
  std::int64_t told_at = 0;      // the event at which it was evicted last
  // Of a gang: those that hold devices, and how many. A task holds them itself.
  std::vector<JobMember> members;
  Duration ask_after{};          // its verdict is read when it has waited so long
  std::optional<Time> asked_at;  // when it was read last
  std::string sentence;          // what it said
};

}  // namespace berth::sim
