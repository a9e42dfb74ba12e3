#include "oracle/tiny_packer.h"

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace berth::oracle {
namespace {

constexpr Milli kCores8{8000};

TinyDevice device(std::int64_t free_mib, std::int64_t usable_mib = 16'000) {
  return {.usable = Memory::mib(usable_mib),
          .free = Memory::mib(free_mib),
          .empty = free_mib == usable_mib};
}

TinyNode node_with(std::vector<TinyDevice> devices) {
  return {.cpu = kCores8, .ram = Memory::mib(65'536), .devices = std::move(devices)};
}

TinyItem share(std::int64_t mib, int devices = 1) {
  return {.devices = devices, .memory = Memory::mib(mib)};
}

TinyItem whole(int devices = 1) { return {.devices = devices, .whole = true}; }

PackOutcome outcome_of(const TinyWorld& world, const std::vector<TinyItem>& items) {
  return can_pack_all(world, items)->outcome;
}

TEST(TinyPacker, PlacesTheLastMebibyteOnce) {
  const TinyWorld world{{node_with({device(9000)})}};
  EXPECT_EQ(outcome_of(world, {share(4000), share(5000)}), PackOutcome::proved_possible);
  EXPECT_EQ(outcome_of(world, {share(4000), share(5001)}), PackOutcome::proved_impossible);
  EXPECT_EQ(pack_most(world, {share(4000), share(5001)})->placed, 1);
}

TEST(TinyPacker, FindsThePackingThatFirstFitMisses) {
  const TinyWorld world{{node_with({device(10), device(10)})}};
  const std::vector<TinyItem> items{share(3), share(3), share(4), share(6),
                                    share(4)};  // 3+3+4 and 6+4
  const Result<PackAnswer> answer = can_pack_all(world, items);
  ASSERT_EQ(answer->outcome, PackOutcome::proved_possible);
  EXPECT_EQ(broken_rule(world, items, answer->packing), std::nullopt);
}

TEST(TinyPacker, PutsAllDevicesOfAnItemOnOneNode) {
  const TinyWorld two_nodes{{node_with({device(8000)}), node_with({device(8000)})}};
  const TinyWorld one_node{{node_with({device(8000), device(8000)})}};
  EXPECT_EQ(outcome_of(two_nodes, {share(1000, 2)}), PackOutcome::proved_impossible);
  EXPECT_EQ(outcome_of(one_node, {share(1000, 2)}), PackOutcome::proved_possible);
  EXPECT_EQ(outcome_of(one_node, {share(1000, 3)}), PackOutcome::proved_impossible);
}

TEST(TinyPacker, GivesAWholeDeviceOnlyIfItIsEmptyAndAlone) {
  const TinyWorld world{{node_with({device(16'000), device(15'000)})}};
  EXPECT_EQ(outcome_of(world, {whole()}), PackOutcome::proved_possible);
  EXPECT_EQ(outcome_of(world, {whole(), whole()}), PackOutcome::proved_impossible);
  EXPECT_EQ(outcome_of(world, {whole(), share(15'000)}), PackOutcome::proved_possible);
  EXPECT_EQ(outcome_of(world, {whole(), share(15'001)}), PackOutcome::proved_impossible);
}

TEST(TinyPacker, KeepsToTheDevicesThatAnItemAllows) {
  const TinyWorld world{{node_with({device(8000)}), node_with({device(8000)})}};
  TinyItem second_only = share(5000);
  second_only.allowed = 0b10;
  EXPECT_EQ(outcome_of(world, {second_only, share(5000)}), PackOutcome::proved_possible);
  EXPECT_EQ(outcome_of(world, {second_only, second_only}), PackOutcome::proved_impossible);
}

TEST(TinyPacker, KeepsAnItemInOneGroupIfItAsks) {
  TinyWorld world{{node_with({device(8000), device(8000)})}};
  world.nodes[0].devices[1].group = 1;
  TinyItem item = share(1000, 2);
  EXPECT_EQ(outcome_of(world, {item}), PackOutcome::proved_possible);
  item.same_group = true;
  EXPECT_EQ(outcome_of(world, {item}), PackOutcome::proved_impossible);
}

TEST(TinyPacker, TellsNodesApartByHowTheirDevicesAreGrouped) {
  TinyWorld world{
      {node_with({device(8000), device(8000)}), node_with({device(8000), device(8000)})}};
  world.nodes[0].devices[1].group = 1;
  TinyItem item = share(1000, 2);
  item.same_group = true;
  EXPECT_EQ(outcome_of(world, {item}), PackOutcome::proved_possible);
}

TEST(TinyPacker, CountsCpuAndRamPerNode) {
  const TinyWorld world{{node_with({device(8000)}), node_with({device(8000)})}};
  const TinyItem cores5{.devices = 0, .cpu = Milli(5000)};
  const TinyItem ram40{.devices = 0, .ram = Memory::mib(40'000)};
  EXPECT_EQ(outcome_of(world, {cores5, cores5}), PackOutcome::proved_possible);
  EXPECT_EQ(outcome_of(world, {cores5, cores5, cores5}), PackOutcome::proved_impossible);
  EXPECT_EQ(outcome_of(world, {ram40, ram40}), PackOutcome::proved_possible);
  EXPECT_EQ(outcome_of(world, {ram40, ram40, ram40}), PackOutcome::proved_impossible);
}

TEST(TinyPacker, PlacesNothingInAnEmptyWorldAndNothingIsPossible) {
  EXPECT_EQ(outcome_of({}, {share(1)}), PackOutcome::proved_impossible);
  EXPECT_EQ(outcome_of({}, {}), PackOutcome::proved_possible);
  EXPECT_TRUE(pack_most({}, {share(1)})->is_proved());
}

TEST(TinyPacker, NeverCallsAnUnfinishedSearchAProof) {
  const TinyWorld world{{node_with({device(10), device(10)})}};
  const std::vector<TinyItem> items{share(3), share(3), share(4), share(6), share(4)};
  EXPECT_EQ(can_pack_all(world, items, 0)->outcome, PackOutcome::budget_ended);
  EXPECT_EQ(can_pack_all(world, items, 2)->outcome, PackOutcome::budget_ended);
  const Result<MostPackAnswer> most = pack_most(world, items, 3);
  EXPECT_FALSE(most->is_proved());
  EXPECT_EQ(most->at_most, 5);
  EXPECT_EQ(broken_rule(world, items, most->packing), std::nullopt);
}

TEST(TinyPacker, ProvesWorldsFullOfSymmetryInFewSteps) {
  // Twelve pieces of 6 into eleven devices of 11 on three nodes: the sums leave room, the pieces do
  // not.
  const TinyWorld world{{node_with(std::vector<TinyDevice>(4, device(11))),
                         node_with(std::vector<TinyDevice>(4, device(11))),
                         node_with(std::vector<TinyDevice>(3, device(11)))}};
  std::vector<TinyItem> items(12, share(6));
  const Result<PackAnswer> all = can_pack_all(world, items);
  EXPECT_EQ(all->outcome, PackOutcome::proved_impossible);
  EXPECT_LT(all->steps, 200);
  items.insert(items.end(), 6, share(5));
  const Result<MostPackAnswer> most = pack_most(world, items);
  EXPECT_TRUE(most->is_proved());
  EXPECT_EQ(most->placed, 17);
}

TEST(TinyPacker, SaysWhatIsOutOfRange) {
  const auto message = [](const TinyWorld& world, const std::vector<TinyItem>& items) {
    const Result<PackAnswer> answer = can_pack_all(world, items);
    return answer.ok() ? "" : answer.error().message();
  };
  EXPECT_EQ(message({}, {share(0)}),
            "tiny packer: item 0: asks for no memory; ask for some or for whole devices");
  EXPECT_EQ(message({}, {share(1), share(1, 65)}),
            "tiny packer: item 1: asks for 65 devices, must be 0 to 64");
  EXPECT_EQ(message({{node_with({device(2, 1)})}}, {}),
            "tiny packer: node 0: a device has 2097152 bytes free of 1048576 usable; must be 0 <= "
            "free <= usable <= "
            "2^50");
  EXPECT_EQ(message({{node_with(std::vector<TinyDevice>(65, device(1)))}}, {}),
            "tiny packer: 65 devices, at most 64");
  EXPECT_EQ(message({}, std::vector<TinyItem>(65, share(1))), "tiny packer: 65 items, at most 64");
  EXPECT_EQ(message({}, {{.cpu = Milli(-1)}}),
            "tiny packer: item 0: memory, cpu and ram must be 0 to 2^50");
}

TEST(TinyPacking, TellsWhichRuleIsBroken) {
  TinyWorld world{{node_with({device(8000), device(16'000)}), node_with({device(16'000)})}};
  world.nodes[0].devices[1].group = 1;
  TinyItem grouped = share(1, 2);
  grouped.same_group = true;
  TinyItem first_only = share(1);
  first_only.allowed = 1;
  const auto broken = [&](const std::vector<TinyItem>& items, const TinyPacking& packing) {
    return broken_rule(world, items, packing).value_or("nothing");
  };
  EXPECT_EQ(broken({share(8000)}, {{{0, {0}}}}), "nothing");
  EXPECT_EQ(broken({share(8001)}, {{{0, {0}}}}),
            "item 0 takes memory that its device does not have");
  EXPECT_EQ(broken({share(5000), share(5000)}, {{{0, {0}}}, {{0, {0}}}}),
            "item 1 takes memory that its device does not have");
  EXPECT_EQ(broken({share(1), whole()}, {{{0, {1}}}, {{0, {1}}}}),
            "item 1 takes a device whole that is not empty");
  EXPECT_EQ(broken({whole(), share(1)}, {{{0, {1}}}, {{0, {1}}}}),
            "item 1 takes memory that its device does not have");
  EXPECT_EQ(broken({whole()}, {{{0, {0}}}}), "item 0 takes a device whole that is not empty");
  EXPECT_EQ(broken({share(1, 2)}, {{{0, {1, 1}}}}), "item 0 has a device twice or out of order");
  EXPECT_EQ(broken({share(1, 2)}, {{{0, {1}}}}), "item 0 has 1 devices, asked for 2");
  EXPECT_EQ(broken({share(1)}, {{{1, {1}}}}), "item 0 is on a device that its node lacks");
  EXPECT_EQ(broken({share(1)}, {{{2, {0}}}}), "item 0 is on no node of the world");
  EXPECT_EQ(broken({first_only}, {{{1, {0}}}}), "item 0 is on a device that its mask forbids");
  EXPECT_EQ(broken({grouped}, {{{0, {0, 1}}}}), "item 0 is spread over several groups");
  EXPECT_EQ(broken({{.devices = 0, .cpu = Milli(9000)}}, {{{0, {}}}}),
            "item 0 takes CPU that its node does not have");
  EXPECT_EQ(broken({{.devices = 0, .ram = Memory::mib(70'000)}}, {{{0, {}}}}),
            "item 0 takes RAM that its node does not have");
}

// The other opinion: every item in turn is left out or put on every subset of the devices of every
// node. It knows no rule but broken_rule() and prunes nothing except a packing that already breaks
// one.
class Enumeration {
 public:
  Enumeration(const TinyWorld& world, const std::vector<TinyItem>& items)
      : world_(world), items_(items), packing_(items.size()) {
    extend(0, 0);
  }

  int most() const { return most_; }

 private:
  void extend(std::size_t item, int placed) {
    most_ = std::max(most_, placed);
    if (item == items_.size()) return;
    extend(item + 1, placed);
    for (std::size_t n = 0; n < world_.nodes.size(); ++n) {
      const unsigned subsets = 1U << world_.nodes[n].devices.size();
      for (unsigned subset = 0; subset < subsets; ++subset) {
        TinyPlacement placement{.node = static_cast<int>(n), .devices = {}};
        for (int d = 0; subset >> d != 0; ++d) {
          if ((subset >> d & 1) != 0) placement.devices.push_back(d);
        }
        packing_[item] = placement;
        if (!broken_rule(world_, items_, packing_)) extend(item + 1, placed + 1);
        packing_[item].reset();
      }
    }
  }

  const TinyWorld& world_;
  const std::vector<TinyItem>& items_;
  TinyPacking packing_;
  int most_ = 0;
};

struct Case {
  TinyWorld world;
  std::vector<TinyItem> items;
};

// Small numbers, so that ties, exact fits and near misses are common.
class CaseGenerator {
 public:
  explicit CaseGenerator(unsigned seed) : random_(seed) {}

  Case next() {
    Case result;
    const int nodes = 1 + below(3);
    for (int n = 0; n < nodes; ++n)
      result.world.nodes.push_back(node());
    const int kinds = 1 + below(4);  // few kinds of items: equal ones are common too
    std::vector<TinyItem> of_kind;
    for (int k = 0; k < kinds; ++k)
      of_kind.push_back(item());
    const int count = 1 + below(6);
    for (int i = 0; i < count; ++i) {
      result.items.push_back(of_kind[static_cast<std::size_t>(below(kinds))]);
    }
    return result;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  bool one_in(int n) { return below(n) == 0; }

  TinyNode node() {
    TinyNode node{.cpu = Milli(below(8)), .ram = Memory::bytes(below(8)), .devices = {}};
    if (one_in(2)) node.cpu = Milli(100);
    if (one_in(2)) node.ram = Memory::bytes(100);
    const int devices = below(4);
    for (int d = 0; d < devices; ++d) {
      const int free = below(9);
      node.devices.push_back({.usable = Memory::bytes(8),
                              .free = Memory::bytes(free),
                              .empty = free >= 7 || one_in(6),
                              .group = below(2)});
    }
    return node;
  }

  TinyItem item() {
    TinyItem item{.devices = one_in(8)   ? 0
                             : one_in(3) ? 2
                                         : 1,
                  .memory = Memory::bytes(1 + below(6)),
                  .whole = one_in(4),
                  .cpu = Milli(below(5)),
                  .ram = Memory::bytes(below(5)),
                  .same_group = one_in(3)};
    if (one_in(3)) item.allowed = random_();
    return item;
  }

  std::mt19937 random_;
};

std::string describe(const Case& tiny) {
  std::ostringstream out;
  for (const TinyNode& node : tiny.world.nodes) {
    out << "node cpu " << node.cpu.count() << " ram " << node.ram.count() << ":";
    for (const TinyDevice& d : node.devices) {
      out << " (" << d.free.count() << (d.empty ? " empty" : "") << " g" << d.group << ")";
    }
    out << "\n";
  }
  for (const TinyItem& item : tiny.items) {
    out << item.devices << " x " << (item.whole ? "whole" : std::to_string(item.memory.count()))
        << " cpu " << item.cpu.count() << " ram " << item.ram.count()
        << (item.same_group ? " same group" : "") << " allowed " << item.allowed << "\n";
  }
  return out.str();
}

class TinyPackerAgainstEnumeration : public testing::TestWithParam<unsigned> {};

TEST_P(TinyPackerAgainstEnumeration, AgreesOnEveryRandomWorld) {
  CaseGenerator generator(GetParam());
  int impossible = 0;
  for (int round = 0; round < 2500; ++round) {
    const Case tiny = generator.next();
    const int most = Enumeration(tiny.world, tiny.items).most();
    const bool fits = most == static_cast<int>(tiny.items.size());
    impossible += fits ? 0 : 1;

    const Result<PackAnswer> all = can_pack_all(tiny.world, tiny.items);
    ASSERT_EQ(all->outcome, fits ? PackOutcome::proved_possible : PackOutcome::proved_impossible)
        << describe(tiny);
    if (fits) {
      ASSERT_TRUE(std::ranges::all_of(all->packing, [](const auto& p) { return p.has_value(); }))
          << describe(tiny);
      ASSERT_EQ(broken_rule(tiny.world, tiny.items, all->packing), std::nullopt) << describe(tiny);
    }

    const Result<MostPackAnswer> best = pack_most(tiny.world, tiny.items);
    ASSERT_TRUE(best->is_proved()) << describe(tiny);
    ASSERT_EQ(best->placed, most) << describe(tiny);
    ASSERT_EQ(std::ranges::count_if(best->packing, [](const auto& p) { return p.has_value(); }),
              most);
    ASSERT_EQ(broken_rule(tiny.world, tiny.items, best->packing), std::nullopt) << describe(tiny);
  }
  EXPECT_GT(impossible, 500);  // both answers are common
  EXPECT_LT(impossible, 2250);
}

// A small budget may end the search, but what it then claims must still be true.
TEST_P(TinyPackerAgainstEnumeration, ClaimsOnlyWhatIsTrueOnASmallBudget) {
  CaseGenerator generator(GetParam() + 100);
  int ended = 0;
  for (int round = 0; round < 500; ++round) {
    const Case tiny = generator.next();
    const int most = Enumeration(tiny.world, tiny.items).most();
    const Result<MostPackAnswer> best = pack_most(tiny.world, tiny.items, 2);
    ended += best->is_proved() ? 0 : 1;
    ASSERT_LE(best->placed, most) << describe(tiny);
    ASSERT_GE(best->at_most, most) << describe(tiny);
    ASSERT_EQ(broken_rule(tiny.world, tiny.items, best->packing), std::nullopt) << describe(tiny);
  }
  EXPECT_GT(ended, 50);
}

INSTANTIATE_TEST_SUITE_P(Seeds, TinyPackerAgainstEnumeration, testing::Values(1U, 2U, 3U, 4U));

}  // namespace
}  // namespace berth::oracle
