#include "core/model/fleet.h"

#include <algorithm>

#include <fmt/core.h>

namespace berth::core {

const Device& Fleet::device(DeviceId id) const {
  const DeviceSlot& slot = devices_[id.index()];
  ASSERT(!slot.node.is_none(), id.value());
  return nodes_[slot.node.index()].node.devices[slot.place];
}

Device& Fleet::device_mut(DeviceId id) {
  const DeviceSlot& slot = devices_[id.index()];
  ASSERT(!slot.node.is_none(), id.value());
  return nodes_[slot.node.index()].node.devices[slot.place];
}

NodeId Fleet::find_node(std::string_view name) const {
  const auto found = node_ids_.find(std::string(name));
  return found == node_ids_.end() ? NodeId::none() : found->second;
}

DeviceId Fleet::find_device(std::string_view uuid) const {
  const auto found = device_ids_.find(std::string(uuid));
  return found == device_ids_.end() ? DeviceId::none() : found->second;
}

DeviceId Fleet::device_id_for(const std::string& uuid) {
  const auto [at, fresh] = device_ids_.try_emplace(uuid, DeviceId(devices_.size()));
  if (fresh) {
    devices_.push_back(DeviceSlot{.uuid = uuid, .node = NodeId::none(), .place = 0});
  }
  return at->second;
}

Result<Fleet::Change> Fleet::upsert(Node node) {
  TRY_VOID(check_node(node));
  const NodeId known = find_node(node.name);
  for (const Device& device : node.devices) {
    const DeviceId id = find_device(device.uuid);
    if (!id.is_none() && present(id) && node_of(id) != known) {
      return Error(
          ErrorCode::already_exists,
          fmt::format("device {} of node {} is present on node {} already; remove it there "
                      "first",
                      device.uuid, node.name, nodes_[node_of(id).index()].node.name));
    }
  }
  Change change;
  if (known.is_none()) {
    change.node = NodeId(nodes_.size());
    node_ids_.emplace(node.name, change.node);
    nodes_.emplace_back();
  } else {
    change.node = known;
  }
  NodeSlot& slot = nodes_[change.node.index()];
  change.created = !slot.present;
  if (!slot.present) {
    ++present_nodes_;
  }
  slot.present = true;
  std::vector<DeviceId> before = std::move(slot.devices);
  slot.devices.clear();
  for (const DeviceId id : before) {
    devices_[id.index()].node = NodeId::none();
  }
  for (std::size_t place = 0; place < node.devices.size(); ++place) {
    const DeviceId id = device_id_for(node.devices[place].uuid);
    devices_[id.index()].node = change.node;
    devices_[id.index()].place = place;
    nodes_[change.node.index()].devices.push_back(id);
    if (std::ranges::find(before, id) == before.end()) {
      change.added.push_back(id);
    }
  }
  for (const DeviceId id : before) {
    if (devices_[id.index()].node.is_none()) {
      change.removed.push_back(id);
    }
  }
  nodes_[change.node.index()].node = std::move(node);
  return change;
}

Result<Fleet::Change> Fleet::remove(std::string_view name) {
  const NodeId id = find_node(name);
  if (id.is_none() || !present(id)) {
    return Error(ErrorCode::not_found, fmt::format("node {} is not in the fleet", name));
  }
  NodeSlot& slot = nodes_[id.index()];
  Change change;
  change.node = id;
  change.removed = std::move(slot.devices);
  slot.devices.clear();
  slot.node.devices.clear();
  slot.present = false;
  --present_nodes_;
  for (const DeviceId device : change.removed) {
    devices_[device.index()].node = NodeId::none();
  }
  return change;
}

void Fleet::set_health(DeviceId id, DeviceHealth health) { device_mut(id).health = health; }

void Fleet::set_cordoned(DeviceId id, bool cordoned) { device_mut(id).cordoned = cordoned; }

}  // namespace berth::core
