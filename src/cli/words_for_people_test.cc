// Amounts, times and names as people read and type them.
#include "cli/words_for_people.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::cli {
namespace {

using json::Value;
using testing::HasSubstr;

Value device(std::string_view uuid, std::string_view node, std::int64_t index, bool mig = false) {
  return json::object({{"uuid", uuid}, {"node", node}, {"index", index}, {"mig", mig}});
}

json::Array one_machine() {
  json::Array devices;
  devices.push_back(device("GPU-aaaa1111", "n0", 0));
  devices.push_back(device("GPU-aaaa2222", "n0", 1));
  devices.push_back(device("MIG-bbbb3333-0000", "n0", 0, true));
  return devices;
}

json::Array two_machines() {
  json::Array devices;
  devices.push_back(device("GPU-aaaa1111", "n0", 0));
  devices.push_back(device("GPU-cccc1111", "n1", 0));
  return devices;
}

TEST(WordsForPeople, WhatWasPromisedIsWrittenExactly) {
  EXPECT_EQ(memory_text(0), "0");
  EXPECT_EQ(memory_text(1), "1MiB");
  EXPECT_EQ(memory_text(4096), "4GiB");
  EXPECT_EQ(memory_text(4097), "4097MiB");
}

TEST(WordsForPeople, WhatWasMeasuredIsNeverShownAsMoreThanItIs) {
  EXPECT_EQ(rough_memory(1023), "1023MiB");
  EXPECT_EQ(rough_memory(3174), "3.0GiB");
  EXPECT_EQ(rough_memory(4095), "3.9GiB");
  EXPECT_EQ(rough_memory(4096), "4GiB");
}

TEST(WordsForPeople, TimesAreReadAsTheHelpWritesThem) {
  EXPECT_EQ(time_given("--timeout", "10m").value(), Duration{600'000});
  EXPECT_EQ(time_given("--timeout", "10min").value(), Duration{600'000});
  EXPECT_EQ(time_given("--timeout", "500ms").value(), Duration{500});
  for (const char* wrong : {"", "10", "m", "-1s", "1.5h", "1e3s"}) {
    EXPECT_THAT(time_given("--timeout", wrong).error().message(),
                testing::StartsWith(std::string("--timeout ") + (*wrong == '\0' ? "''" : wrong)));
  }
}

TEST(WordsForPeople, SpansGetCoarserAsTheyGrow) {
  EXPECT_EQ(span_text(-5), "0s");
  EXPECT_EQ(span_text(59), "59s");
  EXPECT_EQ(span_text(200), "3m20s");
  EXPECT_EQ(span_text(599), "9m59s");
  EXPECT_EQ(span_text(600), "10m");
  EXPECT_EQ(span_text(3700), "1h01m");
  EXPECT_EQ(span_text(86'399), "23h59m");
  EXPECT_EQ(span_text(86'400 * 3 + 3600 * 4), "3d4h");
}

TEST(WordsForPeople, TimesThatAreNoneAreNone) {
  EXPECT_FALSE(seconds_since("").has_value());
  EXPECT_FALSE(seconds_since("yesterday, at around noon").has_value());
  ASSERT_TRUE(seconds_since("2020-01-02T03:04:05Z").has_value());
  EXPECT_GT(*seconds_since("2020-01-02T03:04:05Z"), 86'400 * 365);
}

TEST(WordsForPeople, DevicesAreCalledByTheirNumbersAndByNodeWhereThereAreSeveral) {
  const DeviceNames one(one_machine());
  EXPECT_EQ(one.name("GPU-aaaa2222"), "GPU 1");
  EXPECT_EQ(one.name("MIG-bbbb3333-0000"), "MIG-bbbb3333");
  EXPECT_EQ(one.name("GPU-none"), "GPU-none");
  EXPECT_EQ(DeviceNames(two_machines()).name("GPU-cccc1111"), "n1/GPU 0");
}

TEST(WordsForPeople, SentencesNameDevicesAsPeopleDo) {
  EXPECT_EQ(DeviceNames(one_machine())
                .in_words("512 MiB more free on GPU-aaaa2222 of node n0; n0/GPU-aaaa1111 is full"),
            "512 MiB more free on GPU 1; GPU 0 is full");
}

TEST(WordsForPeople, ADeviceIsMeantByUuidBeginningIndexOrNodeAndIndex) {
  EXPECT_EQ(device_meant(one_machine(), "GPU-aaaa1111").value(), "GPU-aaaa1111");
  EXPECT_EQ(device_meant(one_machine(), "1").value(), "GPU-aaaa2222");
  EXPECT_EQ(device_meant(one_machine(), "MIG-bbbb").value(), "MIG-bbbb3333-0000");
  EXPECT_EQ(device_meant(two_machines(), "n1/0").value(), "GPU-cccc1111");
  const Result<std::string> several = device_meant(one_machine(), "GPU-aaaa");
  ASSERT_FALSE(several.ok());
  EXPECT_EQ(several.error().code(), ErrorCode::invalid_argument);
  const Result<std::string> none = device_meant(one_machine(), "GPU-aaaa1112");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code(), ErrorCode::not_found);
  EXPECT_THAT(none.error().message(), HasSubstr("GPU-aaaa1111"));
}

}  // namespace
}  // namespace berth::cli
