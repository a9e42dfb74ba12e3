// Comparison: the runs of several policies over several seeds, and what they add up to.
//
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sim/metrics.h"
#include "sim/protocol.h"
#include "sim/scene.h"

namespace berth::sim {

// The arrived shares that tables and JSON show (interfaces page, 2).
inline constexpr int kShownPercents[] = {90, 95, 100, 110, 120, 130};

// Mean and range over the seeds of one policy; empty where not every run came that far.
struct CurvePoint {
  double mean = 0;
  double low = 0;
  double high = 0;
};

struct PolicySummary {
  std::string policy;
  std::vector<std::size_t> runs;  // indices into Comparison::runs, in order of the seeds
  std::vector<std::optional<CurvePoint>> curve;  // by arrived percent
  double arrivals = 0;                           // mean, like all figures below
  double failed = 0;
  double final_allocation = 0;
  Fragmentation fragmentation{};
  std::map<std::pair<WorkKind, RefusalReason>, double> refused;
  std::map<WorkKind, double> asked;
  LatencyStats latency;  // of all runs together
};

// What no scheduler can beat (placement page, 9), in percent of the capacity.
struct Bounds {
  double no_reject =
      0;  // where a scheduler that refuses nothing placeable first fails, at the latest
  double choose_any = 0;  // what could be filled at most if work might be refused at will
  // Pods that fit no node even when it is empty; they are left out of both.
  std::int64_t left_out = 0;
};

struct Comparison {
  const Scene* scene = nullptr;
  int arrival_percent = kDefaultArrivalPercent;
  std::vector<std::uint64_t> seeds;
  std::vector<RunResult> runs;  // policy by policy, seed by seed
  std::vector<PolicySummary> policies;
  std::optional<Bounds> bounds;
};

// One run per policy and seed, policy by policy.
struct RunPlan {
  std::vector<std::string> policies;
  std::vector<std::uint64_t> seeds;
  int arrival_percent = kDefaultArrivalPercent;
  bool check = false;
  std::vector<RunSpec> specs() const;
};

// Requires runs in the order of plan.specs(). The scene must outlive the comparison.
Comparison compare(const Scene& scene, const RunPlan& plan, std::vector<RunResult> runs);

// Errors: what the linear program's solver reports.
Result<Bounds> fluid_bounds(const Scene& scene);

}  // namespace berth::sim
