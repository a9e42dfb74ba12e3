#include "sim/comparison.h"

#include <algorithm>

#include "oracle/fluid_bound.h"

namespace berth::sim {

namespace {

std::optional<CurvePoint> point_at(const std::vector<RunResult>& runs,
                                   const std::vector<std::size_t>& chosen, std::size_t percent) {
  std::optional<CurvePoint> point;
  for (const std::size_t run : chosen) {
    const std::optional<double> value = runs[run].curve[percent];
    if (!value) return std::nullopt;
    if (!point) point = {.mean = 0, .low = *value, .high = *value};
    point->mean += *value / static_cast<double>(chosen.size());
    point->low = std::min(point->low, *value);
    point->high = std::max(point->high, *value);
  }
  return point;
}

PolicySummary summarise(const std::vector<RunResult>& runs, std::vector<std::size_t> chosen) {
  PolicySummary summary;
  summary.policy = runs[chosen.front()].spec.policy;
  const double share = 1.0 / static_cast<double>(chosen.size());
  for (const std::size_t index : chosen) {
    const RunResult& run = runs[index];
    summary.arrivals += share * static_cast<double>(run.arrivals);
    summary.failed += share * static_cast<double>(run.failed);
    summary.final_allocation += share * run.final_allocation;
    for (std::size_t i = 0; i < kIdleCauses; ++i) {
      summary.fragmentation[i] += share * run.fragmentation[i];
    }
    for (const auto& [key, pods] : run.refused) {
      summary.refused[key] += share * static_cast<double>(pods);
    }
    for (const auto& [kind, pods] : run.asked) {
      summary.asked[kind] += share * static_cast<double>(pods);
    }
    summary.latency.merge(run.latency);
  }
  for (std::size_t percent = 0; percent < runs[chosen.front()].curve.size(); ++percent) {
    summary.curve.push_back(point_at(runs, chosen, percent));
  }
  summary.runs = std::move(chosen);
  return summary;
}

}  // namespace

std::vector<RunSpec> RunPlan::specs() const {
  std::vector<RunSpec> specs;
  for (const std::string& policy : policies) {
    for (const std::uint64_t seed : seeds) {
      specs.push_back(
          {.policy = policy, .seed = seed, .arrival_percent = arrival_percent, .check = check});
    }
  }
  return specs;
}

Comparison compare(const Scene& scene, const RunPlan& plan, std::vector<RunResult> runs) {
  Comparison comparison;
  comparison.scene = &scene;
  comparison.arrival_percent = plan.arrival_percent;
  comparison.seeds = plan.seeds;
  comparison.runs = std::move(runs);
  std::size_t next = 0;
  for (std::size_t policy = 0; policy < plan.policies.size(); ++policy) {
    std::vector<std::size_t> chosen;
    for (std::size_t seed = 0; seed < plan.seeds.size(); ++seed)
      chosen.push_back(next++);
    comparison.policies.push_back(summarise(comparison.runs, std::move(chosen)));
  }
  return comparison;
}

Result<Bounds> fluid_bounds(const Scene& scene) {
  oracle::BoundInput input;
  for (const TraceNode& node : scene.nodes) {
    input.nodes.push_back({.model = node.model,
                           .gpus = node.devices,
                           .cpu_milli = node.cpu_milli,
                           .memory_mib = node.memory_mib,
                           .count = 1});
  }
  Bounds bounds;
  for (std::size_t i = 0; i < scene.pods.size(); ++i) {
    const TracePod& pod = scene.pods[i];
    if (!scene.fits_empty[i]) {
      ++bounds.left_out;
      continue;
    }
    oracle::BoundClass work{.cpu_milli = pod.cpu_milli,
                            .memory_mib = pod.memory_mib,
                            .gpu_milli = pod.gpu_milli,
                            .num_gpu = pod.num_gpu,
                            .count = 1};
    if (!pod.gpu_spec.empty()) {
      const core::Request& request = scene.requests[scene.request_of[i]];
      work.models = request.containers().front().gpu.filter.models;
    }
    input.classes.push_back(std::move(work));
  }
  TRY(const oracle::FluidBound no_reject, oracle::no_reject_bound(input));
  TRY(const oracle::FluidBound choose_any, oracle::choose_any_bound(input));
  bounds.no_reject = no_reject.percent;
  bounds.choose_any = choose_any.percent;
  return bounds;
}

}  // namespace berth::sim
