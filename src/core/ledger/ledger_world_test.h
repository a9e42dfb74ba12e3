// LedgerWorld: a fleet, its ledger and short ways to book on it, for tests.
//
//   LedgerWorld world({16384});                   // node n0 with one device d0 of 16384 MiB usable
//   const Grant grant = world.share("d0", 4096);  // what a 4 GiB share takes
//   world.ledger.book(WorkloadId(1u), grant);
#pragma once

#include <initializer_list>
#include <optional>
#include <string>

#include "core/ledger/ledger.h"
#include "core/model/fleet.h"

namespace berth::core {

struct LedgerWorld {
  static constexpr std::int64_t kReserveMib = 1024;

  LedgerWorld(std::initializer_list<std::int64_t> usable_mib, LedgerRules rules = {})
      : ledger(fleet, rules) {
    Node node;
    node.name = "n0";
    node.cpu = Milli(64'000);
    node.ram = Memory::mib(1'000'000);
    for (const std::int64_t mib : usable_mib) {
      node.devices.push_back(device("d" + std::to_string(node.devices.size()), mib));
    }
    upsert(node);
  }

  static Device device(std::string uuid, std::int64_t usable_mib) {
    Device device;
    device.uuid = std::move(uuid);
    device.total = Memory::mib(usable_mib + kReserveMib);
    device.reserve = Memory::mib(kReserveMib);
    return device;
  }

  NodeId upsert(const Node& node) {
    const NodeId id = fleet.upsert(node).value().node;
    ledger.sync_node(id, now);
    return id;
  }

  DeviceId id(std::string_view uuid) const { return fleet.find_device(uuid); }

  NodeId node() const { return fleet.find_node("n0"); }

  const DeviceFace& face(std::string_view uuid) const {
    return ledger.faces(fleet.node_of(id(uuid)))[fleet.place_of(id(uuid))];
  }

  std::int64_t headroom_mib(std::string_view uuid) const {
    return Memory::bytes(face(uuid).headroom).floor_mib();
  }

  const DeviceBook& book(std::string_view uuid) const { return ledger.book(id(uuid)); }

  // A share of one device; change the fields of the returned grant at will.
  Grant share(std::string_view uuid, std::int64_t mib) const {
    DeviceCharge charge;
    charge.device = id(uuid);
    charge.starting_mib = charge.running_mib = mib;
    charge.starting_limit_mib = charge.running_limit_mib = mib;
    Grant grant;
    grant.node = fleet.node_of(charge.device);
    grant.charges.push_back(charge);
    return grant;
  }

  Grant whole(std::string_view uuid) const {
    Grant grant = share(uuid, headroom_mib(uuid));
    grant.charges[0].exclusive = true;
    return grant;
  }

  // A sample of `used_mib` on the device, without attribution.
  SampleEffect see_total(std::string_view uuid, std::int64_t used_mib) {
    Sample sample;
    sample.sampled_at = now;
    sample.used = Memory::mib(used_mib).in_bytes();
    return ledger.observe(id(uuid), sample, now);
  }

  struct Use {
    WorkloadId workload;
    std::int64_t mib = 0;
  };

  // The same with per-process attribution.
  SampleEffect see(std::string_view uuid, std::int64_t used_mib, std::initializer_list<Use> uses) {
    Sample sample;
    sample.sampled_at = now;
    sample.used = Memory::mib(used_mib).in_bytes();
    sample.attributed = true;
    for (const Use& use : uses) {
      sample.uses.push_back({use.workload, Memory::mib(use.mib).in_bytes()});
    }
    return ledger.observe(id(uuid), sample, now);
  }

  Fleet fleet;
  Ledger ledger;
  Time now;
};

}  // namespace berth::core
