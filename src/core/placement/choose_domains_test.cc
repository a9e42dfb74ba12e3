#include "core/placement/choose_domains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/placement/topology_world_test.h"

namespace berth::core {
namespace {

using testing::ElementsAre;

const TopologyRule kRackRequired{.required = "rack"};
const TopologyRule kRackPreferred{.preferred = "rack"};

// One node in each rack.
void fill(Racks& racks, const std::vector<std::int64_t>& rooms) {
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    const std::string n = std::to_string(i + 1);
    racks.add("n" + n, {{"rack", "r" + n}}, rooms[i]);
  }
}

// queues-gangs-topology.md 8, step 3.
TEST(ChooseDomains, SevenMembersInRoomsOfThreeThreeTwoOne) {
  Racks racks({"rack"});
  fill(racks, {3, 3, 2, 1});
  EXPECT_EQ(racks.told(kRackPreferred, 7), "n1:3 n2:3 n4:1");
  EXPECT_EQ(racks.told({}, 7), "n4:1 n3:2 n1:3 n2:1");
  EXPECT_THAT(racks.choose(kRackPreferred, 7).domains,
              ElementsAre(racks.named("r1"), racks.named("r2"), racks.named("r4")));
}

TEST(ChooseDomains, RequiredTakesTheTightestThatFits) {
  Racks racks({"rack"});
  fill(racks, {5, 3, 4, 3});
  EXPECT_EQ(racks.told(kRackRequired, 3), "n2:3");
  EXPECT_EQ(racks.told(kRackRequired, 4), "n3:4");
  EXPECT_EQ(racks.told(kRackRequired, 6), "5 of 6 in r1");
  EXPECT_EQ(racks.choose(kRackRequired, 3).level, 0);
}

TEST(ChooseDomains, AmongEqualsTheLargestHoleStays) {
  Racks racks({"rack"});
  racks.add("n1", {{"rack", "r1"}}, {.members = 2, .hole = 80});
  racks.add("n2", {{"rack", "r2"}}, {.members = 2, .hole = 20});
  racks.add("n3", {{"rack", "r3"}}, {.members = 2, .hole = 20});
  EXPECT_EQ(racks.told(kRackRequired, 1), "n2:1");
  EXPECT_THAT(fitting_domains(racks.counts, racks.rule(kRackRequired), {.members = 2}, 0),
              ElementsAre(racks.named("r2"), racks.named("r3"), racks.named("r1")));
}

TEST(ChooseDomains, PreferredClimbsUntilOneDomainFits) {
  Racks racks({"zone", "rack"});
  for (const std::string rack : {"r1", "r2"}) {
    racks.add("a-" + rack, {{"zone", "a"}, {"rack", rack}}, 2);
    racks.add("b-" + rack, {{"zone", "b"}, {"rack", rack}}, 3);
  }
  EXPECT_EQ(racks.told(kRackPreferred, 2), "a-r1:2");
  EXPECT_EQ(racks.told(kRackPreferred, 4), "a-r1:2 a-r2:2");
  EXPECT_EQ(racks.told(kRackPreferred, 5), "b-r1:3 b-r2:2");
  EXPECT_EQ(racks.choose(kRackPreferred, 5).level, 0);
  EXPECT_EQ(racks.told(kRackPreferred, 7), "b-r1:3 b-r2:3 a-r1:1");
  EXPECT_EQ(racks.choose(kRackPreferred, 7).level, kNoLevel);
  EXPECT_EQ(racks.told({.required = "zone", .preferred = "rack"}, 7), "6 of 7 in b");
}

// annotations.md 6.
TEST(ChooseDomains, T1UsedRackIsTooSmall) {
  Racks racks({"rack"});
  racks.add("a", {{"rack", "rack1"}}, 0);
  racks.add("b", {{"rack", "rack1"}}, 1);
  racks.add("c", {{"rack", "rack2"}}, 1);
  racks.add("d", {{"rack", "rack2"}}, 1);
  EXPECT_EQ(racks.told(kRackRequired, 2), "c:1 d:1");
}

TEST(ChooseDomains, T2ReasonNamesTheLevel) {
  Racks racks({"rack"});
  racks.add("a", {{"rack", "rack1"}}, 0);  // one device each: no member of two fits
  racks.add("b", {{"rack", "rack1"}}, 0);
  racks.add("c", {{"rack", "rack2"}}, 1);
  const DomainChoice choice = racks.choose(kRackRequired, 2);
  ASSERT_FALSE(choice.fits);
  EXPECT_EQ(choice.shortage,
            (DomainShortage{
                .level = 0, .best = racks.named("rack2"), .fits = 1, .need = 2, .domains = 2}));
}

TEST(ChooseDomains, T3EachRackHoldsTwoOfFour) {
  Racks racks({"rack"});
  fill(racks, {2, 2, 2, 2});
  const DomainShortage shortage = racks.choose(kRackRequired, 4).shortage;
  EXPECT_TRUE(shortage.all_equal);
  EXPECT_EQ(shortage.domains, 4);
  EXPECT_EQ(shortage.fits, 2);
  EXPECT_EQ(shortage.need, 4);
}

TEST(ChooseDomains, T4PreferredRunsAcrossRacks) {
  Racks racks({"rack"});
  fill(racks, {2, 2, 2, 2});
  EXPECT_EQ(racks.told(kRackPreferred, 4), "n1:2 n2:2");
}

TEST(ChooseDomains, T5TheUsedRackIsTheTighterOne) {
  Racks threes({"rack"});
  fill(threes, {2, 3});
  EXPECT_EQ(threes.told(kRackRequired, 2), "n1:2");
  Racks tens({"rack"});
  fill(tens, {10, 9});
  EXPECT_EQ(tens.told(kRackRequired, 2), "n2:2");
}

// T6: a zone for the job, a rack for each subgroup. The caller tries the zones that hold the whole,
// tightest first, and places each subgroup within it.
TEST(ChooseDomains, T6ZoneForTheJobRackForEachSubgroup) {
  Racks racks({"zone", "rack"});
  racks.add("n0", {{"zone", "zone1"}, {"rack", "r0"}}, 0);
  racks.add("n1", {{"zone", "zone1"}, {"rack", "r1"}}, 2);
  racks.add("n2", {{"zone", "zone2"}, {"rack", "r0"}}, 2);
  racks.add("n3", {{"zone", "zone2"}, {"rack", "r1"}}, 2);
  const std::vector<DomainId> zones =
      fitting_domains(racks.counts, racks.rule({.required = "zone"}), {.members = 4}, 0);
  ASSERT_THAT(zones, ElementsAre(racks.named("zone2")));
  const LevelRule rule = racks.rule(kRackRequired);
  const DomainAsk ask{.members = 2, .within = zones.front()};
  const DomainChoice first = choose_domains(racks.counts, rule, ask);
  ASSERT_TRUE(first.fits);
  EXPECT_THAT(first.domains, ElementsAre(racks.named("zone2/r0")));
  racks.counts.set(first.nodes.front().node, {.members = 0});
  EXPECT_THAT(choose_domains(racks.counts, rule, ask).domains,
              ElementsAre(racks.named("zone2/r1")));
}

TEST(ChooseDomains, GangOfSixGoesToTheCliqueOfEight) {
  const std::string level = "nvidia.com/gpu.clique";
  Racks racks({level, "host"});
  for (int i = 0; i < 12; ++i) {
    const std::string name = "n" + std::to_string(10 + i);
    racks.add(name, {{level, i < 4 ? "c0ffee.4" : "c0ffee.8"}, {"host", name}}, 1);
  }
  const DomainChoice choice = racks.choose({.required = level}, 6);
  ASSERT_TRUE(choice.fits);
  EXPECT_THAT(choice.domains, ElementsAre(racks.named("c0ffee.8")));
  EXPECT_EQ(choice.nodes.size(), 6U);
  EXPECT_EQ(racks.told({.required = level}, 4).substr(0, 5), "n10:1");
}

TEST(ChooseDomains, MissingLabelsAreCounted) {
  Racks racks({"rack"});
  racks.add("a", {{"rack", "r1"}}, 2);
  racks.add("b", {}, 4);
  const DomainShortage shortage = racks.choose(kRackRequired, 3).shortage;
  EXPECT_EQ(shortage.outside, 1);
  EXPECT_EQ(shortage.fits, 2);
  // Where no level is required they serve, as the last choice of one that prefers a rack.
  EXPECT_EQ(racks.told(kRackPreferred, 2), "a:2");
  EXPECT_EQ(racks.told(kRackPreferred, 6), "b:4 a:2");
  Racks bare({"rack"});
  bare.add("a", {}, 2);
  EXPECT_EQ(bare.told(kRackRequired, 1), "0 of 1 in none");
}

TEST(ChooseDomains, SegmentsLieInOneRackEach) {
  Racks racks({"zone", "rack"});
  racks.add("a", {{"zone", "z"}, {"rack", "r1"}}, 3);
  racks.add("b", {{"zone", "z"}, {"rack", "r1"}}, 3);
  racks.add("c", {{"zone", "z"}, {"rack", "r2"}}, 3);
  racks.add("d", {{"zone", "z"}, {"rack", "r3"}}, 1);
  const TopologyRule pairs{.required = "zone", .segments = {{.level = "rack", .size = 2}}};
  EXPECT_EQ(racks.told(pairs, 8), "a:3 b:3 c:2");
  EXPECT_EQ(racks.told(pairs, 10), "8 of 10 in z");  // ten rooms, but only four pairs
  EXPECT_EQ(racks.told(pairs, 9), "a:3 b:3 c:3");    // the last segment is a single
  EXPECT_EQ(racks.told({.segments = pairs.segments}, 4), "c:2 a:2");
}

TEST(ChooseDomains, LeaderTakesRoomOfTheMembers) {
  Racks racks({"rack"});
  racks.add("a", {{"rack", "r1"}}, {.members = 2, .with_leader = 1});
  racks.add("b", {{"rack", "r1"}}, {.members = 2, .with_leader = 1});
  racks.add("c", {{"rack", "r2"}}, {.members = 2, .with_leader = 2});
  racks.add("d", {{"rack", "r2"}}, {.members = 2, .with_leader = kNoRoom});
  EXPECT_EQ(racks.told(kRackRequired, 4, true), "c:2 d:2 leader c");
  EXPECT_EQ(racks.told(kRackRequired, 3, true), "a:1 b:2 leader a");
  EXPECT_EQ(racks.told(kRackRequired, 5, true), "4 of 5 in r2");
  Racks none({"rack"});
  fill(none, {4, 4});
  EXPECT_FALSE(none.choose(kRackRequired, 2, true).shortage.leader_fits);
}

}  // namespace
}  // namespace berth::core
