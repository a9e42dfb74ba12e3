#include "core/queue/queue_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

QueueSpec queue(std::string name, std::string parent, std::vector<QueueDimension> dimensions = {}) {
  QueueSpec spec;
  spec.name = std::move(name);
  spec.parent = std::move(parent);
  spec.dimensions = std::move(dimensions);
  return spec;
}

// A tree whose configuration must be without a problem.
QueueTree tree_of(std::vector<QueueSpec> queues) {
  QueueTree tree;
  EXPECT_THAT(tree.configure({.queues = std::move(queues)}, {}), ElementsAre());
  return tree;
}

Charge whole(std::int64_t devices) { return {.parts = {{.whole = devices}}}; }

Charge share(std::int64_t mib, std::int64_t usable) {
  return {.parts = {{.mib = mib, .shares_mib = mib, .usable_mib = usable}}};
}

constexpr DimensionKind kDevices = DimensionKind::devices;

class Books {
 public:
  explicit Books(std::vector<QueueSpec> queues, std::int64_t devices = 100)
      : tree(tree_of(std::move(queues))) {
    tree.set_capacity(kEveryClass, kDevices, devices * 1000);
  }

  ~Books() {
    std::vector<QueueHead> heads;
    for (const auto& [leaf, charge] : demand) {
      heads.push_back({leaf, &charge});
    }
    const Result<void> verified = tree.verify(bookings, heads);
    EXPECT_TRUE(verified.ok()) << verified.error().to_string();
  }

  QueueId id(std::string_view name) const { return tree.find(name).value(); }

  void run(std::string_view leaf, const Charge& charge, bool preemptible = true,
           BookingState state = BookingState::running) {
    tree.add(id(leaf), charge, state, preemptible);
    bookings.push_back({id(leaf), charge, state, preemptible});
  }

  void want(std::string_view leaf, const Charge& charge) {
    tree.add_demand(id(leaf), charge);
    demand.emplace_back(id(leaf), charge);
  }

  Cause may(std::string_view leaf, const Charge& charge, bool preemptible = true,
            Counting counting = Counting::present) const {
    return tree.may_start(id(leaf), charge, preemptible, counting).cause;
  }

  QuotaFigures devices_of(std::string_view name) const {
    return tree.figures(id(name), tree.dimension("*", kDevices).value());
  }

  QueueTree tree;
  std::vector<Booking> bookings;
  std::vector<std::pair<QueueId, Charge>> demand;
};

TEST(QueueTree, WhatNobodyConfiguredRefusesNothing) {
  const QueueTree tree;
  EXPECT_TRUE(tree.trivial());
  const QueueId leaf = tree.find("default").value();
  EXPECT_EQ(tree.path_name(leaf), "root/default");
  EXPECT_EQ(tree.queue_refusal("default"), Cause::none);
  EXPECT_EQ(tree.queue_refusal("team"), Cause::unknown_queue);
  EXPECT_EQ(tree.queue_refusal("root"), Cause::not_a_leaf_queue);
  EXPECT_EQ(tree.may_start(leaf, whole(1'000'000), false, Counting::present).cause, Cause::none);
}

TEST(QueueTree, ALimitIsReachedExactlyAndByThirds) {
  Books books({queue("team", "root", {{.limit = 2000}}), queue("a", "team"), queue("b", "team")});
  EXPECT_FALSE(books.tree.trivial());
  books.run("a", whole(1));
  books.run("b", share(8188, 24564));
  books.run("a", share(8188, 24564));
  EXPECT_EQ(books.may("b", share(8188, 24564)), Cause::none);
  const QuotaRefusal refused =
      books.tree.may_start(books.id("b"), share(8189, 24564), true, Counting::present);
  EXPECT_EQ(refused.cause, Cause::over_limit);
  EXPECT_EQ(books.tree.path_name(refused.queue), "root/team");
  EXPECT_EQ(books.tree.dimension_name(refused.dimension), "*/devices");
  EXPECT_EQ(refused.need, 334);
  EXPECT_EQ(refused.used, 1667);
  EXPECT_EQ(refused.bound, 2000);
}

