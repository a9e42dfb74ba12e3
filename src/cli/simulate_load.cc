#include "cli/simulate_load.h"

#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/simulate_words.h"
#include "sim/files.h"
#include "sim/generators.h"
#include "sim/output.h"
#include "sim/words.h"

namespace berth::cli {

namespace {

struct Wanted {
  sim::GenerateWords words;
  std::vector<sim::LoadSpec> specs;  // policy by policy, seed by seed
  TracePaths paths;
  std::string format;
  std::optional<std::string> record;
};

Result<Wanted> wanted_from(const Arguments& arguments) {
  Wanted wanted;
  TRY(wanted.words, sim::parse_generate(arguments.value("--generate").value_or("")));
  TRY(wanted.paths, trace_paths(arguments));
  TRY(const std::vector<std::string> policies,
      policies_from(arguments.value("--policy").value_or("")));
  TRY(const std::vector<std::uint64_t> seeds,
      sim::parse_seeds(arguments.value("--seeds").value_or("")));
  for (const std::string& policy : policies) {
    for (const std::uint64_t seed : seeds) {
      wanted.specs.push_back({.policy = policy,
                              .seed = seed,
                              .shape = wanted.words.load,
                              .check = arguments.has("--check")});
    }
  }
  wanted.format = arguments.value("--output").value_or("table");
  wanted.record = arguments.value("--record");
  TRY_VOID(check_outputs_differ({{"--nodes", wanted.paths.nodes}, {"--pods", wanted.paths.pods}},
                                {}, wanted.record));
  if (wanted.record && wanted.specs.size() != 1) {
    return invalid_argument(
        "--record keeps the decisions of one run; give one policy and one seed with it");
  }
  return wanted;
}

// One run after the other: times of runs side by side would not be those of a scheduler alone.
Result<std::vector<sim::LoadResult>> play(const Wanted& wanted, const sim::Scene& scene,
                                          sim::OutputFile* record, const Console& console) {
  const Interrupt interrupt;
  Progress progress(console, "decisions");
  std::vector<sim::LoadResult> results;
  std::int64_t total = 0;
  for (const sim::LoadSpec& spec : wanted.specs)
    total += spec.shape.decisions;
  std::int64_t done = 0;
  for (const sim::LoadSpec& spec : wanted.specs) {
    TRY(sim::LoadResult result, sim::play_load(scene, spec,
                                               {.cancelled = Interrupt::flag(),
                                                .record = record,
                                                .on_decisions = [&](std::int64_t decisions) {
                                                  progress.update(done + decisions, total);
                                                }}));
    done += spec.shape.decisions;
    results.push_back(std::move(result));
  }
  return results;
}

Result<void> simulate(const Arguments& arguments, Console& console) {
  TRY(const Wanted wanted, wanted_from(arguments));
  TRY(const std::vector<sim::TraceNode> mix, sim::read_nodes(wanted.paths.nodes));
  TRY(std::vector<sim::TracePod> pods, sim::read_pods(wanted.paths.pods));
  TRY(const sim::Scene scene,
      sim::make_scene(sim::trace_name(wanted.paths.pods), sim::scale_fleet(mix, wanted.words.fleet),
                      std::move(pods)));
  print_warnings(scene, console);
  TRY(std::optional<sim::OutputFile> record, open_output(wanted.record));
  TRY(const std::vector<sim::LoadResult> results,
      play(wanted, scene, record ? &*record : nullptr, console));
  if (record) TRY_VOID(record->commit());
  if (wanted.format == "json") {
    console.out << sim::load_document(scene, results).json();
  } else if (wanted.format == "yaml") {
    console.out << sim::load_document(scene, results).yaml();
  } else {
    console.out << sim::load_table(scene, results);
  }
  if (record) console.err << "decision log: " << record->path() << "\n";
  return success();
}

}  // namespace

ExitCode simulate_load(const Arguments& arguments, Console& console) {
  const Result<void> done = simulate(arguments, console);
  return done.ok() ? ExitCode::done : report_error(console, "simulate", done.error());
}

}  // namespace berth::cli
