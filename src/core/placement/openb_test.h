// The shipped openb pod lists as class counts. For tests only: the placement code itself reads no
// file.
//
// Source: placement contract, section 1 (columns; the multigpu files stop after gpu_milli).
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/placement/class_counts.h"

#ifndef BERTH_SOURCE_DIR
#define BERTH_SOURCE_DIR "."  // tests are built with the real one
#endif

namespace berth::core {

inline std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);)
    parts.push_back(part);
  return parts;
}

// Pods of the named list ("default", "cpu250", ...), one element each, in file order.
inline std::vector<WorkClass> openb_pods(const std::string& list) {
  const std::filesystem::path path = std::filesystem::path(BERTH_SOURCE_DIR) / "bench/data/openb" /
                                     ("openb_pod_list_" + list + ".csv");
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::vector<WorkClass> pods;
  std::string line;
  std::getline(file, line);  // the header
  while (std::getline(file, line)) {
    const std::vector<std::string> columns = split(line, ',');
    pods.push_back(
        {.cpu_milli = std::stoll(columns.at(1)),
         .memory_mib = std::stoll(columns.at(2)),
         .gpu_milli = std::stoi(columns.at(4)),
         .num_gpu = std::stoi(columns.at(3)),
         .models = columns.size() > 5 ? split(columns[5], '|') : std::vector<std::string>{},
         .count = 1});
  }
  return pods;
}

inline ClassCounts openb_counts(const std::string& list) {
  ClassCounts counts;
  for (const WorkClass& pod : openb_pods(list))
    counts.add(pod);
  return counts;
}

}  // namespace berth::core
