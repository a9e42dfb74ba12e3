#include "core/queue/division.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "base/wide.h"

namespace berth::core {
namespace {

std::vector<DivisionShare> divide(std::int64_t capacity, std::vector<Sibling> siblings) {
  for (std::uint32_t i = 0; i < siblings.size(); ++i) {
    siblings[i].rank = i;
  }
  std::vector<DivisionShare> shares(siblings.size());
  Division().divide(capacity, siblings, shares);
  return shares;
}

std::vector<std::int64_t> fair(const std::vector<DivisionShare>& shares) {
  std::vector<std::int64_t> values;
  std::ranges::transform(shares, std::back_inserter(values), &DivisionShare::fair);
  return values;
}

std::vector<std::int64_t> deserved(const std::vector<DivisionShare>& shares) {
  std::vector<std::int64_t> values;
  std::ranges::transform(shares, std::back_inserter(values), &DivisionShare::deserved);
  return values;
}

using Values = std::vector<std::int64_t>;

// 100 devices; A deserves 20, weight 1, asks 80; B 30, 3, 60; C 0, 1, 40.
std::vector<Sibling> three_queues(std::int64_t unit) {
  return {{.deserved = 20 * unit, .weight = 1, .demand = 80 * unit},
          {.deserved = 30 * unit, .weight = 3, .demand = 60 * unit},
          {.deserved = 0, .weight = 1, .demand = 40 * unit}};
}

TEST(Division, GivesWhatIsDeservedThenTheSurplusByWeight) {
  EXPECT_EQ(fair(divide(100, three_queues(1))), Values({30, 60, 10}));
  EXPECT_EQ(fair(divide(100'000, three_queues(1000))), Values({30'000, 60'000, 10'000}));
}

TEST(Division, PastUseLowersTheClaimToSurplus) {
  for (const std::int64_t unit : {1, 1000}) {
    std::vector<Sibling> queues = three_queues(unit);
    queues[0].use = 400'000;
    queues[1].use = 300'000;
    for (Sibling& queue : queues) {
      queue.history_k = 1000;
    }
    EXPECT_EQ(fair(divide(100 * unit, queues)),
              unit == 1 ? Values({22, 60, 18}) : Values({21'731, 60'000, 18'269}));
  }
}

TEST(Division, RoundsThirdsToMilli) {
  const auto shares = divide(12'000, {{.deserved = 2000, .weight = 1, .demand = 12'000},
                                      {.deserved = 2000, .weight = 2, .demand = 12'000}});
  EXPECT_EQ(fair(shares), Values({4667, 7333}));  // 14/3 and 22/3
}

TEST(Division, WhatIsDeservedBeyondTheCapacityIsCutInOrderOfPriority) {
  const auto shares = divide(60, {{.deserved = 40, .priority = 100, .demand = 40},
                                  {.deserved = 40, .priority = 100, .demand = 40},
                                  {.deserved = 20, .priority = 200, .demand = 20}});
  EXPECT_EQ(deserved(shares), Values({20, 20, 20}));
  EXPECT_EQ(fair(shares), Values({20, 20, 20}));
}

TEST(Division, TheLastUnitGoesToTheHigherPriority) {
  const auto shares = divide(
      1,
      {{.priority = 10, .demand = 5}, {.priority = 10, .demand = 5}, {.priority = 1, .demand = 1}});
  EXPECT_EQ(fair(shares), Values({1, 0, 0}));
}

TEST(Division, AWeightOfZeroNeverGetsMoreThanDeserved) {
  EXPECT_EQ(fair(divide(10, {{.deserved = 2, .weight = 0, .demand = 9}, {.demand = 3}})),
            Values({2, 3}));
}

TEST(Division, UnlimitedDeservedIsTheWholeCapacityAndNotScaled) {
  const auto shares = divide(10, {{.deserved = kUnlimited, .demand = 7},
                                  {.deserved = 6, .demand = 6},
                                  {.deserved = 6, .reserved = 6, .demand = 6}});
  EXPECT_EQ(deserved(shares), Values({10, 5, 5}));
  EXPECT_EQ(fair(shares), Values({7, 5, 5}));
  EXPECT_EQ(shares[2].reserved, 5);
}

TEST(Division, NothingToDivideAndNobodyToDivideFor) {
  EXPECT_EQ(fair(divide(-5, {{.deserved = 3, .demand = 3}})), Values({0}));
  EXPECT_TRUE(divide(5, {}).empty());
}

// The same from the text of the contract, with fractions: slow and plain.
class Rational {
 public:
  Rational(Int128 above = 0, Int128 below = 1) : above_(above), below_(below) {  // NOLINT: implicit
    Int128 a = above_ < 0 ? -above_ : above_;
    Int128 b = below_;
    while (b != 0) {
      const Int128 rest = a % b;
      a = b;
      b = rest;
    }
    if (a > 1) {
      above_ /= a;
      below_ /= a;
    }
  }

  Rational operator+(Rational o) const {
    return {above_ * o.below_ + o.above_ * below_, below_ * o.below_};
  }

  Rational operator-(Rational o) const {
    return {above_ * o.below_ - o.above_ * below_, below_ * o.below_};
  }

  Rational operator*(Rational o) const { return {above_ * o.above_, below_ * o.below_}; }

  Rational operator/(Rational o) const { return {above_ * o.below_, below_ * o.above_}; }

  bool operator<(Rational o) const { return above_ * o.below_ < o.above_ * below_; }

  bool operator==(Rational o) const { return above_ == o.above_ && below_ == o.below_; }

  std::int64_t floor() const { return static_cast<std::int64_t>(above_ / below_); }

 private:
  Int128 above_;
  Int128 below_;
};

struct Plain {
  std::int64_t capacity;
  std::vector<Sibling> q;
  std::vector<std::int64_t> d = {};
  std::vector<std::int64_t> f = {};

  std::int64_t need(std::size_t i) const {
    std::int64_t need = q[i].demand > q[i].reserved ? q[i].demand : q[i].reserved;
    return q[i].limit >= 0 && q[i].limit < need ? q[i].limit : need;
  }

  std::vector<std::size_t> of_priority(std::int64_t priority) const {
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < q.size(); ++i) {
      if (q[i].priority == priority) members.push_back(i);
    }
    return members;
  }

  // Hands `units` out one by one to the largest fraction that has not had one.
  void units(std::vector<std::int64_t>& to, std::int64_t& rest,
             std::vector<std::pair<Rational, std::size_t>> fractions) const {
    while (rest > 0 && !fractions.empty()) {
      std::size_t best = 0;
      for (std::size_t i = 1; i < fractions.size(); ++i) {
        const bool larger = fractions[best].first < fractions[i].first;
        const bool equal = fractions[best].first == fractions[i].first;
        if (larger || (equal && q[fractions[i].second].rank < q[fractions[best].second].rank)) {
          best = i;
        }
      }
      ++to[fractions[best].second];
      --rest;
      fractions.erase(fractions.begin() + static_cast<std::ptrdiff_t>(best));
    }
  }

  void step_one() {
    std::int64_t rest = capacity;
    for (std::int64_t priority = 3; priority >= 1; --priority) {
      std::int64_t sum = 0;
      for (const std::size_t i : of_priority(priority)) {
        sum += q[i].deserved < 0 ? 0 : q[i].deserved;
      }
      std::vector<std::pair<Rational, std::size_t>> fractions;
      const std::int64_t before = rest;
      for (const std::size_t i : of_priority(priority)) {
        if (q[i].deserved < 0) {
          d[i] = capacity;
        } else if (sum <= before) {
          d[i] = q[i].deserved;
          rest -= d[i];
        } else {
          const Rational exact = Rational(q[i].deserved) * before / sum;
          d[i] = exact.floor();
          rest -= d[i];
          fractions.emplace_back(exact - exact.floor(), i);
        }
      }
      if (sum > before) {
        units(d, rest, fractions);
        rest = 0;
      }
    }
  }

  std::vector<Rational> claims(const std::vector<std::size_t>& open) const {
    std::int64_t weights = 0;
    for (const std::size_t i : open) {
      weights += q[i].weight;
    }
    std::vector<Rational> claims;
    Rational sum = 0;
    for (const std::size_t i : open) {
      const Rational share(q[i].weight, weights);
      const Rational claim =
          share + Rational(q[i].history_k, 1000) * (share - Rational(q[i].use, 1'000'000));
      claims.push_back(claim < Rational(0) ? Rational(0) : claim);
      sum = sum + claims.back();
    }
    if (sum == Rational(0)) {
      for (std::size_t k = 0; k < open.size(); ++k) {
        claims[k] = Rational(q[open[k]].weight, weights);
      }
    }
    return claims;
  }

  void surplus(std::int64_t priority, std::int64_t& rest) {
    std::vector<std::pair<Rational, std::size_t>> fractions;
    for (bool again = true; again;) {
      again = false;
      fractions.clear();
      std::vector<std::size_t> open;
      for (const std::size_t i : of_priority(priority)) {
        if (f[i] < need(i) && q[i].weight > 0) open.push_back(i);
      }
      if (open.empty()) break;
      const std::vector<Rational> claim = claims(open);
      Rational sum = 0;
      for (const Rational c : claim) {
        sum = sum + c;
      }
      const std::int64_t offered = rest;
      for (std::size_t k = 0; k < open.size(); ++k) {
        const std::int64_t missing = need(open[k]) - f[open[k]];
        const Rational offer = Rational(offered) * claim[k] / sum;
        const bool all = !(offer < Rational(missing));
        again = again || Rational(missing) < offer;
        const std::int64_t got = all ? missing : offer.floor();
        if (!all) fractions.emplace_back(offer - offer.floor(), open[k]);
        f[open[k]] += got;
        rest -= got;
      }
    }
    units(f, rest, fractions);
  }

  void solve() {
    d.assign(q.size(), 0);
    f.assign(q.size(), 0);
    step_one();
    std::int64_t rest = capacity;
    for (std::size_t i = 0; i < q.size(); ++i) {
      f[i] = std::min(d[i], need(i));
      rest -= f[i];
    }
    rest = std::max<std::int64_t>(rest, 0);
    for (std::int64_t priority = 3; priority >= 1; --priority) {
      surplus(priority, rest);
    }
  }
};

Plain random_world(std::mt19937& random) {
  const auto to = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random);
  };
  const std::int64_t scale = to(3) == 0 ? 50'000 : 40;
  Plain plain{.capacity = to(scale),
              .q = std::vector<Sibling>(1 + static_cast<std::size_t>(to(5)))};
  const bool history = to(2) == 0;
  std::uint32_t rank = 0;
  for (Sibling& q : plain.q) {
    q.deserved = to(9) == 0 ? kUnlimited : to(scale / 2);
    q.limit = to(2) == 0 ? std::max<std::int64_t>(q.deserved, 0) + to(scale / 2) : kUnlimited;
    q.reserved = to(3) == 0 ? to(std::max<std::int64_t>(q.deserved, 0)) : 0;
    q.weight = to(4);
    q.priority = 1 + to(2);
    q.demand = to(scale);
    q.use = history ? to(12) * 100'000 : 0;
    q.history_k = history && to(3) > 0 ? to(4) * 500 : 0;
    q.rank = rank++;
  }
  // Ranks in any order, so that they are not the order of the list.
  for (std::size_t i = plain.q.size() - 1; i > 0; --i) {
    std::swap(plain.q[i].rank,
              plain.q[static_cast<std::size_t>(to(static_cast<std::int64_t>(i)))].rank);
  }
  return plain;
}

TEST(Division, AgreesWithExactFractionsAndKeepsItsInvariants) {
  std::mt19937 random(20260101);
  Division division;
  for (int round = 0; round < 150'000; ++round) {
    Plain plain = random_world(random);
    plain.solve();
    std::vector<DivisionShare> shares(plain.q.size());
    division.divide(plain.capacity, plain.q, shares);
    ASSERT_EQ(fair(shares), plain.f) << "round " << round;
    ASSERT_EQ(deserved(shares), plain.d) << "round " << round;
    std::int64_t sum = 0;
    std::int64_t deserved_sum = 0;
    bool unlimited = false;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const std::int64_t need = plain.need(i);
      ASSERT_LE(shares[i].fair, need);
      ASSERT_GE(shares[i].fair, std::min(shares[i].deserved, need));
      ASSERT_EQ(shares[i].reserved, std::min(plain.q[i].reserved, shares[i].deserved));
      unlimited = unlimited || plain.q[i].deserved == kUnlimited;
      sum += shares[i].fair;
      deserved_sum += plain.q[i].deserved == kUnlimited ? 0 : shares[i].deserved;
    }
    ASSERT_LE(deserved_sum, plain.capacity);
    if (!unlimited) {
      ASSERT_LE(sum, plain.capacity);
    }
  }
}

}  // namespace
}  // namespace berth::core
