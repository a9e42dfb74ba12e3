#include "kube/client/text.h"

#include <string>

#include <gtest/gtest.h>

#include "kube/client/clock.h"
#include "kube/client/script_test_support.h"

namespace berth::kube {
namespace {

TEST(KubeText, Base64GoesThereAndBack) {
  for (const char* text : {"", "f", "fo", "foo", "foob", "fooba", "foobar"}) {
    EXPECT_EQ(from_base64(to_base64(text)), text);
  }
  EXPECT_EQ(to_base64("fo"), "Zm8=");
  EXPECT_EQ(to_base64(std::string("\xff\xfe\xfd", 3)), "//79");
  EXPECT_EQ(from_base64("Zm9v\nYmFy\n"), "foobar");
  for (const char* text : {"Z", "Zm9", "Zm9v=", "====", "Zm=v", "Zm9?"}) {
    EXPECT_FALSE(from_base64(text).has_value()) << text;
  }
}

TEST(KubeText, InstantsAreReadAsKubernetesWritesThem) {
  EXPECT_EQ(parse_instant("1970-01-01T00:00:01Z"), 1'000'000);
  EXPECT_EQ(parse_instant("2026-01-01T00:00:00.000001Z"), 1'767'225'600'000'001);
  EXPECT_EQ(parse_instant("2026-01-01T01:30:00+01:30"), 1'767'225'600'000'000);
  EXPECT_EQ(parse_instant("2025-12-31T23:00:00.5-01:00"), 1'767'225'600'500'000);
  EXPECT_EQ(micro_time(1'767'225'600'000'001), "2026-01-01T00:00:00.000001Z");
  EXPECT_EQ(micro_time(-1), "1969-12-31T23:59:59.999999Z");
  for (const char* text : {"", "2026", "2026-13-01T00:00:00Z", "2026-01-01 00:00:00Z",
                           "2026-01-01T00:00:00", "2026-01-01T00:00:00.Z", "2026-01-01T24:00:00Z",
                           "2026-01-01T00:00:00Zx", "2026-01-01T00:00:00+1:00"}) {
    EXPECT_FALSE(parse_instant(text).has_value()) << text;
  }
}

TEST(KubeText, UrlsKeepNothingSpecial) { EXPECT_EQ(url_encoded("a/b c=ü"), "a%2Fb%20c%3D%C3%BC"); }

TEST(KubeTimers, RunInOrderAndNewOnesWaitForTheNextTurn) {
  ManualClock clock;
  Timers timers(clock);
  std::string ran;
  timers.after(Duration(200), [&ran] { ran += "c"; });
  timers.after(Duration(100), [&] {
    ran += "a";
    timers.after(Duration(0), [&ran] { ran += "d"; });
  });
  const Timers::Id never = timers.after(Duration(100), [&ran] { ran += "x"; });
  timers.after(Duration(100), [&ran] { ran += "b"; });
  timers.cancel(never);
  EXPECT_EQ(timers.until_next(), Duration(100));
  clock.pass(Duration(200));
  timers.run_due();
  EXPECT_EQ(ran, "abc");
  timers.run_due();
  EXPECT_EQ(ran, "abcd");
  EXPECT_FALSE(timers.until_next().has_value());
}

TEST(KubeBackoff, DoublesWithJitterAndStartsOverWhenItWasQuiet) {
  ManualClock clock;
  Chance chance(1);
  Backoff backoff(clock, chance);
  std::int64_t base = 800;
  for (int i = 0; i < 10; ++i) {
    const std::int64_t delay = backoff.next().count();
    EXPECT_GE(delay, std::min<std::int64_t>(base, 30'000));
    EXPECT_LE(delay, std::min<std::int64_t>(base + base / 2, 30'000));
    base *= 2;
  }
  EXPECT_GE(backoff.next(Duration(45'000)).count(), 45'000) << "never less than asked";
  clock.pass(Duration(120'000));
  EXPECT_LE(backoff.next().count(), 1'200);
}

}  // namespace
}  // namespace berth::kube
