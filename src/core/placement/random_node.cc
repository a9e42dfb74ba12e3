#include "core/placement/random_node.h"

#include <algorithm>

#include "core/placement/pick_places.h"

namespace berth::core {

Candidates RandomPolicy::evaluate(const PlaceInput& input) const {
  Candidates candidates;
  Candidate candidate{.base = 0};
  candidate.opens_idle = input.ask != nullptr && opens_idle(input, choose(input, 0));
  candidates.add(candidate);
  return candidates;
}

Places RandomPolicy::choose(const PlaceInput& input, int) const {
  if (input.ask == nullptr) {
    return {};
  }
  if (input.ask->is_exclusive()) {
    return lowest_places(input);
  }
  Places fitting;
  for_each_place(input.fits, [&](std::size_t place) { fitting.add(place); });
  Places places;
  for (int i = 0; i < input.ask->count; ++i) {
    const auto at =
        (input.drawn + static_cast<std::size_t>(i)) % static_cast<std::size_t>(fitting.count);
    places.add(fitting.at[at]);
  }
  std::sort(places.at.begin(), places.at.begin() + places.count);
  return places;
}

}  // namespace berth::core
