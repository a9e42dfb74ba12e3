// Fleet: all nodes and devices, and the one place that knows which id stands for which name.
//
// Owns the descriptions (Node, Device) and nothing about promises. Ids are dense and stay for ever:
// a node or device that vanishes is marked absent and gets the same id back when it returns.
// Invariants: every present device belongs to exactly one present node; node(id).devices and
// devices_of(id) have the same length and order.
// Thread-safety: none; owned by one engine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/model/device.h"
#include "core/model/ids.h"

namespace berth::core {

class Fleet {
 public:
  struct Change {
    NodeId node;
    bool created = false;           // no node of this name was present
    std::vector<DeviceId> removed;  // devices that were on it and are not any more
    std::vector<DeviceId> added;
  };

  // Adds or replaces a node. Errors: check_node's, or a device UUID that is present on another
  // node.
  Result<Change> upsert(Node node);
  // Marks a node and its devices absent. Error not_found when it is not present.
  Result<Change> remove(std::string_view name);

  std::size_t node_slots() const { return nodes_.size(); }  // ids ever given out

  std::size_t device_slots() const { return devices_.size(); }

  std::size_t present_nodes() const { return present_nodes_; }

  bool present(NodeId id) const { return nodes_[id.index()].present; }

  bool present(DeviceId id) const { return !devices_[id.index()].node.is_none(); }

  const Node& node(NodeId id) const { return nodes_[id.index()].node; }

  const std::vector<DeviceId>& devices_of(NodeId id) const { return nodes_[id.index()].devices; }

  const Device& device(DeviceId id) const;  // requires present(id)

  NodeId node_of(DeviceId id) const { return devices_[id.index()].node; }  // none = absent

  std::size_t place_of(DeviceId id) const { return devices_[id.index()].place; }  // in devices_of

  const std::string& uuid(DeviceId id) const { return devices_[id.index()].uuid; }

  NodeId find_node(std::string_view name) const;      // none when never seen
  DeviceId find_device(std::string_view uuid) const;  // none when never seen

  // Changes one device's own facts in place; identity and node stay.
  void set_health(DeviceId id, DeviceHealth health);
  void set_cordoned(DeviceId id, bool cordoned);

 private:
  struct NodeSlot {
    Node node;
    std::vector<DeviceId> devices;
    bool present = false;
  };

  struct DeviceSlot {
    std::string uuid;
    NodeId node;
    std::size_t place = 0;
  };

  Device& device_mut(DeviceId id);
  DeviceId device_id_for(const std::string& uuid);

  std::vector<NodeSlot> nodes_;
  std::vector<DeviceSlot> devices_;
  std::unordered_map<std::string, NodeId> node_ids_;
  std::unordered_map<std::string, DeviceId> device_ids_;
  std::size_t present_nodes_ = 0;
};

}  // namespace berth::core
