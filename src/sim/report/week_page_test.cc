#include "sim/report/week_page.h"

#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/queue_file.h"
#include "scenario/fleet_spec.h"
#include "sim/week/player.h"

namespace berth::sim {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Played {
  scenario::Load load;
  WeekScene scene;
  WeekComparison comparison;

  explicit Played(std::size_t weeks) {
    load = std::move(
        scenario::parse_load("load: {horizon: 2d, streams: [{name: \"<b>\", queue: vision, "
                             "preemptible: true, whole: 2, arrivals: {bursts: {at: 1h, every: 1d, "
                             "jobs: 9}}, run: {fixed: 2h}}]}\n",
                             "load.yaml")
            ->load);
    scene = {.fleet_name = "4x80GiB:H100",
             .fleet = *scenario::fleet_from_spec("4x80GiB:H100"),
             .load = &load};
    comparison.scene = &scene;
    for (std::size_t i = 0; i < weeks; ++i) {
      WeekSpec spec{.name = i == 0 ? "q/open.yaml" : "q/tight.yaml"};
      spec.queues = *config::read_queue_file(
          i == 0 ? "queues: [{name: vision}, {name: idle}]"
                 : "queues: [{name: vision, dims: {\"*/devices\": {limit: 2}}}]",
          spec.name, {"H100"});
      comparison.weeks.push_back(*play_week(scene, spec));
    }
  }
};

TEST(WeekPage, SaysTheResultInOneSentence) {
  EXPECT_EQ(
      week_headline(Played(1).comparison),
      "38 % of all device time is used; vision waits longest: 95 % of its jobs start within 8 "
      "h 00 min.");
  EXPECT_EQ(
      week_headline(Played(2).comparison),
      "Under tight.yaml, 95 % of the jobs of vision start within 16 h 00 min instead of 8 h 00 "
      "min; evictions stay at 0.");
}

TEST(WeekPage, StandsAloneAndEscapesNames) {
  const std::string page = week_page(Played(2).comparison);
  EXPECT_THAT(page, testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, testing::EndsWith("</html>\n"));
  EXPECT_THAT(page, Not(HasSubstr("http")));
  EXPECT_THAT(page, Not(HasSubstr("<b>-")));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;-"));
}

TEST(WeekPage, ShowsSharesWaitsAndEvictionsOfEveryQueue) {
  const std::string page = week_page(Played(2).comparison);
  EXPECT_THAT(page, HasSubstr("*/devices of queue vision under open.yaml"));
  EXPECT_THAT(page, HasSubstr("*/devices of queue vision under tight.yaml"));
  EXPECT_THAT(page, HasSubstr("Waiting in queue vision under tight.yaml"));
  EXPECT_THAT(page, HasSubstr("its queue is at its limit"));
  EXPECT_THAT(page, HasSubstr("only in open.yaml"));
  EXPECT_THAT(page, HasSubstr("tight.yaml: nothing was evicted."));
  EXPECT_THAT(page, HasSubstr("Tue 01:00"));
}

TEST(WeekPage, IsTheSameForTheSameFiles) {
  EXPECT_EQ(week_page(Played(2).comparison), week_page(Played(2).comparison));
}

}  // namespace
}  // namespace berth::sim
