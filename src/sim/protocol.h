// One run of the published protocol: the work of a trace arrives in the order of a seed, the
// production engine places each pod or refuses it, and nothing ever leaves (placement page, section
// 2).
//
//   TRY(Scene scene, make_scene("default", std::move(nodes), std::move(pods)));
//   TRY(RunResult result, play_run(scene, {.policy = "pack", .seed = 42}));
//   result.curve[100]                   // allocation in percent when 100 % had arrived
//
// The engine is driven by events alone: nodes with their tie ranks, the class counts, then one
// submission per pod with "now or never" as its patience. Only the submissions are timed.
// Thread-safety: play_run may run on several threads for one Scene.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sim/driver.h"
#include "sim/metrics.h"
#include "sim/scene.h"

namespace berth::sim {

inline constexpr int kDefaultArrivalPercent = 130;
inline constexpr int kMaxArrivalPercent = 1000;

struct RunSpec {
  std::string policy;
  std::uint64_t seed = 42;
  int arrival_percent = kDefaultArrivalPercent;
  bool check = false;  // verify every derived figure of the engine after every event
};

struct RunResult {
  RunSpec spec;
  std::int64_t arrivals = 0;
  std::int64_t failed = 0;
  double final_allocation = 0;               // percent, after the last event
  std::vector<std::optional<double>> curve;  // by arrived percent
  Fragmentation fragmentation{};
  std::map<std::pair<WorkKind, RefusalReason>, std::int64_t> refused;
  std::map<WorkKind, std::int64_t> asked;  // arrivals by kind
  std::vector<std::int16_t> device_left;   // milli, in the order of the node list
  LatencyStats latency;
  double seconds = 0;  // the whole run
};

// Errors: what makes arrivals or an engine impossible; exhausted if cancelled; internal if the
// engine's books differ from the simulator's own count (or, under check, from themselves).
Result<RunResult> play_run(const Scene& scene, const RunSpec& spec, const RunHooks& hooks = {});

// How many events a run will have, for progress: cheap beside the run.
Result<std::int64_t> count_events(const Scene& scene, const RunSpec& spec);

}  // namespace berth::sim
