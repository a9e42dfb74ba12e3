#include "core/placement/link_sets.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <tuple>

#include "core/placement/pick_places.h"

namespace berth::core {

namespace {

constexpr std::uint64_t bit(std::size_t place) { return std::uint64_t{1} << place; }

constexpr int kExactPlaces = 8;         // every set is looked at
constexpr std::size_t kMostSets = 256;  // else so many
constexpr int kSearchSteps = 20'000;
constexpr int kCliqueSteps = 2'000;

}  // namespace

LinkGraph::LinkGraph(const Node& node) : count_(node.devices.size()), scores_(count_ * count_) {
  for (const PairScore& link : node.links) {
    const auto a = static_cast<std::size_t>(link.a);
    const auto b = static_cast<std::size_t>(link.b);
    scores_[a * count_ + b] = scores_[b * count_ + a] = link.score;
  }
  for (std::size_t a = 0; a < count_; ++a) {
    for (std::size_t b = 0; b < count_; ++b) {
      if (a == b) {
        continue;
      }
      std::int64_t& score = scores_[a * count_ + b];
      const bool by_switch =
          node.devices[a].link_set >= 0 && node.devices[a].link_set == node.devices[b].link_set;
      if (by_switch || score >= kLinkedScore) {
        joined_[a] |= bit(b);
      }
      score += by_switch ? kSwitchScore : 0;
    }
  }
  for (std::size_t a = 0; a < count_; ++a) {
    for_each_place(joined_[a], [&](std::size_t b) {
      disjoint_ = disjoint_ && (joined_[a] | bit(a)) == (joined_[b] | bit(b));
    });
  }
}

std::int64_t LinkGraph::score(std::uint64_t set) const {
  std::int64_t sum = 0;
  for_each_place(set, [&](std::size_t a) {
    for_each_place(set & (bit(a) - 1), [&](std::size_t b) { sum += score(a, b); });
  });
  return sum;
}

bool LinkGraph::is_joined(std::uint64_t set) const {
  bool joined = true;
  for_each_place(set,
                 [&](std::size_t a) { joined = joined && (set & ~bit(a) & ~joined_[a]) == 0; });
  return joined;
}

namespace {

// The largest set of places that are joined pairwise, by branching on whether it has the lowest.
class LargestSet {
 public:
  explicit LargestSet(const LinkGraph& graph) : graph_(graph) {}

  int among(std::uint64_t places) {
    extend(places, 0);
    return best_;
  }

 private:
  void extend(std::uint64_t left, int size) {
    best_ = std::max(best_, size);
    while (left != 0 && size + std::popcount(left) > best_ && ++steps_ < kCliqueSteps) {
      const auto place = static_cast<std::size_t>(std::countr_zero(left));
      left &= left - 1;
      extend(left & graph_.joined_to(place), size + 1);
    }
  }

  const LinkGraph& graph_;
  int best_ = 0;
  int steps_ = 0;
};

class Choice {
 public:
  Choice(const LinkGraph& graph, const LinkAsk& ask) : graph_(graph), ask_(ask) {
    for_each_place(ask.fits, [&](std::size_t place) {
      beside_[place] = ask.fits & ~bit(place);
      if (ask.required) {
        beside_[place] &= graph.joined_to(place);
      }
      if (!ask.numa.empty()) {
        for_each_place(beside_[place], [&](std::size_t other) {
          beside_[place] &= ask.numa[other] == ask.numa[place] ? ~std::uint64_t{0} : ~bit(other);
        });
      }
    });
    for (std::size_t place = 0; place < ask.faces.size(); ++place) {
      idle_ |= ask.faces[place].idle ? bit(place) : 0;
    }
  }

  LinkChoices run() {
    const bool exact = std::popcount(ask_.fits) <= kExactPlaces;
    if (!exact) {
      if (const std::uint64_t best = greedy(); best != 0) {
        sets_.push_back(best);
        if (ask_.one_suffices) {
          return {.sets = sets_, .complete = false};
        }
      }
    }
    enumerate(0, ask_.fits, ask_.count);
    if (exact && ask_.one_suffices) {
      keep_highest_scores();
    }
    rank();
    return {.sets = std::move(sets_), .complete = complete_};
  }

 private:
  // All sets that hold `set` and `missing` more of `left`, whose places may stand beside its own.
  void enumerate(std::uint64_t set, std::uint64_t left, int missing) {
    if (missing == 0) {
      if (sets_.empty() || sets_.front() != set) {
        sets_.push_back(set);
      }
      return;
    }
    while (std::popcount(left) >= missing) {
      if (sets_.size() >= kMostSets || ++steps_ > kSearchSteps) {
        complete_ = false;
        return;
      }
      const auto place = static_cast<std::size_t>(std::countr_zero(left));
      left &= left - 1;
      enumerate(set | bit(place), left & beside_[place], missing - 1);
    }
  }

