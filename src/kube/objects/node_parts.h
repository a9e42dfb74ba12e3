// The two ways in which a node tells its devices. Private to src/kube/objects.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/device.h"
#include "kube/objects/node_reading.h"
#include "kube/objects/objects.h"

namespace berth::kube {

inline constexpr std::int64_t kMostMib = core::kMaxMemoryMib;

struct NodeDevices {
  std::vector<core::Device> devices = {};
  std::vector<std::string> notes = {};
  std::string problem = {};  // as NodeReading::excluded
};

struct AnnotatedDevices : NodeDevices {
  NodeBackend backend = NodeBackend::none;
  bool cdi = false;
  bool cdi_known = false;
  bool ready = false;
};

AnnotatedDevices read_device_annotation(std::string_view text, const NodeRules& rules);
// Empty list without a problem: the labels name no GPU.
NodeDevices read_device_labels(const Node& node, const NodeRules& rules);

// The value of a label that is a whole number from 0 to `most`; a problem when it is not.
std::optional<std::int64_t> label_number(const Labels& labels, const std::string& key,
                                         std::int64_t most, std::string& problem);

// "<code>: <key>=<value>: <rule>".
std::string node_problem(std::string_view code, std::string_view key, std::string_view value,
                         std::string_view rule);

}  // namespace berth::kube
