// choose_domains() against every assignment of members to nodes, on small random trees.
#include <algorithm>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "core/placement/choose_domains.h"
#include "core/placement/topology_world_test.h"

namespace berth::core {
namespace {

// Where each member stands, by index, and the leader.
struct Assignment {
  std::vector<NodeId> of_member;
  NodeId leader;
};

class Judge {
 public:
  Judge(const Racks& racks, const LevelRule& rule, const DomainAsk& ask)
      : racks_(racks), rule_(rule), ask_(ask) {}

  bool allows(const Assignment& assignment) const {
    for (std::size_t i = 0; i < racks_.fleet.node_slots(); ++i) {
      const NodeId node(i);
      const NodeRoom room = racks_.counts.at(node);
      const std::int64_t here = std::ranges::count(assignment.of_member, node);
      if (here > (assignment.leader == node ? room.with_leader : room.members)) {
        return false;
      }
    }
    return std::ranges::all_of(rule_.segments, [&](const LevelRule::Segment& segment) {
      for (std::size_t i = 0; i < assignment.of_member.size(); ++i) {
        const std::size_t first = i - i % static_cast<std::size_t>(segment.size);
        const DomainId mine = racks_.domains.of_node(assignment.of_member[i], segment.level);
        if (mine.is_none() ||
            mine != racks_.domains.of_node(assignment.of_member[first], segment.level)) {
          return false;
        }
      }
      return true;
    });
  }

  // Whether the domain can hold the ask at all: every assignment is tried.
  bool possible(DomainId domain) const {
    std::vector<NodeId> nodes;
    for (std::size_t i = 0; i < racks_.fleet.node_slots(); ++i) {
      const DomainId home = racks_.domains.home(NodeId(i));
      if (!home.is_none() && racks_.domains.is_within(home, domain)) {
        nodes.emplace_back(i);
      }
    }
    Assignment assignment{.of_member = std::vector<NodeId>(static_cast<std::size_t>(ask_.members)),
                          .leader = NodeId::none()};
    if (!ask_.leader) {
      return extend(assignment, 0, nodes);
    }
    return std::ranges::any_of(nodes, [&](NodeId leader) {
      assignment.leader = leader;
      return racks_.counts.at(leader).with_leader != kNoRoom && extend(assignment, 0, nodes);
    });
  }

  // What the choice says, member by member.
  Assignment expand(const DomainChoice& choice) const {
    Assignment assignment{.of_member = {}, .leader = choice.leader};
    for (const NodeShare& share : choice.nodes) {
      for (std::int64_t i = 0; i < share.members; ++i) {
        assignment.of_member.push_back(share.node);
      }
    }
    return assignment;
  }

 private:
  bool extend(Assignment& assignment, std::size_t index, const std::vector<NodeId>& nodes) const {
    if (index == assignment.of_member.size()) {
      return allows(assignment);
    }
    return std::ranges::any_of(nodes, [&](NodeId node) {
      assignment.of_member[index] = node;
      return extend(assignment, index + 1, nodes);
    });
  }

  const Racks& racks_;
  const LevelRule& rule_;
  const DomainAsk& ask_;
};

class Case {
 public:
  explicit Case(unsigned seed) : generator_(seed), racks_({"zone", "rack"}) {
    const int nodes = 2 + to(2);
    const bool leader = to(2) == 0;
    for (int i = 0; i < nodes; ++i) {
      std::map<std::string, std::string> labels;
      if (to(9) != 0) {
        labels["zone"] = "z" + std::to_string(to(1));
      }
      if (to(9) != 0) {
        labels["rack"] = "r" + std::to_string(to(1));
      }
      const int members = to(4);
      racks_.add("n" + std::to_string(i), labels,
                 {.members = members,
                  .with_leader = leader && to(2) != 0 ? to(members) : kNoRoom,
                  .hole = to(3)});
    }
    ask_ = {.members = 1 + to(6), .leader = leader, .within = kWholePool};
    rule_.required = to(2) - 1;
    rule_.preferred = to(1) == 0 ? kNoLevel : std::max(rule_.required, to(2) - 1);
    const std::vector<std::vector<LevelRule::Segment>> segments{
        {},
        {{.level = 1, .size = 2}},
        {{.level = 1, .size = 3}},
        {{.level = 0, .size = 3}},
        {{.level = 0, .size = 4}, {.level = 1, .size = 2}},
        {{.level = 0, .size = 6}, {.level = 1, .size = 3}}};
    rule_.segments = segments[static_cast<std::size_t>(to(static_cast<int>(segments.size()) - 1))];
    if (rule_.required == 1 && !rule_.segments.empty() && rule_.segments.front().level == 0) {
      rule_.segments.clear();
    }
  }

