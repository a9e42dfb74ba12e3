// How long a decision takes: the published trace, ten thousand nodes, and what caches are worth.
#include <chrono>
#include <fstream>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/engine/engine_impl.h"
#include "sim/arrivals.h"
#include "sim/generators.h"
#include "sim/protocol.h"
#include "suite.h"

namespace berth::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kWindow = 200'000;  // decisions per repetition

Result<std::vector<sim::TraceNode>> openb_nodes(const Context& context) {
  return sim::read_nodes(context.data + "/openb_node_list_gpu_node.csv");
}

Result<std::vector<sim::TracePod>> openb_pods(const Context& context) {
  return sim::read_pods(context.data + "/openb_pod_list_default.csv");
}

Result<sim::Scene> openb_scene(const Context& context) {
  TRY(std::vector<sim::TraceNode> nodes, openb_nodes(context));
  TRY(std::vector<sim::TracePod> pods, openb_pods(context));
  return sim::make_scene("default", std::move(nodes), std::move(pods));
}

// What the same decisions cost before queues, gangs and claims came into the engine.
Result<std::int64_t> instructions_before_queues(const Context& context) {
  std::ifstream file(context.before_queues);
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("place.openb")) {
    return invalid_argument(context.before_queues + ": an object with \"place.openb\" is expected");
  }
  return json["place.openb"].get<std::int64_t>();
}