TEST(QueueTree, ManyDevicesOfOneShareCountEach) {
  Books books(
      {queue("a", "root", {{.kind = DimensionKind::memory, .limit = 30'000}, {.limit = 2000}})});
  // Three devices of 10000 MiB of 20000 each.
  const Charge three{.parts = {{.mib = 30'000, .shares_mib = 30'000, .usable_mib = 20'000}}};
  EXPECT_EQ(books.may("a", three), Cause::none);
  books.run("a", three);
  EXPECT_EQ(books.devices_of("a").alloc, 1500);
  EXPECT_EQ(books.may("a", share(1, 20'000)), Cause::over_limit);
}

TEST(QueueTree, AClassWithoutQuotaLeavesTheOthersAlone) {
  Books books({queue("a", "root", {{.device_class = "A100", .limit = 1000}})});
  const Charge a100{.parts = {{.device_class = books.tree.class_of("A100"), .whole = 1}}};
  const Charge l40s{.parts = {{.device_class = books.tree.class_of("L40S"), .whole = 1}}};
  books.run("a", a100);
  EXPECT_EQ(books.may("a", a100), Cause::over_limit);
  EXPECT_EQ(books.may("a", l40s), Cause::none);
  EXPECT_THAT(books.tree.dimensions_of(l40s), ElementsAre());
}

TEST(QueueTree, NonPreemptibleWorkStaysInsideDeservedAtEveryLevel) {
  Books books({queue("team", "root", {{.deserved = 3000}}),
               queue("a", "team", {{.deserved = 2000}}), queue("b", "team", {{.deserved = 2000}})});
  books.run("a", whole(5));  // preemptible work does not count
  EXPECT_EQ(books.may("a", whole(2), false), Cause::none);
  EXPECT_EQ(books.may("a", whole(3), false), Cause::non_preemptible_over_quota);
  books.run("b", whole(2), false);
  EXPECT_EQ(books.may("a", whole(1), false), Cause::none);
  EXPECT_EQ(books.may("a", whole(2), false), Cause::non_preemptible_over_quota);  // team's 3
  EXPECT_EQ(books.may("a", whole(2), true), Cause::none);
}

// The vector of the contract's 2.1 and 4.2: A 10, of which it lends 4; B 6, borrowing at most 3.
TEST(QueueTree, ReservedCapacityStaysFreeForItsQueue) {
  Books books({queue("a", "root", {{.deserved = 10'000, .reserved = 6000}}),
               queue("b", "root", {{.deserved = 6000, .limit = 9000}})},
              16);
  books.run("a", whole(7));
  books.run("b", whole(5));
  EXPECT_EQ(books.may("b", whole(4)), Cause::none);
  EXPECT_EQ(books.may("a", whole(4)), Cause::none);
  EXPECT_EQ(books.may("a", whole(5)), Cause::over_limit);
  EXPECT_EQ(books.may("b", whole(5)), Cause::over_limit);
}

TEST(QueueTree, AnIdleReservationIsKeptAndItsOwnerMayUseIt) {
  Books books({queue("a", "root", {{.deserved = 6000, .reserved = 6000}}), queue("b", "root")}, 10);
  EXPECT_EQ(books.may("b", whole(4)), Cause::none);
  const QuotaRefusal refused =
      books.tree.may_start(books.id("b"), whole(5), true, Counting::present);
  EXPECT_EQ(refused.cause, Cause::over_limit);
  EXPECT_EQ(refused.queue, kRootQueue);
  EXPECT_EQ(refused.used, 6000);
  EXPECT_EQ(books.tree.never_fits(books.id("b"), whole(5)).cause, Cause::over_limit);
  EXPECT_EQ(books.tree.never_fits(books.id("b"), whole(4)).cause, Cause::none);
  EXPECT_EQ(books.tree.never_fits(books.id("a"), whole(10)).cause, Cause::none);
  books.run("b", whole(4));
  EXPECT_EQ(books.may("a", whole(6)), Cause::none);
  // Half the devices are lost: only what is left of the reservation is kept.
  books.tree.set_capacity(kEveryClass, kDevices, 5000);
  EXPECT_EQ(books.devices_of("a").effective_reserved, 5000);
  EXPECT_EQ(books.may("a", whole(5)), Cause::none);
  EXPECT_EQ(books.may("b", whole(1)), Cause::over_limit);
}

TEST(QueueTree, WhatIsReleasingCountsNowAndNotLater) {
  Books books({queue("a", "root", {{.limit = 2000}})});
  books.run("a", whole(1), true, BookingState::releasing);
  books.run("a", whole(1), true, BookingState::promised);
  EXPECT_EQ(books.may("a", whole(1)), Cause::over_limit);
  EXPECT_EQ(books.may("a", whole(1), true, Counting::future), Cause::none);
  EXPECT_EQ(books.devices_of("a").releasing, 1000);
}

TEST(QueueTree, NeverMeansAboveTheSmallestLimitOfThePath) {
  Books books({queue("team", "root", {{.limit = 4000}}), queue("a", "team", {{.limit = 8000}})});
  books.run("a", whole(4));
  EXPECT_EQ(books.tree.never_fits(books.id("a"), whole(4)).cause, Cause::none);
  const QuotaRefusal never = books.tree.never_fits(books.id("a"), whole(9));
  EXPECT_EQ(never.cause, Cause::over_limit);
  EXPECT_EQ(never.queue, books.id("team"));
  EXPECT_EQ(never.bound, 4000);
}

TEST(QueueTree, AProblemHoldsItsSubtreeAndNobodyElse) {
  QueueTree tree;
  const std::vector<QueueProblem> problems = tree.configure(
      {.queues = {queue("a", "nowhere"), queue("b", "a"), queue("c", "d"), queue("d", "c"),
                  queue("e", "root", {{.deserved = 5, .limit = 1}}), queue("f", "root")}},
      {});
  EXPECT_EQ(problems.size(), 4u);
  for (const std::string_view held : {"a", "b", "c", "d", "e"}) {
    const QueueId leaf = tree.find(held).value();
    EXPECT_EQ(tree.may_start(leaf, whole(1), true, Counting::present).cause, Cause::queue_held)
        << held;
    EXPECT_NE(tree.held_because(leaf), "") << held;
  }
  EXPECT_THAT(tree.held_because(tree.find("b").value()), HasSubstr("queue a is held: parent"));
  const QueueId free = tree.find("f").value();
  EXPECT_EQ(tree.may_start(free, whole(1), true, Counting::present).cause, Cause::none);
  EXPECT_EQ(tree.held_because(free), "");
}

TEST(QueueTree, ABrokenFileIsReadAlikeInAnyOrder) {
  const QueueSpec one = queue("a", "root", {{.limit = 3000}, {.limit = 2000}});
  const QueueSpec two = queue("a", "b", {{.limit = 1000}});
  const QueueSpec three = queue("b", "a");
  for (const std::vector<QueueSpec>& file :
       {std::vector{one, two, three}, std::vector{three, two, one}}) {
    QueueTree tree;
    EXPECT_EQ(tree.configure({.queues = file}, {}).size(), 4u);
    const QueueId a = tree.find("a").value();
    EXPECT_EQ(tree.figures(a, tree.dimension("*", kDevices).value()).limit, 1000);
    EXPECT_EQ(tree.path_name(a), "root/a");
    EXPECT_EQ(tree.path_name(tree.find("b").value()), "root/b");
  }
}

TEST(QueueTree, AStoppedQueueStartsNothingBelowIt) {
  std::vector<QueueSpec> queues{queue("team", "root"), queue("a", "team"), queue("b", "root")};
  queues[0].stop = QueueStop::hold_and_drain;
  Books books(queues);
  EXPECT_EQ(books.may("a", whole(1)), Cause::queue_held);
  EXPECT_EQ(books.may("b", whole(1)), Cause::none);
  EXPECT_EQ(books.tree.stop(books.id("a")), QueueStop::hold_and_drain);
}

TEST(QueueTree, BookingsOutliveTheirQueueAndComeBackWithIt) {
  Books books({queue("team", "root"), queue("a", "team", {{.limit = 3000}})});
  const QueueId a = books.id("a");
  books.run("a", whole(2));
  books.want("a", whole(2));
  books.tree.configure({.queues = {queue("b", "root", {{.limit = 3000}})}}, {});
  EXPECT_FALSE(books.tree.is_listed(a));
  EXPECT_EQ(books.tree.queue_refusal("a"), Cause::unknown_queue);
  EXPECT_EQ(books.may("a", whole(1)), Cause::queue_held);
  EXPECT_EQ(books.devices_of("root").alloc, 2000);
  EXPECT_EQ(books.devices_of("a").fair, 0);  // its work may be reclaimed
  books.tree.configure({.queues = {queue("a", "root", {{.limit = 2500}})}}, {});
  EXPECT_EQ(books.id("a"), a);
  EXPECT_EQ(books.may("a", whole(1)), Cause::over_limit);
  EXPECT_EQ(books.devices_of("a").fair, 2000);
}

TEST(QueueTree, WhatRunsInAQueueThatNeverWasIsBookedAllTheSame) {
  Books books({queue("a", "root", {{.deserved = 1000}})});
  const QueueId ghost = books.tree.place_of("ghost");
  EXPECT_EQ(books.tree.place_of("ghost"), ghost);
  books.run("ghost", whole(3));
  EXPECT_EQ(books.devices_of("root").alloc, 3000);
  EXPECT_EQ(books.may("ghost", whole(1)), Cause::queue_held);
}

// 4.3 by way of 2.2's example, with a second level below B.
TEST(QueueTree, CapacityIsDividedFromTheRootDown) {
  Books books({queue("a", "root", {{.deserved = 20'000, .weight = 1}}),
               queue("b", "root", {{.deserved = 30'000, .weight = 3}}),
               queue("c", "root", {{.weight = 1}}), queue("b1", "b", {{.deserved = 10'000}}),
               queue("b2", "b")});
  books.want("a", whole(80));
  books.want("b1", whole(30));
  books.want("b2", whole(30));
  books.want("c", whole(40));
  EXPECT_EQ(books.devices_of("a").fair, 30'000);
  EXPECT_EQ(books.devices_of("b").fair, 60'000);
  EXPECT_EQ(books.devices_of("c").fair, 10'000);
  EXPECT_EQ(books.devices_of("b1").fair, 30'000);
  books.tree.remove_demand(books.id("a"), whole(80));
  books.demand.erase(books.demand.begin());
  EXPECT_EQ(books.devices_of("c").fair, 40'000);
  EXPECT_EQ(books.devices_of("b").fair, 60'000);
}

TEST(QueueTree, ReclaimAsksTheWholeSide) {
  Books books({queue("x", "root", {{.deserved = 4000}}), queue("y", "root", {{.deserved = 4000}}),
               queue("x1", "x", {{.deserved = 4000}}), queue("x2", "x"),
               queue("y1", "y", {{.deserved = kUnlimited}}), queue("y2", "y")},
              8);
  books.want("x1", whole(4));
  books.want("x2", whole(4));
  books.want("y1", whole(2));
  books.want("y2", whole(8));
  const QuotaDimensionId d = books.tree.dimension("*", kDevices).value();
  const QueueId x1 = books.id("x1");
  const QueueId y2 = books.id("y2");
  EXPECT_EQ(books.tree.lowest_common_ancestor(x1, y2), kRootQueue);
  EXPECT_EQ(books.tree.lowest_common_ancestor(x1, books.id("x2")), books.id("x"));
  EXPECT_EQ(books.tree.lowest_common_ancestor(x1, x1), x1);
  books.run("y1", whole(2));
  books.run("y2", whole(6));
  EXPECT_FALSE(books.tree.within(x1, kRootQueue, whole(4), Entitlement::deserved, true).refused());
  EXPECT_TRUE(books.tree.within(x1, kRootQueue, whole(5), Entitlement::deserved, true).refused());
  EXPECT_TRUE(books.tree.above(y2, kRootQueue, d, Entitlement::fair));
  EXPECT_FALSE(books.tree.above(books.id("y1"), kRootQueue, d, Entitlement::fair));
  EXPECT_FALSE(books.tree.above(x1, kRootQueue, d, Entitlement::fair));
}

TEST(QueueTree, TwoEqualQueuesTakeTurns) {
  Books books({queue("a", "root"), queue("b", "root", {{.limit = 9000}})}, 10);
  for (int i = 0; i < 10; ++i) {
    books.want("a", whole(1));
    books.want("b", whole(1));
  }
  const Charge one = whole(1);
  std::vector<int> granted(2, 0);
  for (int i = 0; i < 10; ++i) {
    const std::vector<QueueHead> heads{{books.id("b"), &one}, {books.id("a"), &one}};
    const std::size_t turn = books.tree.first(heads);
    EXPECT_EQ(turn, i % 2 == 0 ? 1u : 0u);  // a before b by name
    books.run(turn == 0 ? "b" : "a", one);
    ++granted[turn];
  }
  EXPECT_THAT(granted, ElementsAre(5, 5));
}

TEST(QueueTree, TheRaceIsDecidedFromTheRootDown) {
  std::vector<QueueSpec> queues{queue("x", "root", {{.deserved = 2000}}),
                                queue("y", "root", {{.deserved = 8000}}), queue("x1", "x"),
                                queue("x2", "x"), queue("y1", "y")};
  queues[2].priority = 50;
  Books books(queues, 10);
  books.want("x1", whole(4));
  books.want("x2", whole(4));
  books.want("y1", whole(8));
  const Charge one = whole(1);
  const auto next = [&] {
    const std::vector<QueueHead> heads{
        {books.id("x1"), &one}, {books.id("x2"), &one}, {books.id("y1"), &one}};
    return heads[books.tree.first(heads)].leaf;
  };
  // x would hold half of what it deserves, y an eighth.
  EXPECT_EQ(next(), books.id("y1"));
  books.run("y1", whole(6));
  EXPECT_EQ(next(), books.id("x2"));  // x's turn, and in x the higher priority
  books.run("x2", whole(2));
  EXPECT_EQ(next(), books.id("y1"));  // x holds its share
}

TEST(QueueTree, PastUseDecaysByHalfInAHalfLife) {
  EXPECT_EQ(QueueTree::decay_factor(Duration(60'000)), std::int64_t{1} << 31);
  EXPECT_EQ(QueueTree::decay_factor(Duration(30'000)), std::int64_t{3} << 30);
  EXPECT_EQ(QueueTree::decay_factor(Duration(120'000)), 1'257'966'796);  // 1 - 1/sqrt(2)
  EXPECT_EQ(QueueTree::decay_factor(Duration(86'400'000)), 2'066'894);
  std::vector<QueueSpec> queues{queue("a", "root", {{.limit = 90'000}}), queue("b", "root")};
  queues[0].history = QueueHistory{.half_life = Duration(60'000)};
  Books books(queues);
  EXPECT_TRUE(books.tree.keeps_history());
  books.tree.sample(Time(0));
  books.run("a", whole(40));
  books.tree.sample(Time(59'999));
  EXPECT_EQ(books.devices_of("a").decayed_use, 0);
  books.tree.sample(Time(60'000));
  EXPECT_EQ(books.devices_of("a").decayed_use, 200'000);
  books.tree.sample(Time(180'000));
  EXPECT_EQ(books.devices_of("a").decayed_use, 350'000);
  books.tree.note_grant(books.id("a"), whole(10));
  EXPECT_EQ(books.devices_of("a").decayed_use, 400'000);
  // It outlives a configuration, and makes way for b in the next division.
  books.want("a", whole(80));
  books.want("b", whole(80));
  EXPECT_EQ(books.devices_of("a").fair, 54'545);  // claims 0.6 and 0.5
  books.tree.configure({.queues = queues}, {});
  EXPECT_EQ(books.devices_of("a").fair, 54'545);
}

TEST(QueueTree, AVerdictShowsEveryLevelOfThePath) {
  Books books({queue("team", "root", {{.limit = 3000}}), queue("a", "team", {{.deserved = 1000}})});
  books.run("a", whole(2));
  const std::vector<QuotaChainLink> chain =
      books.tree.chain(books.id("a"), whole(2), Counting::present);
  ASSERT_EQ(chain.size(), 3u);
  EXPECT_EQ(chain[0].queue, books.id("a"));
  EXPECT_EQ(chain[0].figures.deserved, 1000);
  EXPECT_EQ(chain[0].short_of, 0);
  EXPECT_EQ(chain[1].need, 2000);
  EXPECT_EQ(chain[1].short_of, 1000);
  EXPECT_EQ(chain[2].queue, kRootQueue);
}

}  // namespace
}  // namespace berth::core
