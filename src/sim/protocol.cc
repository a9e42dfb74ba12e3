#include "sim/protocol.h"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "sim/arrivals.h"

namespace berth::sim {

namespace {

ArrivalPlan arrival_plan(const Scene& scene, const RunSpec& spec) {
  return {.seed = spec.seed, .goal_milli = scene.capacity * spec.arrival_percent / 100};
}

class Run {
 public:
  Run(const Scene& scene, const RunSpec& spec)
      : scene_(scene), curve_(scene.capacity, spec.arrival_percent), seen_(scene.pods.size()) {
    result_.spec = spec;
  }

  Result<RunResult> play(const RunHooks& hooks) {
    const RunSpec& spec = result_.spec;
    const std::int64_t begin = steady_nanos();
    TRY(const std::vector<std::uint32_t> arrivals,
        draw_arrivals(scene_.pods, arrival_plan(scene_, spec)));
    TRY(driver_,
        Driver::create(scene_, {.policy = spec.policy,
                                .policy_seed = node_order_seed(spec.seed),
                                .node_ranks = draw_node_ranks(scene_.nodes.size(), spec.seed),
                                .check = spec.check,
                                .hooks = hooks}));
    driver_->latency().reserve(arrivals.size());
    for (const std::uint32_t pod : arrivals)
      TRY_VOID(arrive(pod));
    TRY_VOID(driver_->compare_books());
    TRY_VOID(driver_->finish());
    sum_up();
    result_.arrivals = static_cast<std::int64_t>(arrivals.size());
    result_.seconds = static_cast<double>(steady_nanos() - begin) / 1e9;
    return std::move(result_);
  }

 private:
  Result<void> arrive(std::uint32_t index) {
    const TracePod& pod = scene_.pods[index];
    std::string uid = pod.name;
    if (const int before = seen_[index]++; before > 0) uid += fmt::format("#{}", before + 1);
    driver_->advance_to(driver_->now() + Duration(1));
    TRY(const bool placed,
        driver_->submit(
            {.uid = std::move(uid), .request = &scene_.requests[scene_.request_of[index]]}));
    const WorkKind kind = work_kind(pod);
    ++result_.asked[kind];
    if (!placed) {
      ++result_.failed;
      const bool fits_empty = scene_.fits_empty[index];
      ++result_.refused[{kind, why_refused(driver_->state(), pod, fits_empty)}];
    }
    arrived_ += pod.total_milli();
    curve_.add(arrived_, driver_->state().bound_milli());
    return success();
  }

  void sum_up() {
    const FleetState& state = driver_->state();
    result_.curve = curve_.points();
    result_.final_allocation =
        100.0 * static_cast<double>(state.bound_milli()) / static_cast<double>(scene_.capacity);
    result_.fragmentation = measure_fragmentation(state, scene_.typical);
    result_.device_left = state.all_devices();
    result_.latency = std::move(driver_->latency());
  }

  const Scene& scene_;
  std::unique_ptr<Driver> driver_;
  AllocationCurve curve_;
  std::vector<int> seen_;  // how often each pod came already
  std::int64_t arrived_ = 0;
  RunResult result_;
};

}  // namespace

Result<RunResult> play_run(const Scene& scene, const RunSpec& spec, const RunHooks& hooks) {
  return Run(scene, spec).play(hooks);
}

Result<std::int64_t> count_events(const Scene& scene, const RunSpec& spec) {
  TRY(const std::vector<std::uint32_t> arrivals,
      draw_arrivals(scene.pods, arrival_plan(scene, spec)));
  return static_cast<std::int64_t>(arrivals.size() + scene.nodes.size() + 1);
}

}  // namespace berth::sim
