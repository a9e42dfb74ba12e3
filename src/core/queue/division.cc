#include "core/queue/division.h"

#include <algorithm>
#include <numeric>

#include "base/assert.h"

namespace berth::core {

namespace {

struct Part {
  std::int64_t floor = 0;
  Int128 remainder = 0;
};

// amount · claim / sum of all claims. Most quotients fit a word, whose division is far cheaper.
Part part_of(std::int64_t amount, Int128 claim, Int128 sum) {
  const Int128 product = claim * amount;
  if (product >> 63 == 0 && sum >> 63 == 0) {
    const auto above = static_cast<std::int64_t>(product);
    const auto below = static_cast<std::int64_t>(sum);
    return {.floor = above / below, .remainder = above % below};
  }
  return {.floor = static_cast<std::int64_t>(product / sum), .remainder = product % sum};
}

}  // namespace

std::int64_t need_of(const Sibling& sibling) {
  const std::int64_t wanted = std::max(sibling.demand, sibling.reserved);
  return sibling.limit == kUnlimited ? wanted : std::min(sibling.limit, wanted);
}

void Division::divide(std::int64_t capacity, std::span<const Sibling> siblings,
                      std::span<DivisionShare> shares) {
  ASSERT(siblings.size() == shares.size(), siblings.size(), shares.size());
  siblings_ = siblings;
  shares_ = shares;
  capacity = std::max<std::int64_t>(capacity, 0);
  order();
  give_deserved(capacity);
  Int128 given = 0;
  for (std::size_t i = 0; i < siblings.size(); ++i) {
    DivisionShare& share = shares_[i];
    share.reserved = std::min(siblings[i].reserved, share.deserved);
    share.fair = std::min(share.deserved, need_of(siblings[i]));
    given += share.fair;
  }
  // Those that deserve without limit may have taken more than there is.
  std::int64_t rest = given < capacity ? static_cast<std::int64_t>(capacity - given) : 0;
  for_each_priority([&](std::span<const std::uint32_t> members) { share_surplus(members, rest); });
}

void Division::order() {
  by_priority_.resize(siblings_.size());
  std::iota(by_priority_.begin(), by_priority_.end(), 0U);
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    const Sibling& left = siblings_[a];
    const Sibling& right = siblings_[b];
    return left.priority != right.priority ? left.priority > right.priority
                                           : left.rank < right.rank;
  };
  if (!std::ranges::is_sorted(by_priority_, before)) {
    std::ranges::sort(by_priority_, before);
  }
}

// Calls visit with the siblings of each priority, high to low.
template <class Visit>
void Division::for_each_priority(Visit visit) {
  for (std::size_t from = 0; from < by_priority_.size();) {
    std::size_t to = from + 1;
    while (to < by_priority_.size() &&
           siblings_[by_priority_[to]].priority == siblings_[by_priority_[from]].priority) {
      ++to;
    }
    visit(std::span(by_priority_).subspan(from, to - from));
    from = to;
  }
}

// Step 1: what is deserved, cut down in order of priority where the capacity cannot hold it.
void Division::give_deserved(std::int64_t capacity) {
  std::int64_t rest = capacity;
  for_each_priority([&](std::span<const std::uint32_t> members) {
    Int128 sum = 0;
    for (const std::uint32_t at : members) {
      const std::int64_t deserved = siblings_[at].deserved;
      shares_[at].deserved = deserved == kUnlimited ? capacity : deserved;
      sum += deserved == kUnlimited ? 0 : deserved;
    }
    if (sum <= rest) {
      rest -= static_cast<std::int64_t>(sum);
      return;
    }
    scale_class(members, rest);
    rest = 0;
  });
}

// The class that does not fit shares the rest in proportion to what each deserves.
void Division::scale_class(std::span<const std::uint32_t> members, std::int64_t rest) {
  players_.clear();
  Int128 sum = 0;
  for (const std::uint32_t at : members) {
    if (siblings_[at].deserved != kUnlimited) {
      players_.push_back({.at = at, .claim = siblings_[at].deserved});
      sum += siblings_[at].deserved;
    }
  }
  const std::int64_t whole = rest;
  for (Player& player : players_) {
    const Part part = part_of(whole, player.claim, sum);
    player.remainder = part.remainder;
    shares_[player.at].deserved = part.floor;
    rest -= part.floor;
  }
  give_units(players_, rest, &DivisionShare::deserved);
}

// Steps 3 and 4 for the siblings of one priority.
void Division::share_surplus(std::span<const std::uint32_t> members, std::int64_t& rest) {
  players_.clear();
  floored_.clear();
  for (const std::uint32_t at : members) {
    const std::int64_t missing = need_of(siblings_[at]) - shares_[at].fair;
    if (missing > 0 && siblings_[at].weight > 0) {
      players_.push_back({.at = at, .missing = missing});
    }
  }
  while (rest > 0 && !players_.empty() && play_round(rest)) {
  }
  give_units(floored_, rest, &DivisionShare::fair);
}

// N_q = max(0, W·10^9 + k·(W·10^6 - u·ΣW)), or W if all of these are 0. Where nobody has a history
// W itself stands in the same proportions, and in smaller numbers.
void Division::set_claims() {
  Int128 weights = 0;
  bool history = false;
  for (Player& player : players_) {
    const Sibling& sibling = siblings_[player.at];
    player.claim = sibling.weight;
    weights += sibling.weight;
    history = history || sibling.history_k != 0;
  }
  const auto claim_of = [&](const Player& player) {
    const Sibling& sibling = siblings_[player.at];
    const Int128 weight = sibling.weight;
    return weight * 1'000'000'000 +
           sibling.history_k * (weight * kUseScale - sibling.use * weights);
  };
  if (!history ||
      std::ranges::none_of(players_, [&](const Player& player) { return claim_of(player) > 0; })) {
    return;
  }
  for (Player& player : players_) {
    player.claim = std::max<Int128>(0, claim_of(player));
  }
}

// Offers everybody a share of the rest. Who misses no more than his offer gets all that he misses
// and leaves; the others get the floor. True if somebody missed strictly less, so that another
// round has something to offer.
bool Division::play_round(std::int64_t& rest) {
  set_claims();
  Int128 sum = 0;
  for (const Player& player : players_) {
    sum += player.claim;
  }
  const std::int64_t offered = rest;
  bool again = false;
  floored_.clear();
  for (Player& player : players_) {
    const Part part = part_of(offered, player.claim, sum);
    player.remainder = part.remainder;
    const std::int64_t given = std::min(player.missing, part.floor);
    again = again || player.missing < part.floor ||
            (player.missing == part.floor && player.remainder > 0);
    shares_[player.at].fair += given;
    player.missing -= given;
    rest -= given;
    if (player.missing > 0) {
      floored_.push_back(player);
    }
  }
  players_ = floored_;
  return again;
}

// What rounding left over, one unit each: the largest remainder first, then creation time and name.
void Division::give_units(std::span<Player> players, std::int64_t& rest,
                          std::int64_t DivisionShare::* to) {
  if (rest <= 0 || players.empty()) {
    return;
  }
  const auto units = std::min(static_cast<std::size_t>(rest), players.size());
  std::ranges::partial_sort(players, players.begin() + static_cast<std::ptrdiff_t>(units),
                            [&](const Player& a, const Player& b) {
                              return a.remainder != b.remainder
                                         ? a.remainder > b.remainder
                                         : siblings_[a.at].rank < siblings_[b.at].rank;
                            });
  for (const Player& player : players.first(units)) {
    ++(shares_[player.at].*to);
    --rest;
  }
}

}  // namespace berth::core
