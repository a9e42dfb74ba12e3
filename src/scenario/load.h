// Load: the `load:` section after reading: streams of work that arrive over a horizon, to be drawn
// by the simulator. Values, places kept for messages.
//
//   TRY(Load load, parse_load(text, "week.yaml"));
//
// Nothing is drawn here: what a stream comes to depends on the seed (sim/stream.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "config/value.h"
#include "core/engine/engine.h"
#include "core/model/gang.h"
#include "core/model/request.h"
#include "core/model/workload.h"

namespace berth::scenario {

inline constexpr std::size_t kHoursOfDay = 24;
inline constexpr std::size_t kDaysOfWeek = 7;
inline constexpr std::int64_t kFullPercent = 100;
inline constexpr std::int64_t kMostPercent = 10'000;

// Independent arrivals whose rate follows the hour of the day and the day of the week.
struct PoissonArrivals {
  std::int64_t milli_per_hour = 0;                // thousandths of a job per hour, at 100 %
  std::array<std::int64_t, kHoursOfDay> hours{};  // percent of the rate
  std::array<std::int64_t, kDaysOfWeek> days{};   // percent of the rate, from Monday
  std::optional<Time> from{};                     // nothing before
  std::optional<Time> until{};                    // nothing at or after
};

// `jobs` at once, again and again.
struct BurstArrivals {
  Time at{};                           // the first
  std::optional<Duration> every{};     // empty: only once
  std::int64_t jobs = 1;               // of one burst
  Duration spread{0};                  // its jobs arrive evenly at random within so long
  std::array<bool, kDaysOfWeek> on{};  // days on which a burst happens, from Monday
};

struct ListedArrivals {
  std::vector<Time> times{};  // ascending
};

using Arrivals = std::variant<PoissonArrivals, BurstArrivals, ListedArrivals>;

struct FixedRun {
  Duration time{};
};

struct ExponentialRun {
  Duration mean{};
};

struct LognormalRun {
  Duration median{};
  Duration p90{};  // nine of ten are over by then; at least the median
};

struct UniformRun {
  Duration from{};
  Duration to{};  // inclusive
};

using RunTime = std::variant<FixedRun, ExponentialRun, LognormalRun, UniformRun>;

// A job is a gang of members that ask for the same.
struct GangShape {
  std::int64_t members = 1;
  std::int64_t min = 0;  // 0 = all
};

struct LoadStream {
  config::Place place;
  std::string name{};
  config::Named queue{};  // also in `options`
  core::WorkloadOptions options{};
  core::Request request{};  // of a job, or of each member
  std::optional<GangShape> gang{};
  Arrivals arrivals{};
  RunTime run{};
  std::optional<std::int64_t> count{};  // jobs at most
};

struct Load {
  std::string file{};
  Duration horizon{};
  std::size_t first_day = 0;  // weekday of time 0, from Monday
  std::uint64_t seed = 42;
  Duration grace{30'000};    // an evicted job leaves so long after it was told
  Duration sample{900'000};  // between two samples of shares
  std::vector<LoadStream> streams{};
};

// "Tue 14:35": a time of the load, on the clock of its week.
std::string clock_text(Time time, std::size_t first_day);
// "Mon" … "Sun". Requires day < kDaysOfWeek.
std::string_view day_name(std::size_t day);

// The load of a file that has a `load:` section, whatever stands beside it, and the engine's
// settings where it has a `config:` section. Errors: "FILE:LINE:COLUMN: FIELD 'VALUE': RULE".
struct LoadFile {
  Load load{};
  core::EngineConfig config{};
};

Result<LoadFile> parse_load(std::string_view text, std::string_view file_name);

}  // namespace berth::scenario
