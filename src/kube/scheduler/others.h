// Resources that somebody else gives out, and what every node is called in the engine.
// Source: kubernetes-api.md 13, row 4. Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "kube/objects/objects.h"

namespace berth::kube {

// Under it every node of the engine carries its name, so that a set of nodes can be kept out. No
// label of a cluster can be called so.
inline constexpr std::string_view kNodeNameLabel = "field:metadata.name";

// Whether a resource is counted here: not CPU, memory, pods, nor GPUs that are devices of the
// engine.
bool is_other_resource(std::string_view name);
// What a node offers of them, in whole units rounded down.
std::map<std::string, std::int64_t, std::less<>> offered_by(const Node& node);

}  // namespace berth::kube
