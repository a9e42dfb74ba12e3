// What the engine costs beside placing: proving "never", waking, memory.
#include "core/engine/engine.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <variant>

#include <fmt/format.h>

#include "base/mt19937.h"
#include "sim/generators.h"
#include "sim/scene.h"
#include "suite.h"

namespace berth::bench {

namespace {

using Clock = std::chrono::steady_clock;

// Memory of the models that the openb nodes have, in MiB.
std::int64_t memory_of(const std::string& model) {
  static const std::map<std::string, std::int64_t> kMib = {
      {"T4", 15'109},  {"P100", 16'280}, {"V100M16", 16'160}, {"V100M32", 32'510},
      {"A10", 22'731}, {"G2", 20'000},   {"G3", 30'000}};
  const auto found = kMib.find(model);
  return found == kMib.end() ? 16'000 : found->second;
}

Result<std::unique_ptr<core::Engine>> engine_with_fleet(const Context& context,
                                                        std::int64_t nodes) {
  TRY(const std::vector<sim::TraceNode> mix,
      sim::read_nodes(context.data + "/openb_node_list_gpu_node.csv"));
  core::EngineConfig config;
  config.policy = "pack";
  TRY(std::unique_ptr<core::Engine> engine, core::Engine::create(config));
  std::int64_t rank = 0;
  for (const sim::TraceNode& shape : sim::scale_fleet(mix, {.nodes = nodes, .devices = 8})) {
    core::Node node = sim::engine_node(shape, rank++);
    for (core::Device& device : node.devices)
      device.total = Memory::mib(memory_of(shape.model));
    engine->apply({Time(0), core::NodeUpserted{std::move(node)}});
  }
  return engine;
}

Result<core::Request> request_of(core::DeviceAsk ask) {
  core::RequestSpec spec;
  spec.cpu = Milli(100);
  spec.ram = Memory::mib(100);
  core::ContainerAsk container;
  container.gpu = std::move(ask);
  spec.containers.push_back(std::move(container));
  return core::Request::create(std::move(spec));
}

// Four kinds of work that can never run; `n` makes each shape a new one.
Result<core::Request> impossible(int kind, int n) {
  core::DeviceAsk ask;
  switch (kind) {
    case 0: ask = core::DeviceAsk::memory_mib(90'000 + n); break;
    case 1: ask = core::DeviceAsk::memory_mib(100 + n, 9); break;
    case 2:
      ask = core::DeviceAsk::memory_mib(25'000 + n);
      ask.filter.models = {"T4"};
      break;
    default: ask = core::DeviceAsk::mig_instances(fmt::format("{}g.{}gb", 1 + n % 7, 500 + n));
  }
  return request_of(std::move(ask));
}

bool says_never(std::span<const core::Action> actions) {
  for (const core::Action& action : actions) {
    const auto* verdict = std::get_if<core::VerdictChanged>(&action);
    if (verdict != nullptr && verdict->outcome == core::Outcome::never) return true;
  }
  return false;
}

Result<std::vector<Row>> run_never(const Context& context) {
  TRY(const std::unique_ptr<core::Engine> engine, engine_with_fleet(context, 10'000));
  constexpr int kKinds = 4;
  const int rounds = context.repetitions + 1;
  std::array<double, kKinds> best{};
  bool all_never = true;
  for (int n = 0; n < rounds; ++n) {
    for (int kind = 0; kind < kKinds; ++kind) {
      TRY(core::Request request, impossible(kind, n));
      const core::Event event{Time(1), core::WorkloadSubmitted{core::Workload::task(
                                           fmt::format("n{}-{}", kind, n), std::move(request))}};
      const Clock::time_point begin = Clock::now();
      const std::span<const core::Action> actions = engine->apply(event);
      const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
      all_never = all_never && says_never(actions);
      double& kept = best[static_cast<std::size_t>(kind)];
      if (n == 1 || (n > 1 && us < kept)) kept = us;  // the first warms up
    }
  }
  std::array<double, kKinds> sorted = best;
  std::ranges::sort(sorted);
  Row row{.name = "never.us",
          .unit = "us",
          .figures = {{.key = {},
                       .value = (sorted[1] + sorted[2]) / 2,
                       .goal = {GoalKind::at_most, 100},
                       .spread = (sorted[3] - sorted[0]) / sorted[1]}},
          .is_time = true};
  row.also_needs = all_never;
  return std::vector<Row>{row};
}

core::Node one_device_node(const std::string& name, const std::string& model) {
  return sim::engine_node(
      {.name = name, .cpu_milli = 1'000'000, .memory_mib = 1'000'000, .devices = 1, .model = model},
      0);
}

// Steps after a release that none of `waiting` workloads can use: half want another model, half
// more than what comes free.
Result<std::int64_t> steps_after_release(int waiting) {
  core::EngineConfig config;
  config.policy = "pack";
  TRY(const std::unique_ptr<core::Engine> engine, core::Engine::create(config));
  engine->apply({Time(0), core::NodeUpserted{one_device_node("a", "T4")}});
  engine->apply({Time(0), core::NodeUpserted{one_device_node("b", "P100")}});
  const auto submit = [&](std::string uid, core::DeviceAsk ask, const char* model) -> Result<void> {
    ask.filter.models = {model};
    TRY(core::Request request, request_of(std::move(ask)));
    engine->apply({Time(1), core::WorkloadSubmitted{
                                core::Workload::task(std::move(uid), std::move(request))}});
    return success();
  };
  TRY_VOID(submit("a-large", core::DeviceAsk::memory_mib(900), "T4"));
  TRY_VOID(submit("a-small", core::DeviceAsk::memory_mib(100), "T4"));
  TRY_VOID(submit("b-all", core::DeviceAsk::memory_mib(1000), "P100"));
  for (int i = 0; i < waiting; ++i) {
    TRY_VOID(submit(fmt::format("w{}", i), core::DeviceAsk::memory_mib(200 + i % 50),
                    i % 2 == 0 ? "T4" : "P100"));
  }
  if (engine->waiting_count() != static_cast<std::size_t>(waiting)) {
    return Error(ErrorCode::internal, "wake.steps: not all of the work waits");
  }
  const std::int64_t before = engine->steps();
  engine->apply({Time(2), core::GrantReleased{"a-small"}});
  return engine->steps() - before;
}

Result<std::vector<Row>> run_wake(const Context&) {
  TRY(const std::int64_t few, steps_after_release(100));
  TRY(const std::int64_t many, steps_after_release(10'000));
  const double ratio = static_cast<double>(std::max<std::int64_t>(many, 1)) /
                       static_cast<double>(std::max<std::int64_t>(few, 1));
  return std::vector<Row>{{.name = "wake.steps",
                           .unit = "ratio",
                           .figures = {{.key = {}, .value = ratio, .goal = {GoalKind::at_most, 1}}},
                           .baseline = static_cast<double>(few)}};
}

Result<std::vector<Row>> run_rss(const Context& context) {
  std::unique_ptr<FILE, int (*)(FILE*)> child(
      popen((context.self + " --rss-child --data " + context.data).c_str(), "r"), pclose);
  if (child == nullptr) return Error(ErrorCode::unavailable, "rss: the child does not start");
  double mib = 0;
  if (fscanf(child.get(), "%lf", &mib) != 1) {
    return Error(ErrorCode::internal, "rss: the child says nothing");
  }
  return std::vector<Row>{
      {.name = "rss.5k_50k_mib",
       .unit = "MiB",
       .figures = {{.key = {}, .value = mib, .goal = {GoalKind::at_most, 200}}}}};
}

constexpr Measurement kMeasurements[] = {
    {"never", "proving that four kinds of work can never run, 10,000 nodes", run_never},
    {"wake", "steps after a release that nobody can use", run_wake},
    {"rss", "memory of 5,000 nodes with 50,000 grants", run_rss},
};

}  // namespace

std::span<const Measurement> engine_measurements() { return kMeasurements; }

Result<double> measure_resident_mib(const Context& context) {
  constexpr std::int64_t kGrants = 50'000;
  TRY(const std::vector<sim::TraceNode> mix,
      sim::read_nodes(context.data + "/openb_node_list_gpu_node.csv"));
  TRY(std::vector<sim::TracePod> pods,
      sim::read_pods(context.data + "/openb_pod_list_default.csv"));
  core::EngineConfig config;
  config.policy = "pack";
  TRY(const std::unique_ptr<core::Engine> engine, core::Engine::create(config));
  std::int64_t rank = 0;
  for (const sim::TraceNode& shape : sim::scale_fleet(mix, {.nodes = 5000, .devices = 8})) {
    engine->apply({Time(0), core::NodeUpserted{sim::engine_node(shape, rank++)}});
  }
  Mt19937 random(42);
  std::int64_t granted = 0;
  for (std::int64_t i = 0; granted < kGrants && i < 4 * kGrants; ++i) {
    const sim::TracePod& pod = pods[random.below(static_cast<std::uint32_t>(pods.size()))];
    TRY(core::Request request, sim::engine_request(pod));
    core::WorkloadOptions options;
    options.wait_timeout = Duration(0);
    const std::span<const core::Action> actions = engine->apply(
        {Time(1), core::WorkloadSubmitted{core::Workload::task(
                      fmt::format("{}-{}", pod.name, i), std::move(request), std::move(options))}});
    for (const core::Action& action : actions) {
      granted += std::holds_alternative<core::Granted>(action) ? 1 : 0;
    }
  }
  if (granted < kGrants) {
    return Error(ErrorCode::internal, fmt::format("rss: only {} grants fit", granted));
  }
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmRSS:")) continue;
    return std::strtod(line.c_str() + 6, nullptr) / 1024;
  }
  return Error(ErrorCode::unavailable, "rss: /proc/self/status has no VmRSS");
}

}  // namespace berth::bench
