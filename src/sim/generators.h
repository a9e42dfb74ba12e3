// Generated fleets and loads, for sizes that no published trace has.
//
// A fleet of N nodes keeps a real one's mix: every distinct (model, devices, CPU, memory) gets its
// share of the N by largest remainders. With `devices` given, every node that has any gets exactly
// that many, and its CPU and memory grow in proportion, so cores and memory per device stay real.
//
// A load draws pods uniformly from a trace's list (so classes come as often as in the trace, memory
// included), lets each live for an exponential time and holds the fleet's allocation in a band:
// pods come as a Poisson stream whose rate would hold the middle of the band if nothing were
// refused; the stream pauses at the upper edge and hurries below the lower one. Random draws are
// integers (fixed_random.h): one seed, one load, everywhere. Thread-safety: pure functions;
// play_load may run on several threads for one Scene.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/driver.h"
#include "sim/metrics.h"
#include "sim/scene.h"

namespace berth::sim {

struct FleetScale {
  std::int64_t nodes = 0;    // 0 = as many as the list has
  std::int64_t devices = 0;  // per node that has any; 0 = as the list says
};

// Requires a list that is not empty. Names are node-00000 …, shape by shape.
std::vector<TraceNode> scale_fleet(const std::vector<TraceNode>& mix, const FleetScale& scale);

struct LoadShape {
  std::int64_t decisions = 200'000;  // timed, after the fleet was filled
  int low_percent = 90;
  int high_percent = 95;
  std::int64_t life_seconds = 3600;  // mean
};

struct LoadSpec {
  std::string policy;
  std::uint64_t seed = 42;
  LoadShape shape;
  bool check = false;
};

struct LoadResult {
  LoadSpec spec;
  std::int64_t fill_decisions = 0;  // before the band was reached; not timed
  std::int64_t refused = 0;         // of the timed decisions
  std::int64_t departures = 0;
  double lowest = 0;  // allocation in percent over the timed decisions
  double mean = 0;
  double highest = 0;
  double virtual_seconds = 0;
  LatencyStats latency;
};

// Errors: as play_run's; also that no pod of the trace asks for a GPU.
Result<LoadResult> play_load(const Scene& scene, const LoadSpec& spec, const RunHooks& hooks = {});

// "nodes=10000,devices=8,decisions=200000,fill=90-95,life=3600": what is left out keeps its
// default.
struct GenerateWords {
  FleetScale fleet;
  LoadShape load;
};

Result<GenerateWords> parse_generate(std::string_view text);

}  // namespace berth::sim
