#include "cli/progress.h"

#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::cli {
namespace {

TEST(Progress, SaysHowFarItIsAndHowLongItWillTake) {
  EXPECT_EQ(progress_line("decisions", 1200, 4800, 10),
            "simulating: 25 %, 1,200 of 4,800 decisions, 30 s left");
  EXPECT_EQ(progress_line("decisions", 1, 1'000'001, 1),
            "simulating: 0 %, 1 of 1,000,001 decisions, 278 h left");
  EXPECT_EQ(progress_line("decisions", 10, 20, 600),
            "simulating: 50 %, 10 of 20 decisions, 10 min left");
}

TEST(Progress, PromisesNothingBeforeTheFirstStepAndAfterTheLast) {
  EXPECT_EQ(progress_line("decisions", 0, 10, 2), "simulating: 0 %, 0 of 10 decisions");
  EXPECT_EQ(progress_line("decisions", 10, 10, 2), "simulating: 100 %, 10 of 10 decisions");
}

TEST(Progress, StaysSilentInAShortRunAndWithoutATerminal) {
  std::ostringstream out;
  std::ostringstream err;
  {
    const Console terminal{.out = out, .err = err, .err_is_terminal = true};
    Progress quick(terminal, "decisions");
    quick.update(1, 2);
  }
  {
    const Console file{.out = out, .err = err, .err_is_terminal = false};
    Progress silent(file, "decisions");
    std::this_thread::sleep_for(std::chrono::milliseconds(1050));
    silent.update(1, 2);
  }
  EXPECT_EQ(err.str(), "");
  EXPECT_EQ(out.str(), "");
}

TEST(Progress, TakesItsLineAwayAtTheEnd) {
  std::ostringstream out;
  std::ostringstream err;
  {
    const Console terminal{.out = out, .err = err, .err_is_terminal = true};
    Progress line(terminal, "decisions");
    std::this_thread::sleep_for(std::chrono::milliseconds(1050));
    line.update(1, 2);
  }
  EXPECT_THAT(err.str(), testing::StartsWith("\r\x1b[Ksimulating: 50 %"));
  EXPECT_THAT(err.str(), testing::EndsWith("\r\x1b[K"));
}

}  // namespace
}  // namespace berth::cli
