// Job: a program that was handed in, from then until it is forgotten. A plain value; Book alone
// changes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "lease/lease.h"

namespace berth::jobs {

enum class State : std::uint8_t {
  held,      // for other jobs: `after`, or the limit of its array
  waiting,   // for its lease
  starting,  // it has its lease; its program is being started
  running,
  ending,  // it was told to end
  succeeded,
  failed,  // exit status other than 0, a signal, not startable, or a dependency that failed
  cancelled,
  timed_out,  // its own time limit
  lost,       // nobody knows how it ended: its supervisor was killed, or the machine was
};

std::string_view state_name(State state);
std::optional<State> state_from_name(std::string_view name);
bool is_over(State state);

// When `after` is fulfilled: all of them succeeded, or all of them are over.
enum class AfterRule : std::uint8_t { ok, any };

struct Job {
  std::uint64_t number = 0;
  std::string id = {};       // "j-0007"; an element of an array "j-0007_3"
  std::string array = {};    // of an element: "j-0007"
  std::int64_t index = 0;    // in the array
  std::int64_t at_once = 0;  // how many of the array may go at once; 0 = all

  std::string name = {};
  std::vector<std::string> command = {};
  std::vector<std::string> environment = {};  // "NAME=value", of the one who submitted it
  std::string directory = {};
  std::uint32_t umask = 0022;
  std::vector<std::string> after = {};  // ids of jobs or arrays
  AfterRule rule = AfterRule::ok;
  std::optional<Duration> max_run = {};
  Duration grace{30'000};  // from TERM to KILL when it is told to end
  lease::Ask ask = {};
  lease::Party who = {};

  State state = State::held;
  std::string reason = {};      // why it is so, for people
  std::string lease = {};       // id; empty: none yet
  std::int64_t tries = 0;       // starts; each has a folder of its own
  std::int64_t keys = 0;        // of leases; a new one where the old one's age is not to be kept
  std::string stopped_by = {};  // why it was told to end: "cancelled", "evicted"
  std::optional<int> exit_code = {};
  std::optional<int> signal = {};
  std::int64_t submitted_wall = 0;  // ms since 1970
  std::int64_t started_wall = 0;    // 0: never
  std::int64_t ended_wall = 0;

  std::string key() const;  // of its lease
};

}  // namespace berth::jobs
