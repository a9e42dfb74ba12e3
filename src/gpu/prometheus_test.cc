#include "gpu/prometheus.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::gpu {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kNow = 1'700'000'000'000;

ExporterOptions options() {
  return {.node = "here", .safety_margin = Memory::mib(100), .wall_ms = kNow};
}

std::string answer(std::string_view type, std::string_view series) {
  return fmt::format(R"({{"status":"success","data":{{"resultType":"{}","result":[{}]}}}})", type,
                     series);
}

// One series of a vector.
std::string one(std::string_view labels, std::string_view stamp, std::string_view value) {
  return fmt::format(R"({{"metric":{{{}}},"value":[{},{}]}})", labels, stamp, value);
}

Report read(const std::string& free, const std::string& used) {
  return read_prometheus(
      std::vector<PrometheusAnswer>{{ExporterMetric::free, free}, {ExporterMetric::used, used}},
      options());
}

TEST(Prometheus, AVectorIsReadWithTheTimeOfItsSamples) {
  const Report report =
      read(answer("vector", one(R"("UUID":"GPU-b","gpu":"1")", "1699999990.5", R"("200")") + "," +
                                one(R"("UUID":"GPU-a","gpu":"0")", "1699999999", R"("100")")),
           answer("vector", one(R"("UUID":"GPU-a","gpu":"0")", "1699999998.25", R"("1")") + "," +
                                one(R"("UUID":"GPU-b","gpu":"1")", "1699999999.781", R"("2")")));
  ASSERT_TRUE(report.up) << report.why_down;
  ASSERT_EQ(report.devices.size(), 2U);
  EXPECT_EQ(report.devices[0].device.uuid, "GPU-a");
  EXPECT_EQ(report.devices[0].node, "here");
  EXPECT_EQ(report.devices[0].used, Memory::mib(1));
  EXPECT_EQ(report.devices[0].device.total, Memory::mib(101));
  EXPECT_EQ(report.devices[0].age_ms, 1750);
  EXPECT_EQ(report.devices[1].used, Memory::mib(2)) << "B24: joined by UUID";
  EXPECT_EQ(report.devices[1].age_ms, 9500);
}

