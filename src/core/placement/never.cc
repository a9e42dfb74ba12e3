// The proof of "never": the rules asked of an empty machine.
#include <algorithm>
#include <limits>

#include "base/wide.h"
#include "core/placement/container_search.h"
#include "core/placement/shape.h"

namespace berth::core {

namespace {

DeviceFace empty_face(const Device& device, std::int64_t limit_percent) {
  DeviceFace face;
  face.usable = face.headroom = device.usable().in_bytes();
  const Int128 limits = static_cast<Int128>(face.usable) * limit_percent / 100;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  face.limit_room = limits > kMost ? kMost : static_cast<std::int64_t>(limits);
  face.nano_left = 1'000'000'000;
  face.compute_left = 1000;
  face.free_milli = 1000;
  face.idle = true;
  face.blocked = face.usable == 0     ? Cause::no_usable_memory
                 : device.mig_enabled ? Cause::resource_kind_mismatch
                                      : Cause::none;
  return face;
}

// What a refusal by an empty machine means for ever. Who holds a device there is the task itself.
Cause for_ever(Cause cause) {
  switch (cause) {
    case Cause::insufficient_memory: return Cause::largest_device_too_small;
    case Cause::device_exclusive: return Cause::insufficient_devices;
    default: return cause;
  }
}

}  // namespace

Cause never_on(const Shape& shape, const Node& node, const StaticFit& fit,
               std::int64_t limit_percent) {
  if (shape.cpu > node.cpu.count() || shape.ram > node.ram.in_bytes() || node.pod_slots < 1) {
    return Cause::insufficient_node_resource;
  }
  std::vector<DeviceFace> faces;
  for (const Device& device : node.devices) {
    if (!device.total.has_value()) {
      return Cause::none;  // nobody knows what it could hold
    }
    faces.push_back(empty_face(device, limit_percent));
  }
  for (std::size_t i = 0; i < fit.asks.size(); ++i) {
    const AskPlaces found = places_for(shape.ask(i), fit.asks[i], faces, ~std::uint64_t{0});
    if (found.cause != Cause::none) {
      return for_ever(found.cause);
    }
  }
  if (shape.simple || fit.asks.empty()) {
    return Cause::none;
  }
  const Fleet no_fleet;
  const Ledger no_books(no_fleet, {});
  const NodeFace face{.cpu_free = node.cpu.count(),
                      .ram_free = node.ram.in_bytes(),
                      .slots_free = node.pod_slots,
                      .count = static_cast<std::uint32_t>(faces.size()),
                      .present = true};
  const NodeInput on{.id = NodeId::none(),
                     .node = node,
                     .face = face,
                     .devices = faces,
                     .ids = {},
                     .ledger = no_books};
  const Cause cause = search_task(nullptr, {.on = on, .shape = shape, .fit = fit}).cause;
  return cause == Cause::search_budget ? Cause::none : for_ever(cause);
}

}  // namespace berth::core
