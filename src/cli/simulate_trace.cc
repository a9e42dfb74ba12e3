#include "cli/simulate_trace.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/simulate_words.h"
#include "sim/comparison.h"
#include "sim/files.h"
#include "sim/output.h"
#include "sim/report/page.h"
#include "sim/sweep.h"
#include "sim/words.h"

namespace berth::cli {

namespace {

struct Wanted {
  sim::RunPlan plan;
  TracePaths paths;
  int jobs = 1;
  bool bound = false;
  std::string format;
  std::optional<std::string> report;
  std::optional<std::string> record;
};

int cores() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

Result<Wanted> wanted_from(const Arguments& arguments) {
  Wanted wanted;
  TRY(wanted.paths, trace_paths(arguments));
  TRY(wanted.plan.policies, policies_from(arguments.value("--policy").value_or("")));
  TRY(wanted.plan.seeds, sim::parse_seeds(arguments.value("--seeds").value_or("")));
  TRY(const std::int64_t arrival,
      sim::parse_number(arguments.value("--arrival").value_or(""),
                        {.name = "--arrival", .min = 1, .max = sim::kMaxArrivalPercent}));
  wanted.plan.arrival_percent = static_cast<int>(arrival);
  wanted.plan.check = arguments.has("--check");
  wanted.jobs = cores();
  if (const auto jobs = arguments.value("--jobs")) {
    TRY(const std::int64_t number,
        sim::parse_number(*jobs, {.name = "--jobs", .min = 1, .max = 1024}));
    wanted.jobs = static_cast<int>(number);
  }
  wanted.bound = arguments.has("--bound");
  wanted.format = arguments.value("--output").value_or("table");
  wanted.report = arguments.value("--report");
  wanted.record = arguments.value("--record");
  TRY_VOID(check_outputs_differ({{"--nodes", wanted.paths.nodes}, {"--pods", wanted.paths.pods}},
                                wanted.report, wanted.record));
  if (wanted.record && wanted.plan.policies.size() * wanted.plan.seeds.size() != 1) {
    return invalid_argument(
        "--record keeps the decisions of one run; give one policy and one seed with it");
  }
  return wanted;
}

Result<sim::Scene> scene_of(const Wanted& wanted, Console& console) {
  TRY(std::vector<sim::TraceNode> nodes, sim::read_nodes(wanted.paths.nodes));
  TRY(std::vector<sim::TracePod> pods, sim::read_pods(wanted.paths.pods));
  TRY(sim::Scene scene,
      sim::make_scene(sim::trace_name(wanted.paths.pods), std::move(nodes), std::move(pods)));
  print_warnings(scene, console);
  return scene;
}

Result<std::vector<sim::RunResult>> play(const Wanted& wanted, const sim::Scene& scene,
                                         sim::OutputFile* record, const Console& console) {
  const Interrupt interrupt;
  Progress progress(console, "events");
  return sim::run_sweep(scene, wanted.plan.specs(),
                        {.jobs = wanted.jobs,
                         .cancelled = Interrupt::flag(),
                         .record = record,
                         .on_progress = [&](const sim::SweepProgress& state) {
                           progress.update(state.events_done, state.events_total);
                         }});
}

void print(const sim::Comparison& comparison, const std::string& format, std::ostream& out) {
  if (format == "json") {
    out << sim::comparison_document(comparison).json();
  } else if (format == "yaml") {
    out << sim::comparison_document(comparison).yaml();
  } else {
    out << sim::comparison_table(
        comparison, format == "wide" ? sim::TableDetail::every_run : sim::TableDetail::summary);
  }
}

Result<void> simulate(const Arguments& arguments, Console& console) {
  TRY(const Wanted wanted, wanted_from(arguments));
  TRY(const sim::Scene scene, scene_of(wanted, console));
  TRY(std::optional<sim::OutputFile> report, open_output(wanted.report));
  TRY(std::optional<sim::OutputFile> record, open_output(wanted.record));
  TRY(std::vector<sim::RunResult> runs, play(wanted, scene, record ? &*record : nullptr, console));
  sim::Comparison comparison = sim::compare(scene, wanted.plan, std::move(runs));
  if (wanted.bound) {
    TRY(comparison.bounds, sim::fluid_bounds(scene));
  }
  if (report) {
    TRY_VOID(report->write(sim::report_page(comparison)));
    TRY_VOID(report->commit());
  }
  if (record) TRY_VOID(record->commit());
  print(comparison, wanted.format, console.out);
  if (report) console.err << "report: " << report->path() << "\n";
  if (record) console.err << "decision log: " << record->path() << "\n";
  return success();
}

}  // namespace

ExitCode simulate_trace(const Arguments& arguments, Console& console) {
  const Result<void> done = simulate(arguments, console);
  return done.ok() ? ExitCode::done : report_error(console, "simulate", done.error());
}

}  // namespace berth::cli
