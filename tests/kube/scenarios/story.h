// A document of a scenario file as JSON: what is created, what happens, what is expected, with
// devices by UUID and memory in MiB. For who plays it on a cluster.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "json/value.h"
#include "scenario/script.h"

namespace berth::kube {

// Why a script cannot be played with pods; empty: it can.
std::string not_for_pods(const scenario::Script& script);

// One story per document:
// {"file", "line", "about", "skip": why or "", "configuration": {…}, "queues": {…} or null,
//  "names": {uuid: "g0"}, "nodes": [Node…], "deeds": [{"line", "do": …}…]}
// `do` is "submit" (pod, refused), "adopt" (pod, node, annotations, foreign), "end", "releasing",
// "initialized" (name), "edit" (name, annotations, refused), "restart" or "expect" (workloads,
// devices, nodes). Errors: those of parse_scripts.
Result<json::Value> stories_of(std::string_view text, std::string_view file_name);

}  // namespace berth::kube
