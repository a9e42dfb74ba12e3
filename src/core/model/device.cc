#include "core/model/device.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/core.h>

namespace berth::core {

std::int64_t Device::usable_mib() const {
  if (!total.has_value() || reserve >= *total) {
    return 0;
  }
  return Memory(*total - reserve).floor_mib();
}

Memory default_reserve(Memory total) {
  const std::int64_t three_percent = (total.in_bytes() * 3 + 99) / 100;
  return Memory::bytes(std::max(Memory::mib(256).in_bytes(), three_percent));
}

namespace {

Result<void> check_device(const Node& node, const Device& device) {
  if (device.uuid.empty()) {
    return invalid_argument(fmt::format(
        "node {}: device {}: uuid is empty; give each device its UUID", node.name, device.index));
  }
  if (device.total.has_value() &&
      (*device.total <= Memory() || *device.total > Memory::mib(kMaxMemoryMib))) {
    return invalid_argument(
        fmt::format("device {}: total memory is {} bytes; it must lie between 1 byte and {} MiB, "
                    "or be left out "
                    "when it is unknown",
                    device.uuid, device.total->in_bytes(), kMaxMemoryMib));
  }
  if (device.reserve < Memory() || device.reserve > Memory::mib(kMaxMemoryMib)) {
    return invalid_argument(
        fmt::format("device {}: reserve is {} bytes; it must lie between 0 and {} MiB", device.uuid,
                    device.reserve.in_bytes(), kMaxMemoryMib));
  }
  if (device.link_set < -1) {
    return invalid_argument(fmt::format(
        "device {}: link set is {}; it must be 0 or above, or left out when there is none",
        device.uuid, device.link_set));
  }
  return success();
}

Result<void> check_links(const Node& node) {
  std::set<std::pair<int, int>> seen;
  for (const PairScore& link : node.links) {
    const auto [a, b] = std::minmax(link.a, link.b);
    const auto refuse = [&](std::string_view rule) {
      return invalid_argument(fmt::format("node {}: links has [{}, {}, {}]; {}", node.name, link.a,
                                          link.b, link.score, rule));
    };
    if (a < 0 || static_cast<std::size_t>(b) >= node.devices.size() || a == b) {
      return refuse(fmt::format("a pair names two of the node's {} devices, counted from 0",
                                node.devices.size()));
    }
    if (link.score < 0 || link.score > kMostPairScore) {
      return refuse(fmt::format("a score lies between 0 and {}", kMostPairScore));
    }
    if (!seen.emplace(a, b).second) {
      return refuse("this pair is given twice; give each once, in either order");
    }
  }
  return success();
}

}  // namespace

Result<void> check_node(const Node& node) {
  if (node.name.empty()) {
    return invalid_argument("a node has an empty name; every node needs one");
  }
  if (node.cpu < Milli() || node.cpu > Milli(kMaxCpuMilli)) {
    return invalid_argument(
        fmt::format("node {}: cpu is {} millicores; it must lie between 0 and {}", node.name,
                    node.cpu.count(), kMaxCpuMilli));
  }
  if (node.ram < Memory() || node.ram > Memory::mib(kMaxMemoryMib)) {
    return invalid_argument(
        fmt::format("node {}: ram is {} bytes; it must lie between 0 and {} MiB", node.name,
                    node.ram.in_bytes(), kMaxMemoryMib));
  }
  if (node.pod_slots < 0) {
    return invalid_argument(fmt::format("node {}: pod slots are {}; they cannot be negative",
                                        node.name, node.pod_slots));
  }
  if (node.devices.size() > kMaxDevicesPerNode) {
    return invalid_argument(fmt::format("node {}: it has {} devices; at most {} are supported",
                                        node.name, node.devices.size(), kMaxDevicesPerNode));
  }
  std::unordered_set<std::string_view> uuids;
  for (const Device& device : node.devices) {
    TRY_VOID(check_device(node, device));
    if (!uuids.insert(device.uuid).second) {
      return invalid_argument(fmt::format(
          "node {}: device UUID {} is given twice; UUIDs are unique", node.name, device.uuid));
    }
  }
  return check_links(node);
}

}  // namespace berth::core
