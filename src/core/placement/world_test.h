// A small fleet with books and an index over it, for tests of policies and of the index.
//
//   World world("best-fit");
//   world.add(world_node({.name = "a", .devices = 2}));
//   Placed placed = world.place(share(300));       // books what the policy chose
//   placed.node, placed.devices
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/placement/index.h"
#include "core/placement/registry.h"

namespace berth::core {

struct NodeSketch {
  std::string name;
  int devices = 1;
  std::int64_t device_mib = 1000;
  std::string model = "A";
  std::int64_t cpu = 32'000;
  std::int64_t ram_mib = 100'000;
  std::int64_t tie_rank = 0;
};

inline Node world_node(const NodeSketch& sketch) {
  Node node;
  node.name = sketch.name;
  node.cpu = Milli(sketch.cpu);
  node.ram = Memory::mib(sketch.ram_mib);
  node.tie_rank = sketch.tie_rank;
  for (int i = 0; i < sketch.devices; ++i) {
    Device device;
    device.uuid = sketch.name + "/g" + std::to_string(i);
    device.index = i;
    device.model = sketch.model;
    device.total = Memory::mib(sketch.device_mib);
    node.devices.push_back(std::move(device));
  }
  return node;
}

inline Request request_of(std::vector<DeviceAsk> asks, std::int64_t cpu = 0) {
  RequestSpec spec;
  spec.cpu = Milli(cpu);
  for (std::size_t i = 0; i < asks.size(); ++i) {
    spec.containers.push_back({.name = "c" + std::to_string(i), .gpu = std::move(asks[i])});
  }
  Result<Request> request = Request::create(std::move(spec));
  EXPECT_TRUE(request.ok());
  return std::move(request).value();
}

// A part of one device in milli, whole devices, or CPU alone.
inline Request share(int milli, std::int64_t cpu = 0) {
  return request_of({DeviceAsk::fraction_nano(std::int64_t{milli} * 1'000'000)}, cpu);
}

inline Request whole(int count, std::int64_t cpu = 0) {
  return request_of({DeviceAsk::whole_devices(count)}, cpu);
}

inline Request cpu_only(std::int64_t cpu) { return request_of({}, cpu); }

struct Placed {
  std::string node;                  // empty: nothing fits
  std::vector<std::string> devices;  // UUIDs in grant order, container by container
  std::int64_t cost = 0;
};

class World {
 public:
  explicit World(std::string_view policy, const ClassCounts& history = {}, std::uint64_t seed = 1) {
    Result<std::unique_ptr<Policy>> made = make_policy(policy, history);
    EXPECT_TRUE(made.ok());
    index.set_policy(std::move(made).value(), seed);
  }

  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Adds a node or replaces its description.
  NodeId add(Node node) {
    const Result<Fleet::Change> change = fleet.upsert(std::move(node));
    EXPECT_TRUE(change.ok());
    synced(change.value().node);
    return change.value().node;
  }

  void remove(const std::string& name) {
    const Result<Fleet::Change> change = fleet.remove(name);
    EXPECT_TRUE(change.ok());
    synced(change.value().node);
  }

  // Where the policy would put it; books nothing.
  Selection selected(const Request& request) { return index.select(shapes.acquire(request), {}); }

  Placed place(const Request& request, const GuardRule& guard = {}) {
    const ShapeId shape = shapes.acquire(request);
    return book(shape, index.select(shape, guard));
  }

  // Books it on a device of the caller's choice, whatever the policy thinks.
  void put(const std::string& uuid, const Request& request) {
    const DeviceId device = fleet.find_device(uuid);
    const Selection here{.node = fleet.node_of(device)};
    Places places;
    places.add(fleet.place_of(device));
    book(shapes.acquire(request), here, {{.container = 0, .places = places}});
  }

  Placed book(ShapeId shape, const Selection& selection) {
    return selection.node.is_none() ? Placed{}
                                    : book(shape, selection, index.places(shape, selection));
  }

  // Ends the n-th booking that still runs.
  void end(std::size_t n) {
    ledger.unbook(running_[n].first, running_[n].second);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(n));
  }

  std::size_t running() const { return running_.size(); }

  const Grant& grant(std::size_t n) const { return running_[n].second; }

  Fleet fleet;
  Ledger ledger{fleet, {}};
  NodeTypes types;
  Shapes shapes;
  PlacementIndex index{fleet, ledger, types, shapes};

 private:
  void synced(NodeId node) {
    ledger.sync_node(node, Time(0));
    types.sync(fleet, node);
    index.fleet_changed();
  }

  Placed book(ShapeId id, const Selection& selection, const std::vector<ContainerPlaces>& places) {
    const Shape& shape = shapes.at(id);
    Placed placed{.node = fleet.node(selection.node).name, .devices = {}, .cost = selection.cost};
    const std::vector<DeviceId>& ids = fleet.devices_of(selection.node);
    Grant grant;
    grant.node = selection.node;
    grant.cpu = Milli(shape.cpu);
    grant.ram = Memory::bytes(shape.ram);
    if (shape.wants_gpu()) {
      grant.charges = charges_for(shape, shapes.fit(id, types, fleet, selection.node),
                                  ledger.faces(selection.node), ids, places);
    }
    for (const ContainerPlaces& container : places) {
      for (int i = 0; i < container.places.count; ++i) {
        const std::size_t place = container.places.at[static_cast<std::size_t>(i)];
        placed.devices.push_back(fleet.uuid(ids[place]));
      }
    }
    const WorkloadId workload(next_++);
    ledger.book(workload, grant);
    running_.emplace_back(workload, std::move(grant));
    return placed;
  }

  std::uint32_t next_ = 0;
  std::vector<std::pair<WorkloadId, Grant>> running_;
};

}  // namespace berth::core
