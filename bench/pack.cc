// How well policies pack: no times, exact results.
#include <fstream>
#include <map>
#include <string>

#include <fmt/format.h>

#include "sim/comparison.h"
#include "sim/sweep.h"
#include "sim/words.h"
#include "suite.h"

namespace berth::bench {

namespace {

constexpr std::string_view kTraces[] = {"default", "cpu250", "gpushare100", "gpuspec33",
                                        "multigpu50"};

Result<sim::Scene> scene_of(const Context& context, std::string_view trace) {
  TRY(std::vector<sim::TraceNode> nodes,
      sim::read_nodes(context.data + "/openb_node_list_gpu_node.csv"));
  TRY(std::vector<sim::TracePod> pods,
      sim::read_pods(fmt::format("{}/openb_pod_list_{}.csv", context.data, trace)));
  return sim::make_scene(std::string(trace), std::move(nodes), std::move(pods));
}

// "default/pack/42" -> "96.190/96.345/2358"
Result<std::map<std::string, std::string>> expected_runs(const std::string& path) {
  std::ifstream file(path);
  if (!file) return invalid_argument(path + ": cannot be read");
  std::map<std::string, std::string> runs;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    const auto words = sim::split_at(line, ',');
    if (words.size() != 6) return invalid_argument(path + ": a row has not six fields: " + line);
    runs[fmt::format("{}/{}/{}", words[0], words[1], words[2])] =
        fmt::format("{}/{}/{}", words[3], words[4], words[5]);
  }
  return runs;
}

std::string result_of(const sim::RunResult& run) {
  return fmt::format("{:.3f}/{:.3f}/{}", run.curve.at(100).value_or(0),
                     run.curve.at(130).value_or(0), run.failed);
}

double mean_at(const sim::PolicySummary& policy, std::size_t percent) {
  return policy.curve.at(percent) ? policy.curve[percent]->mean : 0;
}

Result<std::vector<Row>> run_pack(const Context& context) {
  TRY(const auto expected, expected_runs(context.expected));
  double differ = 0;
  std::size_t compared = 0;
  bool above_fgd = true;
  Row mean{.name = "pack.default.mean", .unit = "%", .figures = {}};
  for (const std::string_view trace : kTraces) {
    TRY(const sim::Scene scene, scene_of(context, trace));
    sim::RunPlan plan{.policies = {"pack", "fgd"}, .seeds = {}};
    for (std::uint64_t seed = 42; seed <= 51; ++seed)
      plan.seeds.push_back(seed);
    TRY(std::vector<sim::RunResult> runs,
        sim::run_sweep(scene, plan.specs(), {.jobs = context.jobs}));
    for (const sim::RunResult& run : runs) {
      const auto want =
          expected.find(fmt::format("{}/{}/{}", trace, run.spec.policy, run.spec.seed));
      compared += want != expected.end() ? 1U : 0U;
      differ += want == expected.end() || want->second != result_of(run) ? 1 : 0;
    }
    const sim::Comparison comparison = sim::compare(scene, plan, std::move(runs));
    const sim::PolicySummary& pack = comparison.policies[0];
    const sim::PolicySummary& fgd = comparison.policies[1];
    above_fgd = above_fgd && mean_at(pack, 100) > mean_at(fgd, 100) &&
                mean_at(pack, 130) > mean_at(fgd, 130);
    if (trace != "default") continue;
    mean.figures = {
        {.key = "at100", .value = mean_at(pack, 100), .goal = {GoalKind::at_least, 96.11}},
        {.key = "at130", .value = mean_at(pack, 130), .goal = {GoalKind::at_least, 96.25}}};
  }
  mean.also_needs = above_fgd;
  Row runs{.name = "pack.openb.differ",
           .unit = fmt::format("of {} runs", compared),
           .figures = {{.key = {}, .value = differ, .goal = {GoalKind::at_most, 0}}}};
  runs.also_needs = compared == expected.size();
  return std::vector<Row>{runs, mean};
}

constexpr Measurement kMeasurements[] = {
    {"pack", "the hundred published runs, digit by digit, and the mean of pack", run_pack},
};

}  // namespace

std::span<const Measurement> pack_measurements() { return kMeasurements; }

}  // namespace berth::bench
