// A Kubernetes node as an engine sees it: core::Node with devices, and how much of it is sure.
//
//   NodeReading reading = node_from(node, rules);
//   if (!reading.excluded.empty()) …   // nothing new is granted there; the sentence says why
//
// Devices come from the annotation `berth.dev/devices` (interfaces.md 7), which the administrator
// or the node agent writes, else from the labels of GPU Feature Discovery (nvidia-node.md 9). By
// labels only whole devices can be had: which card it is, the vendor's plug-in chooses. They have
// made-up identities that stay the same as long as the node has its uid.
//
// A node that contradicts itself is never guessed at: it comes back without devices, not ready,
// with `excluded` set. What runs on it is not judged here; whoever knew its devices before keeps
// them. Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "core/model/device.h"
#include "kube/objects/objects.h"

namespace berth::kube {

inline constexpr std::string_view kDevicesAnnotation = "berth.dev/devices";
inline constexpr std::string_view kCordonAnnotation = "hami.io/device-cordon";

enum class DeviceSource : std::uint8_t { none, annotation, labels };

// Who holds a container to its share there.
enum class NodeBackend : std::uint8_t { none, guard, fractiond };

std::string_view backend_name(NodeBackend backend);  // "guard"

struct NodeRules {
  bool allow_advisory = false;         // shares where nobody enforces them
  std::optional<Memory> reserve = {};  // per device, where nobody stated one; else 3 %
};

struct NodeReading {
  core::Node node = {};
  DeviceSource source = DeviceSource::none;
  NodeBackend backend = NodeBackend::none;
  bool cdi = false;  // devices are named in the CDI way there
  // "BadNodeLabel: nvidia.com/gpu.count=abc: …". Not empty: `node` has no devices and is not ready.
  std::string excluded = {};
  // Why shares have to wait there, and how to mend it; empty when nothing is in their way.
  std::string sharing_why = {};
  // What is worth a line of log: a device left out, a reserve that was assumed.
  std::vector<std::string> notes = {};
};

NodeReading node_from(const Node& node, const NodeRules& rules);

}  // namespace berth::kube
