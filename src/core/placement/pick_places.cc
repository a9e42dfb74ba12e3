#include "core/placement/pick_places.h"

#include <algorithm>

namespace berth::core {

Places lowest_places(const PlaceInput& input) {
  Places places;
  std::uint64_t left = input.fits;
  while (places.count < input.ask->count) {
    places.add(static_cast<std::size_t>(std::countr_zero(left)));
    left &= left - 1;
  }
  return places;
}

Places tightest_places(const PlaceInput& input) {
  Places places;
  std::uint64_t left = input.fits;
  while (places.count < input.ask->count) {
    std::size_t tightest = 64;
    for_each_place(left, [&](std::size_t place) {
      if (tightest == 64 ||
          input.on.devices[place].free_milli < input.on.devices[tightest].free_milli) {
        tightest = place;
      }
    });
    places.add(tightest);
    left &= ~(std::uint64_t{1} << tightest);
  }
  std::sort(places.at.begin(), places.at.begin() + places.count);
  return places;
}

std::int64_t milli_of(const PlaceInput& input, const Places& places) {
  std::int64_t sum = 0;
  for (int i = 0; i < places.count; ++i) {
    sum += input.fit->needs[places.at[static_cast<std::size_t>(i)]].milli;
  }
  return sum;
}

bool opens_idle(const PlaceInput& input, const Places& places) {
  bool opens = false;
  for (int i = 0; i < places.count; ++i) {
    opens = opens || input.on.devices[places.at[static_cast<std::size_t>(i)]].idle;
  }
  return opens;
}

}  // namespace berth::core
