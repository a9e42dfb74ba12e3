#include "gpu/exporter_source.h"

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::gpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string page(std::string_view uuid, int used, int xid = 0) {
  return fmt::format(
      "DCGM_FI_DEV_FB_FREE{{UUID=\"{0}\"}} {1}\nDCGM_FI_DEV_FB_USED{{UUID=\"{0}\"}} {2}\n"
      "DCGM_FI_DEV_XID_ERRORS{{UUID=\"{0}\"}} {3}\n",
      uuid, 1000 - used, used, xid);
}

// A network of texts by URL, and a clock.
struct World {
  std::map<std::string, std::string> texts;
  std::vector<std::string> asked;
  std::int64_t wall = 1'700'000'000'000;
  std::int64_t now = 0;

  ExporterSettings settings() {
    return {.fetch = [this](const std::string& url) -> Result<std::string> {
              asked.push_back(url);
              const auto text = texts.find(url);
              if (text == texts.end()) return Error(ErrorCode::unavailable, "connection refused");
              return text->second;
            },
            .node = "n1",
            .wall_ms = [this] { return wall; },
            .now = [this] { return Time(now); }};
  }

  std::unique_ptr<Source> dcgm(std::vector<std::string> urls) {
    return make_dcgm_source({.urls = std::move(urls)}, settings()).value();
  }
};

TEST(DcgmSource, ReadsThePagesOfSeveralNodes) {
  World world;
  world.texts = {{"a", page("GPU-a", 10)}, {"b", page("GPU-b", 20)}};
  const auto source = world.dcgm({"a", "b"});
  EXPECT_EQ(source->name(), "dcgm");
  const Report report = source->read();
  ASSERT_TRUE(report.up) << report.why_down;
  ASSERT_EQ(report.devices.size(), 2U);
  EXPECT_EQ(report.devices[0].used, Memory::mib(10));
  EXPECT_EQ(report.devices[1].used, Memory::mib(20));
}

TEST(DcgmSource, AnExporterThatIsSilentHasNotLostItsDevices) {
  World world;
  world.texts = {{"a", page("GPU-a", 10)}, {"b", page("GPU-b", 20)}};
  const auto source = world.dcgm({"a", "b"});
  (void)source->read();
  for (const bool empty : {false, true}) {
    world.texts.erase("b");
    if (empty) world.texts["b"] = "# starting\n";
    world.wall += 30'000;
    const Report report = source->read();
    ASSERT_EQ(report.devices.size(), 2U);
    EXPECT_EQ(report.devices[0].age_ms, 0);
    EXPECT_EQ(report.devices[1].age_ms, empty ? 60'000 : 30'000) << "it grows old";
    EXPECT_EQ(report.devices[1].used, Memory::mib(20));
    EXPECT_THAT(report.problems, ElementsAre(HasSubstr(empty ? "b: no series of GPU memory"
                                                             : "b: connection refused")));
  }
  world.texts["b"] = page("GPU-b", 25);
  EXPECT_EQ(source->read().devices[1].used, Memory::mib(25));
}

TEST(DcgmSource, LeasesB23WhenNoneAnswersTheSourceIsDownAndComesBackByItself) {
  World world;
  const auto source = world.dcgm({"a", "b"});
  Report report = source->read();
  EXPECT_FALSE(report.up);
  EXPECT_THAT(report.why_down, HasSubstr("a: connection refused"));
  world.texts = {{"b", page("GPU-b", 20)}};
  report = source->read();
  ASSERT_TRUE(report.up);
  EXPECT_EQ(report.devices.size(), 1U);
  world.texts.clear();
  EXPECT_FALSE(source->read().up);
}

TEST(DcgmSource, ADeviceThatAnAnsweringExporterLeavesOutIsGone) {
  World world;
  world.texts = {{"a", page("GPU-a", 10) + page("GPU-b", 20)}};
  const auto source = world.dcgm({"a"});
  EXPECT_EQ(source->read().devices.size(), 2U);
  world.texts = {{"a", page("GPU-a", 10)}};
  EXPECT_EQ(source->read().devices.size(), 1U) << "B34";
}

