// Arrivals and node order of one run: which pods come in which order, and which node wins ties.
//
// Source: placement page, section 2 ("Protocol" 3, 4 and "Exact sequences"). The same seed gives
// the same sequence everywhere, so single runs can be compared digit by digit. Thread-safety: pure
// functions.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "sim/trace.h"

namespace berth::sim {

// More arrivals than this are refused instead of drawn: a fleet that a trace hardly touches.
inline constexpr std::int64_t kMaxArrivals = 20'000'000;

struct ArrivalPlan {
  std::uint64_t seed = 0;
  std::int64_t goal_milli = 0;  // how much the arrivals together should ask for
};

// Indices into `pods`: the name-sorted list shuffled, then grown by random draws or thinned out
// until it asks for about `goal_milli`. Errors: no pod asks for a GPU, or the goal needs too many
// arrivals.
Result<std::vector<std::uint32_t>> draw_arrivals(const std::vector<TracePod>& pods,
                                                 const ArrivalPlan& plan);

// The tie rank of each node in file order: lowest wins.
std::vector<std::uint32_t> draw_node_ranks(std::size_t nodes, std::uint64_t seed);

// The seed of the generator that node order, and after it policy `random`, draws from.
constexpr std::uint64_t node_order_seed(std::uint64_t seed) { return seed * 7919 + 1; }

}  // namespace berth::sim
