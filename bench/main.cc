// berth-bench: measures and writes rows into build/bench.json.
//
//   berth-bench [--out FILE] [--only NAME[,NAME]] [--repetitions N] [--jobs N]
//               [--no-instructions] [--list]
//
// Rows of measurements that were not run stay in the file as they are.
#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/files.h"
#include "sim/words.h"
#include "suite.h"

namespace berth::bench {

namespace {

using Json = nlohmann::ordered_json;

struct Options {
  Context context;
  std::string out = "build/bench.json";
  std::vector<std::string> only;  // empty: all
  bool list = false;
  bool rss_child = false;
  std::string once;
};

std::vector<Measurement> all_measurements() {
  std::vector<Measurement> all;
  for (const auto list : {pack_measurements(), place_measurements(), engine_measurements(),
                          queue_measurements(), claim_measurements(), week_measurements(),
                          guard_measurements(), lease_measurements(), store_measurements()}) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

double rounded(double value) { return std::round(value * 1000) / 1000; }

Json goal_json(const Goal& goal) {
  if (goal.kind == GoalKind::none) return nullptr;
  return fmt::format("{} {:g}", goal.kind == GoalKind::at_most ? "<=" : ">=", goal.bound);
}

// One figure as a plain value, several as an object with their keys.
template <typename ValueOf>
Json figures_json(const Row& row, ValueOf value_of) {
  if (row.figures.size() == 1 && row.figures[0].key.empty()) return value_of(row.figures[0]);
  Json object = Json::object();
  for (const Figure& figure : row.figures)
    object[figure.key] = value_of(figure);
  return object;
}

Json row_json(const Row& row, double calibration) {
  bool met = row.also_needs;
  for (const Figure& figure : row.figures)
    met = met && figure.goal.holds(figure.value);
  Json json;
  json["name"] = row.name;
  json["value"] = figures_json(row, [](const Figure& f) -> Json { return rounded(f.value); });
  json["unit"] = row.unit;
  json["baseline"] = row.baseline ? Json(rounded(*row.baseline)) : Json(nullptr);
  json["ratio"] = row.is_time ? Json(row.figures[0].value * 1000 / calibration) : Json(nullptr);
  json["goal"] = figures_json(row, [](const Figure& f) { return goal_json(f.goal); });
  json["met"] = met;
  json["spread"] = figures_json(row, [](const Figure& f) -> Json { return rounded(f.spread); });
  json["instructions"] = row.instructions ? Json(*row.instructions) : Json(nullptr);
  return json;
}

Json calibration_json(double nanos) {
  Row row{.name = "calibration_ns", .unit = "ns", .figures = {{.key = {}, .value = nanos}}};
  Json json = row_json(row, nanos);
  json["ratio"] = 1;
  return json;
}

// The rows of an earlier run, the new ones in their place.
Json merged(const std::string& path, const std::vector<Json>& fresh) {
  std::ifstream file(path);
  Json rows = file ? Json::parse(file, nullptr, false) : Json::array();
  if (!rows.is_array()) rows = Json::array();
  for (const Json& row : fresh) {
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const Json& old) {
      return old.is_object() && old.value("name", "") == row["name"].get<std::string>();
    });
    if (same == rows.end()) {
      rows.push_back(row);
    } else {
      *same = row;
    }
  }
  return rows;
}

Result<Options> options_from(int argc, char** argv) {
  Options options;
  options.context.data = "bench/data/openb";
  options.context.expected = "bench/data/expected/openb_runs.csv";
  options.context.before_queues = "bench/data/expected/before_queues.json";
  options.context.jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::array<char, PATH_MAX> self{};
  const ssize_t length = readlink("/proc/self/exe", self.data(), self.size());
  if (length > 0) options.context.self.assign(self.data(), static_cast<std::size_t>(length));
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--list") {
      options.list = true;
      continue;
    }
    if (word == "--no-instructions") {
      options.context.count_instructions = false;
      continue;
    }
    if (word == "--rss-child") {
      options.rss_child = true;
      continue;
    }
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (value.empty()) return invalid_argument(fmt::format("{} is unknown or lacks a value", word));
    ++i;
    if (word == "--out") {
      options.out = value;
    } else if (word == "--data") {
      options.context.data = value;
    } else if (word == "--once") {
      options.once = value;
    } else if (word == "--only") {
      for (const std::string_view name : sim::split_at(value, ','))
        options.only.emplace_back(name);
    } else if (word == "--repetitions" || word == "--jobs") {
      TRY(const std::int64_t number,
          sim::parse_number(value, {.name = word, .min = 1, .max = 1000}));
      (word == "--jobs" ? options.context.jobs : options.context.repetitions) =
          static_cast<int>(number);
    } else {
      return invalid_argument(
          fmt::format("{} is unknown; known are --out, --only, --repetitions, "
                      "--jobs, --data, --list",
                      word));
    }
  }
  return options;
}

Result<void> measure(const Options& options) {
  const double calibration = calibration_nanos();
  std::vector<Json> rows = {calibration_json(calibration)};
  bool any = false;
  for (const Measurement& measurement : all_measurements()) {
    if (!options.only.empty() && std::ranges::count(options.only, measurement.name) == 0) continue;
    any = true;
    std::cerr << fmt::format("{}: {} …\n", measurement.name, measurement.what);
    TRY(const std::vector<Row> measured, measurement.run(options.context));
    for (const Row& row : measured) {
      rows.push_back(row_json(row, calibration));
      std::cout << fmt::format("{:<26} {:>28} {:<12} goal {:<28} {}\n", row.name,
                               rows.back()["value"].dump(), row.unit, rows.back()["goal"].dump(),
                               rows.back()["met"] == true ? "met" : "MISSED")
                << std::flush;
    }
  }
  if (!any) return invalid_argument("--only: no such measurement; --list names them");
  TRY(sim::OutputFile file, sim::OutputFile::create(options.out));
  TRY_VOID(file.write(merged(options.out, rows).dump(2) + "\n"));
  return file.commit();
}

Result<void> run(int argc, char** argv) {
  TRY(const Options options, options_from(argc, argv));
  if (options.list) {
    for (const Measurement& measurement : all_measurements()) {
      std::cout << fmt::format("{:<16} {}\n", measurement.name, measurement.what);
    }
    return success();
  }
  if (!options.once.empty()) {
    TRY(const std::int64_t decisions, play_once(options.context, options.once));
    std::cout << decisions << " decisions\n";
    return success();
  }
  if (!options.rss_child) return measure(options);
  TRY(const double mib, measure_resident_mib(options.context));
  std::cout << mib << "\n";
  return success();
}

}  // namespace

}  // namespace berth::bench

int main(int argc, char** argv) {
  const berth::Result<void> done = berth::bench::run(argc, argv);
  if (done.ok()) return 0;
  std::cerr << "berth-bench: " << done.error().to_string() << "\n";
  return done.error().code() == berth::ErrorCode::invalid_argument ? 2 : 1;
}
