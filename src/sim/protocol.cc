#include "sim/protocol.h"

#include <chrono>
#include <memory>
#include <string_view>
#include <variant>

#include <fmt/format.h>

#include "core/engine/engine.h"
#include "core/ledger/ledger.h"
#include "sim/arrivals.h"

namespace berth::sim {

namespace {

std::int64_t steady_nanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

ArrivalPlan arrival_plan(const Scene& scene, const RunSpec& spec) {
  return {.seed = spec.seed, .goal_milli = scene.capacity * spec.arrival_percent / 100};
}

class Run {
 public:
  Run(const Scene& scene, const RunSpec& spec, const RunHooks& hooks)
      : scene_(scene),
        hooks_(hooks),
        now_nanos_(hooks.now_nanos != nullptr ? hooks.now_nanos : steady_nanos),
        state_(scene.nodes, kPodSlotsPerNode),
        curve_(scene.capacity, spec.arrival_percent),
        times_seen_(scene.pods.size()) {
    result_.spec = spec;
  }

  Result<RunResult> play() {
    const std::int64_t begin = now_nanos_();
    TRY(const std::vector<std::uint32_t> arrivals,
        draw_arrivals(scene_.pods, arrival_plan(scene_, result_.spec)));
    TRY_VOID(set_up());
    result_.arrivals = static_cast<std::int64_t>(arrivals.size());
    result_.latency.reserve(arrivals.size());
    for (const std::uint32_t pod : arrivals) {
      if (hooks_.cancelled != nullptr && hooks_.cancelled->load(std::memory_order_relaxed)) {
        return Error(ErrorCode::exhausted, "cancelled");
      }
      TRY_VOID(arrive(pod));
      if (hooks_.events != nullptr) hooks_.events->fetch_add(1, std::memory_order_relaxed);
    }
    TRY_VOID(compare_books());
    result_.curve = curve_.points();
    result_.final_allocation =
        100.0 * static_cast<double>(state_.bound_milli()) / static_cast<double>(scene_.capacity);
    result_.fragmentation = measure_fragmentation(state_, scene_.typical);
    result_.device_left = state_.all_devices();
    result_.seconds = static_cast<double>(now_nanos_() - begin) / 1e9;
    return std::move(result_);
  }

 private:
  Result<void> set_up() {
    core::EngineConfig config;
    config.policy = result_.spec.policy;
    config.policy_seed = node_order_seed(result_.spec.seed);
    config.reservations = false;
    TRY(engine_, core::Engine::create(config));
    const std::vector<std::uint32_t> ranks =
        draw_node_ranks(scene_.nodes.size(), result_.spec.seed);
    for (std::size_t i = 0; i < scene_.nodes.size(); ++i) {
      TRY_VOID(tell(core::NodeUpserted{engine_node(scene_.nodes[i], ranks[i])}));
    }
    return tell(scene_.history);
  }

  // An event that the engine must obey and that grants nothing.
  Result<void> tell(core::EventBody body) {
    for (const core::Action& action : engine_->apply({now_, std::move(body)})) {
      const auto* notice = std::get_if<core::Notice>(&action);
      if (notice != nullptr && notice->kind == core::Notice::Kind::refused_event) {
        return invalid_argument(notice->text);
      }
    }
    return check();
  }

  Result<void> check() const {
    if (!result_.spec.check) return success();
    return core::verify(*engine_);
  }

  core::Event submission(std::uint32_t pod) {
    std::string uid = scene_.pods[pod].name;
    if (const int before = times_seen_[pod]++; before > 0) uid += fmt::format("#{}", before + 1);
    core::WorkloadOptions options;
    options.wait_timeout = Duration(0);
    return {now_,
            core::WorkloadSubmitted{core::Workload::task(
                std::move(uid), scene_.requests[scene_.request_of[pod]], std::move(options))}};
  }

  Result<void> arrive(std::uint32_t index) {
    const TracePod& pod = scene_.pods[index];
    now_ = now_ + Duration(1);
    const core::Event event = submission(index);
    const std::int64_t begin = now_nanos_();
    const std::span<const core::Action> actions = engine_->apply(event);
    result_.latency.add(now_nanos_() - begin);

    const core::Granted* granted = nullptr;
    for (const core::Action& action : actions) {
      if (const auto* found = std::get_if<core::Granted>(&action)) granted = found;
    }
    const WorkKind kind = work_kind(pod);
    ++result_.asked[kind];
    if (granted != nullptr) {
      state_.take(placement_of(*granted));
    } else {
      ++result_.failed;
      ++result_.refused[{kind, why_refused(state_, pod, scene_.fits_empty[index])}];
    }
    arrived_ += pod.total_milli();
    curve_.add(arrived_, state_.bound_milli());
    return check();
  }

  Placement placement_of(const core::Granted& granted) const {
    const core::Grant* grant = engine_->grant(granted.workload);
    ASSERT(grant != nullptr, granted.workload.value());
    Placement placement{.node = grant->node.value(),
                        .parts = {},
                        .cpu_milli = grant->cpu.count(),
                        .memory_mib = grant->ram.ceil_mib()};
    for (const core::DeviceCharge& charge : grant->charges) {
      placement.parts.push_back(
          {.device = static_cast<std::uint32_t>(engine_->fleet().place_of(charge.device)),
           .milli = charge.exclusive ? kWholeDeviceMilli : static_cast<int>(charge.running_mib)});
    }
    return placement;
  }

  // The simulator counted grants, the ledger keeps books: both must say the same of every node.
  Result<void> compare_books() const {
    const core::Ledger& ledger = engine_->ledger();
    for (std::size_t i = 0; i < scene_.nodes.size(); ++i) {
      const core::NodeId id = engine_->fleet().find_node(scene_.nodes[i].name);
      const NodeState& node = state_.nodes()[i];
      const core::NodeFace& face = ledger.node(id);
      bool same = id.index() == i && face.cpu_free == node.cpu_milli &&
                  face.ram_free == Memory::mib(node.memory_mib).in_bytes() &&
                  face.slots_free == node.slots && face.count == node.count;
      const std::span<const std::int16_t> left = state_.devices(node);
      for (std::size_t d = 0; same && d < left.size(); ++d) {
        same = ledger.faces(id)[d].headroom == Memory::mib(left[d]).in_bytes();
      }
      if (!same) {
        return Error(
            ErrorCode::internal,
            fmt::format("node {}: the engine's books differ from what its grants add up to; "
                        "please report this with the command line",
                        scene_.nodes[i].name));
      }
    }
    return success();
  }

  const Scene& scene_;
  const RunHooks& hooks_;
  std::int64_t (*now_nanos_)();
  std::unique_ptr<core::Engine> engine_;
  Time now_;
  FleetState state_;
  AllocationCurve curve_;
  std::vector<int> times_seen_;
  std::int64_t arrived_ = 0;
  RunResult result_;
};

}  // namespace

Result<RunResult> play_run(const Scene& scene, const RunSpec& spec, const RunHooks& hooks) {
  return Run(scene, spec, hooks).play();
}

Result<std::int64_t> count_arrivals(const Scene& scene, const RunSpec& spec) {
  TRY(const std::vector<std::uint32_t> arrivals,
      draw_arrivals(scene.pods, arrival_plan(scene, spec)));
  return static_cast<std::int64_t>(arrivals.size());
}

}  // namespace berth::sim
