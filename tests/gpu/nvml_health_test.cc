// Drivers that are not there, come back or change; devices that fail, vanish and return.
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/nvml_world_test_support.h"

namespace berth::gpu::checks {
namespace {

using core::DeviceHealth;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kQuietMs = 300'000;

TEST(NvmlSource, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_THAT(make_nvml_source({.node = ""}).error().message(), HasSubstr("node is empty"));
  EXPECT_FALSE(make_nvml_source({.node = "n", .safety_margin = Memory::mib(-1)}).ok());
  EXPECT_FALSE(make_nvml_source({.node = "n", .quiet = Duration(-1)}).ok());
}

TEST(NvmlSource, LeasesB23WithoutALibraryItIsDownAndSaysWhatToDo) {
  const auto source = make_nvml_source({.node = "n1", .library = "/nowhere/libnvidia-ml.so.1"});
  ASSERT_TRUE(source.ok());
  for (int round = 0; round < 2; ++round) {
    const Report report = (*source)->read();
    EXPECT_FALSE(report.up);
    EXPECT_THAT(report.why_down, HasSubstr("/nowhere/libnvidia-ml.so.1"));
    EXPECT_THAT(report.why_down, HasSubstr("install the NVIDIA driver"));
    EXPECT_THAT(report.devices, IsEmpty());
  }
}

TEST(NvmlSource, AnotherLibraryIsNotTakenForTheDrivers) {
  const auto source = make_nvml_source({.node = "n1", .library = "libm.so.6"});
  ASSERT_TRUE(source.ok());
  EXPECT_THAT((*source)->read().why_down, HasSubstr("no NVIDIA management library"));
}

TEST(NvmlSource, ADriverThatIsLoadedLaterNeedsNoRestart) {
  const Machine machine("1x16GiB");
  machine.client([&] {
    (void)setenv("BERTH_FAKE_STATE", "/nowhere", 1);
    const auto source = source_on();
    EXPECT_THAT(source->read().why_down, HasSubstr("modprobe nvidia"));
    (void)setenv("BERTH_FAKE_STATE", machine.path().c_str(), 1);
    EXPECT_EQ(look(*source).used, Memory());
  });
}

struct Refusal {
  const char* code;
  const char* advice;
};

TEST(NvmlSource, EachRefusalOfTheDriverHasItsAdvice) {
  for (const Refusal& refusal : {Refusal{"4", "/dev/nvidiactl"}, Refusal{"18", "reboot"},
                                 Refusal{"9", "modprobe"}, Refusal{"999", "error (999)"}}) {
    const Machine machine("1x16GiB");
    tell(machine, {"fail", "nvmlInit_v2", "--code", refusal.code});
    machine.client([&] {
      const auto source = source_on();
      const Report report = source->read();
      EXPECT_FALSE(report.up);
      EXPECT_THAT(report.why_down, HasSubstr(refusal.advice));
      EXPECT_TRUE(source->read().up) << "the next read tries again";
    });
  }
}

TEST(NvmlSource, ADriverThatAnswersNothingIsDown) {
  const Machine machine("1x16GiB");
  machine.client([&] {
    const auto source = source_on();
    EXPECT_TRUE(source->read().up);
    tell(machine, {"fail", "nvmlDeviceGetCount_v2", "--code", "999"});
    const Report report = source->read();
    EXPECT_FALSE(report.up);
    EXPECT_THAT(report.why_down, HasSubstr("does not answer: NVML says error (999)"));
    EXPECT_TRUE(source->read().up);
  });
}

TEST(NvmlSource, LeasesB32AReloadReordersIndicesAndKeepsUuids) {
  const Machine machine("2x16GiB");
  tell(machine, {"foreign", "77", "1GiB", "--device", "0"});
  machine.client([&] {
    const auto source = source_on();
    const std::string first = look(*source, 0).device.uuid;
    const std::string second = look(*source, 1).device.uuid;
    tell(machine, {"driver-reload", "--order", "1,0", "--driver", "580"});
    const Report report = source->read();
    ASSERT_TRUE(report.up) << report.why_down;
    EXPECT_THAT(report.about, testing::StartsWith("driver 580."));
    EXPECT_EQ(look(*source, first).device.index, 1);
    EXPECT_EQ(look(*source, first).used, Memory::mib(1024));
    EXPECT_EQ(look(*source, second).device.index, 0);
    EXPECT_EQ(look(*source, second).used, Memory());
  });
}

TEST(NvmlSource, LeasesB34ALostDeviceIsReportedAsLostUntilItIsBack) {
  for (const bool bus : {false, true}) {
    const Machine machine("2x16GiB");
    machine.client([&] {
      std::int64_t now = 0;
      const auto source = source_on("", &now);
      const std::string uuid = look(*source, 0).device.uuid;
      tell(machine, bus ? std::vector<std::string>{"lose", "0", "--bus"}
                        : std::vector<std::string>{"lose", "0"});
      DeviceReport device = look(*source, uuid);
      EXPECT_TRUE(device.lost);
      EXPECT_EQ(device.device.health, DeviceHealth::unhealthy);
      EXPECT_EQ(device.used, std::nullopt);
      EXPECT_EQ(device.device.total, Memory::mib(16'384)) << "what it is stays known";
      EXPECT_THAT(device.problem, HasSubstr("GPU is lost (15)"));
      EXPECT_EQ(device.xids, bus ? std::vector<int>{79} : std::vector<int>{});
      EXPECT_EQ(look(*source, 1).device.health, DeviceHealth::ok);
      now += 10 * kQuietMs;
      EXPECT_TRUE(look(*source, uuid).lost) << "time alone mends nothing";
      tell(machine, {"lose", "0", "--back"});
      device = look(*source, uuid);
      EXPECT_EQ(device.lost, bus) << "after an XID it must be quiet first";
      now += kQuietMs;
      device = look(*source, uuid);
      EXPECT_FALSE(device.lost) << "B36";
      EXPECT_EQ(device.device.health, DeviceHealth::ok);
      EXPECT_EQ(device.used, Memory());
      EXPECT_EQ(device.problem, "");
    });
  }
}

TEST(NvmlSource, ADeviceThatWasNeverNamedIsAProblemOfTheMachine) {
  const Machine machine("2x16GiB");
  tell(machine, {"lose", "0"});
  machine.client([] {
    const auto source = source_on();
    const Report report = source->read();
    ASSERT_EQ(report.devices.size(), 1U);
    EXPECT_EQ(report.devices[0].device.index, 1);
    ASSERT_EQ(report.problems.size(), 1U);
    EXPECT_THAT(report.problems[0], HasSubstr("GPU 0: NVML says GPU is lost (15)"));
  });
}

TEST(NvmlSource, ADeviceThatTheDriverDoesNotKnowAnyMoreIsGone) {
  const Machine machine("2x16GiB");
  machine.client([&] {
    const auto source = source_on();
    const std::string first = look(*source, 0).device.uuid;
    const std::string second = look(*source, 1).device.uuid;
    (void)setenv("BERTH_FAKE_DEVICES", second.c_str(), 1);
    tell(machine, {"driver-reload"});
    const Report report = source->read();
    ASSERT_EQ(report.devices.size(), 1U);
    EXPECT_EQ(report.devices[0].device.uuid, second);
    EXPECT_EQ(report.devices[0].device.index, 0) << "the same card under another number";
    (void)unsetenv("BERTH_FAKE_DEVICES");
    tell(machine, {"driver-reload"});
    EXPECT_EQ(look(*source, first).device.health, DeviceHealth::ok) << "B36";
  });
}

TEST(NvmlSource, AnErrorThatHidesADeviceDoesNotLoseIt) {
  const Machine machine("2x16GiB");
  machine.client([&] {
    const auto source = source_on();
    const std::string uuid = look(*source, 0).device.uuid;
    tell(machine, {"fail", "nvmlDeviceGetHandleByIndex_v2", "--code", "999"});
    const Report report = source->read();
    ASSERT_EQ(report.devices.size(), 2U);
    const DeviceReport& device = report.devices[1];
    EXPECT_EQ(device.device.uuid, uuid);
    EXPECT_FALSE(device.lost);
    EXPECT_EQ(device.used, std::nullopt);
    EXPECT_EQ(device.device.health, DeviceHealth::unhealthy);
    EXPECT_EQ(look(*source, uuid).device.health, DeviceHealth::ok);
  });
}

TEST(NvmlSource, LeasesB34ACriticalXidTakesTheDeviceAwayUntilItWasQuiet) {
  const Machine machine("2x16GiB");
  machine.client([&] {
    std::int64_t now = 0;
    const auto source = source_on("", &now);
    (void)source->read();
    tell(machine, {"xid", "0", "119"});
    DeviceReport device = look(*source, 0);
    EXPECT_TRUE(device.lost);
    EXPECT_THAT(device.xids, ElementsAre(119));
    EXPECT_THAT(device.problem, HasSubstr("critical XID 119 (reset)"));
    EXPECT_THAT(look(*source, 0).xids, IsEmpty()) << "told once";
    EXPECT_FALSE(look(*source, 1).lost);
    now = kQuietMs - 1;
    EXPECT_TRUE(look(*source, 0).lost);
    tell(machine, {"xid", "0", "119"});
    EXPECT_TRUE(look(*source, 0).lost);
    now = 2 * kQuietMs - 2;
    EXPECT_TRUE(look(*source, 0).lost) << "the second one counts anew";
    now = 2 * kQuietMs - 1;
    device = look(*source, 0);
    EXPECT_FALSE(device.lost);
    EXPECT_EQ(device.device.health, DeviceHealth::ok);
  });
}

TEST(NvmlSource, AMemoryErrorCounterThatGoesOnRisingKeepsTheDeviceAway) {
  const Machine machine("1x16GiB");
  machine.client([&] {
    std::int64_t now = 0;
    const auto source = source_on("", &now);
    (void)source->read();
    tell(machine, {"xid", "0", "48"});
    EXPECT_TRUE(look(*source).lost);
    now = kQuietMs - 1;
    tell(machine, {"xid", "0", "94"});  // contained: no fault of the device, but one more error
    EXPECT_TRUE(look(*source).lost);
    now = kQuietMs;
    EXPECT_TRUE(look(*source).lost);
    now = 2 * kQuietMs;
    EXPECT_FALSE(look(*source).lost);
  });
}

TEST(NvmlSource, LeasesB35ApplicationsXidsAreToldAndTheDeviceStaysHealthy) {
  const Machine machine("1x16GiB");
  machine.client([&] {
    const auto source = source_on();
    (void)source->read();
    for (const char* xid : {"13", "31", "43", "45", "68", "109"}) {
      tell(machine, {"xid", "0", xid});
      const DeviceReport device = look(*source);
      EXPECT_THAT(device.app_xids, ElementsAre(std::atoi(xid)));
      EXPECT_EQ(device.device.health, DeviceHealth::ok);
      EXPECT_FALSE(device.lost);
    }
  });
}

TEST(NvmlSource, AFailedWaitForEventsCondemnsNobodyAndTwoInARowAreTold) {
  const Machine machine("1x16GiB");
  machine.client([&] {
    const auto source = source_on();
    (void)source->read();
    tell(machine, {"fail", "nvmlEventSetWait_v2", "--code", "999"});
    Report report = source->read();
    ASSERT_EQ(report.problems.size(), 1U);
    EXPECT_EQ(report.devices[0].device.health, DeviceHealth::ok);
    tell(machine, {"xid", "0", "119"});
    EXPECT_TRUE(look(*source).lost) << "the new set hears";
    tell(machine, {"driver-reload"});
    EXPECT_FALSE(look(*source).lost) << "loading the driver resets the GPU";
    tell(machine, {"fail", "nvmlEventSetWait_v2", "--code", "999", "--times", "0"});
    (void)source->read();
    report = source->read();
    EXPECT_EQ(report.devices[0].device.health, DeviceHealth::unhealthy);
    EXPECT_FALSE(report.devices[0].lost);
    EXPECT_THAT(report.devices[0].problem, HasSubstr("its health cannot be watched"));
    tell(machine, {"fail", "--clear"});
    EXPECT_EQ(look(*source).device.health, DeviceHealth::ok);
  });
}

TEST(NvmlSource, AGpuTooOldToBeWatchedIsOfferedAndOneThatRefusesIsNot) {
  for (const bool old : {true, false}) {
    const Machine machine("1x16GiB");
    tell(machine, {"fail", "nvmlDeviceRegisterEvents", "--code", old ? "3" : "4"});
    machine.client([&] {
      const auto source = source_on();
      const DeviceReport device = look(*source);
      EXPECT_EQ(device.device.health, old ? DeviceHealth::ok : DeviceHealth::unhealthy);
      EXPECT_EQ(look(*source).device.health, DeviceHealth::ok) << "the next read asks again";
    });
  }
}

}  // namespace
}  // namespace berth::gpu::checks
