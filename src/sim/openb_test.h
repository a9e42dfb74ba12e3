// The published openb files, for tests: read once per list.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/trace.h"

namespace berth::sim {

inline std::string openb_path(const std::string& file) {
  return std::string(BERTH_SOURCE_DIR) + "/bench/data/openb/openb_" + file + ".csv";
}

inline const std::vector<TraceNode>& openb_nodes() {
  static const std::vector<TraceNode> nodes = read_nodes(openb_path("node_list_gpu_node")).value();
  return nodes;
}

inline const std::vector<TracePod>& openb_pods(const std::string& list) {
  static std::map<std::string, std::vector<TracePod>> lists;
  const auto [entry, fresh] = lists.try_emplace(list);
  if (fresh) entry->second = read_pods(openb_path("pod_list_" + list)).value();
  return entry->second;
}

}  // namespace berth::sim
