#include "gpu/dcgm.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace berth::gpu {
namespace {

using core::DeviceHealth;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kNow = 1'700'000'000'000;

ExporterOptions options() {
  return {.node = "here", .safety_margin = Memory::mib(100), .wall_ms = kNow};
}

Report read(std::string_view text) { return read_dcgm(text, options()); }

DeviceReport find(const Report& report, std::string_view uuid) {
  EXPECT_TRUE(report.up) << report.why_down;
  for (const DeviceReport& device : report.devices) {
    if (device.device.uuid == uuid) return device;
  }
  ADD_FAILURE() << uuid << " is not reported";
  return {};
}

// A page as dcgm-exporter 4 writes it; the fuzzer starts from them too.
std::string page(const std::string& name) {
  const std::ifstream file(BERTH_SOURCE_DIR "/fuzz/corpus/dcgm_fuzz/" + name);
  EXPECT_TRUE(file.is_open()) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Dcgm, APageIsReadWithAllItsFacts) {
  const Report report = read(page("whole_cards"));
  ASSERT_TRUE(report.up) << report.why_down;
  EXPECT_THAT(report.problems, IsEmpty());
  ASSERT_EQ(report.devices.size(), 2U);
  const DeviceReport& device = report.devices[0];
  EXPECT_EQ(device.node, "n1");
  EXPECT_EQ(device.device.uuid, "GPU-a");
  EXPECT_EQ(device.device.index, 0);
  EXPECT_EQ(device.device.model, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(device.device.pci_bus_id, "00000000:0A:00.0");
  EXPECT_EQ(device.device.total, Memory::mib(76'000 + 5004 + 555));
  EXPECT_EQ(device.device.reserve, Memory::mib(555 + 100));
  EXPECT_EQ(device.used, Memory::mib(5004));
  EXPECT_EQ(device.age_ms, 0);
  EXPECT_FALSE(device.attributed);
  EXPECT_EQ(device.device.health, DeviceHealth::ok);
  EXPECT_EQ(device.problem, "");
}

TEST(Dcgm, LeasesB24SeriesAreJoinedByUuidInWhateverOrder) {
  const Report report = read(page("whole_cards"));
  EXPECT_EQ(find(report, "GPU-b").used, Memory::mib(4));
  EXPECT_EQ(find(report, "GPU-b").device.total, Memory::mib(81'004))
      << "without RESERVED free and used stand for what is there to give";
  EXPECT_EQ(find(report, "GPU-b").device.reserve, Memory::mib(100));
}

TEST(Dcgm, LeasesB24AMissingSeriesMakesTheMemoryUnknownAndMixesNothingUp) {
  const Report report = read(
      "DCGM_FI_DEV_FB_FREE{UUID=\"GPU-a\"} 100\n"
      "DCGM_FI_DEV_FB_USED{UUID=\"GPU-b\"} 10\n"
      "DCGM_FI_DEV_FB_FREE{UUID=\"GPU-c\"} 300\n"
      "DCGM_FI_DEV_FB_USED{UUID=\"GPU-c\"} 30\n");
  EXPECT_EQ(find(report, "GPU-a").used, std::nullopt);
  EXPECT_EQ(find(report, "GPU-a").device.total, std::nullopt);
  EXPECT_EQ(find(report, "GPU-a").problem, "DCGM_FI_DEV_FB_USED is missing");
  EXPECT_EQ(find(report, "GPU-b").used, std::nullopt);
  EXPECT_EQ(find(report, "GPU-b").problem, "DCGM_FI_DEV_FB_FREE is missing");
  EXPECT_EQ(find(report, "GPU-c").used, Memory::mib(30));
}

struct Bad {
  std::string value;
  std::string why;
};

// leases.md B21, F5: every text that is no measurement, in the place of either figure.
TEST(Dcgm, LeasesB21F5WhatIsNoMeasurementMakesTheMemoryUnknown) {
  const std::vector<Bad> table = {
      {"", "not a number"},
      {"NaN", "not a number"},
      {"+Inf", "not a number"},
      {"-1", "negative"},
      {"abc", "not a number"},
      {"9223372036854775794", "more than any device"},
      {"9.223372036854776e+18", "more than any device"},
      {"18446744073709551615", "more than any device"},
      {"1e400", "more than any device"},
      {"2147483632", "no value"},
      {"1.40737488355328e+14", "no value"},
      {"0x10", "not a number"},
  };
  for (const Bad& row : table) {
    for (const bool free : {true, false}) {
      const std::string text = fmt::format(
          "DCGM_FI_DEV_FB_FREE{{UUID=\"GPU-a\"}} {}\n"
          "DCGM_FI_DEV_FB_USED{{UUID=\"GPU-a\"}} {}\n"
          "DCGM_FI_DEV_FB_FREE{{UUID=\"GPU-b\"}} 7\n"
          "DCGM_FI_DEV_FB_USED{{UUID=\"GPU-b\"}} 7\n",
          free ? row.value : "7", free ? "7" : row.value);
      const Report report = read(text);
      const DeviceReport device = find(report, "GPU-a");
      EXPECT_EQ(device.used, std::nullopt) << row.value;
      EXPECT_EQ(device.device.total, std::nullopt) << row.value;
      EXPECT_THAT(device.problem, HasSubstr(row.why)) << row.value;
      EXPECT_THAT(device.problem,
                  HasSubstr(free ? "DCGM_FI_DEV_FB_FREE is" : "DCGM_FI_DEV_FB_USED is"));
      EXPECT_EQ(find(report, "GPU-b").used, Memory::mib(7)) << "the others go on";
    }
  }
}

TEST(Dcgm, AReserveThatCannotBeReadIsToldAndLeftOut) {
  const Report report = read(
      "DCGM_FI_DEV_FB_FREE{UUID=\"GPU-a\"} 100\n"
      "DCGM_FI_DEV_FB_USED{UUID=\"GPU-a\"} 10\n"
      "DCGM_FI_DEV_FB_RESERVED{UUID=\"GPU-a\"} 9223372036854775794\n");
  const DeviceReport device = find(report, "GPU-a");
  EXPECT_EQ(device.used, Memory::mib(10));
  EXPECT_EQ(device.device.total, Memory::mib(110));
  EXPECT_EQ(device.device.usable_mib(), 10);
  EXPECT_THAT(device.problem, HasSubstr("DCGM_FI_DEV_FB_RESERVED is"));
}

TEST(Dcgm, MemoryOfNothingIsUnknown) {
  const Report report = read(
      "DCGM_FI_DEV_FB_FREE{UUID=\"GPU-a\"} 0\n"
      "DCGM_FI_DEV_FB_USED{UUID=\"GPU-a\"} 0\n"
      "DCGM_FI_DEV_FB_FREE{UUID=\"GPU-b\"} 999999999999\n"
      "DCGM_FI_DEV_FB_USED{UUID=\"GPU-b\"} 999999999999\n");
  for (const char* uuid : {"GPU-a", "GPU-b"}) {
    EXPECT_EQ(find(report, uuid).used, std::nullopt);
    EXPECT_THAT(find(report, uuid).problem, HasSubstr("which no device has"));
  }
}

TEST(Dcgm, LeasesB25F21TheNewestOfTwoSeriesCountsOnceInWhateverOrder) {
  std::vector<std::string> lines = {
      fmt::format("DCGM_FI_DEV_FB_USED{{UUID=\"GPU-a\",pod=\"p0\"}} 10 {}\n", kNow - 30'000),
      fmt::format("DCGM_FI_DEV_FB_USED{{UUID=\"GPU-a\",pod=\"p1\"}} 20 {}\n", kNow - 1000),
      fmt::format("DCGM_FI_DEV_FB_USED{{UUID=\"GPU-a\",pod=\"p2\"}} 5 {}\n", kNow - 60'000),
      fmt::format("DCGM_FI_DEV_FB_FREE{{UUID=\"GPU-a\",pod=\"p0\"}} 90 {}\n", kNow - 30'000),
      fmt::format("DCGM_FI_DEV_FB_FREE{{UUID=\"GPU-a\",pod=\"p1\"}} 80 {}\n", kNow - 2000)};
  std::ranges::sort(lines);
  do {
    std::string text;
    for (const std::string& line : lines)
      text += line;
    const Report report = read(text);
    ASSERT_EQ(report.devices.size(), 1U);
    EXPECT_EQ(report.devices[0].used, Memory::mib(20));
    EXPECT_EQ(report.devices[0].device.total, Memory::mib(100));
    EXPECT_EQ(report.devices[0].age_ms, 2000) << "as old as the older of the two";
  } while (std::ranges::next_permutation(lines).found);
}

TEST(Dcgm, LeasesB25OfTwoSeriesOfOneTimeTheOneThatPromisesLessCounts) {
  const std::string text =
      "DCGM_FI_DEV_FB_USED{UUID=\"GPU-a\",vgpu=\"0\"} 10\n"
      "DCGM_FI_DEV_FB_USED{UUID=\"GPU-a\",vgpu=\"1\"} 20\n"
      "DCGM_FI_DEV_FB_FREE{UUID=\"GPU-a\",vgpu=\"0\"} 90\n"
      "DCGM_FI_DEV_FB_FREE{UUID=\"GPU-a\",vgpu=\"1\"} 80\n";
  EXPECT_EQ(find(read(text), "GPU-a").used, Memory::mib(20));
  EXPECT_EQ(find(read(text), "GPU-a").device.total, Memory::mib(100));
  EXPECT_EQ(find(read(text + "DCGM_FI_DEV_FB_USED{UUID=\"GPU-a\",vgpu=\"2\"} NaN\n"), "GPU-a").used,
            std::nullopt);
}

TEST(Dcgm, LeasesB26F18BothGenerationsOfLabelsAreUnderstood) {
  for (const char* labels :
       {"gpu=\"3\",UUID=\"GPU-a\",Hostname=\"n7\"", "gpu=\"3\",uuid=\"GPU-a\",hostname=\"n7\"",
        "gpu=\"3\",uuid=\"GPU-a\",Hostname=\"n7\"",
        "hostname=\"n7\",Hostname=\"old\",UUID=\"GPU-a\",uuid=\"GPU-old\",gpu=\"3\"",
        "Hostname=\"old\",hostname=\"n7\",uuid=\"GPU-old\",UUID=\"GPU-a\",gpu=\"3\""}) {
    const Report report =
        read(fmt::format("DCGM_FI_DEV_FB_FREE{{{0}}} 10\n"
                         "DCGM_FI_DEV_FB_USED{{{0}}} 1\n",
                         labels));
    const DeviceReport device = find(report, "GPU-a");
    EXPECT_EQ(device.node, "n7") << labels;
    EXPECT_EQ(device.device.index, 3) << labels;
    EXPECT_EQ(device.used, Memory::mib(1)) << labels;
  }
}

TEST(Dcgm, LeasesF18OnlyTheUuidIsNeeded) {
  const Report report = read(
      "DCGM_FI_DEV_FB_FREE{UUID=\"GPU-a\"} 10\n"
      "DCGM_FI_DEV_FB_USED{uuid=\"GPU-a\"} 1\n"
      "DCGM_FI_DEV_FB_USED{gpu=\"0\"} 5\n"
      "DCGM_FI_DEV_FB_USED 5\n");
  EXPECT_EQ(find(report, "GPU-a").node, "here");
  EXPECT_EQ(report.devices.size(), 1U);
  EXPECT_THAT(report.problems, ElementsAre(HasSubstr("2 samples have no label UUID")));
}

TEST(Dcgm, LeasesB33TwoNodesWithEqualIndicesAreTwoDevices) {
  const Report report = read(
      "DCGM_FI_DEV_FB_FREE{gpu=\"0\",UUID=\"GPU-b\",hostname=\"n2\"} 20\n"
      "DCGM_FI_DEV_FB_FREE{gpu=\"0\",UUID=\"GPU-a\",hostname=\"n1\"} 10\n"
      "DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-a\",hostname=\"n1\"} 1\n"
      "DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-b\",hostname=\"n2\"} 2\n");
  ASSERT_EQ(report.devices.size(), 2U);
  EXPECT_EQ(report.devices[0].node, "n1");
  EXPECT_EQ(report.devices[0].used, Memory::mib(1));
  EXPECT_EQ(report.devices[1].node, "n2");
  EXPECT_EQ(report.devices[1].used, Memory::mib(2));
}

TEST(Dcgm, LeasesB31AgesFollowTheStampsAndAFutureOneIsBelowZero) {
  const auto age = [](std::string_view stamp) {
    const std::string text = fmt::format(
        "DCGM_FI_DEV_FB_FREE{{UUID=\"GPU-a\"}} 9 {0}\nDCGM_FI_DEV_FB_USED{{UUID=\"GPU-a\"}} 1 "
        "{0}\n",
        stamp);
    return find(read_dcgm(text, options()), "GPU-a");
  };
  EXPECT_EQ(age(std::to_string(kNow)).age_ms, 0);
  EXPECT_EQ(age(std::to_string(kNow - 65'000)).age_ms, 65'000);
  EXPECT_EQ(age(std::to_string(kNow + 3'600'000)).age_ms, -3'600'000);
  EXPECT_EQ(age("1.7e12").age_ms, 0);
  for (const char* stamp : {"yesterday", "-5", "NaN", "9223372036854775807", "1e300"}) {
    EXPECT_EQ(age(stamp).used, std::nullopt) << stamp;
    EXPECT_THAT(age(stamp).problem, HasSubstr("time stamp that cannot be read")) << stamp;
  }
}

TEST(Dcgm, ASampleOfUnknownAgeYieldsToAnyOther) {
  const std::string text = fmt::format(
      "DCGM_FI_DEV_FB_FREE{{UUID=\"GPU-a\"}} 9 {0}\n"
      "DCGM_FI_DEV_FB_USED{{UUID=\"GPU-a\"}} 1 {0}\n"
      "DCGM_FI_DEV_FB_USED{{UUID=\"GPU-a\"}} 5 never\n",
      kNow - 40'000);
  EXPECT_EQ(find(read(text), "GPU-a").used, Memory::mib(1));
  EXPECT_EQ(find(read(text), "GPU-a").age_ms, 40'000);
}

// leases.md F17, B37: the exporter names GPU and instance; the series share UUID and gpu.
TEST(Dcgm, LeasesB37F17InstancesAreDevicesOfTheirOwn) {
  ExporterOptions with = options();
  with.instances = {{"GPU-a/7", "MIG-seven"}, {"GPU-a/1", "MIG-one"}};
  const Report report = read_dcgm(page("instances"), with);
  ASSERT_EQ(report.devices.size(), 4U);
  const DeviceReport seven = find(report, "MIG-seven");
  EXPECT_EQ(seven.device.mig_profile, "1g.10gb");
  EXPECT_EQ(seven.device.mig_parent, "GPU-a");
  EXPECT_EQ(seven.node, "n1");
  EXPECT_EQ(seven.device.total, Memory::mib(9700));
  EXPECT_EQ(seven.used, Memory::mib(700));
  EXPECT_EQ(find(report, "MIG-one").used, Memory::mib(100));
  const DeviceReport parent = find(report, "GPU-a");
  EXPECT_TRUE(parent.device.mig_enabled);
  EXPECT_EQ(parent.node, "n1");
  EXPECT_EQ(parent.problem, "");
  EXPECT_FALSE(find(report, "GPU-b").device.mig_enabled);
  EXPECT_EQ(find(report, "GPU-b").used, Memory::mib(1000));
}

TEST(Dcgm, AnInstanceWithoutAUuidOfItsOwnIsShownAndNotGiven) {
  const Report report = read(page("instances"));
  const DeviceReport one = find(report, "MIG-GPU-a/1/0");
  EXPECT_EQ(one.device.total, Memory::mib(40'100));
  EXPECT_EQ(one.used, std::nullopt);
  EXPECT_THAT(one.problem, HasSubstr("by its own UUID only"));
  EXPECT_TRUE(find(report, "GPU-a").device.mig_enabled);
}

TEST(Dcgm, AnInstanceMayBeNamedByItsUuid) {
  for (const char* labels :
       {"gpu=\"0\",UUID=\"MIG-x\",GPU_I_ID=\"7\",GPU_I_PROFILE=\"1g.10gb\",hostname=\"n1\"",
        "gpu=\"0\",UUID=\"GPU-a\",GPU_I_ID=\"7\",GPU_I_PROFILE=\"1g.10gb\",hostname=\"n1\","
        "dra_mig_device_uuid=\"MIG-x\""}) {
    const Report report =
        read(fmt::format("DCGM_FI_DEV_FB_FREE{{{0}}} 9\nDCGM_FI_DEV_FB_USED{{{0}}} 1\n"
                         "DCGM_FI_DEV_XID_ERRORS{{gpu=\"0\",UUID=\"GPU-a\",hostname=\"n1\"}} 0\n",
                         labels));
    ASSERT_EQ(report.devices.size(), 2U) << labels;
    const DeviceReport device = find(report, "MIG-x");
    EXPECT_EQ(device.used, Memory::mib(1)) << labels;
    EXPECT_EQ(device.device.mig_profile, "1g.10gb");
    EXPECT_EQ(device.device.mig_parent, "GPU-a") << labels;
    EXPECT_TRUE(find(report, "GPU-a").device.mig_enabled) << labels;
  }
}

std::string with_xid(std::string_view value) {
  return fmt::format(
      "DCGM_FI_DEV_FB_FREE{{UUID=\"GPU-a\"}} 9\nDCGM_FI_DEV_FB_USED{{UUID=\"GPU-a\"}} 1\n"
      "DCGM_FI_DEV_XID_ERRORS{{UUID=\"GPU-a\"}} {}\n",
      value);
}

TEST(Dcgm, LeasesB34B35TheLastXidLosesADeviceOrIsAnApplications) {
  DeviceReport device = find(read(with_xid("79")), "GPU-a");
  EXPECT_TRUE(device.lost);
  EXPECT_EQ(device.device.health, DeviceHealth::unhealthy);
  EXPECT_THAT(device.xids, ElementsAre(79));
  EXPECT_THAT(device.problem, HasSubstr("XID 79 (gone)"));
  for (const int xid : {13, 31, 43, 45, 68, 109}) {
    device = find(read(with_xid(std::to_string(xid))), "GPU-a");
    EXPECT_FALSE(device.lost);
    EXPECT_EQ(device.device.health, DeviceHealth::ok);
    EXPECT_THAT(device.app_xids, ElementsAre(xid));
  }
  for (const char* none : {"0", "0.0"}) {
    device = find(read(with_xid(none)), "GPU-a");
    EXPECT_FALSE(device.lost);
    EXPECT_EQ(device.problem, "");
  }
  for (const char* garbage : {"NaN", "-1", "9223372036854775794", "x"}) {
    device = find(read(with_xid(garbage)), "GPU-a");
    EXPECT_FALSE(device.lost) << "an exporter often has no such figure";
    EXPECT_EQ(device.used, Memory::mib(1));
    EXPECT_THAT(device.problem, HasSubstr("DCGM_FI_DEV_XID_ERRORS is"));
  }
}

TEST(Dcgm, AnXidOfTheGpuIsOneOfItsInstances) {
  const Report report =
      read(page("instances") +
           "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-a\",hostname=\"n1\"} 79\n"
           "DCGM_FI_DEV_XID_ERRORS{gpu=\"1\",UUID=\"GPU-b\",hostname=\"n1\"} 0\n");
  EXPECT_TRUE(find(report, "MIG-GPU-a/1/0").lost);
  EXPECT_THAT(find(report, "MIG-GPU-a/7/0").xids, ElementsAre(79));
  EXPECT_FALSE(find(report, "GPU-b").lost);
}

TEST(Dcgm, LeasesB23APageWithoutMemoryIsNoPageWithoutDevices) {
  for (const char* text :
       {"", "\n\n", "# EOF\n", "<html>nothing here</html>",
        "DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-a\"} 40\n", "DCGM_FI_DEV_XID_ERRORS{UUID=\"GPU-a\"} 79\n",
        "DCGM_FI_DEV_FB_USED{gpu=\"0\"} 5\n"}) {
    const Report report = read(text);
    EXPECT_FALSE(report.up) << text;
    EXPECT_THAT(report.why_down, HasSubstr("no series of GPU memory")) << text;
    EXPECT_THAT(report.devices, IsEmpty());
  }
}

TEST(Dcgm, EveryFormOfTheFormatIsReadAndEveryOtherIsTold) {
  struct Row {
    std::string line;
    std::string uuid;  // empty: no line of the format
    std::string value;
  };
  const std::vector<Row> table = {
      {"DCGM_FI_DEV_FB_USED{UUID=\"GPU-a\"} 1", "GPU-a", "1"},
      {"  DCGM_FI_DEV_FB_USED { UUID = \"GPU-a\" , x = \"1\" , }   1  ", "GPU-a", "1"},
      {"DCGM_FI_DEV_FB_USED{UUID=\"GPU-a\"} 1\r", "GPU-a", "1"},
      {"DCGM_FI_DEV_FB_USED{UUID=\"GPU-\\\"a\\\"\"} 1", "GPU-\"a\"", "1"},
      {"DCGM_FI_DEV_FB_USED{modelName=\"a,b}c\",UUID=\"GPU-a\"} 1", "GPU-a", "1"},
      {"DCGM_FI_DEV_FB_USED{UUID=\"GPU-a\"} 1 1700000000000 # {t=\"x\"} 1", "GPU-a", "1"},
      {"DCGM_FI_DEV_FB_USED{UUID=\"GPU-a\"}", "GPU-a", ""},
      {"DCGM_FI_DEV_FB_USED{UUID=\"GPU-a\" 1", "", ""},
      {"DCGM_FI_DEV_FB_USED{UUID=\"GPU-a} 1", "", ""},
      {"DCGM_FI_DEV_FB_USED{UUID=GPU-a} 1", "", ""},
      {"DCGM_FI_DEV_FB_USED{UUID} 1", "", ""},
      {"DCGM_FI_DEV_FB_USED{=\"GPU-a\"} 1", "", ""},
      {"DCGM_FI_DEV_FB_USED{UUID=\"GPU-a\\", "", ""},
      {"DCGM_FI_DEV_FB_USED{UUID=\"GPU-a\"x=\"1\"} 1", "", ""},
      {"DCGM_FI_DEV_FB_USED{", "", ""},
  };
  for (const Row& row : table) {
    const DcgmText parsed = parse_dcgm(row.line);
    if (row.uuid.empty()) {
      EXPECT_THAT(parsed.samples, IsEmpty()) << row.line;
      EXPECT_THAT(parsed.problems, ElementsAre(HasSubstr("line 1 is \""))) << row.line;
      continue;
    }
    ASSERT_EQ(parsed.samples.size(), 1U) << row.line;
    EXPECT_EQ(parsed.samples[0].labels.uuid, row.uuid) << row.line;
    EXPECT_EQ(parsed.samples[0].value, row.value) << row.line;
    EXPECT_FALSE(parsed.samples[0].stamp_bad) << row.line;
  }
  std::string many;
  for (int line = 0; line < 100; ++line)
    many += "DCGM_FI_DEV_FB_USED{UUID\n";
  EXPECT_EQ(parse_dcgm(many).problems.size(), 3U);
}

// The order of lines is the exporter's whim.
RC_GTEST_PROP(DcgmProperty, TheOrderOfLinesChangesNothing, ()) {
  const auto lines = *rc::gen::container<std::vector<std::string>>(rc::gen::map(
      rc::gen::tuple(rc::gen::element("FREE", "USED", "RESERVED"), rc::gen::inRange(0, 3),
                     rc::gen::element("", ",GPU_I_ID=\"1\"", ",hostname=\"n1\"", ",gpu=\"2\""),
                     rc::gen::element("10", "20", "NaN", "-1", "0"),
                     rc::gen::element("", " 1699999990000", " 1699999999000", " x")),
      [](const std::tuple<const char*, int, const char*, const char*, const char*>& part) {
        return fmt::format("DCGM_FI_DEV_FB_{}{{UUID=\"GPU-{}\"{}}} {}{}\n", std::get<0>(part),
                           std::get<1>(part), std::get<2>(part), std::get<3>(part),
                           std::get<4>(part));
      }));
  const auto joined = [](const std::vector<std::string>& all) {
    std::string text;
    for (const std::string& line : all)
      text += line;
    return text;
  };
  std::vector<std::string> other = lines;
  std::ranges::sort(other);
  RC_ASSERT(read(joined(lines)) == read(joined(other)));
  std::ranges::reverse(other);
  RC_ASSERT(read(joined(lines)) == read(joined(other)));
}

}  // namespace
}  // namespace berth::gpu
