#include "cli/simulate_trace.h"

#include <algorithm>
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
  std::string nodes;
  std::string pods;
  int jobs = 1;
  bool bound = false;
  std::string format;
  std::optional<std::string> report;
  std::optional<std::string> record;
};

Result<std::string> path_of(const Arguments& arguments, std::string_view option,
                            std::string_view what, std::string_view example) {
  if (const auto path = arguments.value(option); path && !path->empty()) return *path;
  return invalid_argument(std::string(option) + " is missing: name the " + std::string(what) +
                          " (CSV), for instance bench/data/openb/" + std::string(example) +
                          " of the published openb cluster");
}

int cores() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

Result<Wanted> wanted_from(const Arguments& arguments) {
  Wanted wanted;
  TRY(wanted.nodes, path_of(arguments, "--nodes", "node list", "openb_node_list_gpu_node.csv"));
  TRY(wanted.pods, path_of(arguments, "--pods", "pod list", "openb_pod_list_default.csv"));
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
  if (wanted.record && wanted.plan.policies.size() * wanted.plan.seeds.size() != 1) {
    return invalid_argument(
        "--record keeps the decisions of one run; give one policy and one seed with it");
  }
  return wanted;
}

Result<sim::Scene> scene_of(const Wanted& wanted, Console& console) {
  TRY(std::vector<sim::TraceNode> nodes, sim::read_nodes(wanted.nodes));
  TRY(std::vector<sim::TracePod> pods, sim::read_pods(wanted.pods));
  TRY(sim::Scene scene,
      sim::make_scene(sim::trace_name(wanted.pods), std::move(nodes), std::move(pods)));
  for (const std::string& warning : scene.warnings) {
    console.err << "berth simulate: warning: " << warning << "\n";
  }
  return scene;
}

// An output that was asked for, opened before the work so that a bad path is known at once.
Result<std::optional<sim::OutputFile>> opened(const std::optional<std::string>& path) {
  if (!path) return std::optional<sim::OutputFile>();
  TRY(sim::OutputFile file, sim::OutputFile::create(*path));
  return std::optional<sim::OutputFile>(std::move(file));
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
  TRY(std::optional<sim::OutputFile> report, opened(wanted.report));
  TRY(std::optional<sim::OutputFile> record, opened(wanted.record));
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
  if (done.ok()) return ExitCode::done;
  if (done.error().code() == ErrorCode::exhausted) {
    console.err << "berth simulate: " << done.error().message() << "; nothing was written\n";
    return ExitCode::failed;
  }
  return report_error(console, "simulate", done.error());
}

}  // namespace berth::cli
