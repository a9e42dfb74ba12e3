#include "core/placement/registry.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::core {
namespace {

using testing::HasSubstr;

std::string error_of(std::string_view spec) {
  const Result<std::unique_ptr<Policy>> made = make_policy(spec, {});
  return made.ok() ? "" : made.error().message();
}

TEST(Registry, MakesEveryPolicyThatItLists) {
  std::set<std::string_view> names;
  for (const PolicyInfo& policy : registered_policies()) {
    EXPECT_TRUE(make_policy(policy.name, {}).ok()) << policy.name;
    EXPECT_FALSE(policy.summary.empty()) << policy.name;
    EXPECT_TRUE(names.insert(policy.name).second) << policy.name;
  }
}

TEST(Registry, MarksWhatIsForComparisonOnly) {
  std::set<std::string_view> baselines;
  for (const PolicyInfo& policy : registered_policies()) {
    if (policy.baseline) {
      baselines.insert(policy.name);
    }
  }
  EXPECT_EQ(baselines,
            (std::set<std::string_view>{"random", "dotprod", "gpu-clustering", "gpu-packing"}));
}

TEST(Registry, NamesTheNearestPolicyForATypingError) {
  EXPECT_THAT(error_of("spraed"), HasSubstr("did you mean spread?"));
  EXPECT_THAT(error_of("bestfit"), HasSubstr("did you mean best-fit?"));
  EXPECT_THAT(error_of("binpack"), HasSubstr("did you mean pack?"));
  EXPECT_THAT(error_of("fgd "), HasSubstr("Known are pack, fgd, best-fit"));
}

TEST(Registry, ExplainsTheFormWithLevels) {
  for (const char* spec : {"nodes=pack", "nodes=pack,devices=", "nodes=pack,devices=best-fit",
                           "devices=pack,nodes=pack", "nodes=Pack,devices=pack", "=", ","}) {
    EXPECT_THAT(error_of(spec), HasSubstr("nodes=X,devices=Y with X and Y one of pack, spread"))
        << spec;
  }
}

}  // namespace
}  // namespace berth::core
