// The streams of a `load:` section: what arrives, when, and how long it runs.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/amount.h"
#include "scenario/load_sections.h"
#include "scenario/request_words.h"

namespace berth::scenario {

namespace {

constexpr std::int64_t kMostJobs = 10'000'000;

// --- arrivals ---

// One percentage per hour or day.
template <std::size_t kCount>
Result<void> read_percents(const Value& value, std::array<std::int64_t, kCount>& percents) {
  TRY(std::vector<Value> items, value.items());
  if (items.size() != kCount) {
    return value.error(fmt::format("{} percentages are expected, not {}", kCount, items.size()));
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    TRY(percents[i], items[i].number(0, kMostPercent));
  }
  return success();
}

Result<void> read_rate(const Value& value, PoissonArrivals& poisson) {
  constexpr std::int64_t kLeastMilli = 10;
  constexpr std::int64_t kMostMilli = 100'000'000;
  TRY(const std::string text, value.word());
  const auto milli = config::parse_amount(text, core::DimensionKind::devices);
  if (!milli.ok() || *milli < kLeastMilli || *milli > kMostMilli) {
    return value.error(
        "jobs per hour are a number from 0.01 to 100000 with at most three decimals");
  }
  poisson.milli_per_hour = *milli;
  return success();
}

Result<void> read_time(const Value& value, std::optional<Time>& time) {
  TRY(const Duration duration, value.duration());
  time = Time{duration.count()};
  return success();
}

constexpr std::array kPoissonKeys = {
    Key<PoissonArrivals>{
        {"per_hour", "decimal", "jobs per hour on average, where `hours` and `weekdays` say 100",
         "12.5", true},
        read_rate},
    Key<PoissonArrivals>{
        {"hours", "list of percent",
         "how busy each of the 24 hours of a day is, from midnight; 100 each when not said",
         "[10, 10, 10, 10, 10, 10, 20, 50, 100, 150, 150, 150, 100, 120, 150, 150, 120, 100, 60, "
         "40, 30, 20, 10, 10]"},
        [](const Value& value, PoissonArrivals& poisson) -> Result<void> {
          return read_percents(value, poisson.hours);
        }},
    Key<PoissonArrivals>{{"weekdays", "list of percent",
                          "how busy each day of the week is, from Monday; 100 each when not said",
                          "[100, 100, 100, 100, 90, 20, 10]"},
                         [](const Value& value, PoissonArrivals& poisson) -> Result<void> {
                           return read_percents(value, poisson.days);
                         }},
    Key<PoissonArrivals>{{"from", "duration", "nothing arrives before this time", "1d"},
                         [](const Value& value, PoissonArrivals& poisson) -> Result<void> {
                           return read_time(value, poisson.from);
                         }},
    Key<PoissonArrivals>{{"until", "duration", "nothing arrives from this time on", "2d"},
                         [](const Value& value, PoissonArrivals& poisson) -> Result<void> {
                           return read_time(value, poisson.until);
                         }},
};

constexpr std::array kBurstKeys = {
    Key<BurstArrivals>{{"at", "duration", "when the first burst happens", "2h", true},
                       [](const Value& value, BurstArrivals& bursts) -> Result<void> {
                         TRY(const Duration at, value.duration());
                         bursts.at = Time{at.count()};
                         return success();
                       }},
    Key<BurstArrivals>{{"jobs", "number", "jobs of one burst", "40", true},
                       [](const Value& value, BurstArrivals& bursts) -> Result<void> {
                         TRY(bursts.jobs, value.number(1, kMostJobs));
                         return success();
                       }},
    Key<BurstArrivals>{
        {"every", "duration", "from one burst to the next; only one when not said", "1d"},
        [](const Value& value, BurstArrivals& bursts) -> Result<void> {
          TRY(bursts.every, value.duration());
          if (bursts.every->count() == 0) return value.error("must be above zero");
          return success();
        }},
    Key<BurstArrivals>{{"spread", "duration",
                        "the jobs of a burst arrive at random within so long; all at once when "
                        "not said",
                        "10min"},
                       [](const Value& value, BurstArrivals& bursts) -> Result<void> {
                         TRY(bursts.spread, value.duration());
                         return success();
                       }},
    Key<BurstArrivals>{
        {"on", "list of weekday",
         "the days of the week on which it happens; every day when not said", "[mon, wed]"},
        [](const Value& value, BurstArrivals& bursts) -> Result<void> {
          TRY(std::vector<Value> items, value.items());
          bursts.on.fill(false);
          for (const Value& item : items) {
            TRY(const std::size_t day, read_day(item));
            bursts.on.at(day) = true;
          }
          return success();
        }},
};

constexpr std::array kArrivalKeys = {
    Key<StreamDraft>{{"poisson", "map", "independent arrivals", "{per_hour: 12}"},
                     [](const Value& value, StreamDraft& draft) -> Result<void> {
                       PoissonArrivals poisson;
                       poisson.hours.fill(kFullPercent);
                       poisson.days.fill(kFullPercent);
                       TRY_VOID(read_section(poisson_section(), value, poisson));
                       draft.stream.arrivals = poisson;
                       draft.arrivals.emplace_back("poisson");
                       return success();
                     }},
    Key<StreamDraft>{{"bursts", "map", "many at once, again and again",
                      "{at: 2h, every: 1d, jobs: 40, spread: 10min}"},
                     [](const Value& value, StreamDraft& draft) -> Result<void> {
                       BurstArrivals bursts;
                       bursts.on.fill(true);
                       TRY_VOID(read_section(bursts_section(), value, bursts));
                       if (bursts.every && bursts.spread > *bursts.every) {
                         return value.error("`spread` is longer than `every`; lower it");
                       }
                       draft.stream.arrivals = bursts;
                       draft.arrivals.emplace_back("bursts");
                       return success();
                     }},
    Key<StreamDraft>{
        {"times", "list of duration", "one job at each of these times", "[0s, 90min, 2d]"},
        [](const Value& value, StreamDraft& draft) -> Result<void> {
          ListedArrivals listed;
          TRY(std::vector<Value> items, value.items());
          for (const Value& item : items) {
            TRY(const Duration time, item.duration());
            listed.times.emplace_back(time.count());
          }
          std::ranges::sort(listed.times);
          draft.stream.arrivals = std::move(listed);
          draft.arrivals.emplace_back("times");
          return success();
        }},
};

// --- run times ---

// Draws are bounded by what a week's arithmetic holds exactly.
constexpr Duration kLongestRun{std::int64_t{365} * 24 * 3'600'000};

Result<Duration> read_run_time(const Value& value) {
  TRY(const Duration time, value.duration());
  if (time.count() < 1 || time > kLongestRun) {
    return value.error("a run time lies between 1ms and 365d");
  }
  return time;
}

constexpr std::array kLognormalKeys = {
    Key<LognormalRun>{{"median", "duration", "half of the jobs are over by then", "2h", true},
                      [](const Value& value, LognormalRun& run) -> Result<void> {
                        TRY(run.median, read_run_time(value));
                        return success();
                      }},
    Key<LognormalRun>{{"p90", "duration", "nine of ten jobs are over by then", "8h", true},
                      [](const Value& value, LognormalRun& run) -> Result<void> {
                        TRY(run.p90, read_run_time(value));
                        return success();
                      }},
};

constexpr std::array kUniformKeys = {
    Key<UniformRun>{{"from", "duration", "the shortest", "10min", true},
                    [](const Value& value, UniformRun& run) -> Result<void> {
                      TRY(run.from, read_run_time(value));
                      return success();
                    }},
    Key<UniformRun>{{"to", "duration", "the longest", "3h", true},
                    [](const Value& value, UniformRun& run) -> Result<void> {
                      TRY(run.to, read_run_time(value));
                      return success();
                    }},
};

constexpr std::array kRunKeys = {
    Key<StreamDraft>{{"fixed", "duration", "every job runs so long", "1h"},
                     [](const Value& value, StreamDraft& draft) -> Result<void> {
                       TRY(const Duration time, read_run_time(value));
                       draft.stream.run = FixedRun{time};
                       draft.runs.emplace_back("fixed");
                       return success();
                     }},
    Key<StreamDraft>{{"exponential", "duration", "exponential, with this mean", "3h"},
                     [](const Value& value, StreamDraft& draft) -> Result<void> {
                       TRY(const Duration mean, read_run_time(value));
                       draft.stream.run = ExponentialRun{mean};
                       draft.runs.emplace_back("exponential");
                       return success();
                     }},
    Key<StreamDraft>{
        {"lognormal", "map", "many short and a few very long ones", "{median: 2h, p90: 8h}"},
        [](const Value& value, StreamDraft& draft) -> Result<void> {
          LognormalRun run;
          TRY_VOID(read_section(lognormal_section(), value, run));
          if (run.p90 < run.median) {
            return value.error("p90 is below the median; exchange the two");
          }
          draft.stream.run = run;
          draft.runs.emplace_back("lognormal");
          return success();
        }},
    Key<StreamDraft>{
        {"uniform", "map", "any time between two, equally likely", "{from: 10min, to: 3h}"},
        [](const Value& value, StreamDraft& draft) -> Result<void> {
          UniformRun run;
          TRY_VOID(read_section(uniform_section(), value, run));
          if (run.to < run.from) {
            return value.error("`to` is below `from`; exchange the two");
          }
          draft.stream.run = run;
          draft.runs.emplace_back("uniform");
          return success();
        }},
};

// --- streams ---

constexpr std::array kGangKeys = {
    Key<GangShape>{{"members", "number", "members of one job, each with this request", "8", true},
                   [](const Value& value, GangShape& gang) -> Result<void> {
                     TRY(gang.members, value.number(1, core::kMostMembers));
                     return success();
                   }},
    Key<GangShape>{{"min", "number", "so many must run together; all when not said", "6"},
                   [](const Value& value, GangShape& gang) -> Result<void> {
                     TRY(gang.min, value.number(1, core::kMostMembers));
                     return success();
                   }},
};

// Exactly one way of those that a map offers.
Result<void> expect_one(const Value& value, const std::vector<std::string_view>& given,
                        std::string_view known) {
  if (given.size() == 1) return success();
  if (given.empty()) return value.error(fmt::format("say one of {}", known));
  return value.error(fmt::format("{} are given: leave all but one out, or write two streams",
                                 fmt::join(given, " and ")));
}

constexpr std::array kStreamKeys = {
    Key<StreamDraft>{{"name", "name", "its jobs are called `name-1`, `name-2`, …", "train", true},
                     [](const Value& value, StreamDraft& draft) -> Result<void> {
                       TRY(draft.stream.name, value.word());
                       if (draft.stream.name.find('/') != std::string::npos) {
                         return value.error(
                             "a name has no '/', which stands before a gang's member");
                       }
                       return success();
                     }},
    Key<StreamDraft>{
        {"queue", "name", "a leaf of the queue file; `default` when not said", "vision"},
        [](const Value& value, StreamDraft& draft) -> Result<void> {
          TRY(draft.stream.options.queue, value.word());
          draft.stream.queue = {draft.stream.options.queue, value.place()};
          return success();
        }},
    Key<StreamDraft>{
        {"priority", "number", "higher is served first in its queue; 0 when not said", "50"},
        [](const Value& value, StreamDraft& draft) -> Result<void> {
          TRY(draft.stream.options.priority, value.number(-1'000'000'000, 1'000'000'000));
          return success();
        }},
    Key<StreamDraft>{{"preemptible", "true or false",
                      "whether it may be ended for others; false when not said", "true"},
                     [](const Value& value, StreamDraft& draft) -> Result<void> {
                       TRY(draft.stream.options.preemptible, value.truth());
                       return success();
                     }},
    Key<StreamDraft>{{"max_run", "duration",
                      "the run time that a job declares, and at which it is ended; none when not "
                      "said",
                      "8h"},
                     [](const Value& value, StreamDraft& draft) -> Result<void> {
                       TRY(draft.stream.options.max_run, read_run_time(value));
                       return success();
                     }},
    Key<StreamDraft>{{"gang", "map", "each job is a gang; the words of the request are of a member",
                      "{members: 8, min: 6}"},
                     [](const Value& value, StreamDraft& draft) -> Result<void> {
                       GangShape gang;
                       TRY_VOID(read_section(gang_shape_section(), value, gang));
                       if (gang.min > gang.members) {
                         return value.error(
                             fmt::format("min {} is above the {} members", gang.min, gang.members));
                       }
                       draft.stream.gang = gang;
                       return success();
                     }},
    Key<StreamDraft>{{"arrivals", "map", "when its jobs arrive: one of poisson, bursts, times",
                      "{poisson: {per_hour: 12}}", true},
                     [](const Value& value, StreamDraft& draft) -> Result<void> {
                       TRY_VOID(read_section(arrivals_section(), value, draft));
                       return expect_one(value, draft.arrivals, "poisson, bursts, times");
                     }},
    Key<StreamDraft>{
        {"run", "map", "how long its jobs run: one of fixed, exponential, lognormal, uniform",
         "{exponential: 3h}", true},
        [](const Value& value, StreamDraft& draft) -> Result<void> {
          TRY_VOID(read_section(run_section(), value, draft));
          return expect_one(value, draft.runs, "fixed, exponential, lognormal, uniform");
        }},
    Key<StreamDraft>{{"count", "number", "so many jobs at most", "500"},
                     [](const Value& value, StreamDraft& draft) -> Result<void> {
                       TRY(draft.stream.count, value.number(1, kMostJobs));
                       return success();
                     }},
};

void take_stream_word(const yaml::Entry& entry, StreamDraft& draft) {
  draft.words.push_back(&entry);
}

constexpr Section<StreamDraft> kStream{
    "stream", "Jobs of one kind. Beside these keys stand the words of their request.", kStreamKeys,
    request_keys, take_stream_word};
constexpr Section<StreamDraft> kArrivals{
    "arrivals", "When the jobs of a stream arrive: exactly one of these.", kArrivalKeys};
constexpr Section<PoissonArrivals> kPoisson{
    "poisson", "Independent arrivals; the rate follows the clock.", kPoissonKeys};
constexpr Section<BurstArrivals> kBursts{"bursts", "Many jobs at once, again and again.",
                                         kBurstKeys};
constexpr Section<StreamDraft> kRun{
    "run",
    "How long the jobs of a stream run, from their start: exactly one of these. An evicted job "
    "starts again from nothing.",
    kRunKeys};
constexpr Section<LognormalRun> kLognormal{"lognormal", "Many short jobs and a few very long ones.",
                                           kLognormalKeys};
constexpr Section<UniformRun> kUniform{"uniform", "Any time between two, equally likely.",
                                       kUniformKeys};
constexpr Section<GangShape> kGang{"gang of a stream", "Members that start together.", kGangKeys};

}  // namespace

const Section<StreamDraft>& stream_section() { return kStream; }

const Section<StreamDraft>& arrivals_section() { return kArrivals; }

const Section<PoissonArrivals>& poisson_section() { return kPoisson; }

const Section<BurstArrivals>& bursts_section() { return kBursts; }

const Section<StreamDraft>& run_section() { return kRun; }

const Section<LognormalRun>& lognormal_section() { return kLognormal; }

const Section<UniformRun>& uniform_section() { return kUniform; }

const Section<GangShape>& gang_shape_section() { return kGang; }

Result<LoadStream> read_stream(const Value& value) {
  StreamDraft draft{.stream = {.place = value.place()}};
  draft.stream.queue = {draft.stream.options.queue, value.place()};
  TRY_VOID(read_section(stream_section(), value, draft));
  TRY(draft.stream.request, request_from_entries(draft.words, value.file()));
  return std::move(draft.stream);
}

}  // namespace berth::scenario
