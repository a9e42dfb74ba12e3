#include "gpu/reading.h"

#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/device.h"

namespace berth::gpu {
namespace {

struct Good {
  std::string text;
  std::int64_t bytes;
};

TEST(Reading, MemoryIsReadExactlyInEveryNotationOfExporters) {
  constexpr std::int64_t kMib = Memory::kBytesPerMib;
  const std::vector<Good> table = {
      {"0", 0},
      {"-0", 0},
      {"+1", kMib},
      {"4096", 4096 * kMib},
      {"4096.0", 4096 * kMib},
      {"4.096e3", 4096 * kMib},
      {"4.096E+03", 4096 * kMib},
      {"40960e-1", 4096 * kMib},
      {"0.5", kMib / 2},
      {".5", kMib / 2},
      {"00016", 16 * kMib},
      {"81559.00000000000000000000000", 81559 * kMib},
      {"999999999999", 999'999'999'999 * kMib},
  };
  for (const Good& row : table) {
    for (const Round round : {Round::down, Round::up}) {
      const auto read = read_mib("used", row.text, round);
      ASSERT_TRUE(read.ok()) << row.text << ": " << read.error().message();
      EXPECT_EQ(read->in_bytes(), row.bytes) << row.text;
    }
  }
}

TEST(Reading, AFractionOfAByteGoesUpForUseAndDownForCapacity) {
  EXPECT_EQ(read_mib("used", "0.0000001", Round::up)->in_bytes(), 1);
  EXPECT_EQ(read_mib("used", "0.0000001", Round::down)->in_bytes(), 0);
  EXPECT_EQ(read_mib("used", "1e-9999", Round::up)->in_bytes(), 1);
  EXPECT_EQ(read_mib("used", "1.1", Round::up)->in_bytes(), 1'153'434);
  EXPECT_EQ(read_mib("used", "1.1", Round::down)->in_bytes(), 1'153'433);
}

struct Garbage {
  std::string text;
  std::string rule;
};

// leases.md B21 and F5: no text that is no measurement becomes one.
TEST(Reading, LeasesB21WhatIsNoMeasurementIsRefusedWithItsRule) {
  const std::vector<Garbage> table = {
      {"", "not a number"},
      {" ", "not a number"},
      {" 4096", "not a number"},
      {"4096 ", "not a number"},
      {"abc", "not a number"},
      {"NaN", "not a number"},
      {"nan", "not a number"},
      {"+Inf", "not a number"},
      {"-Inf", "not a number"},
      {"Inf", "not a number"},
      {"N/A", "not a number"},
      {"[Not Supported]", "not a number"},
      {"0x1000", "not a number"},
      {"1,024", "not a number"},
      {"4096MiB", "not a number"},
      {"1e", "not a number"},
      {"e3", "not a number"},
      {"1e99999", "not a number"},
      {"1e9223372036854775808", "not a number"},
      {"1.2.3", "not a number"},
      {"--1", "not a number"},
      {".", "not a number"},
      {"true", "not a number"},
      {"null", "not a number"},
      {std::string("12\0", 3), "not a number"},
      {"-1", "negative"},
      {"-0.001", "negative"},
      {"-9223372036854775808", "negative"},
      {"9223372036854775794", "more than any device"},
      {"9223372036854775807", "more than any device"},
      {"9223372036854775808", "more than any device"},
      {"18446744073709551615", "more than any device"},
      {"9.223372036854776e+18", "more than any device"},
      {"1e400", "more than any device"},
      {"1000000000000", "more than any device"},
      {"99999999999999999999999999999999999999", "more than any device"},
      {"2147483632", "no value"},
      {"2147483633", "no value"},
      {"2.147483634e+09", "no value"},
      {"140737488355328", "no value"},
      {"1.40737488355328e+14", "no value"},
  };
  for (const Garbage& row : table) {
    const auto read = read_mib("used", row.text, Round::up);
    ASSERT_FALSE(read.ok()) << row.text;
    EXPECT_THAT(read.error().message(), testing::StartsWith("used is \"")) << row.text;
    EXPECT_THAT(read.error().message(), testing::HasSubstr(row.rule)) << row.text;
  }
}

TEST(Reading, ALongOrDirtyTextIsShownShortAndClean) {
  const auto read = read_mib("used", std::string(1000, 'x') + "\n", Round::up);
  EXPECT_LE(read.error().message().size(), 80U);
  EXPECT_THAT(read_mib("used", "a\nb", Round::up).error().message(), testing::HasSubstr("a\\nb"));
}

TEST(Reading, AWholeNumberIsReadInTheSameNotationAndKeepsItsRange) {
  EXPECT_EQ(*read_whole("xid", "79", {.least = 0, .most = 9999}), 79);
  EXPECT_EQ(*read_whole("xid", "79.0", {.least = 0, .most = 9999}), 79);
  EXPECT_EQ(*read_whole("xid", "7.9e1", {.least = 0, .most = 9999}), 79);
  EXPECT_EQ(*read_whole("age", "-250", {.least = -1000, .most = 1000}), -250);
  for (const char* text : {"79.5", "", "NaN", "10000", "-1", "9223372036854775794", "1e300", "x"}) {
    const auto read = read_whole("xid", text, {.least = 0, .most = 9999});
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(read.error().message(), testing::StartsWith("xid is \"")) << text;
  }
  EXPECT_THAT(read_whole("xid", "10000", {.least = 0, .most = 9999}).error().message(),
              testing::HasSubstr("not from 0 to 9999"));
}

}  // namespace
}  // namespace berth::gpu
