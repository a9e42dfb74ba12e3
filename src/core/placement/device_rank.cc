#include "core/placement/device_rank.h"

#include <algorithm>

#include "core/placement/pick_places.h"

namespace berth::core {

namespace {

constexpr int kUuidBits = 24;  // devices of a fleet that tie by UUID: 16 million
constexpr std::int64_t kMostMib = std::int64_t{1} << 37;

}  // namespace

DeviceRankPolicy::DeviceRankPolicy() {
  ranks_uuids_ = true;
  leaning_ = OrderHint::spread;
}

std::int64_t DeviceRankPolicy::rank(const PlaceInput& input, std::size_t place) const {
  const std::int64_t mib = std::clamp(figure(input.on.devices[place]), -kMostMib, kMostMib);
  const std::size_t device = input.on.ids[place].index();
  ASSERT(device < input.on.uuid_ranks.size() && input.on.uuid_ranks[device] < 1U << kUuidBits,
         device);
  return mib * (std::int64_t{1} << kUuidBits) + input.on.uuid_ranks[device];
}

Places DeviceRankPolicy::choose(const PlaceInput& input, int) const {
  Places places;
  if (input.ask == nullptr) {
    return places;
  }
  std::uint64_t left = input.fits;
  while (places.count < input.ask->count) {
    std::size_t best = 64;
    for_each_place(left, [&](std::size_t place) {
      best = best == 64 || rank(input, place) < rank(input, best) ? place : best;
    });
    places.add(best);
    left &= ~(std::uint64_t{1} << best);
  }
  return places;
}

Candidates DeviceRankPolicy::evaluate(const PlaceInput& input) const {
  Candidate candidate;
  if (input.ask == nullptr) {
    candidate.base = cpu_figure(input.on);
  } else {
    const Places places = choose(input, 0);
    // The UUID of the first device settles ties: the others add their figure alone.
    std::int64_t mib = 0;
    for (int i = 1; i < places.count; ++i) {
      mib += figure(input.on.devices[places.at[static_cast<std::size_t>(i)]]);
    }
    candidate.base = rank(input, places.at[0]) +
                     std::clamp(mib, -kMostMib, kMostMib) * (std::int64_t{1} << kUuidBits);
    candidate.opens_idle = opens_idle(input, places);
  }
  Candidates candidates;
  candidates.add(candidate);
  return candidates;
}

}  // namespace berth::core
