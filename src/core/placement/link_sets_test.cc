#include "core/placement/link_sets.h"

#include <algorithm>
#include <bit>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/placement/member_counts.h"
#include "core/placement/world_test.h"

namespace berth::core {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Node node_with(int devices, std::vector<PairScore> links) {
  Node node = world_node({.name = "n", .devices = devices});
  node.links = std::move(links);
  return node;
}

// Two boards of four: a switch in each.
Node two_boards(const std::string& name = "n") {
  Node node = world_node({.name = name, .devices = 8});
  for (std::size_t i = 0; i < 8; ++i) {
    node.devices[i].link_set = i < 4 ? 0 : 1;
  }
  return node;
}

DeviceAsk joined(DeviceAsk ask, LinkRule rule = LinkRule::required) {
  ask.links = rule;
  return ask;
}

Request joined_devices(int count, LinkRule rule = LinkRule::required) {
  return request_of({joined(DeviceAsk::whole_devices(count), rule)});
}

TEST(LinkGraph, JoinedBySwitchOrByNvlink) {
  Node node = node_with(4, {{.a = 1, .b = 0, .score = 210}, {.a = 2, .b = 1, .score = 60}});
  node.devices[2].link_set = node.devices[3].link_set = 7;
  const LinkGraph graph(node);
  EXPECT_TRUE(graph.is_joined(0b0011));
  EXPECT_FALSE(graph.is_joined(0b0110));  // the same board, but no NVLink
  EXPECT_TRUE(graph.is_joined(0b1100));
  EXPECT_TRUE(graph.is_joined(0b1000));
  EXPECT_EQ(graph.score(0b0111), 270);
  EXPECT_EQ(graph.score(0b1100), kSwitchScore);
  EXPECT_TRUE(graph.is_disjoint());
  EXPECT_EQ(graph.largest_set(0b1111), 2);
  EXPECT_EQ(graph.largest_set(0b0100), 1);
  EXPECT_EQ(graph.largest_set(0), 0);
}

TEST(LinkGraph, ChainsAreNotSets) {
  const LinkGraph chain(
      node_with(3, {{.a = 0, .b = 1, .score = 100}, {.a = 1, .b = 2, .score = 100}}));
  EXPECT_FALSE(chain.is_joined(0b111));
  EXPECT_FALSE(chain.is_disjoint());
  EXPECT_EQ(chain.largest_set(0b111), 2);
}

TEST(LinkSets, RequiredTakesOneBoard) {
  World world("best-fit");
  world.add(two_boards());
  world.put("n/g1", whole(1));
  EXPECT_THAT(world.place(joined_devices(4)).devices, ElementsAre("n/g4", "n/g5", "n/g6", "n/g7"));
  EXPECT_THAT(world.place(joined_devices(4)).devices, IsEmpty());
  EXPECT_THAT(world.place(joined_devices(3)).devices, ElementsAre("n/g0", "n/g2", "n/g3"));
}

TEST(LinkSets, ATwoGoesWhereTheLargerSetStays) {
  World world("best-fit");
  world.add(two_boards());
  world.put("n/g1", whole(1));
  EXPECT_THAT(world.place(joined_devices(2)).devices, ElementsAre("n/g0", "n/g2"));
  EXPECT_THAT(world.place(joined_devices(2, LinkRule::preferred)).devices,
              ElementsAre("n/g4", "n/g5"));
}

TEST(LinkSets, SharesLeaveTheLargestHole) {
  World world("best-fit");
  world.add(two_boards());
  for (const std::string used : {"n/g0", "n/g1", "n/g4", "n/g6"}) {
    world.put(used, share(used == "n/g4" ? 100 : 300));
  }
  const Placed placed = world.place(request_of({joined(DeviceAsk::fraction_nano(500'000'000, 2))}));
  EXPECT_THAT(placed.devices, ElementsAre("n/g0", "n/g1"));
}

TEST(LinkSets, EmptyMachineWithoutASetIsNever) {
  World world("best-fit");
  const NodeId node = world.add(two_boards());
  const ShapeId five = world.shapes.acquire(joined_devices(5));
  const StaticFit& fit = world.shapes.fit(five, world.types, world.fleet, node);
  EXPECT_FALSE(fit.could_ever);
  EXPECT_EQ(fit.never, Cause::no_link_set);
  const ShapeId nine = world.shapes.acquire(joined_devices(9));
  EXPECT_EQ(world.shapes.fit(nine, world.types, world.fleet, node).never,
            Cause::insufficient_devices);
  const ShapeId four = world.shapes.acquire(joined_devices(4));
  EXPECT_TRUE(world.shapes.fit(four, world.types, world.fleet, node).could_ever);
  world.put("n/g1", share(10));
  world.put("n/g6", share(10));
  EXPECT_EQ(world.index.refusal(four, node), Cause::no_link_set);
}

TEST(LinkSets, PreferredSaysWhenTheDevicesAreNotJoined) {
  World world("best-fit");
  world.add(two_boards());
  const auto is_linked = [&](int count) {
    const ShapeId shape = world.shapes.acquire(joined_devices(count, LinkRule::preferred));
    const Selection selection = world.index.select(shape, {});
    return world.index.places(shape, selection).front().linked;
  };
  EXPECT_TRUE(is_linked(4));
  EXPECT_FALSE(is_linked(5));
  EXPECT_THAT(world.place(joined_devices(5, LinkRule::preferred)).devices, testing::SizeIs(5));
}

TEST(LinkSets, PreferredChoosesTheNodeThatHasASet) {
  for (const std::string policy : {"best-fit", "pack", "spread", "fgd"}) {
    World world(policy);
    world.add(world_node({.name = "a", .devices = 2}));
    world.add(two_boards("b"));
    world.add(world_node({.name = "c", .devices = 4}));
    EXPECT_EQ(world.place(joined_devices(2, LinkRule::preferred)).node, "b") << policy;
  }
}

TEST(LinkSets, NumaAndLinksTogether) {
  World world("best-fit");
  Node node = two_boards();
  for (std::size_t i = 0; i < 8; ++i) {
    node.devices[i].numa = i == 0 ? 1 : 0;
  }
  world.add(node);
  DeviceAsk ask = joined(DeviceAsk::whole_devices(4));
  ask.numa_bind = true;
  EXPECT_THAT(world.place(request_of({ask})).devices, ElementsAre("n/g4", "n/g5", "n/g6", "n/g7"));
  EXPECT_THAT(world.place(request_of({ask})).devices, IsEmpty());
}

// The first container's best set would leave the second one without: another set is tried.
TEST(LinkSets, TwoContainersShareTheBoards) {
  World world("best-fit");
  world.add(two_boards());
  world.put("n/g0", whole(1));
  const Request both =
      request_of({joined(DeviceAsk::whole_devices(4)), joined(DeviceAsk::whole_devices(3))});
  EXPECT_THAT(world.place(both).devices,
              ElementsAre("n/g4", "n/g5", "n/g6", "n/g7", "n/g1", "n/g2", "n/g3"));
}

TEST(LinkSets, SixteenDevicesBehindOneSwitch) {
  World world("best-fit");
  Node node = world_node({.name = "n", .devices = 16});
  for (Device& device : node.devices) {
    device.link_set = 0;
  }
  world.add(node);
  EXPECT_THAT(world.place(joined_devices(12)).devices, testing::SizeIs(12));
  EXPECT_THAT(world.place(joined_devices(4)).devices, testing::SizeIs(4));
}

TEST(LinkSets, MembersAreCountedSetBySet) {
  World world("best-fit");
  const NodeId node = world.add(two_boards());
  const auto count = [&](const Request& request) {
    const ShapeId shape = world.shapes.acquire(request);
    return count_on_node(world.shapes.at(shape), world.ledger.node(node), world.ledger.faces(node),
                         world.shapes.fit(shape, world.types, world.fleet, node));
  };
  EXPECT_EQ(count(joined_devices(3)).members, 2);
  world.put("n/g0", whole(1));
  world.put("n/g4", whole(1));
  EXPECT_EQ(count(joined_devices(2)).members, 2);
  EXPECT_TRUE(count(joined_devices(2)).exact);
  EXPECT_EQ(count(joined_devices(2, LinkRule::preferred)).members, 3);
  EXPECT_EQ(count(joined_devices(4)).members, 0);
}

// Against every set of places, on random graphs.
class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed, int devices) : generator_(seed) {
    Node node = world_node({.name = "n", .devices = devices});
    for (int a = 0; a < devices; ++a) {
      node.devices[static_cast<std::size_t>(a)].link_set = to(2) - 1;
      for (int b = 0; b < a; ++b) {
        if (to(2) != 0) {
          node.links.push_back({.a = a, .b = b, .score = std::int64_t{50} * to(5)});
        }
      }
    }
    graph = LinkGraph(node);
    for (int i = 0; i < devices; ++i) {
      faces_.push_back({.headroom = std::int64_t{100} * to(9), .usable = 1000, .idle = to(1) == 0});
    }
    needs_.resize(static_cast<std::size_t>(devices), {.request = 10, .exclusive = to(1) == 0});
    ask = {.fits = generator_() & ((std::uint64_t{1} << devices) - 1),
           .count = 1 + to(4),
           .required = to(1) == 0,
           .faces = faces_,
           .needs = needs_};
  }

  int to(int most) { return std::uniform_int_distribution(0, most)(generator_); }

  int largest_by_trying(std::uint64_t among) const {
    int largest = 0;
    for (std::uint64_t set = among; set != 0; set = (set - 1) & among) {
      largest = graph.is_joined(set) ? std::max(largest, std::popcount(set)) : largest;
    }
    return largest;
  }

  auto worth(std::uint64_t set) const {
    std::uint64_t idle = 0;
    std::int64_t hole = 0;
    for (std::size_t i = 0; i < faces_.size(); ++i) {
      const bool taken = (set >> i & 1U) != 0;
      idle |= !taken && faces_[i].idle ? std::uint64_t{1} << i : 0;
      const std::int64_t left = !taken                ? faces_[i].headroom
                                : needs_[i].exclusive ? 0
                                                      : faces_[i].headroom - needs_[i].request;
      hole = std::max(hole, left);
    }
    return std::tuple(graph.score(set), largest_by_trying(idle), hole);
  }

  std::vector<std::uint64_t> all_sets() const {
    std::vector<std::uint64_t> sets;
    for (std::uint64_t set = ask.fits; set != 0; set = (set - 1) & ask.fits) {
      if (std::popcount(set) == ask.count && (!ask.required || graph.is_joined(set))) {
        sets.push_back(set);
      }
    }
    std::ranges::sort(sets);
    return sets;
  }

  LinkGraph graph{Node{}};
  LinkAsk ask;

 private:
  std::mt19937 generator_;
  std::vector<DeviceFace> faces_;
  std::vector<DeviceNeed> needs_;
};

