// Traces: node lists and pod lists in the format of the published openb cluster snapshot.
//
//   TRY(std::vector<TraceNode> nodes, read_nodes("openb_node_list_gpu_node.csv"));
//   TRY(std::vector<TracePod> pods, read_pods("openb_pod_list_default.csv"));
//
// Columns are found by their name in the header line, in any order. Node lists: sn, cpu_milli,
// memory_mib, gpu, model. Pod lists: name, cpu_milli, memory_mib, num_gpu, gpu_milli, and
// optionally gpu_spec, qos, pod_phase, creation_time, deletion_time, scheduled_time.
//
// Errors are invalid_argument with file:line:column, the field, its value, the rule and the fix.
// A value that is returned keeps the bounds below. What it does not promise: that a pod fits
// anywhere (that is refused work, see find_unplaceable), or that a list is sorted. Thread-safety:
// pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace berth::sim {

inline constexpr std::size_t kMaxTraceNodes = 200'000;
inline constexpr std::size_t kMaxTracePods = 5'000'000;
inline constexpr int kWholeDeviceMilli = 1000;

struct TraceNode {
  std::string name = {};
  std::int64_t cpu_milli = 0;
  std::int64_t memory_mib = 0;
  int devices = 0;
  std::string model = {};  // of every device; empty only without devices
};

struct TracePod {
  std::string name = {};
  std::int64_t cpu_milli = 0;
  std::int64_t memory_mib = 0;
  int num_gpu = 0;
  int gpu_milli = 0;          // of each device: 0 iff num_gpu is 0; below 1000 only if num_gpu is 1
  std::string gpu_spec = {};  // allowed models joined by '|', empty = any

  std::int64_t total_milli() const { return std::int64_t{gpu_milli} * num_gpu; }

  bool allows(std::string_view model) const;
};

Result<std::vector<TraceNode>> parse_nodes(std::string_view text, const std::string& file);
Result<std::vector<TracePod>> parse_pods(std::string_view text, const std::string& file);
Result<std::vector<TraceNode>> read_nodes(const std::string& path);
Result<std::vector<TracePod>> read_pods(const std::string& path);

// "openb_pod_list_default.csv" -> "default": what reports call a trace (interfaces page, 2).
std::string trace_name(std::string_view path);

std::int64_t capacity_milli(const std::vector<TraceNode>& nodes);

// Distinct requests that no node of the fleet could serve even if it were empty.
struct Unplaceable {
  const TracePod* example = nullptr;
  std::int64_t pods = 0;
  std::string why;  // "no node has model A100"
};

std::vector<Unplaceable> find_unplaceable(const std::vector<TraceNode>& nodes,
                                          const std::vector<TracePod>& pods);

}  // namespace berth::sim
