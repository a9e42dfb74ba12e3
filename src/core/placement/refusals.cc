// What a node and its devices say to one ask, as they stand now.
#include <bit>

#include "core/placement/container_search.h"

namespace berth::core {

Cause node_refusal(const Shape& shape, const NodeFace& face) {
  if (face.blocked != Cause::none) {
    return face.blocked;
  }
  if (shape.cpu > face.cpu_free || shape.ram > face.ram_free) {
    // A request for nothing of a dimension is not refused because that dimension is overdrawn.
    if ((shape.cpu > 0 && shape.cpu > face.cpu_free) ||
        (shape.ram > 0 && shape.ram > face.ram_free)) {
      return Cause::insufficient_node_resource;
    }
  }
  return face.slots_free < 1 ? Cause::no_pod_slot : Cause::none;
}

AskPlaces places_for(const DeviceAsk& ask, const AskFit& fit, std::span<const DeviceFace> devices,
                     std::uint64_t allowed) {
  AskPlaces found;
  std::uint64_t left = fit.eligible;
  found.cause = devices.empty() ? Cause::no_devices : Cause::none;
  if (left !=
      (devices.size() >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << devices.size()) - 1)) {
    found.cause = fit.cause;
  }
  int count = 0;
  while (left != 0) {
    const auto place = static_cast<std::size_t>(std::countr_zero(left));
    left &= left - 1;
    const Cause refusal = device_refusal(fit.needs[place], devices[place]);
    if (refusal != Cause::none) {
      found.cause = more_advanced(found.cause, refusal);
    } else if ((allowed >> place & 1U) == 0) {
      found.cause = more_advanced(found.cause, Cause::reserved_for_other);
    } else {
      found.fits |= std::uint64_t{1} << place;
      ++count;
    }
  }
  if (count >= ask.count) {
    found.cause = Cause::none;
  } else if (ask.count > 1 && fit.eligible != 0) {
    found.cause = Cause::insufficient_devices;
  }
  return found;
}

}  // namespace berth::core