  // From each place the set that grows by the place that adds most, then swaps of one place for
  // another while the score rises. 0: no start grew to the size.
  std::uint64_t greedy() const {
    std::uint64_t best = 0;
    for_each_place(ask_.fits, [&](std::size_t seed) {
      const std::uint64_t set = grown(seed);
      if (set != 0 && (best == 0 || graph_.score(set) > graph_.score(best))) {
        best = set;
      }
    });
    while (best != 0) {
      const std::uint64_t better = swapped(best);
      if (better == best) {
        break;
      }
      best = better;
    }
    return best;
  }

  std::int64_t adds(std::uint64_t set, std::size_t place) const {
    std::int64_t sum = 0;
    for_each_place(set, [&](std::size_t other) { sum += graph_.score(other, place); });
    return sum;
  }

  std::uint64_t grown(std::size_t seed) const {
    std::uint64_t set = bit(seed);
    std::uint64_t left = beside_[seed];
    while (std::popcount(set) < ask_.count && left != 0) {
      std::size_t best = 64;
      for_each_place(left, [&](std::size_t place) {
        if (best == 64 || adds(set, place) > adds(set, best)) {
          best = place;
        }
      });
      set |= bit(best);
      left &= beside_[best];
    }
    return std::popcount(set) == ask_.count ? set : 0;
  }

  // The best set that differs in one place and scores higher; the set itself if there is none.
  std::uint64_t swapped(std::uint64_t set) const {
    std::uint64_t best = set;
    std::int64_t most = 0;
    for_each_place(set, [&](std::size_t out) {
      const std::uint64_t rest = set & ~bit(out);
      std::uint64_t left = ask_.fits & ~set;
      for_each_place(rest, [&](std::size_t place) { left &= beside_[place]; });
      for_each_place(left, [&](std::size_t in) {
        const std::int64_t gain = adds(rest, in) - adds(rest, out);
        if (gain > most) {
          most = gain;
          best = rest | bit(in);
        }
      });
    });
    return best;
  }

  void keep_highest_scores() {
    std::int64_t highest = 0;
    for (const std::uint64_t set : sets_) {
      highest = std::max(highest, graph_.score(set));
    }
    std::erase_if(sets_, [&](std::uint64_t set) { return graph_.score(set) < highest; });
  }

  void rank() {
    using Key = std::tuple<std::int64_t, int, std::int64_t, std::int64_t>;
    std::vector<std::pair<Key, std::uint64_t>> ranked;
    const auto from = exact_part();
    for (auto at = from; at != sets_.end(); ++at) {
      const std::uint64_t set = *at;
      ranked.push_back({{-graph_.score(set), -graph_.largest_set(idle_ & ~set), -largest_hole(set),
                         free_in(set)},
                        set});
    }
    // Sets were found in the order of their places.
    std::ranges::stable_sort(ranked, {}, [](const auto& entry) { return entry.first; });
    std::ranges::transform(ranked, from, [](const auto& entry) { return entry.second; });
  }

  // The set of the greedy choice stays first.
  std::vector<std::uint64_t>::iterator exact_part() {
    const bool greedy_first = std::popcount(ask_.fits) > kExactPlaces && !sets_.empty();
    return sets_.begin() + (greedy_first ? 1 : 0);
  }

  std::int64_t largest_hole(std::uint64_t set) const {
    std::int64_t largest = 0;
    for (std::size_t place = 0; place < ask_.faces.size(); ++place) {
      const DeviceFace& face = ask_.faces[place];
      if (face.blocked != Cause::none || face.use == DeviceUse::whole) {
        continue;
      }
      const bool taken = (set & bit(place)) != 0;
      const std::int64_t left = !taken ? face.headroom
                                : ask_.needs[place].exclusive
                                    ? 0
                                    : face.headroom - ask_.needs[place].request;
      largest = std::max(largest, left);
    }
    return largest;
  }

  std::int64_t free_in(std::uint64_t set) const {
    std::int64_t sum = 0;
    for_each_place(set, [&](std::size_t place) { sum += ask_.faces[place].headroom; });
    return sum;
  }

  const LinkGraph& graph_;
  const LinkAsk& ask_;
  std::array<std::uint64_t, kMaxDevicesPerNode> beside_{};
  std::uint64_t idle_ = 0;
  std::vector<std::uint64_t> sets_;
  int steps_ = 0;
  bool complete_ = true;
};

}  // namespace

int LinkGraph::largest_set(std::uint64_t among) const { return LargestSet(*this).among(among); }

LinkChoices link_choices(const LinkGraph& graph, const LinkAsk& ask) {
  return Choice(graph, ask).run();
}

}  // namespace berth::core
