// World: the outside of the engine that a scenario pretends to be: how each node is described now,
// and what "n0/g1" stands for.
//
// Invariant: the place of a device in its node's list never changes once given, whatever the driver
// calls it later and whether or not it is there.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/model/device.h"

namespace berth::scenario {

class World {
 public:
  // Describes a node, new or anew.
  const core::Node& describe(core::Node node);

  // The present description, for an event; null when no such node was described.
  core::Node* find_node(std::string_view name);

  // "n0/g1" or a UUID -> the UUID; empty when it stands for nothing.
  std::optional<std::string> uuid_of(std::string_view device) const;
  // The UUID -> "n0/g1"; a UUID that was never described stays as it is.
  std::string short_name(std::string_view uuid) const;
  // A text with every UUID in it replaced by "g1".
  std::string shorten(std::string text) const;

  // The node of a device, by UUID; also while the device is away.
  std::optional<std::string> node_of(std::string_view uuid) const;
  // Takes a device out of its node's description, and puts it back. False: it is not there, or is.
  bool remove_device(const std::string& uuid);
  bool restore_device(const std::string& uuid);
  bool add_device(const std::string& node, core::Device device);
  // Device at place N of the first description gets indices[N].
  Result<void> renumber(const std::string& node, const std::vector<std::int64_t>& indices);

 private:
  struct Home {
    std::string node;
    std::size_t place;
  };

  void give_place(const std::string& node, const std::string& uuid);

  std::map<std::string, core::Node, std::less<>> nodes_;
  std::map<std::string, std::vector<std::string>, std::less<>> places_;  // node -> UUIDs
  std::map<std::string, Home, std::less<>> homes_;                       // UUID -> where
  std::map<std::string, core::Device, std::less<>> away_;                // by UUID
};

}  // namespace berth::scenario
