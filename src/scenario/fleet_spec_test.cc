#include "scenario/fleet_spec.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::scenario {
namespace {

using ::testing::HasSubstr;

std::vector<core::Node> fleet_of(std::string_view spec) {
  auto fleet = fleet_from_spec(spec);
  EXPECT_TRUE(fleet.ok()) << fleet.error().message();
  return fleet.ok() ? *fleet : std::vector<core::Node>{};
}

TEST(FleetSpec, NamesNodesInOrderWhenNobodyDid) {
  const auto fleet = fleet_of("2x16GiB,1x24GiB:L4");
  ASSERT_EQ(fleet.size(), 2U);
  EXPECT_EQ(fleet[0].name, "n0");
  EXPECT_EQ(fleet[1].name, "n1");
  EXPECT_EQ(fleet[0].devices.size(), 2U);
  EXPECT_EQ(fleet[1].devices[0].model, "L4");
  EXPECT_EQ(fleet[1].devices[0].total, Memory::mib(24 * 1024));
}

TEST(FleetSpec, GivesTheSameUuidsOnEveryRun) {
  const auto first = fleet_of("n1=2x16GiB,n2=8x80GiB:H100");
  const auto second = fleet_of("n1=2x16GiB,n2=8x80GiB:H100");
  std::set<std::string> uuids;
  for (std::size_t n = 0; n < first.size(); ++n) {
    for (std::size_t d = 0; d < first[n].devices.size(); ++d) {
      EXPECT_EQ(first[n].devices[d].uuid, second[n].devices[d].uuid);
      uuids.insert(first[n].devices[d].uuid);
    }
  }
  EXPECT_EQ(uuids.size(), 10U);
  // Pinned: a change here renames every simulated device of every user.
  EXPECT_EQ(first[0].devices[1].uuid, derived_uuid("n1", 1, "16384MiB:GPU"));
  EXPECT_THAT(
      first[0].devices[1].uuid,
      ::testing::MatchesRegex("GPU-[0-9a-f]{8}-0001-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}"));
}

TEST(FleetSpec, OrdersUuidsAndBusIdsOfANodeByIndex) {
  const auto fleet = fleet_of("64x1GiB");
  for (std::size_t d = 1; d < 64; ++d) {
    EXPECT_LT(fleet[0].devices[d - 1].uuid, fleet[0].devices[d].uuid);
    EXPECT_LT(fleet[0].devices[d - 1].pci_bus_id, fleet[0].devices[d].pci_bus_id);
  }
}

TEST(FleetSpec, NodesOfTheSameShapeHaveOtherUuids) {
  const auto fleet = fleet_of("a=1x16GiB,b=1x16GiB");
  EXPECT_NE(fleet[0].devices[0].uuid, fleet[1].devices[0].uuid);
}

TEST(FleetSpec, KeepsTheDriversReserveBack) {
  const auto fleet = fleet_of("1x16GiB,1x80GiB");
  EXPECT_EQ(fleet[0].devices[0].reserve, core::default_reserve(Memory::mib(16 * 1024)));
  EXPECT_EQ(fleet[1].devices[0].reserve, core::default_reserve(Memory::mib(80 * 1024)));
}

TEST(FleetSpec, SaysWhichPartIsWrongAndShowsAnExample) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "a fleet is expected"},
      {"16GiB", "COUNTxSIZE is expected"},
      {"0x16GiB", "the count of devices is 1 to 64"},
      {"65x16GiB", "the count of devices is 1 to 64"},
      {"99999999999999999999x16GiB", "the count of devices is 1 to 64"},
      {"-1x16GiB", "the count of devices is 1 to 64"},
      {"2x16", "a size is a whole number with MiB, GiB or TiB"},
      {"2x16GB", "a size is a whole number"},
      {"2x0GiB", "a device has memory"},
      {"2x9223372036854775808MiB", "a size is a whole number"},
      {"2x16GiB:", "the model after ':' is missing"},
      {"=2x16GiB", "the node's name before '=' is missing"},
      {"a=2x16GiB,a=2x16GiB", "the node a is given twice"},
      {"n1=2x16GiB,", "nothing stands between two commas"},
      {"a/b=1x16GiB", "has no '/'"},
      {"n1=2x16GiB,1x1GiB,n1=1x1GiB", "given twice"},
  };
  for (const auto& [spec, rule] : kCases) {
    const auto fleet = fleet_from_spec(spec);
    ASSERT_FALSE(fleet.ok()) << spec;
    EXPECT_THAT(fleet.error().message(), HasSubstr(rule)) << spec;
    EXPECT_THAT(fleet.error().message(), HasSubstr("for example n1=2x16GiB")) << spec;
  }
}

}  // namespace
}  // namespace berth::scenario