TEST(DcgmSource, AnXidIsToldOnceAndACriticalOneKeepsTheDeviceAway) {
  World world;
  const auto source = world.dcgm({"a"});
  const auto look = [&](int xid) {
    world.texts["a"] = page("GPU-a", 10, xid);
    return source->read().devices.at(0);
  };
  EXPECT_THAT(look(31).app_xids, ElementsAre(31));
  EXPECT_THAT(look(31).app_xids, IsEmpty()) << "the figure stays until the next";
  DeviceReport device = look(79);
  EXPECT_THAT(device.xids, ElementsAre(79));
  EXPECT_TRUE(device.lost);
  world.now += 1'000'000;
  device = look(79);
  EXPECT_THAT(device.xids, IsEmpty());
  EXPECT_TRUE(device.lost) << "as long as it is the last one";
  device = look(45);
  EXPECT_THAT(device.app_xids, ElementsAre(45));
  EXPECT_TRUE(device.lost) << "another error does not mend the first";
  EXPECT_THAT(device.problem, HasSubstr("critical XID 79"));
  world.now += 299'999;
  EXPECT_TRUE(look(45).lost);
  world.now += 1;
  EXPECT_FALSE(look(45).lost);
  EXPECT_TRUE(look(119).lost);
  device = look(0);
  EXPECT_FALSE(device.lost) << "B36: the exporter has begun anew, and the sample is clean";
  EXPECT_EQ(device.device.health, core::DeviceHealth::ok);
}

constexpr std::string_view kBase = "http://p/api/v1/query?query=";

std::string vector_of(std::string_view value) {
  return fmt::format(R"({{"status":"success","data":{{"resultType":"matrix","result":[)"
                     R"({{"metric":{{"UUID":"GPU-a"}},"values":[[1700000000,"{}"]]}}]}}}})",
                     value);
}

std::string url_of(std::string_view metric) {
  return fmt::format("{}DCGM_FI_DEV_{}%7Bapp%3D%27d%27%7D%5B60s%5D", kBase, metric);
}

std::unique_ptr<Source> prometheus(World& world) {
  return make_prometheus_source(
             {.base = std::string(kBase), .selector = "{app='d'}", .window_s = 60},
             world.settings())
      .value();
}

TEST(PrometheusSource, AsksForEachSeriesAndJoinsTheAnswers) {
  World world;
  world.texts = {{url_of("FB_FREE"), vector_of("90")},
                 {url_of("FB_USED"), vector_of("10")},
                 {url_of("FB_RESERVED"), vector_of("5")},
                 {url_of("XID_ERRORS"), vector_of("13")}};
  world.wall += 7000;
  const auto source = prometheus(world);
  EXPECT_EQ(source->name(), "prometheus");
  Report report = source->read();
  ASSERT_TRUE(report.up) << report.why_down;
  EXPECT_EQ(world.asked.size(), 4U);
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.devices[0].used, Memory::mib(10));
  EXPECT_EQ(report.devices[0].device.total, Memory::mib(105));
  EXPECT_EQ(report.devices[0].age_ms, 7000);
  EXPECT_THAT(report.devices[0].app_xids, ElementsAre(13));
  EXPECT_THAT(source->read().devices[0].app_xids, IsEmpty());
  world.texts.erase(url_of("XID_ERRORS"));
  report = source->read();
  EXPECT_TRUE(report.up);
  EXPECT_THAT(report.problems, ElementsAre(HasSubstr("connection refused")));
  world.texts.erase(url_of("FB_USED"));
  report = source->read();
  EXPECT_FALSE(report.up);
  EXPECT_THAT(report.why_down, HasSubstr("Prometheus does not answer: connection refused"));
}

TEST(ExporterSources, SettingsThatMakeNoSenseAreRefusedByName) {
  World world;
  const auto refused = [&](auto change) {
    ExporterSettings settings = world.settings();
    change(settings);
    return make_dcgm_source({.urls = {"a"}}, std::move(settings)).error().message();
  };
  EXPECT_THAT(refused([](ExporterSettings& s) { s.fetch = nullptr; }), HasSubstr("fetch"));
  EXPECT_THAT(refused([](ExporterSettings& s) { s.node = ""; }), HasSubstr("node is empty"));
  EXPECT_THAT(refused([](ExporterSettings& s) { s.safety_margin = Memory::mib(-1); }),
              HasSubstr("safety_margin is -1048576 bytes"));
  EXPECT_THAT(refused([](ExporterSettings& s) { s.quiet = Duration(-1); }),
              HasSubstr("quiet is -1 ms"));
  EXPECT_THAT(make_dcgm_source({.urls = {}}, world.settings()).error().message(),
              HasSubstr("urls is empty"));
  const auto question = [&](PrometheusQuestion asked) {
    return make_prometheus_source(std::move(asked), world.settings()).error().message();
  };
  EXPECT_THAT(question({.base = "http://p:9090"}), HasSubstr("it ends with query="));
  EXPECT_THAT(question({.base = std::string(kBase), .selector = "app='d'"}),
              HasSubstr("it stands in braces"));
  EXPECT_THAT(question({.base = std::string(kBase), .window_s = 0}), HasSubstr("window_s is 0"));
}

}  // namespace
}  // namespace berth::gpu