TEST(Prometheus, OfAMatrixTheNewestSampleCounts) {
  const auto matrix = [](std::string_view values) {
    return answer("matrix",
                  fmt::format(R"({{"metric":{{"UUID":"GPU-a"}},"values":[{}]}})", values));
  };
  const Report report =
      read(matrix(R"([1699999960,"90"],[1699999990,"80"])"),
           matrix(R"([1699999985.1,"20"],[1699999955.1,"10"],[1699999970,"NaN"])"));
  ASSERT_EQ(report.devices.size(), 1U);
  EXPECT_EQ(report.devices[0].used, Memory::mib(20));
  EXPECT_EQ(report.devices[0].device.total, Memory::mib(100));
  EXPECT_EQ(report.devices[0].age_ms, 14'900);
}

TEST(Prometheus, LeasesB31AFutureStampIsBelowZero) {
  const Report report = read(answer("vector", one(R"("uuid":"GPU-a")", "1700003600", R"("9")")),
                             answer("vector", one(R"("uuid":"GPU-a")", "1700003600", R"("1")")));
  EXPECT_EQ(report.devices[0].age_ms, -3'600'000);
}

// leases.md B21, F5, in JSON's clothes.
TEST(Prometheus, LeasesB21F5WhatIsNoMeasurementMakesTheMemoryUnknown) {
  for (const char* value :
       {R"("NaN")", R"("+Inf")", R"("-Inf")", R"("-1")", R"("")", R"("abc")",
        R"("9223372036854775794")", R"("9.223372036854776e+18")", "null", "true", "{}", "[]", "-1",
        "9223372036854775807", "1e300", R"("2147483632")"}) {
    const Report report = read(answer("vector", one(R"("UUID":"GPU-a")", "1700000000", R"("9")")),
                               answer("vector", one(R"("UUID":"GPU-a")", "1700000000", value)));
    ASSERT_EQ(report.devices.size(), 1U) << value;
    EXPECT_EQ(report.devices[0].used, std::nullopt) << value;
    EXPECT_THAT(report.devices[0].problem, HasSubstr("DCGM_FI_DEV_FB_USED is")) << value;
  }
}

TEST(Prometheus, AStampThatCannotBeReadMakesTheMemoryUnknown) {
  for (const char* stamp :
       {R"("1700000000")", "null", "-1", "-0.5", "1e300", "true", "[]", "9223372036854775807"}) {
    const Report report = read(answer("vector", one(R"("UUID":"GPU-a")", "1700000000", R"("9")")),
                               answer("vector", one(R"("UUID":"GPU-a")", stamp, R"("1")")));
    ASSERT_EQ(report.devices.size(), 1U) << stamp;
    EXPECT_EQ(report.devices[0].used, std::nullopt) << stamp;
    EXPECT_THAT(report.devices[0].problem, HasSubstr("time stamp")) << stamp;
  }
}

TEST(Prometheus, ASampleOfAnotherShapeIsNoSample) {
  for (const char* value : {"[1700000000]", R"("1")", "{}", R"([1700000000,"1",2])"}) {
    const std::string used =
        answer("vector", fmt::format(R"({{"metric":{{"UUID":"GPU-a"}},"value":{}}})", value));
    const Report report =
        read(answer("vector", one(R"("UUID":"GPU-a")", "1700000000", R"("9")")), used);
    EXPECT_EQ(report.devices[0].used, std::nullopt) << value;
  }
}

TEST(Prometheus, LeasesB23ANonAnswerIsDownAndNotAWorldWithoutDevices) {
  struct Row {
    std::string text;
    std::string why;
  };
  const std::vector<Row> table = {
      {"", "no answer of Prometheus"},
      {"<html>", "no answer of Prometheus"},
      {"[]", "no answer of Prometheus"},
      {"{}", "no answer of Prometheus"},
      {R"({"status":"success"})", "no answer of Prometheus"},
      {R"({"status":"success","data":{"result":{}}})", "no answer of Prometheus"},
      {R"({"status":"maybe","data":{"result":[]}})", "no answer of Prometheus"},
      {R"({"status":"error","errorType":"bad_data","error":"parse error at char 3"})",
       "refuses the question (bad_data): parse error at char 3"},
  };
  const std::string good = answer("vector", one(R"("UUID":"GPU-a")", "1700000000", R"("9")"));
  for (const Row& row : table) {
    for (const bool free : {true, false}) {
      const Report report = free ? read(row.text, good) : read(good, row.text);
      EXPECT_FALSE(report.up) << row.text;
      EXPECT_THAT(report.why_down, HasSubstr(row.why)) << row.text;
      EXPECT_THAT(report.why_down, HasSubstr(free ? "DCGM_FI_DEV_FB_FREE" : "DCGM_FI_DEV_FB_USED"));
    }
  }
  const Report none = read(answer("vector", ""), answer("vector", ""));
  EXPECT_FALSE(none.up);
  EXPECT_THAT(none.why_down, HasSubstr("no series of GPU memory"));
}

TEST(Prometheus, ReserveAndXidsMayBeMissingAndAreToldWhenWrong) {
  const std::string labels = R"("UUID":"GPU-a")";
  const std::string free = answer("vector", one(labels, "1700000000", R"("90")"));
  const std::string used = answer("vector", one(labels, "1700000000", R"("10")"));
  const std::string reserved = answer("vector", one(labels, "1700000000", R"("5")"));
  const std::string xid = answer("vector", one(labels, "1700000000", R"("79")"));
  Report report =
      read_prometheus(std::vector<PrometheusAnswer>{{ExporterMetric::free, free},
                                                    {ExporterMetric::used, used},
                                                    {ExporterMetric::reserved, reserved},
                                                    {ExporterMetric::xid, xid}},
                      options());
  EXPECT_EQ(report.devices[0].device.total, Memory::mib(105));
  EXPECT_EQ(report.devices[0].device.reserve, Memory::mib(105));
  EXPECT_TRUE(report.devices[0].lost);
  report = read_prometheus(std::vector<PrometheusAnswer>{{ExporterMetric::free, free},
                                                         {ExporterMetric::used, used},
                                                         {ExporterMetric::reserved, "?"},
                                                         {ExporterMetric::xid, xid}},
                           options());
  EXPECT_EQ(report.devices[0].device.total, Memory::mib(100));
  EXPECT_THAT(report.problems, testing::ElementsAre(HasSubstr("DCGM_FI_DEV_FB_RESERVED")));
}

TEST(Prometheus, TheQuestionIsWrittenForAUrl) {
  EXPECT_EQ(
      prometheus_url("http://p/api/v1/query?query=", ExporterMetric::used, "{app='x y'}", 300),
      "http://p/api/v1/query?query=DCGM_FI_DEV_FB_USED%7Bapp%3D%27x%20y%27%7D%5B300s%5D");
}

}  // namespace
}  // namespace berth::gpu
