// A comparison made without an engine: first fit and worst fit over the published trace, for tests
// of what is printed and drawn.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/arrivals.h"
#include "sim/comparison.h"
#include "sim/openb_test.h"

namespace berth::sim {

// The devices of a node that would take the pod; none if it does not fit.
inline std::optional<Placement> fit(const FleetState& state, std::uint32_t index,
                                    const TracePod& pod) {
  const NodeState& node = state.nodes()[index];
  if (node.cpu_milli < pod.cpu_milli || node.memory_mib < pod.memory_mib) return std::nullopt;
  if (pod.num_gpu > 0 && !pod.allows(state.models()[node.model])) return std::nullopt;
  Placement placement{
      .node = index, .parts = {}, .cpu_milli = pod.cpu_milli, .memory_mib = pod.memory_mib};
  const auto left = state.devices(node);
  for (std::uint32_t d = 0; d < left.size(); ++d) {
    if (static_cast<int>(placement.parts.size()) == pod.num_gpu) break;
    if (left[d] >= pod.gpu_milli) placement.parts.push_back({d, pod.gpu_milli});
  }
  if (static_cast<int>(placement.parts.size()) < pod.num_gpu) return std::nullopt;
  return placement;
}

inline RunResult toy_run(const Scene& scene, const RunSpec& spec) {
  FleetState state(scene.nodes, kPodSlotsPerNode);
  AllocationCurve curve(scene.capacity, spec.arrival_percent);
  RunResult run;
  run.spec = spec;
  const auto arrivals =
      draw_arrivals(scene.pods,
                    {.seed = spec.seed, .goal_milli = scene.capacity * spec.arrival_percent / 100})
          .value();
  std::int64_t asked = 0;
  for (const std::uint32_t i : arrivals) {
    const TracePod& pod = scene.pods[i];
    std::optional<Placement> chosen;
    for (std::uint32_t n = 0; n < state.nodes().size(); ++n) {
      const std::optional<Placement> found = fit(state, n, pod);
      if (!found) continue;
      const bool emptier = chosen && state.left_milli(state.nodes()[n]) >
                                         state.left_milli(state.nodes()[chosen->node]);
      if (!chosen || (spec.policy == "worst-fit" && emptier)) chosen = found;
      if (spec.policy != "worst-fit") break;
    }
    ++run.arrivals;
    ++run.asked[work_kind(pod)];
    asked += pod.total_milli();
    if (chosen) {
      state.take(*chosen);
    } else {
      ++run.failed;
      ++run.refused[{work_kind(pod), why_refused(state, pod, scene.fits_empty[i])}];
    }
    curve.add(asked, state.bound_milli());
    run.latency.add(2000 + static_cast<std::int64_t>(i * i % 9000));
  }
  run.curve = curve.points();
  run.final_allocation =
      100.0 * static_cast<double>(state.bound_milli()) / static_cast<double>(scene.capacity);
  run.fragmentation = measure_fragmentation(state, scene.typical);
  run.device_left = state.all_devices();
  run.seconds = 1;
  return run;
}

inline Scene openb_scene(const std::string& list) {
  return make_scene(list, openb_nodes(), openb_pods(list)).value();
}

inline Comparison toy_comparison(const Scene& scene, std::vector<std::uint64_t> seeds = {42, 43}) {
  const RunPlan plan{.policies = {"first-fit", "worst-fit"}, .seeds = std::move(seeds)};
  std::vector<RunResult> runs;
  for (const RunSpec& spec : plan.specs())
    runs.push_back(toy_run(scene, spec));
  return compare(scene, plan, std::move(runs));
}

}  // namespace berth::sim
