#include "cli/simulate_week.h"

#include <algorithm>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "base/suggest.h"
#include "cli/fleet_words.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/simulate_words.h"
#include "config/queue_file.h"
#include "scenario/load.h"
#include "scenario/script.h"
#include "sim/files.h"
#include "sim/report/week_page.h"
#include "sim/week/output.h"
#include "sim/week/player.h"
#include "sim/words.h"

namespace berth::cli {

namespace {

struct Wanted {
  scenario::LoadFile file;
  sim::WeekScene scene;
  std::vector<sim::WeekSpec> specs;
  int jobs = 1;
  std::string format;
  std::optional<std::string> report;
  std::optional<std::string> record;
};

// What a week without --queues is called.
constexpr std::string_view kNoQueues = "no queues";

// Every leaf that jobs may name.
std::vector<std::string> leaves_of(const core::QueueConfig& config) {
  std::vector<std::string> leaves;
  for (const core::QueueSpec& queue : config.queues) {
    const bool parent = std::ranges::count(config.queues, queue.name, &core::QueueSpec::parent) > 0;
    if (!parent && queue.name != core::kRootQueueName) leaves.push_back(queue.name);
  }
  return leaves;
}

Result<void> check_queues_exist(const scenario::Load& load, const sim::WeekSpec& spec) {
  const std::vector<std::string> leaves = leaves_of(spec.queues);
  for (const scenario::LoadStream& stream : load.streams) {
    const std::string& queue = stream.options.queue;
    if (std::ranges::count(leaves, queue) > 0) continue;
    const std::string place = load.file + ":" + std::to_string(stream.queue.place.line) + ":" +
                              std::to_string(stream.queue.place.column) + ": ";
    if (spec.name == kNoQueues) {
      return invalid_argument(place + "queue '" + queue + "': without --queues there is only '" +
                              leaves.front() + "'; give the file that has the queue");
    }
    return invalid_argument(place + "queue '" + queue + "': no leaf of " + spec.name +
                            " is called so; did you mean '" + nearest(queue, leaves) +
                            "'? `berth queues check` shows the tree");
  }
  return success();
}

// What is held is said and simulated; what is refused ends the command.
Result<core::QueueConfig> queues_from(const std::string& path, const std::vector<core::Node>& fleet,
                                      Console& console) {
  TRY(const std::string text, sim::read_input_file(path));
  config::QueueReader reader;
  reader.add_file(text, path);
  config::QueueFile file = std::move(reader).finish(scenario::device_classes(fleet));
  if (file.refused()) return file.refusals();
  if (!file.complaints.empty()) console.err << printable_lines(file.text()) << "\n";
  return std::move(file.config);
}

Result<void> read_specs(const Arguments& arguments, Wanted& wanted, Console& console) {
  sim::WeekSpec spec{.name = std::string(kNoQueues), .engine = wanted.file.config};
  spec.seed = wanted.file.load.seed;
  spec.check = arguments.has("--check");
  if (const auto seed = arguments.value("--seed")) {
    TRY(const std::int64_t number,
        sim::parse_number(*seed, {.name = "--seed", .min = 0, .max = sim::kMaxSeed}));
    spec.seed = static_cast<std::uint64_t>(number);
  }
  const auto files = arguments.value("--queues");
  if (!files) {
    wanted.specs.push_back(std::move(spec));
  } else {
    for (const std::string_view path : sim::split_at(*files, ',')) {
      if (path.empty()) {
        return invalid_argument("--queues '" + *files +
                                "': a name is empty; give one file, or two with one comma between");
      }
      spec.name = std::string(path);
      TRY(spec.queues, queues_from(spec.name, wanted.scene.fleet, console));
      wanted.specs.push_back(spec);
    }
  }
  for (const sim::WeekSpec& each : wanted.specs)
    TRY_VOID(check_queues_exist(wanted.file.load, each));
  if (wanted.specs.size() > 2) {
    return invalid_argument("--queues: " + std::to_string(wanted.specs.size()) +
                            " files are given; one is played, and two are compared");
  }
  return success();
}

Result<void> check_outputs(const Arguments& arguments, const Wanted& wanted) {
  std::vector<NamedPath> inputs = {{"--load", wanted.file.load.file},
                                   {"--fleet", *arguments.value("--fleet")}};
  for (const sim::WeekSpec& spec : wanted.specs)
    inputs.push_back({"--queues", spec.name});
  TRY_VOID(check_outputs_differ(std::move(inputs), wanted.report, wanted.record));
  if (wanted.record && wanted.specs.size() != 1) {
    return invalid_argument("--record keeps the decisions of one run; give one file with --queues");
  }
  return success();
}

Result<Wanted> wanted_from(const Arguments& arguments, Console& console) {
  Wanted wanted;
  const std::string path = arguments.value("--load").value_or("");
  TRY(const std::string text, sim::read_input_file(path));
  TRY(wanted.file, scenario::parse_load(text, path));
  const auto fleet = arguments.value("--fleet");
  if (!fleet) {
    return invalid_argument(
        "--fleet is missing: give SPEC, for instance --fleet 8x80GiB:H100, or a file with a "
        "section `fleet:`");
  }
  TRY(wanted.scene.fleet, fleet_from(*fleet));
  wanted.scene.fleet_name = *fleet;
  if (arguments.has("--policy")) wanted.file.config.policy = *arguments.value("--policy");
  TRY_VOID(read_specs(arguments, wanted, console));
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  TRY(const std::int64_t jobs,
      sim::parse_number(arguments.value("--jobs").value_or(std::to_string(cores)),
                        {.name = "--jobs", .min = 1, .max = 1024}));
  wanted.jobs = static_cast<int>(jobs);
  wanted.format = arguments.value("--output").value_or("table");
  wanted.report = arguments.value("--report");
  wanted.record = arguments.value("--record");
  TRY_VOID(check_outputs(arguments, wanted));
  return wanted;
}

Result<std::vector<sim::WeekResult>> play(const Wanted& wanted, sim::OutputFile* record,
                                          const Console& console) {
  constexpr std::int64_t kMsPerHour = 3'600'000;
  const Interrupt interrupt;
  Progress progress(console, "hours");
  const std::int64_t total =
      wanted.scene.load->horizon.count() * static_cast<std::int64_t>(wanted.specs.size());
  return sim::play_weeks(wanted.scene, wanted.specs,
                         {.jobs = wanted.jobs,
                          .cancelled = Interrupt::flag(),
                          .record = record,
                          .on_progress = [&](std::int64_t played_ms) {
                            progress.update(played_ms / kMsPerHour,
                                            (total + kMsPerHour - 1) / kMsPerHour);
                          }});
}

Result<void> simulate(const Arguments& arguments, Console& console) {
  TRY(Wanted wanted, wanted_from(arguments, console));
  wanted.scene.load = &wanted.file.load;
  TRY(std::optional<sim::OutputFile> report, open_output(wanted.report));
  TRY(std::optional<sim::OutputFile> record, open_output(wanted.record));
  sim::WeekComparison comparison{
      .scene = &wanted.scene, .seed = wanted.specs.front().seed, .weeks = {}};
  TRY(comparison.weeks, play(wanted, record ? &*record : nullptr, console));
  if (report) {
    TRY_VOID(report->write(sim::week_page(comparison)));
    TRY_VOID(report->commit());
  }
  if (record) TRY_VOID(record->commit());
  if (wanted.format == "json") {
    console.out << sim::week_document(comparison).json();
  } else if (wanted.format == "yaml") {
    console.out << sim::week_document(comparison).yaml();
  } else {
    console.out << sim::week_table(comparison, wanted.format == "wide" ? sim::WeekDetail::long_waits
                                                                       : sim::WeekDetail::summary);
  }
  if (report) console.err << "report: " << report->path() << "\n";
  if (record) console.err << "decision log: " << record->path() << "\n";
  return success();
}

}  // namespace

ExitCode simulate_week(const Arguments& arguments, Console& console) {
  const Result<void> done = simulate(arguments, console);
  return done.ok() ? ExitCode::done : report_error(console, "simulate", done.error());
}

}  // namespace berth::cli
