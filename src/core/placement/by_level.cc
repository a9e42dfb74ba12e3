#include "core/placement/by_level.h"

#include <algorithm>
#include <tuple>

#include "core/placement/exact_share.h"
#include "core/placement/pick_places.h"

namespace berth::core {

namespace {

constexpr std::int64_t kMostMib = (std::int64_t{1} << 31) - 1;  // of a node: 2 PiB
constexpr std::int64_t kOpensDevice = std::int64_t{1} << 40;    // above every free memory in MiB

bool is_free(const DeviceFace& device) { return device.use == DeviceUse::free; }

// What requests hold of the device, in MiB: as booked, and what the task itself took before on it.
std::int64_t granted_mib(const PlaceInput& input, std::size_t place) {
  const NodeInput& on = input.on;
  const std::int64_t booked = on.ledger.book(on.ids[place]).requests;
  const std::int64_t since = on.ledger.faces(on.id)[place].headroom - on.devices[place].headroom;
  return Memory::bytes(booked + since).floor_mib();
}

struct ShareMemory {
  std::int64_t free_mib = 0;
  std::int64_t total_mib = 0;
};

// Of the devices that the ask may use at all; of all devices for work without GPUs.
ShareMemory share_memory(const PlaceInput& input) {
  std::int64_t free = 0;
  std::int64_t total = 0;
  for (std::size_t place = 0; place < input.on.devices.size(); ++place) {
    const DeviceFace& device = input.on.devices[place];
    const bool eligible = input.fit == nullptr || (input.fit->eligible >> place & 1U) != 0;
    if (eligible && device.blocked == Cause::none) {
      free += device.headroom;
      total += device.usable;
    }
  }
  return {.free_mib = Memory::bytes(free).floor_mib(),
          .total_mib = Memory::bytes(total).floor_mib()};
}

bool has_shared_place(const PlaceInput& input) {
  bool shared = false;
  for_each_place(input.fits,
                 [&](std::size_t place) { shared = shared || !is_free(input.on.devices[place]); });
  return shared;
}

}  // namespace

ByLevelPolicy::ByLevelPolicy(LevelOrders orders) : orders_(orders) {
  packs_ = orders.devices == OrderHint::pack;
  adds_up_ = false;
  reads_hints_ = true;
}

OrderHint ByLevelPolicy::node_order(const PlaceInput& input) const {
  const bool asked = input.ask != nullptr && input.ask->node_order != OrderHint::policy;
  return asked ? input.ask->node_order : orders_.nodes;
}

OrderHint ByLevelPolicy::device_order(const PlaceInput& input) const {
  const OrderHint asked = input.ask->device_order;
  return asked != OrderHint::policy ? asked : orders_.devices;
}

// Lower first.
std::int64_t ByLevelPolicy::node_figure(const PlaceInput& input) const {
  const ShareMemory memory = share_memory(input);
  const std::int64_t free = std::min(memory.free_mib, kMostMib);
  const NodeFace& face = input.on.face;
  if (node_order(input) == OrderHint::spread) {
    return input.ask == nullptr ? -exact_share(face.cpu_free, input.on.node.cpu.count())
                                : -exact_share(memory.free_mib, memory.total_mib);
  }
  if (input.ask == nullptr) {
    constexpr std::int64_t kMostCpu = (std::int64_t{1} << 31) - 1;
    return free * (kMostCpu + 1) + std::clamp<std::int64_t>(face.cpu_free, 0, kMostCpu);
  }
  return free + (has_shared_place(input) ? 0 : kOpensDevice);
}

// Lower first.
std::int64_t ByLevelPolicy::device_figure(const PlaceInput& input, std::size_t place) const {
  const DeviceFace& device = input.on.devices[place];
  const bool pack = device_order(input) == OrderHint::pack;
  if (is_free(device)) {
    return pack ? 1 : -1;
  }
  const std::int64_t share =
      exact_share(granted_mib(input, place), Memory::bytes(device.usable).floor_mib());
  return pack ? -share : share;
}

Places ByLevelPolicy::choose(const PlaceInput& input, int) const {
  Places places;
  if (input.ask == nullptr) {
    return places;
  }
  const std::vector<Device>& devices = input.on.node.devices;
  std::uint64_t left = input.fits;
  while (places.count < input.ask->count) {
    std::size_t best = 64;
    std::int64_t least = 0;
    for_each_place(left, [&](std::size_t place) {
      const std::int64_t figure = device_figure(input, place);
      const bool first =
          best == 64 || figure < least ||
          (figure == least && std::tie(devices[place].pci_bus_id, devices[place].uuid) <
                                  std::tie(devices[best].pci_bus_id, devices[best].uuid));
      best = first ? place : best;
      least = first ? figure : least;
    });
    places.add(best);
    left &= ~(std::uint64_t{1} << best);
  }
  return places;
}

Candidates ByLevelPolicy::evaluate(const PlaceInput& input) const {
  Candidate candidate;
  candidate.base = node_figure(input);
  const Places places = choose(input, 0);
  candidate.opens_idle = opens_idle(input, places);
  if (places.count > 0) {
    candidate.within = device_figure(input, places.at[0]);
  }
  Candidates candidates;
  candidates.add(candidate);
  return candidates;
}

}  // namespace berth::core