TEST(LinkSetsProperty, TheFirstChoiceIsTheBestOfAll) {
  for (unsigned seed = 0; seed < 1500; ++seed) {
    RandomGraph random(seed, 1 + static_cast<int>(seed % 8));
    const std::vector<std::uint64_t> all = random.all_sets();
    LinkChoices choices = link_choices(random.graph, random.ask);
    ASSERT_TRUE(choices.complete);
    for (std::size_t i = 1; i < choices.sets.size(); ++i) {
      ASSERT_GE(random.worth(choices.sets[i - 1]), random.worth(choices.sets[i])) << seed;
    }
    LinkAsk one = random.ask;
    one.one_suffices = true;
    const LinkChoices first = link_choices(random.graph, one);
    ASSERT_EQ(first.sets.empty(), all.empty());
    if (!all.empty()) {
      ASSERT_EQ(first.sets.front(), choices.sets.front()) << seed;
    }
    std::ranges::sort(choices.sets);
    ASSERT_EQ(choices.sets, all) << seed;
  }
}

// Above eight places the list is bounded, but a set is found whenever there is one.
TEST(LinkSetsProperty, AboveEightASetIsFoundIfThereIsOne) {
  std::int64_t best_found = 0;
  std::int64_t found = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    RandomGraph random(seed, 9 + static_cast<int>(seed % 4));
    random.ask.one_suffices = seed % 2 == 0;
    random.ask.fits = (std::uint64_t{1} << (9 + seed % 4)) - 1;
    const std::vector<std::uint64_t> all = random.all_sets();
    const LinkChoices choices = link_choices(random.graph, random.ask);
    ASSERT_EQ(choices.sets.empty(), all.empty()) << seed;
    std::int64_t highest = 0;
    for (const std::uint64_t set : all) {
      highest = std::max(highest, random.graph.score(set));
    }
    if (!all.empty()) {
      ASSERT_TRUE(std::ranges::binary_search(all, choices.sets.front())) << seed;
      ++found;
      best_found += random.graph.score(choices.sets.front()) == highest ? 1 : 0;
    }
  }
  EXPECT_GE(best_found * 100, found * 95) << best_found << " of " << found;
}

}  // namespace
}  // namespace berth::core
