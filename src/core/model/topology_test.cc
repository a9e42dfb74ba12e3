#include "core/model/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::core {
namespace {

using testing::HasSubstr;

Topology racks() { return {.name = "racks", .levels = {"zone", "rack", "kubernetes.io/hostname"}}; }

std::string first_problem(const std::vector<Topology>& topologies) {
  const std::vector<TopologyProblem> problems = check_topologies(topologies);
  return problems.empty() ? "" : problems.front().text;
}

TEST(Topology, ManyLevelsButNotSeventeen) {
  Topology deep{.name = "deep", .levels = {}};
  for (int i = 0; i < 16; ++i) {
    deep.levels.push_back("level-" + std::to_string(i));
  }
  EXPECT_EQ(first_problem({deep}), "");
  deep.levels.emplace_back("one more");
  EXPECT_EQ(first_problem({deep}),
            "topology deep: 17 levels; at most 16 are supported, leave some out");
}

TEST(Topology, SaysWhatIsWrongWithEveryOne) {
  EXPECT_EQ(first_problem({racks()}), "");
  EXPECT_THAT(first_problem({{.name = "bare", .levels = {}}}), HasSubstr("levels is empty"));
  EXPECT_THAT(first_problem({{.name = "twice", .levels = {"rack", "rack"}}}),
              HasSubstr("levels[1] is rack, which is listed before"));
  EXPECT_THAT(first_problem({{.name = "hole", .levels = {"rack", ""}}}),
              HasSubstr("levels[1] is empty"));
  EXPECT_THAT(first_problem({{.name = "", .levels = {"rack"}}}), HasSubstr("name is empty"));
  EXPECT_THAT(first_problem({racks(), racks()}), HasSubstr("given twice"));
  EXPECT_EQ(check_topologies({{.name = "", .levels = {"", "x", "x"}}, racks(), racks()}).size(), 4);
}

TEST(Topology, TheOnlyOneNeedsNoName) {
  EXPECT_EQ(find_topology({racks()}, {.required = "rack"}).value(), 0U);
  const std::vector<Topology> two{racks(), {.name = "blocks", .levels = {"block"}}};
  EXPECT_EQ(find_topology(two, {.topology = "blocks"}).value(), 1U);
  EXPECT_THAT(find_topology(two, {.required = "rack"}).error().message(),
              HasSubstr("2 are defined; name one"));
  EXPECT_THAT(find_topology(two, {.topology = "block"}).error().message(),
              HasSubstr("did you mean blocks?"));
  EXPECT_THAT(find_topology({}, {.required = "rack"}).error().message(),
              HasSubstr("none is defined"));
}

TEST(Topology, MisspeltLevelIsRefusedWithTheNearest) {
  EXPECT_EQ(resolve_levels(racks(), {.required = "rakc"}).error().message(),
            "topology.required is rakc, but topology racks has no such level; did you mean rack?");
  EXPECT_THAT(resolve_levels(racks(), {.preferred = "hostname"}).error().message(),
              HasSubstr("topology.preferred is hostname"));
  EXPECT_THAT(
      resolve_levels(racks(), {.segments = {{.level = "zones", .size = 2}}}).error().message(),
      HasSubstr("did you mean zone?"));
}

TEST(Topology, LevelsBecomePlaces) {
  const LevelRule rule =
      resolve_levels(racks(), {.required = "zone",
                               .preferred = "rack",
                               .segments = {{.level = "rack", .size = 4},
                                            {.level = "kubernetes.io/hostname", .size = 2}}})
          .value();
  EXPECT_EQ(rule, (LevelRule{.required = 0,
                             .preferred = 1,
                             .segments = {{.level = 1, .size = 4}, {.level = 2, .size = 2}}}));
  EXPECT_EQ(resolve_levels(racks(), {}).value(), LevelRule{});
}

TEST(Topology, RulesThatCouldNeverApplyAreRefused) {
  EXPECT_THAT(resolve_levels(racks(), {.required = "rack", .preferred = "zone"}).error().message(),
              HasSubstr("would never apply"));
  EXPECT_THAT(
      resolve_levels(racks(), {.required = "rack", .segments = {{.level = "zone", .size = 2}}})
          .error()
          .message(),
      HasSubstr("wider than the required level rack"));
  EXPECT_THAT(resolve_levels(racks(), {.segments = {{.level = "rack", .size = 4},
                                                    {.level = "zone", .size = 2}}})
                  .error()
                  .message(),
              HasSubstr("widest first"));
  EXPECT_THAT(resolve_levels(racks(), {.segments = {{.level = "zone", .size = 4},
                                                    {.level = "rack", .size = 3}}})
                  .error()
                  .message(),
              HasSubstr("divide"));
  EXPECT_THAT(
      resolve_levels(racks(), {.segments = {{.level = "rack", .size = 0}}}).error().message(),
      HasSubstr("at least 1 member"));
}

}  // namespace
}  // namespace berth::core
