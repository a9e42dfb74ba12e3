#include "sim/output.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/toy_comparison_test.h"

namespace berth::sim {
namespace {

using testing::HasSubstr;

struct Fixture {
  Scene scene = openb_scene("default");
  Comparison comparison = toy_comparison(scene);
};

const Comparison& comparison() {
  static const Fixture made;
  return made.comparison;
}

TEST(Output, HasTheStableKeysInTheirOrder) {
  const std::string json = comparison_document(comparison()).json();
  std::size_t at = 0;
  for (const char* key : {"\"version\": \"v1\"",
                          "\"runs\"",
                          "\"trace\": \"default\"",
                          "\"policy\": \"first-fit\"",
                          "\"seed\": 42",
                          "\"arrivals\": 10771",
                          "\"failed\"",
                          "\"allocation\": {\"90\": ",
                          "\"130\": ",
                          "\"fragmentation\": {\"lack_both\": ",
                          "\"lack_gpu\": ",
                          "\"lack_cpu\": ",
                          "\"no_access\": ",
                          "\"xl\": ",
                          "\"xr\": ",
                          "\"usable\": ",
                          "\"decisions\": {\"count\": 10771",
                          "\"p50_us\": ",
                          "\"p99_us\": ",
                          "\"per_second\": ",
                          "\"seconds\": 1.000",
                          "\"seed\": 43",
                          "\"summary\"",
                          "\"seeds\": [42, 43]",
                          "\"bound\": {\"no_reject\": null}"}) {
    at = json.find(key, at);
    ASSERT_NE(at, std::string::npos) << key;
  }
}

TEST(Output, WritesAllocationWithThreeDecimals) {
  const RunResult& run = comparison().runs[0];
  EXPECT_THAT(comparison_document(comparison()).json(),
              HasSubstr(fmt::format("\"90\": {:.3f}, \"95\"", *run.curve[90])));
}

TEST(Output, WritesNullWhereARunNeverCame) {
  const Scene scene = openb_scene("default");
  const RunPlan plan{.policies = {"first-fit"}, .seeds = {42}, .arrival_percent = 95};
  const Comparison early = compare(scene, plan, {toy_run(scene, plan.specs().front())});
  EXPECT_THAT(comparison_document(early).json(),
              HasSubstr("\"100\": null, \"110\": null, \"120\": null, \"130\": null"));
  EXPECT_THAT(comparison_table(early, TableDetail::summary), HasSubstr("     -"));
}

TEST(Output, PrintsOneLinePerPolicyAndOnDemandOnePerRun) {
  const std::string table = comparison_table(comparison(), TableDetail::summary);
  EXPECT_THAT(table,
              HasSubstr("trace default: 8,152 pods on 1,213 nodes with 6,212 GPUs, 2 seeds"));
  EXPECT_THAT(table, HasSubstr("\nfirst-fit  "));
  const std::string wide = comparison_table(comparison(), TableDetail::every_run);
  EXPECT_THAT(wide, HasSubstr("\nfirst-fit    43  "));
  EXPECT_THAT(wide, HasSubstr("\nworst-fit  mean  "));
}

TEST(Output, SumsFragmentationToWhatIsIdle) {
  for (const RunResult& run : comparison().runs) {
    double sum = 0;
    for (const double share : run.fragmentation)
      sum += share;
    EXPECT_NEAR(sum, 100 - run.final_allocation, 1e-9);
  }
}

TEST(Output, GroupsDigitsForPeople) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(-1234567), "-1,234,567");
}

}  // namespace
}  // namespace berth::sim
