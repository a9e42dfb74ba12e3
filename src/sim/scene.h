// Scene: what all runs of one comparison share: the fleet, the work, and what a policy may know of
// it.
//
// Made once, then only read. A trace device becomes an engine device with exactly 1000 usable MiB,
// so that one MiB stands for one milli and the production ledger counts what the benchmark counts.
// Thread-safety: const access from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/engine/events.h"
#include "core/model/request.h"
#include "core/placement/class_counts.h"
#include "sim/trace.h"

namespace berth::sim {

inline constexpr std::int64_t kPodSlotsPerNode = 1001;  // placement page, 2.5

struct Scene {
  std::string trace;
  std::vector<TraceNode> nodes;
  std::vector<TracePod> pods;
  std::int64_t capacity = 0;  // milli

  std::vector<core::Request> requests;    // one per distinct ask
  std::vector<std::uint32_t> request_of;  // pod -> index into requests
  std::vector<bool> fits_empty;           // pod -> some node could serve it if it were empty
  core::HistoryChanged history;           // class counts of the unshuffled trace
  std::vector<core::WorkClass> typical;   // the classes that fragmentation is measured by
  std::vector<std::string> warnings;      // refused work that is known beforehand, one line each
};

// Errors: the fleet has no device, or a pod's figures are out of an engine's range.
Result<Scene> make_scene(std::string trace, std::vector<TraceNode> nodes,
                         std::vector<TracePod> pods);

// A trace node as the engine sees it.
core::Node engine_node(const TraceNode& node, std::int64_t tie_rank);
// A trace pod's ask as the engine sees it.
Result<core::Request> engine_request(const TracePod& pod);

}  // namespace berth::sim
