#include "core/placement/node_score.h"

namespace berth::core {

NodeValue NodeScorePolicy::value_of(const NodeInput& node) const {
  NodeValue value;
  for (const DeviceFace& device : node.devices) {
    value.spare += device.free_milli;
    value.idle += device.idle ? 1 : 0;
  }
  return value;
}

Candidates NodeScorePolicy::evaluate(const PlaceInput& input) const {
  const Places places = choose(input, 0);
  Candidate candidate;
  candidate.base = -score(input, places);
  candidate.opens_idle = opens_idle(input, places);
  if (places.count > 0) {
    candidate.within = input.on.devices[places.at[0]].free_milli;
  }
  Candidates candidates;
  candidates.add(candidate);
  return candidates;
}

Places NodeScorePolicy::choose(const PlaceInput& input, int) const {
  if (input.ask == nullptr) {
    return {};
  }
  return input.ask->is_exclusive() ? lowest_places(input) : tightest_places(input);
}

}  // namespace berth::core
