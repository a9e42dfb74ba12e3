// What a whole shared cluster costs: thousands that wait for one release, and a day of 1,000 nodes
// under 100 queues in virtual time.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <variant>

#include <fmt/format.h>

#include "config/queue_file.h"
#include "core/engine/engine.h"
#include "scenario/fleet_spec.h"
#include "scenario/load.h"
#include "sim/week/player.h"
#include "suite.h"

namespace berth::bench {

namespace {

using Clock = std::chrono::steady_clock;

// 5,000 waiting workloads of 50 shapes in 100 queues, on a fleet of which nothing is free; one
// release makes room for 500 of them.
struct WakeWorld {
  static constexpr int kNodes = 100;
  static constexpr int kDevices = 8;
  static constexpr std::int64_t kDeviceMib = 81'920;
  static constexpr int kWaiting = 5'000;
  static constexpr int kQueues = 100;
  static constexpr int kShapes = 50;
  static constexpr std::int64_t kLeastMib = 1'265;  // the shapes lie from here on, a MiB apart
  static constexpr int kFit = 500;
};

core::Node wake_node(int number) {
  core::Node node;
  node.name = fmt::format("n{:03}", number);
  node.cpu = Milli(1'000'000);
  node.ram = Memory::mib(4'000'000);
  node.pod_slots = 10'000;
  for (int i = 0; i < WakeWorld::kDevices; ++i) {
    core::Device device;
    device.uuid = fmt::format("GPU-{}-{}", node.name, i);
    device.index = i;
    device.model = "H100";
    device.total = Memory::mib(WakeWorld::kDeviceMib);
    node.devices.push_back(std::move(device));
  }
  return node;
}

core::QueueConfig wake_queues() {
  core::QueueConfig config;
  for (int i = 0; i < WakeWorld::kQueues; ++i) {
    core::QueueSpec& queue = config.queues.emplace_back();
    queue.name = fmt::format("q{:02}", i);
    queue.dimensions.push_back({.kind = core::DimensionKind::devices, .deserved = 8'000});
  }
  return config;
}

Result<core::Event> arrival(std::string uid, int queue, core::DeviceAsk ask) {
  core::RequestSpec spec;
  core::ContainerAsk container;
  container.gpu = std::move(ask);
  spec.containers.push_back(std::move(container));
  TRY(core::Request request, core::Request::create(std::move(spec)));
  core::WorkloadOptions options{.queue = fmt::format("q{:02}", queue), .preemptible = true};
  return core::Event{Time(1), core::WorkloadSubmitted{core::Workload::task(
                                  std::move(uid), std::move(request), std::move(options))}};
}

// Milliseconds of the one event. Errors: the world is not as described above.
Result<double> wake_once() {
  TRY(const std::unique_ptr<core::Engine> engine, core::Engine::create({}));
  for (int i = 0; i < WakeWorld::kNodes; ++i)
    engine->apply({Time(0), core::NodeUpserted{wake_node(i)}});
  engine->apply({Time(0), core::QueuesChanged{wake_queues()}});
  for (int i = 0; i < WakeWorld::kNodes; ++i) {
    TRY(const core::Event event, arrival(fmt::format("holder-{}", i), i % WakeWorld::kQueues,
                                         core::DeviceAsk::whole_devices(WakeWorld::kDevices)));
    engine->apply(event);
  }
  for (int i = 0; i < WakeWorld::kWaiting; ++i) {
    const std::int64_t mib = WakeWorld::kLeastMib + i * 7 % WakeWorld::kShapes;
    TRY(const core::Event event, arrival(fmt::format("w{:04}", i), i % WakeWorld::kQueues,
                                         core::DeviceAsk::memory_mib(mib)));
    engine->apply(event);
  }
  if (engine->waiting_count() != WakeWorld::kWaiting) {
    return Error(ErrorCode::internal, fmt::format("wake: {} wait", engine->waiting_count()));
  }
  const core::Event release{Time(2), core::GrantReleased{"holder-42"}};
  const Clock::time_point begin = Clock::now();
  const std::span<const core::Action> actions = engine->apply(release);
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  int granted = 0;
  for (const core::Action& action : actions)
    granted += std::holds_alternative<core::Granted>(action) ? 1 : 0;
  if (granted < WakeWorld::kFit || granted > WakeWorld::kFit + WakeWorld::kFit / 100) {
    return Error(ErrorCode::internal, fmt::format("wake: {} were granted", granted));
  }
  TRY_VOID(core::verify(*engine));
  return ms;
}

Result<std::vector<Row>> run_wake(const Context& context) {
  std::vector<double> times;
  for (int repetition = 0; repetition <= context.repetitions; ++repetition) {
    TRY(const double ms, wake_once());
    if (repetition > 0) times.push_back(ms);  // the first warms up
  }
  return std::vector<Row>{{.name = "wake.5000_500_ms",
                           .unit = "ms",
                           .figures = {best_low("", times, {GoalKind::at_most, 50})},
                           .is_time = true}};
}

// 1,000 nodes of eight devices, ten departments of ten teams, and the same four kinds of work in
// each: 92 % of all devices on average, more by day and less by night.
constexpr int kWeekNodes = 1'000;
constexpr int kDepartments = 10;
constexpr int kTeams = 10;
constexpr std::string_view kDay =
    "hours: [40, 40, 40, 40, 40, 40, 60, 80, 120, 150, 160, 160, 140, 140, 160, 160, 150, 140, "
    "120, 100, 80, 60, 40, 40]";

struct WorkKind {
  std::string_view name;
  std::string_view ask;
  std::string_view per_hour;
  std::string_view run;
};

constexpr WorkKind kWork[] = {
    {"share", "gpu_memory: 20GiB, max_run: 4h", "20", "exponential: 40min"},
    {"single", "whole: 1, max_run: 1d", "10", "lognormal: {median: 2h, p90: 8h}"},
    {"four", "whole: 4, max_run: 1d", "0.5", "lognormal: {median: 2h, p90: 10h}"},
    {"node", "whole: 8, max_run: 2d", "0.5", "lognormal: {median: 4h, p90: 14h}"},
};

std::string week_fleet() {
  std::string spec;
  for (int i = 0; i < kWeekNodes; ++i)
    spec += fmt::format("{}n{:04}=8x80GiB:H100", i == 0 ? "" : ",", i);
  return spec;
}

std::string week_queues() {
  std::string text = "queues:\n";
  for (int d = 0; d < kDepartments; ++d) {
    text += fmt::format("  - {{name: d{}, dims: {{\"*/devices\": {{deserved: 640}}}}}}\n", d);
    for (int t = 0; t < kTeams; ++t) {
      text += fmt::format(
          "  - {{name: d{0}t{1}, parent: d{0}, dims: {{\"*/devices\": {{deserved: {2}}}}}}}\n", d,
          t, 40 + 8 * (t % 5));
    }
  }
  return text;
}

std::string week_load() {
  std::string text = "load:\n  horizon: 1d\n  streams:\n";
  for (int d = 0; d < kDepartments; ++d) {
    for (int t = 0; t < kTeams; ++t) {
      for (const WorkKind& kind : kWork) {
        text += fmt::format(
            "    - {{name: d{0}t{1}-{2}, queue: d{0}t{1}, preemptible: true, {3}, arrivals: "
            "{{poisson: {{per_hour: {4}, {5}}}}}, run: {{{6}}}}}\n",
            d, t, kind.name, kind.ask, kind.per_hour, kDay, kind.run);
      }
    }
  }
  return text;
}

Result<std::vector<Row>> run_week(const Context& context) {
  TRY(const scenario::LoadFile file, scenario::parse_load(week_load(), "load"));
  sim::WeekScene scene{.fleet_name = "1,000 nodes", .fleet = {}, .load = &file.load};
  TRY(scene.fleet, scenario::fleet_from_spec(week_fleet()));
  sim::WeekSpec spec{.name = "100 queues"};
  TRY(spec.queues, config::read_queue_file(week_queues(), "queues", {"H100"}));
  std::vector<double> rates;
  // A day under full queues takes minutes while the goal is missed: once is enough to see by how
  // much.
  constexpr int kMostDays = 1;
  for (int repetition = 0; repetition < std::min(context.repetitions, kMostDays); ++repetition) {
    const Clock::time_point begin = Clock::now();
    TRY(const sim::WeekResult week, sim::play_week(scene, spec));
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    rates.push_back(static_cast<double>(week.events) / seconds);
  }
  return std::vector<Row>{{.name = "week.sim_per_s",
                           .unit = "events/s",
                           .figures = {best_high("", rates, {GoalKind::at_least, 50'000})}}};
}

constexpr Measurement kMeasurements[] = {
    {"wake.many", "one release that helps 500 of 5,000 waiting", run_wake},
    {"week", "a day of 1,000 nodes under 100 queues, as `berth simulate --load` plays it",
     run_week},
};

}  // namespace

std::span<const Measurement> week_measurements() { return kMeasurements; }

}  // namespace berth::bench
