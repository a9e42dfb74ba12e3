#include "sim/report/page.h"

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/toy_comparison_test.h"

namespace berth::sim {
namespace {

using testing::HasSubstr;
using testing::Not;

const Scene& scene() {
  static const Scene made = openb_scene("default");
  return made;
}

const Comparison& comparison() {
  static const Comparison made = [] {
    Comparison runs = toy_comparison(scene());
    runs.bounds = Bounds{.no_reject = 96.32, .choose_any = 99.89, .left_out = 0};
    return runs;
  }();
  return made;
}

TEST(Report, OpensWithTheResultInOneSentence) {
  EXPECT_THAT(headline(comparison()),
              testing::MatchesRegex(
                  "first-fit fills [0-9.]+ % of 6,212 GPUs, [0-9.]+ points or [0-9]+ GPUs more "
                  "than worst-fit; "
                  "[0-9.]+ points below what is possible without refusing work that fits\\."));
}

TEST(Report, IsOneFileThatLoadsNothing) {
  const std::string page = report_page(comparison());
  EXPECT_THAT(page, testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, testing::EndsWith("</html>\n"));
  for (const char* outside : {"src=", "href=", "url(", "@import", "http://", "https://"}) {
    std::string rest = page;
    // The namespace of SVG elements made by the script is a name, not an address that is loaded.
    const std::string name = "http://www.w3.org/2000/svg";
    if (const auto at = rest.find(name); at != std::string::npos) rest.erase(at, name.size());
    EXPECT_THAT(rest, Not(HasSubstr(outside)));
  }
}

TEST(Report, HoldsEveryFigureAndTheNotesThatClaimsNeed) {
  const std::string page = report_page(comparison());
  for (const char* part : {"What the fleet holds as work arrives", "Where the policies part",
                           "Why idle capacity is idle", "What was refused, and why",
                           "Every device at the end of a run", "How long a decision takes",
                           "How this was measured", "fgd as published (10 seeds)", "95.39",
                           "bound 96.32", "know how often each kind of pod occurs"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

TEST(Report, EscapesNamesThatComeFromFiles) {
  std::vector<TraceNode> nodes = {
      {.name = "n", .cpu_milli = 9000, .memory_mib = 9, .devices = 1, .model = "<b>&\"T4"}};
  std::vector<TracePod> pods = {{.name = "p", .num_gpu = 1, .gpu_milli = 600}};
  const Scene odd = make_scene("</title><script>alert(1)</script>", nodes, pods).value();
  const std::string page = report_page(toy_comparison(odd, {1}));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<b>&\"T4")));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;&amp;&quot;T4"));
}

TEST(Report, IsWrittenForALookAtItWhenAsked) {
  const char* path = std::getenv("BERTH_TEST_REPORT");
  if (path == nullptr) GTEST_SKIP() << "set BERTH_TEST_REPORT=FILE to keep the page";
  std::ofstream(path) << report_page(comparison());
}

}  // namespace
}  // namespace berth::sim
