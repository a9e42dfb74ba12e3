// Which devices of one node a policy takes: the orders that several policies share.
//
// Thread-safety: pure functions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/placement/policy.h"

namespace berth::core {

// Calls visit(place) for every set bit, ascending.
template <typename F>
void for_each_place(std::uint64_t mask, F&& visit) {
  while (mask != 0) {
    visit(static_cast<std::size_t>(std::countr_zero(mask)));
    mask &= mask - 1;
  }
}

// What the ask leaves of the device, in milli.
inline int left_after(const PlaceInput& input, std::size_t place) {
  const int left = input.on.devices[place].free_milli - input.fit->needs[place].milli;
  return left > 0 ? left : 0;
}

// The first places that fit, as many as the ask wants.
Places lowest_places(const PlaceInput& input);

// The tightest places that fit: smallest leftover now, lowest place on ties. For a whole-device ask
// all are alike, so these are the lowest idle ones. Ascending by place.
Places tightest_places(const PlaceInput& input);

// Milli that the ask takes of these places together.
std::int64_t milli_of(const PlaceInput& input, const Places& places);

bool opens_idle(const PlaceInput& input, const Places& places);

}  // namespace berth::core