Result<std::vector<Row>> run_openb(const Context& context) {
  TRY(const sim::Scene scene, openb_scene(context));
  std::vector<double> p50;
  std::vector<double> p99;
  std::vector<double> rate;
  for (int repetition = 0; repetition <= context.repetitions; ++repetition) {
    TRY(const sim::RunResult run, sim::play_run(scene, {.policy = "pack", .seed = 42}));
    if (repetition == 0) continue;  // warms up
    p50.push_back(run.latency.quantile_us(0.5));
    p99.push_back(run.latency.quantile_us(0.99));
    rate.push_back(run.latency.per_second());
  }
  std::vector<Row> rows = {{.name = "place.openb.p50_us",
                            .unit = "us",
                            .figures = {best_low("", p50, {GoalKind::at_most, 10})},
                            .is_time = true},
                           {.name = "place.openb.p99_us",
                            .unit = "us",
                            .figures = {best_low("", p99, {GoalKind::at_most, 100})},
                            .is_time = true},
                           {.name = "place.openb.per_second",
                            .unit = "1/s",
                            .figures = {best_high("", rate, {GoalKind::at_least, 100'000})}}};
  rows.back().instructions = instructions_of(context, "place.openb");
  if (rows.back().instructions.has_value()) {
    TRY(const std::int64_t before, instructions_before_queues(context));
    const double ratio =
        static_cast<double>(*rows.back().instructions) / static_cast<double>(before);
    rows.push_back({.name = "place.after_queues",
                    .unit = "of before",
                    .figures = {{.key = "", .value = ratio, .goal = {GoalKind::at_most, 1.05}}}});
  }
  return rows;
}

// Medians of windows of one long load on a fleet of so many nodes with eight devices each.
Result<std::vector<double>> load_medians(const Context& context, std::int64_t nodes) {
  TRY(const std::vector<sim::TraceNode> mix, openb_nodes(context));
  TRY(std::vector<sim::TracePod> pods, openb_pods(context));
  TRY(const sim::Scene scene,
      sim::make_scene("default", sim::scale_fleet(mix, {.nodes = nodes, .devices = 8}),
                      std::move(pods)));
  const sim::LoadSpec spec{
      .policy = "pack", .seed = 42, .shape = {.decisions = kWindow * context.repetitions}};
  TRY(const sim::LoadResult load, sim::play_load(scene, spec));
  std::vector<double> medians;
  for (int i = 0; i < context.repetitions; ++i) {
    const auto first = static_cast<std::size_t>(i * kWindow);
    medians.push_back(load.latency.slice(first, kWindow).quantile_us(0.5));
  }
  return medians;
}

Result<std::vector<Row>> run_growth(const Context& context) {
  TRY(const std::vector<double> large, load_medians(context, 10'000));
  TRY(const std::vector<double> small, load_medians(context, 1'000));
  const Figure p50 = best_low("", large, {GoalKind::at_most, 20});
  const Figure base = best_low("", small, {});
  return std::vector<Row>{
      {.name = "place.10k.p50_us", .unit = "us", .figures = {p50}, .is_time = true},
      {.name = "place.growth",
       .unit = "ratio",
       .figures = {{.key = {},
                    .value = p50.value / base.value,
                    .goal = {GoalKind::at_most, 2},
                    .spread = p50.spread + base.spread}},
       .baseline = base.value}};
}

// A filled fleet, kept alive, to ask questions of.
class FilledFleet {
 public:
  static Result<std::unique_ptr<FilledFleet>> create(const Context& context, std::int64_t nodes) {
    TRY(const std::vector<sim::TraceNode> mix, openb_nodes(context));
    TRY(std::vector<sim::TracePod> pods, openb_pods(context));
    auto fleet = std::make_unique<FilledFleet>();
    TRY(fleet->scene_,
        sim::make_scene("default", sim::scale_fleet(mix, {.nodes = nodes, .devices = 8}),
                        std::move(pods)));
    TRY(fleet->driver_, sim::Driver::create(fleet->scene_, {.policy = "pack",
                                                            .policy_seed = 1,
                                                            .node_ranks = sim::draw_node_ranks(
                                                                fleet->scene_.nodes.size(), 42)}));
    const std::int64_t goal = fleet->scene_.capacity / 100 * 92;
    while (fleet->driver_->state().bound_milli() < goal)
      TRY_VOID(fleet->submit());
    return fleet;
  }

  Result<void> submit() {
    TRY(const bool placed,
        driver_->submit({.uid = fmt::format("w{}", ++count_), .request = &next_request()}));
    static_cast<void>(placed);
    return success();
  }
  const core::Request& next_request() {
    const auto pods = static_cast<std::uint32_t>(scene_.pods.size());
    return scene_.requests[scene_.request_of[random_.below(pods)]];
  }
  sim::Driver& driver() { return *driver_; }

 private:
  sim::Scene scene_;
  std::unique_ptr<sim::Driver> driver_;
  Mt19937 random_{42};
  std::int64_t count_ = 0;
};

Result<std::vector<Row>> run_rescan(const Context& context) {
  constexpr std::int64_t kNodes = 10'000;
  constexpr int kScans = 200;
  constexpr double kRescanRate = 1'000'000;  // slower would be no fair opponent
  TRY(const std::unique_ptr<FilledFleet> fleet, FilledFleet::create(context, kNodes));
  const core::Engine::Impl& impl = fleet->driver().engine().impl();
  std::vector<double> scan_us;
  std::vector<double> keep_us;
  std::int64_t found = 0;
  for (int repetition = 0; repetition <= context.repetitions; ++repetition) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < kScans; ++i) {
      const core::ShapeId shape = impl.shapes.acquire(fleet->next_request());
      found += impl.index.select_by_scan(shape, {}).node.is_none() ? 0 : 1;
      impl.shapes.release(shape);
    }
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    fleet->driver().latency() = sim::LatencyStats();
    for (int i = 0; i < 10 * kScans; ++i)
      TRY_VOID(fleet->submit());
    if (repetition == 0) continue;  // warms up
    scan_us.push_back(us / kScans);
    keep_us.push_back(fleet->driver().latency().mean_us());
  }
  const Figure scan = best_low("", scan_us, {});
  const Figure keep = best_low("", keep_us, {});
  const double evaluations = kNodes * 1e6 / scan.value;
  Row ratio{.name = "place.vs_rescan",
            .unit = "ratio",
            .figures = {{.key = {},
                         .value = scan.value / keep.value,
                         .goal = {GoalKind::at_least, 20},
                         .spread = scan.spread + keep.spread}},
            .baseline = scan.value};
  ratio.also_needs = found > 0 && evaluations >= kRescanRate;
  return std::vector<Row>{ratio,
                          {.name = "place.rescan.per_second",
                           .unit = "nodes/s",
                           .figures = {{.key = {},
                                        .value = evaluations,
                                        .goal = {GoalKind::at_least, kRescanRate},
                                        .spread = scan.spread}}}};
}

constexpr Measurement kMeasurements[] = {
    {"place.openb", "every decision of the default trace under pack", run_openb},
    {"place.10k", "ten thousand and one thousand nodes under lasting load", run_growth},
    {"place.vs_rescan", "the same scorer asking every node anew", run_rescan},
};

}  // namespace

std::span<const Measurement> place_measurements() { return kMeasurements; }

Result<std::int64_t> play_once(const Context& context, std::string_view workload) {
  if (workload != "place.openb") {
    return invalid_argument(fmt::format("--once {}: unknown; known is place.openb", workload));
  }
  TRY(const sim::Scene scene, openb_scene(context));
  TRY(const sim::RunResult run, sim::play_run(scene, {.policy = "pack", .seed = 42}));
  return run.latency.count();
}

}  // namespace berth::bench
