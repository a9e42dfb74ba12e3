#include "core/queue/waiting_room.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace berth::core {
namespace {

Waiter waiter(std::uint32_t id, std::int64_t priority, std::int64_t queued_s) {
  return {.id = WorkloadId(id),
          .uid = "w" + std::to_string(id),
          .priority = priority,
          .queued_at = Time(queued_s * 1000),
          .kind = KindId(id),
          .pool = PoolId(0U),
          .needs = {}};
}

Time at_s(std::int64_t second) { return Time(second * 1000); }

TEST(WaitingRoom, OrdersByPriorityThenAgeThenUid) {
  WaitingRoom room({.step = Duration(600'000), .max = 10});
  room.add(waiter(3, 0, 5));
  room.add(waiter(1, 0, 7));
  room.add(waiter(2, 0, 7));
  room.add(waiter(4, 1, 9));
  const std::vector<WorkloadId> expected{WorkloadId(4U), WorkloadId(3U), WorkloadId(1U),
                                         WorkloadId(2U)};
  EXPECT_EQ(room.ordered(at_s(10)), expected);
  EXPECT_EQ(room.head_of(PoolId(0U), at_s(10)), WorkloadId(4U));
  EXPECT_EQ(room.ahead_of(WorkloadId(1U), at_s(10)).size(), 2U);
}

// Lesson 9 of the queues page: a gap of at most `max` is closed by waiting, a larger one is not.
TEST(WaitingRoom, AgingClosesASmallGapOnly) {
  WaitingRoom room({.step = Duration(600'000), .max = 10});
  room.add(waiter(1, 0, 0));
  room.add(waiter(2, 10, 6000));
  room.add(waiter(3, 11, 6000));
  EXPECT_EQ(room.effective_priority(WorkloadId(1U), at_s(599)), 0);
  EXPECT_EQ(room.effective_priority(WorkloadId(1U), at_s(600)), 1);
  EXPECT_EQ(room.effective_priority(WorkloadId(1U), at_s(1'000'000)), 10);
  EXPECT_TRUE(room.before(WorkloadId(2U), WorkloadId(1U), at_s(5999)));
  EXPECT_TRUE(room.before(WorkloadId(1U), WorkloadId(2U), at_s(6000)));
  EXPECT_TRUE(room.before(WorkloadId(3U), WorkloadId(1U), at_s(6000)));
}

TEST(WaitingRoom, ForgetsWhoLeaves) {
  WaitingRoom room({});
  room.add(waiter(1, 0, 0));
  room.add(waiter(2, 0, 1));
  room.remove(WorkloadId(1U));
  EXPECT_FALSE(room.contains(WorkloadId(1U)));
  EXPECT_EQ(room.head_of(PoolId(0U), at_s(2)), WorkloadId(2U));
  EXPECT_EQ(room.first_of(KindId(1U), at_s(2)), WorkloadId::none());
  room.remove(WorkloadId(2U));
  EXPECT_TRUE(room.empty());
  EXPECT_TRUE(room.pools().empty());
}

// The index of needs answers as asking everybody would, and visits nobody whom it could not help.
TEST(WaitingRoom, WakesExactlyThoseWhoseNeedsLieWithinTheOffer) {
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
  const auto appetite = [&] {
    return Appetite{.idle_devices = below(3),
                    .device_bytes = below(2) * below(1U << 20U),
                    .nano = below(2) * below(1000),
                    .cpu = below(5000),
                    .ram = below(3) * below(1U << 20U)};
  };
  for (int round = 0; round < 200; ++round) {
    WaitingRoom room({});
    std::vector<Waiter> waiters;
    for (std::uint32_t i = 0; i < 40; ++i) {
      waiters.push_back(waiter(i, below(3), below(10)));
      waiters.back().needs = appetite();
      room.add(waiters.back());
    }
    for (int leaves = 0; leaves < 10; ++leaves) {
      const auto at = waiters.begin() + below(static_cast<std::uint32_t>(waiters.size()));
      room.remove(at->id);
      waiters.erase(at);
    }
    const Appetite offer = appetite();
    std::vector<KindId> expected;
    for (const Waiter& each : waiters) {
      if (each.needs.within(offer)) {
        expected.push_back(each.kind);
      }
    }
    std::ranges::sort(expected);
    std::int64_t steps = 0;
    EXPECT_EQ(room.helped_by(offer, steps), expected);
  }
}

TEST(WaitingRoom, KnowsItsKindsAndWhereTimeMayChangeWhoIsFirst) {
  WaitingRoom room({});
  const auto kinds = [&] { return std::vector<KindId>(room.kinds().begin(), room.kinds().end()); };
  Waiter low = waiter(1, 0, 0);
  Waiter high = waiter(2, 5, 0);
  low.kind = KindId(7U);
  high.kind = KindId(3U);
  low.pool = high.pool = PoolId(4U);
  room.add(low);
  EXPECT_TRUE(room.mixed_pools().empty());
  room.add(high);
  EXPECT_EQ(kinds(), (std::vector{KindId(3U), KindId(7U)}));
  EXPECT_EQ(room.mixed_pools(), (std::set{PoolId(4U)}));
  room.remove(high.id);
  EXPECT_EQ(kinds(), std::vector{KindId(7U)});
  EXPECT_TRUE(room.mixed_pools().empty());
  room.remove(low.id);
  EXPECT_TRUE(kinds().empty());
}

TEST(WaitingRoom, TakesNoMoreStepsForTenThousandWhomItCannotHelpThanForAHundred) {
  const auto steps_with = [](std::uint32_t count) {
    WaitingRoom room({});
    for (std::uint32_t i = 0; i < count; ++i) {
      Waiter each = waiter(i, 0, i);
      each.needs.device_bytes = 2'000'000 + i;
      room.add(each);
    }
    std::int64_t steps = 0;
    EXPECT_TRUE(room.helped_by({.idle_devices = 0,
                                .device_bytes = 1'000'000,
                                .nano = 1000,
                                .cpu = 1000,
                                .ram = 1000},
                               steps)
                    .empty());
    return steps;
  };
  EXPECT_EQ(steps_with(10'000), steps_with(100));
}

}  // namespace
}  // namespace berth::core
