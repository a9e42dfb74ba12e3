#include "core/placement/domains.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/placement/topology_world_test.h"

namespace berth::core {
namespace {

using testing::ElementsAre;

TEST(Domains, NamesAreThePathOfLabelValues) {
  Racks racks({"zone", "rack"});
  const NodeId node = racks.add("n0", {{"zone", "zone-a"}, {"rack", "rack1"}}, 3);
  const DomainId rack = racks.domains.home(node);
  EXPECT_EQ(racks.domains.name(rack), "zone-a/rack1");
  EXPECT_EQ(racks.domains.level(rack), 1);
  EXPECT_EQ(racks.domains.of_node(node, 0), racks.named("zone-a"));
  EXPECT_EQ(racks.domains.of_node(node, kNoLevel), kWholePool);
  EXPECT_TRUE(racks.domains.is_within(rack, racks.named("zone-a")));
  EXPECT_FALSE(racks.domains.is_within(racks.named("zone-a"), rack));
}

TEST(Domains, EqualValuesUnderDifferentParentsDiffer) {
  Racks racks({"zone", "rack"});
  const NodeId a = racks.add("a", {{"zone", "z1"}, {"rack", "r"}}, 1);
  const NodeId b = racks.add("b", {{"zone", "z2"}, {"rack", "r"}}, 1);
  EXPECT_NE(racks.domains.home(a), racks.domains.home(b));
  EXPECT_THAT(racks.domains.of_level(1), ElementsAre(racks.named("z1/r"), racks.named("z2/r")));
}

TEST(Domains, NodeWithoutALabelIsOutsideFromThatLevelOn) {
  Racks racks({"zone", "rack"});
  racks.add("both", {{"zone", "z"}, {"rack", "r"}}, 1);
  const NodeId no_rack = racks.add("no-rack", {{"zone", "z"}}, 1);
  const NodeId no_zone = racks.add("no-zone", {{"rack", "r"}}, 1);
  EXPECT_EQ(racks.domains.home(no_rack), racks.named("z"));
  EXPECT_EQ(racks.domains.home(no_zone), kWholePool);
  EXPECT_EQ(racks.domains.outside(0), 1);
  EXPECT_EQ(racks.domains.outside(1), 2);
  EXPECT_EQ(racks.counts.members(racks.named("z")), 2);
  EXPECT_EQ(racks.counts.members(racks.named("z/r")), 1);
}

TEST(Domains, NodesAndDomainsAreInTheOrderOfTies) {
  Racks racks({"rack"});
  const NodeId late = racks.add("late", {{"rack", "r1"}}, NodeRoom{}, 9);
  const NodeId b = racks.add("b", {{"rack", "r1"}}, 0);
  racks.add("x", {{"rack", "r0"}}, 0);
  const NodeId a = racks.add("a", {{"rack", "r1"}}, 0);
  EXPECT_THAT(racks.domains.nodes(racks.named("r1")), ElementsAre(a, b, late));
  EXPECT_THAT(racks.domains.children(kWholePool),
              ElementsAre(racks.named("r0"), racks.named("r1")));
}

TEST(Domains, RelabelledNodeMovesWithItsMembers) {
  Racks racks({"rack"});
  racks.add("n", {{"rack", "r1"}}, 3);
  racks.add("n", {{"rack", "r2"}}, 3);
  EXPECT_EQ(racks.counts.members(racks.named("r1")), 0);
  EXPECT_EQ(racks.counts.members(racks.named("r2")), 3);
  racks.remove("n");
  EXPECT_EQ(racks.domains.node_count(kWholePool), 0);
  EXPECT_EQ(racks.counts.members(kWholePool), 0);
  const DomainId before = racks.named("r2");
  racks.add("n", {{"rack", "r2"}}, 1);
  EXPECT_EQ(racks.domains.home(racks.fleet.find_node("n")), before);
}

// Whatever came, went and was relabelled: the same as a tree built anew, in any order.
TEST(Domains, IncrementalEqualsBuiltAnew) {
  std::mt19937 generator(7);
  const auto dice = [&](int most) { return std::uniform_int_distribution(0, most)(generator); };
  for (int round = 0; round < 30; ++round) {
    Racks racks({"zone", "rack", "host"});
    for (int step = 0; step < 60; ++step) {
      const std::string name = "n" + std::to_string(dice(11));
      const NodeId known = racks.fleet.find_node(name);
      if (!known.is_none() && racks.fleet.present(known) && dice(3) == 0) {
        racks.remove(name);
        continue;
      }
      std::map<std::string, std::string> labels;
      for (const std::string& level : racks.topology.levels) {
        if (dice(7) != 0) {
          labels[level] = level == "host" ? name : level + std::to_string(dice(2));
        }
      }
      racks.add(name, labels, NodeRoom{.members = dice(4)}, dice(1));
      racks.counts.verify();
    }
    Domains anew(racks.topology);
    std::vector<std::size_t> ids(racks.fleet.node_slots());
    std::iota(ids.begin(), ids.end(), std::size_t{0});
    std::shuffle(ids.begin(), ids.end(), generator);
    for (const std::size_t id : ids) {
      anew.sync(racks.fleet, NodeId(id));
    }
    for (std::size_t i = 0; i < racks.domains.slots(); ++i) {
      const DomainId id(i);
      for (std::size_t j = 0; j < anew.slots(); ++j) {
        if (anew.name(DomainId(j)) == racks.domains.name(id)) {
          const auto old_nodes = racks.domains.nodes(id);
          const auto new_nodes = anew.nodes(DomainId(j));
          EXPECT_TRUE(std::ranges::equal(old_nodes, new_nodes)) << racks.domains.name(id);
          EXPECT_EQ(racks.domains.node_count(id), anew.node_count(DomainId(j)));
        }
      }
    }
    for (int level = 0; level < 3; ++level) {
      EXPECT_EQ(racks.domains.outside(level), anew.outside(level));
    }
  }
}

}  // namespace
}  // namespace berth::core
