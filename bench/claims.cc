// What gangs and claims cost, one decision at a time: a gang that nearly fits, one that prefers a
// rack, a fleet taken back job by job, and victims that topology has to agree with.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/engine/engine.h"
#include "suite.h"

namespace berth::bench {

namespace {

using Clock = std::chrono::steady_clock;
using core::DeviceAsk;
using core::Engine;

core::Request asking(int devices) {
  core::RequestSpec spec;
  spec.containers.push_back(
      {.name = "main", .kind = core::ContainerKind::app, .gpu = DeviceAsk::whole_devices(devices)});
  return core::Request::create(std::move(spec)).value();
}

class Scene {
 public:
  // Nodes n0000 ... of 8 devices, in racks of `per_rack`.
  Scene(int nodes, int per_rack) : engine_(Engine::create({}).value()) {
    apply(core::TopologiesChanged{{{.name = "racks", .levels = {"rack"}}}});
    for (int i = 0; i < nodes; ++i) {
      core::Node node;
      node.name = fmt::format("n{:04}", i);
      node.cpu = Milli{256'000};
      node.ram = Memory::mib(2'000'000);
      node.labels["rack"] = fmt::format("r{:03}", i / per_rack);
      for (int d = 0; d < 8; ++d) {
        core::Device device;
        device.uuid = fmt::format("{}/g{}", node.name, d);
        device.index = d;
        device.model = "H100";
        device.total = Memory::mib(81'559);
        node.devices.push_back(device);
      }
      apply(core::NodeUpserted{node});
    }
  }

  void queue(std::string name, std::int64_t deserved_devices) {
    core::QueueSpec& spec = config_.queues.emplace_back();
    spec.name = std::move(name);
    spec.dimensions = {{.device_class = "*",
                        .kind = core::DimensionKind::devices,
                        .deserved = 1000 * deserved_devices}};
  }
  void set_queues() { apply(core::QueuesChanged{config_}); }

  // A task that runs on the first `count` devices of the node.
  void runs(const std::string& uid, int node, int first, int count, const std::string& queue,
            bool preemptible) {
    core::GrantAdopted adopted{
        .workload =
            core::Workload::task(uid, asking(count), {.queue = queue, .preemptible = preemptible}),
        .node = fmt::format("n{:04}", node),
        .shares = {}};
    for (int d = first; d < first + count; ++d) {
      adopted.shares.push_back({.container = 0,
                                .uuid = fmt::format("n{:04}/g{}", node, d),
                                .request_mib = 81'559,
                                .limit_mib = 81'559});
    }
    apply(std::move(adopted));
  }

  // Milliseconds of the submission of a gang of equal members.
  double submit_gang(const std::string& uid, int members, int devices, core::TopologyRule topology,
                     const std::string& queue) {
    core::Group root;
    root.members = {{.name = "w", .count = members, .request = asking(devices), .priority = {}}};
    root.topology = std::move(topology);
    core::Workload gang =
        core::Workload::gang(uid, {.root = root, .options = {}}, {.queue = queue}).value();
    const Clock::time_point begin = Clock::now();
    apply(core::WorkloadSubmitted{std::move(gang)});
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  }

  std::span<const core::Action> apply(core::EventBody body) {
    return engine_->apply({Time(++clock_), std::move(body)});
  }

  Engine& engine() { return *engine_; }

 private:
  std::unique_ptr<Engine> engine_;
  core::QueueConfig config_;
  std::int64_t clock_ = 0;
};

// 10 members of 8 devices on 500 nodes, of which 9 are free and the others have 1 to 7 devices
// left.
Result<std::vector<Row>> run_gang_never(const Context& context) {
  Scene scene(500, 20);
  for (int node = 9; node < 500; ++node) {
    scene.runs(fmt::format("busy{}", node), node, 0, 1 + node % 7, "default", false);
  }
  std::vector<double> times;
  bool waits = true;
  for (int repetition = 0; repetition <= context.repetitions; ++repetition) {
    const double ms = scene.submit_gang("gang", 10, 8, {}, "default");
    waits = waits && scene.engine().outcome("gang") == core::Outcome::waiting;
    scene.apply(core::WorkloadCancelled{"gang"});
    if (repetition > 0) times.push_back(ms);
  }
  return std::vector<Row>{{.name = "gang.never_ms",
                           .unit = "ms",
                           .figures = {best_low("", times, {GoalKind::at_most, 10})},
                           .is_time = true,
                           .also_needs = waits}};
}

// 512 members of one device that prefer a rack, on 500 nodes in racks of 25.
Result<std::vector<Row>> run_gang_preferred(const Context& context) {
  Scene scene(500, 25);
  std::vector<double> times;
  bool granted = true;
  for (int repetition = 0; repetition <= context.repetitions; ++repetition) {
    const double ms = scene.submit_gang("gang", 512, 1, {.preferred = "rack"}, "default");
    granted = granted && scene.engine().outcome("gang") == core::Outcome::granted;
    scene.apply(core::WorkloadCancelled{"gang"});
    if (repetition > 0) times.push_back(ms);
  }
  return std::vector<Row>{{.name = "gang.512_preferred_ms",
                           .unit = "ms",
                           .figures = {best_low("", times, {GoalKind::at_most, 50})},
                           .is_time = true,
                           .also_needs = granted}};
}

// One queue holds 4,000 devices that it does not deserve; 4,000 jobs of another come, one by one.
Result<std::vector<Row>> run_reclaim(const Context& /*context*/) {
  constexpr int kJobs = 4000;
  Scene scene(500, 25);
  scene.queue("a", 0);
  scene.queue("b", kJobs);
  scene.set_queues();
  for (int i = 0; i < kJobs; ++i) {
    scene.runs(fmt::format("a{:04}", i), i / 8, i % 8, 1, "a", true);
  }
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < kJobs; ++i) {
    std::vector<std::string> gone;
    const auto actions = scene.apply(core::WorkloadSubmitted{core::Workload::task(
        fmt::format("b{:04}", i), asking(1), {.queue = "b", .preemptible = true})});
    for (const core::Action& action : actions) {
      if (const auto* evicted = std::get_if<core::Evicted>(&action)) {
        gone.emplace_back(scene.engine().uid(evicted->workload));
      }
    }
    for (const std::string& uid : gone) {
      scene.apply(core::GrantReleased{uid});
    }
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  bool all = true;
  for (int i = 0; i < kJobs; ++i) {
    all = all && scene.engine().outcome(fmt::format("b{:04}", i)) == core::Outcome::granted;
  }
  return std::vector<Row>{
      {.name = "reclaim.4000_s",
       .unit = "s",
       .figures = {{.key = "", .value = seconds, .goal = {GoalKind::at_most, 2}}},
       .is_time = true,
       .also_needs = all}};
}

// 2,000 full nodes in racks of 20; 700 of them are full of work that may leave. A gang of 10 whole
// nodes needs one rack.
Result<std::vector<Row>> run_victims(const Context& context) {
  std::vector<double> times;
  bool found = true;
  for (int repetition = 0; repetition <= context.repetitions; ++repetition) {
    Scene scene(2000, 20);
    scene.queue("a", 0);
    scene.queue("b", 80);
    scene.queue("c", 15'920);
    scene.set_queues();
    for (int node = 0; node < 2000; ++node) {
      const bool may_leave = node % 20 < 7;  // seven of each rack: 700
      const bool last_rack = node >= 1980;   // but for one rack, where all may
      scene.runs(fmt::format("w{:04}", node), node, 0, 8, may_leave || last_rack ? "a" : "c",
                 may_leave || last_rack);
    }
    const double ms = scene.submit_gang("gang", 10, 8, {.required = "rack"}, "b");
    found = found && scene.engine().cause("gang") == core::Cause::preempting;
    if (repetition > 0) times.push_back(ms);
  }
  return std::vector<Row>{{.name = "victims.2000x700_ms",
                           .unit = "ms",
                           .figures = {best_low("", times, {GoalKind::at_most, 100})},
                           .is_time = true,
                           .also_needs = found}};
}

constexpr Measurement kMeasurements[] = {
    {"gang.never", "a gang of which 9 of 10 members fit is told so", run_gang_never},
    {"gang.512", "512 members that prefer a rack", run_gang_preferred},
    {"reclaim", "4,000 jobs take 4,000 devices back, one by one", run_reclaim},
    {"victims", "victims that a required rack agrees with, among 700 on 2,000 nodes", run_victims},
};

}  // namespace

std::span<const Measurement> claim_measurements() { return kMeasurements; }

}  // namespace berth::bench