  void check() const {
    const DomainChoice choice = choose_domains(racks_.counts, rule_, ask_);
    const Judge judge(racks_, rule_, ask_);
    const int start = rule_.preferred != kNoLevel ? rule_.preferred : rule_.required;
    for (int level = start; level >= rule_.required; --level) {
      std::vector<DomainId> possible;
      for (const DomainId id : racks_.domains.of_level(level)) {
        if (judge.possible(id)) {
          possible.push_back(id);
        }
      }
      std::vector<DomainId> fitting = fitting_domains(racks_.counts, rule_, ask_, level);
      std::ranges::sort(fitting);
      std::ranges::sort(possible);
      ASSERT_EQ(fitting, possible) << "level " << level;
      if (!possible.empty()) {
        ASSERT_TRUE(choice.fits);
        ASSERT_EQ(choice.level, level);
        check_chosen(choice, judge, possible);
        return;
      }
    }
    ASSERT_FALSE(choice.fits);
    ASSERT_TRUE(!choice.shortage.leader_fits || choice.shortage.fits < ask_.members ||
                (ask_.leader && choice.shortage.fits <= ask_.members));
  }

 private:
  int to(int most) { return std::uniform_int_distribution(0, most)(generator_); }

  void check_chosen(const DomainChoice& choice, const Judge& judge,
                    const std::vector<DomainId>& possible) const {
    const Assignment assignment = judge.expand(choice);
    ASSERT_EQ(static_cast<std::int64_t>(assignment.of_member.size()), ask_.members);
    ASSERT_EQ(choice.leader.is_none(), !ask_.leader);
    ASSERT_TRUE(judge.allows(assignment));
    if (choice.level == kNoLevel) {
      return;
    }
    const DomainId chosen = choice.domains.front();
    for (const NodeId node : assignment.of_member) {
      ASSERT_EQ(racks_.domains.of_node(node, choice.level), chosen);
    }
    if (rule_.segments.empty()) {
      for (const DomainId other : possible) {
        ASSERT_GE(racks_.counts.members(other), racks_.counts.members(chosen));
      }
    }
  }

  std::mt19937 generator_;
  Racks racks_;
  DomainAsk ask_;
  LevelRule rule_;
};

TEST(ChooseDomainsProperty, AgreesWithTryingEveryAssignment) {
  for (unsigned seed = 0; seed < 3000 && !testing::Test::HasFatalFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Case(seed).check();
  }
}

// Rooms, members and three layers of segments that divide each other: the sums must agree with
// counting segments one by one.
TEST(ChooseDomainsProperty, ThreeLayersOfSegments) {
  std::mt19937 generator(3);
  const auto to = [&](int most) { return std::uniform_int_distribution(0, most)(generator); };
  int fitting = 0;
  for (int round = 0; round < 300; ++round) {
    Racks racks({"block", "rack", "host"});
    for (int i = 0; i < 12; ++i) {
      racks.add("n" + std::to_string(i),
                {{"block", std::to_string(i / 6)},
                 {"rack", std::to_string(i / 2)},
                 {"host", std::to_string(i)}},
                to(6));
    }
    const LevelRule rule{
        .required = kNoLevel,
        .preferred = 0,
        .segments = {{.level = 0, .size = 12}, {.level = 1, .size = 4}, {.level = 2, .size = 2}}};
    const DomainAsk ask{.members = 1 + to(30), .leader = false, .within = kWholePool};
    const DomainChoice choice = choose_domains(racks.counts, rule, ask);
    const Judge judge(racks, rule, ask);
    if (choice.fits) {
      ++fitting;
      ASSERT_TRUE(judge.allows(judge.expand(choice))) << round;
    } else {
      ASSERT_LT(choice.shortage.fits, ask.members) << round;
    }
  }
  EXPECT_GT(fitting, 100);
}

// The names and ids of nodes may come in any order: the same nodes get the same members.
TEST(ChooseDomainsProperty, OrderOfArrivalDoesNotMatter) {
  std::mt19937 generator(11);
  const auto to = [&](int most) { return std::uniform_int_distribution(0, most)(generator); };
  for (int round = 0; round < 200; ++round) {
    struct Sketch {
      std::string name;
      std::string rack;
      NodeRoom room;
    };
    std::vector<Sketch> sketches;
    for (int i = 0; i < 8; ++i) {
      sketches.push_back({"n" + std::to_string(i),
                          "r" + std::to_string(to(3)),
                          {.members = to(3), .hole = to(2)}});
    }
    const std::int64_t members = 1 + to(8);
    std::optional<std::string> before;
    for (int order = 0; order < 3; ++order) {
      Racks racks({"rack"});
      std::ranges::shuffle(sketches, generator);
      for (const Sketch& sketch : sketches) {
        racks.add(sketch.name, {{"rack", sketch.rack}}, sketch.room);
      }
      const std::string told = racks.told({.preferred = "rack"}, members) + "; " +
                               racks.told({.required = "rack"}, members) + "; " +
                               racks.told({}, members);
      ASSERT_EQ(told, before.value_or(told));
      before = told;
    }
  }
}

}  // namespace
}  // namespace berth::core
