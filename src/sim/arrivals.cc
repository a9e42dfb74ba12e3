#include "sim/arrivals.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/mt19937.h"

namespace berth::sim {

namespace {

// The positions still alive in a list from which elements are deleted by their current position; a
// Fenwick tree, so that thinning out a long list is not quadratic.
class AliveList {
 public:
  explicit AliveList(std::size_t size) : tree_(size + 1), alive_(size, true) {
    for (std::size_t i = 1; i <= size; ++i)
      tree_[i] = i & (~i + 1);
    while (top_ * 2 <= size)
      top_ *= 2;
  }

  // Removes the element that is now at `place` and returns its original position.
  std::size_t remove(std::size_t place) {
    std::size_t at = 0;
    std::size_t rest = place;
    for (std::size_t step = top_; step > 0; step /= 2) {
      if (at + step < tree_.size() && tree_[at + step] <= rest) {
        at += step;
        rest -= tree_[at];
      }
    }
    for (std::size_t i = at + 1; i < tree_.size(); i += i & (~i + 1))
      --tree_[i];
    alive_[at] = false;
    return at;
  }

  bool alive(std::size_t position) const { return alive_[position]; }

 private:
  std::vector<std::size_t> tree_;
  std::vector<bool> alive_;
  std::size_t top_ = 1;
};

std::vector<std::uint32_t> sorted_by_name(const std::vector<TracePod>& pods) {
  std::vector<std::uint32_t> order(pods.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](std::uint32_t i) -> const std::string& { return pods[i].name; });
  return order;
}

Result<void> check_growth(const std::vector<TracePod>& pods, std::int64_t goal) {
  std::int64_t per_round = 0;  // what one draw of every pod adds
  for (const TracePod& pod : pods)
    per_round += pod.total_milli();
  if (per_round == 0) {
    return invalid_argument(
        "no pod of the list asks for a GPU, so arrivals cannot be measured against the fleet's "
        "GPUs; "
        "give a list in which num_gpu is above 0 somewhere");
  }
  // At most 200,000 nodes x 64 devices x 1000 milli x 1000 % x 5 million pods: inside 63 bits.
  const std::int64_t needed = goal * static_cast<std::int64_t>(pods.size()) / per_round;
  if (needed <= kMaxArrivals) return success();
  return invalid_argument(
      fmt::format("filling this fleet takes more than {} arrivals from this pod list; lower "
                  "--arrival, or give a list that asks for more GPUs",
                  kMaxArrivals));
}

}  // namespace

Result<std::vector<std::uint32_t>> draw_arrivals(const std::vector<TracePod>& pods,
                                                 const ArrivalPlan& plan) {
  TRY_VOID(check_growth(pods, plan.goal_milli));
  Mt19937 generator(plan.seed);
  const std::vector<std::uint32_t> base = sorted_by_name(pods);
  std::vector<std::uint32_t> arrivals = base;
  generator.shuffle(std::span(arrivals));
  std::int64_t asked = 0;
  for (const TracePod& pod : pods)
    asked += pod.total_milli();

  if (asked <= plan.goal_milli) {
    const auto count = static_cast<std::uint32_t>(base.size());
    while (true) {
      const std::uint32_t drawn = base[generator.below(count)];
      // The published test counts one device of the drawn pod, not all of them.
      if (asked + pods[drawn].gpu_milli > plan.goal_milli) return arrivals;
      arrivals.push_back(drawn);
      asked += pods[drawn].total_milli();
    }
  }
  AliveList alive(arrivals.size());
  for (auto left = static_cast<std::uint32_t>(arrivals.size()); asked > plan.goal_milli; --left) {
    asked -= pods[arrivals[alive.remove(generator.below(left))]].total_milli();
  }
  std::vector<std::uint32_t> kept;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    if (alive.alive(i)) kept.push_back(arrivals[i]);
  }
  return kept;
}

std::vector<std::uint32_t> draw_node_ranks(std::size_t nodes, std::uint64_t seed) {
  std::vector<std::uint32_t> ranks(nodes);
  std::iota(ranks.begin(), ranks.end(), 0U);
  Mt19937 generator(node_order_seed(seed));
  generator.shuffle(std::span(ranks));
  return ranks;
}

}  // namespace berth::sim
