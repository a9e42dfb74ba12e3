// The `load:` section: the horizon, the clock and the streams.
#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "scenario/load_sections.h"

namespace berth::scenario {

namespace {

constexpr std::int64_t kMsPerMinute = 60'000;
constexpr std::int64_t kMsPerHour = 60 * kMsPerMinute;
constexpr std::int64_t kMsPerDay = 24 * kMsPerHour;
constexpr Duration kLongestHorizon{366 * kMsPerDay};
constexpr std::int64_t kMostSamples = 20'000;
constexpr std::size_t kMostStreams = 10'000;
constexpr std::int64_t kMostSeed = 4'294'967'295;

constexpr std::array<std::pair<std::string_view, std::size_t>, kDaysOfWeek> kDays = {
    {{"mon", 0}, {"tue", 1}, {"wed", 2}, {"thu", 3}, {"fri", 4}, {"sat", 5}, {"sun", 6}}};

Result<void> read_streams(const Value& value, Load& load) {
  TRY(std::vector<Value> items, value.items());
  if (items.size() > kMostStreams) {
    return value.error(fmt::format("a load has at most {} streams", kMostStreams));
  }
  std::map<std::string, int> lines;
  for (const Value& item : items) {
    TRY(LoadStream stream, read_stream(item));
    const auto [known, fresh] = lines.try_emplace(stream.name, item.place().line);
    if (!fresh) {
      return item.error(
          fmt::format("a stream called {} stands in line {} already; jobs are named "
                      "after their stream, so choose another name",
                      stream.name, known->second));
    }
    load.streams.push_back(std::move(stream));
  }
  return success();
}

constexpr std::array kLoadKeys = {
    Key<Load>{{"horizon", "duration", "how long it lasts", "7d", true},
              [](const Value& value, Load& load) -> Result<void> {
                TRY(load.horizon, value.duration());
                if (load.horizon.count() < kMsPerMinute || load.horizon > kLongestHorizon) {
                  return value.error("a horizon lies between 1min and 366d");
                }
                return success();
              }},
    Key<Load>{
        {"starts", "weekday", "the day whose midnight is the beginning; mon when not said", "mon"},
        [](const Value& value, Load& load) -> Result<void> {
          TRY(load.first_day, read_day(value));
          return success();
        }},
    Key<Load>{
        {"seed", "number",
         "what all chance is drawn from; 42 when not said, and `--seed` goes before it", "42"},
        [](const Value& value, Load& load) -> Result<void> {
          TRY(const std::int64_t seed, value.number(0, kMostSeed));
          load.seed = static_cast<std::uint64_t>(seed);
          return success();
        }},
    Key<Load>{{"grace", "duration",
               "how long an evicted job still runs; then it waits again, with its old age and "
               "without its progress; 30s when not said",
               "30s"},
              [](const Value& value, Load& load) -> Result<void> {
                TRY(load.grace, value.duration());
                return success();
              }},
    Key<Load>{{"sample", "duration",
               "how often shares and waits are looked at; 15min when not said", "15min"},
              [](const Value& value, Load& load) -> Result<void> {
                TRY(load.sample, value.duration());
                if (load.sample.count() < 1000) return value.error("must be at least 1s");
                return success();
              }},
    Key<Load>{{"streams", "list of stream", "the work",
               "[{name: train, whole: 1, arrivals: {poisson: {per_hour: 12}}, run: {exponential: "
               "3h}}]",
               true},
              read_streams},
};

constexpr Section<Load> kLoad{
    "load",
    "Generated work for `berth simulate --load`. Times count from the beginning, which is a "
    "midnight.",
    kLoadKeys};

}  // namespace

const Section<Load>& load_section() { return kLoad; }

std::vector<SectionDoc> load_sections() {
  return {section_doc(load_section()),      section_doc(stream_section()),
          section_doc(arrivals_section()),  section_doc(poisson_section()),
          section_doc(bursts_section()),    section_doc(run_section()),
          section_doc(lognormal_section()), section_doc(uniform_section()),
          section_doc(gang_shape_section())};
}

Result<std::size_t> read_day(const Value& value) {
  return value.choice(std::span<const std::pair<std::string_view, std::size_t>>(kDays));
}

Result<void> read_load(const Value& value, Load& load) {
  TRY_VOID(read_section(load_section(), value, load));
  if (load.horizon.count() / load.sample.count() > kMostSamples) {
    return value.error(
        fmt::format("horizon / sample is {}, and at most {} samples are kept; raise `sample`",
                    load.horizon.count() / load.sample.count(), kMostSamples));
  }
  return success();
}

std::string_view day_name(std::size_t day) {
  constexpr std::array<std::string_view, kDaysOfWeek> kNames = {"Mon", "Tue", "Wed", "Thu",
                                                                "Fri", "Sat", "Sun"};
  return kNames.at(day);
}

std::string clock_text(Time time, std::size_t first_day) {
  const std::int64_t minutes = time.ms() / kMsPerMinute;
  const auto day = static_cast<std::size_t>(time.ms() / kMsPerDay);
  return fmt::format("{} {:02}:{:02}", day_name((first_day + day) % kDaysOfWeek), minutes / 60 % 24,
                     minutes % 60);
}

Result<LoadFile> parse_load(std::string_view text, std::string_view file_name) {
  TRY(const std::vector<yaml::Node> documents, yaml::parse(text, file_name));
  for (const yaml::Node& document : documents) {
    const yaml::Node* section = document.find("load");
    if (section == nullptr) continue;
    LoadFile file;
    file.load.file = file_name;
    TRY_VOID(read_load(Value(*section, "load", file_name), file.load));
    if (const yaml::Node* config = document.find("config")) {
      TRY_VOID(read_config(Value(*config, "config", file_name), file.config));
    }
    return file;
  }
  return yaml::error_at(file_name, 1, 1,
                        "the file has no section `load:`; docs/simulate-week.md has an example");
}

}  // namespace berth::scenario
