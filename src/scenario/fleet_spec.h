// SPEC: a fleet in one word, as scenarios, `--simulate` and the fake drivers take it.
//
//   2x16GiB                      one node n0 with two devices
//   8x80GiB:H100                 the same with a model
//   n1=2x16GiB,n2=8x80GiB:H100   named nodes
//
// UUIDs are derived from the node's name, the device's index and the device's part of SPEC, so that
// they are the same on every run; within a node their byte order is that of the indices.
// Thread-safety: functions of their arguments.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/model/device.h"

namespace berth::scenario {

// Errors: the part of the text that is wrong, the rule, an example.
Result<std::vector<core::Node>> fleet_from_spec(std::string_view spec);

// What a node has that nobody described: enough CPU and RAM not to be in the way.
core::Node plain_node(std::string name);

// The identity of the device at `index` of `node`; `spec` is its part of SPEC, e.g. "80GiB:H100".
std::string derived_uuid(std::string_view node, int index, std::string_view spec, bool mig = false);
// "00000000:0A:00.0" for index 9: bus ids ascend with the index.
std::string derived_bus_id(int index);

// "16GiB:H100": the device's part of SPEC.
std::string device_spec(const core::Device& device);

inline constexpr std::size_t kMaxSpecNodes = 100'000;
inline constexpr std::string_view kPlainModel = "GPU";

}  // namespace berth::scenario
