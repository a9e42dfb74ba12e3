#include "scenario/world.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "config/value.h"

namespace berth::scenario {

using config::parse_count;

const core::Node& World::describe(core::Node node) {
  for (const core::Device& device : node.devices) {
    give_place(node.name, device.uuid);
    away_.erase(device.uuid);
  }
  std::string name = node.name;
  return nodes_.insert_or_assign(std::move(name), std::move(node)).first->second;
}

core::Node* World::find_node(std::string_view name) {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : &found->second;
}

void World::give_place(const std::string& node, const std::string& uuid) {
  if (homes_.contains(uuid)) return;
  std::vector<std::string>& places = places_[node];
  homes_[uuid] = {node, places.size()};
  places.push_back(uuid);
}

std::optional<std::string> World::uuid_of(std::string_view device) const {
  if (homes_.contains(device)) return std::string(device);
  const std::size_t slash = device.rfind("/g");
  if (slash == std::string_view::npos) return std::nullopt;
  const auto places = places_.find(device.substr(0, slash));
  const auto place = parse_count(device.substr(slash + 2), core::kMaxDevicesPerNode * 16);
  if (places == places_.end() || !place.ok()) return std::nullopt;
  const auto index = static_cast<std::size_t>(*place);
  if (index >= places->second.size()) return std::nullopt;
  return places->second[index];
}

std::string World::short_name(std::string_view uuid) const {
  const auto home = homes_.find(uuid);
  if (home == homes_.end()) return std::string(uuid);
  return fmt::format("{}/g{}", home->second.node, home->second.place);
}

std::string World::shorten(std::string text) const {
  // Longer UUIDs first, so that one that begins like another is not cut.
  std::vector<std::pair<std::string, std::size_t>> uuids;
  for (const auto& [uuid, home] : homes_) {
    if (text.find(uuid) != std::string::npos) uuids.emplace_back(uuid, home.place);
  }
  std::ranges::sort(uuids, [](const auto& a, const auto& b) {
    return a.first.size() != b.first.size() ? a.first.size() > b.first.size() : a.first < b.first;
  });
  for (const auto& [uuid, place] : uuids) {
    const std::string name = fmt::format("g{}", place);
    for (std::size_t at = text.find(uuid); at != std::string::npos; at = text.find(uuid, at)) {
      text.replace(at, uuid.size(), name);
      at += name.size();
    }
  }
  return text;
}

std::optional<std::string> World::node_of(std::string_view uuid) const {
  const auto home = homes_.find(uuid);
  if (home == homes_.end()) return std::nullopt;
  return home->second.node;
}

bool World::remove_device(const std::string& uuid) {
  const auto home = homes_.find(uuid);
  if (home == homes_.end()) return false;
  std::vector<core::Device>& devices = nodes_.find(home->second.node)->second.devices;
  const auto device = std::ranges::find(devices, uuid, &core::Device::uuid);
  if (device == devices.end()) return false;
  away_[uuid] = std::move(*device);
  devices.erase(device);
  return true;
}

bool World::restore_device(const std::string& uuid) {
  const auto device = away_.find(uuid);
  if (device == away_.end()) return false;
  nodes_.find(homes_.find(uuid)->second.node)->second.devices.push_back(std::move(device->second));
  away_.erase(device);
  return true;
}

bool World::add_device(const std::string& node, core::Device device) {
  core::Node* home = find_node(node);
  if (home == nullptr || homes_.contains(device.uuid)) return false;
  give_place(node, device.uuid);
  home->devices.push_back(std::move(device));
  return true;
}

Result<void> World::renumber(const std::string& node, const std::vector<std::int64_t>& indices) {
  core::Node* home = find_node(node);
  if (home == nullptr) return invalid_argument(fmt::format("no node {} was described", node));
  const std::vector<std::string>& places = places_[node];
  if (indices.size() != places.size()) {
    return invalid_argument(fmt::format("{} has {} devices and {} indices are given: give one each",
                                        node, places.size(), indices.size()));
  }
  std::vector<std::int64_t> sorted = indices;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
    return invalid_argument(
        fmt::format("index {} is given to two devices of {}: give each its own", *twice, node));
  }
  for (core::Device& device : home->devices) {
    device.index = static_cast<int>(indices[homes_.find(device.uuid)->second.place]);
  }
  std::ranges::sort(home->devices, {}, &core::Device::index);
  return success();
}

}  // namespace berth::scenario
