// MIG instances are devices of their own (leases.md B37, F17).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake/state/books.h"
#include "gpu/nvml_world_test_support.h"

namespace berth::gpu::checks {
namespace {

using core::DeviceHealth;
using testing::HasSubstr;
using testing::IsEmpty;

std::string create(const Machine& machine, const std::string& profile) {
  std::string uuid = machine.tool({"mig", "0", "create", profile}).out;
  EXPECT_THAT(uuid, testing::StartsWith("MIG-"));
  uuid.pop_back();
  return uuid;
}

TEST(NvmlMig, LeasesB37InstancesHaveTheirOwnMemoryAndTheGpuIsNotOffered) {
  const Machine machine("2x80GiB:A100");
  tell(machine, {"mig", "0", "enable"});
  const std::string large = create(machine, "3g.40gb");
  const std::string small = create(machine, "1g.10gb");
  tell(machine, {"foreign", "77", "1GiB", "--device", small});
  machine.client([&] {
    const auto source = source_on();
    const Report report = source->read();
    ASSERT_EQ(report.devices.size(), 4U);
    const DeviceReport& gpu = report.devices[0];
    EXPECT_TRUE(gpu.device.mig_enabled);
    EXPECT_FALSE(gpu.device.is_mig());
    EXPECT_THAT(gpu.processes, IsEmpty());
    const DeviceReport first = look(*source, large);
    EXPECT_EQ(first.device.mig_profile, "3g.40gb");
    EXPECT_EQ(first.device.mig_parent, gpu.device.uuid);
    EXPECT_EQ(first.device.model, gpu.device.model);
    EXPECT_EQ(first.device.pci_bus_id, gpu.device.pci_bus_id);
    EXPECT_EQ(first.device.total, Memory::mib(40'960));
    EXPECT_EQ(first.used, Memory());
    EXPECT_TRUE(first.attributed);
    const DeviceReport second = look(*source, small);
    EXPECT_EQ(second.used, Memory::mib(1024));
    ASSERT_EQ(second.processes.size(), 1U);
    EXPECT_EQ(second.processes[0].pid, 77);
    EXPECT_FALSE(report.devices[3].device.mig_enabled) << "the other card is whole";
  });
}

TEST(NvmlMig, ACardInMigModeWithoutInstancesIsThereAndEmpty) {
  const Machine machine("1x80GiB:A100");
  tell(machine, {"mig", "0", "enable"});
  machine.client([&] {
    const auto source = source_on();
    ASSERT_EQ(source->read().devices.size(), 1U);
    EXPECT_TRUE(look(*source).device.mig_enabled);
    const std::string uuid = create(machine, "2g.20gb");
    EXPECT_EQ(look(*source, uuid).device.index, 0) << "a new instance is seen at once";
    tell(machine, {"mig", uuid, "destroy"});
    EXPECT_EQ(source->read().devices.size(), 1U) << "and a destroyed one is gone";
    tell(machine, {"mig", "0", "disable"});
    EXPECT_FALSE(look(*source).device.mig_enabled);
  });
}

TEST(NvmlMig, AProfileWithoutANameIsComputedFromTheSlices) {
  const Machine machine("1x80GiB:A100");
  tell(machine, {"mig", "0", "enable"});
  const std::string uuid = create(machine, "4g.40gb");
  tell(machine, {"fail", "nvmlDeviceGetName", "--code", "3", "--times", "0"});
  machine.client([&] {
    const auto source = source_on();
    EXPECT_EQ(look(*source, uuid).device.mig_profile, "4g.40gb");
    tell(machine, {"fail", "nvmlDeviceGetAttributes_v2", "--code", "3", "--times", "0"});
    EXPECT_EQ(look(*source, uuid).device.mig_profile, "3g.40gb") << "from the size alone";
  });
}

TEST(NvmlMig, AnInstanceThatCannotBeListedForAMomentIsNotGone) {
  const Machine machine("1x80GiB:A100");
  tell(machine, {"mig", "0", "enable"});
  const std::string uuid = create(machine, "3g.40gb");
  machine.client([&] {
    const auto source = source_on();
    EXPECT_EQ(look(*source, uuid).used, Memory());
    tell(machine, {"fail", "nvmlDeviceGetMigDeviceHandleByIndex", "--code", "4"});
    const Report report = source->read();
    ASSERT_EQ(report.devices.size(), 2U);
    EXPECT_EQ(report.devices[1].device.uuid, uuid);
    EXPECT_EQ(report.devices[1].used, std::nullopt);
    EXPECT_FALSE(report.devices[1].lost);
    EXPECT_EQ(report.devices[1].device.health, DeviceHealth::unhealthy);
    ASSERT_EQ(report.problems.size(), 1U);
    EXPECT_THAT(report.problems[0], HasSubstr("its MIG instances cannot be listed"));
    EXPECT_EQ(look(*source, uuid).device.health, DeviceHealth::ok);
  });
}

TEST(NvmlMig, AContainerThatMayNotMonitorIsToldWhatToSet) {
  const Machine machine("1x80GiB:A100");
  tell(machine, {"mig", "0", "enable"});
  const std::string uuid = create(machine, "3g.40gb");
  machine.client([&] {
    const auto source = source_on();
    (void)source->read();
    tell(machine, {"fail", "nvmlDeviceGetMemoryInfo_v2", "--code", "4", "--nth", "2"});
    const DeviceReport device = look(*source, uuid);
    EXPECT_EQ(device.used, std::nullopt);
    EXPECT_THAT(device.problem, HasSubstr("NVIDIA_MIG_MONITOR_DEVICES=all"));
  });
}

TEST(NvmlMig, WhatHappensToTheCardHappensToItsInstances) {
  const Machine machine("1x80GiB:A100");
  tell(machine, {"mig", "0", "enable"});
  const std::string uuid = create(machine, "3g.40gb");
  machine.client([&] {
    std::int64_t now = 0;
    const auto source = source_on("", &now);
    (void)source->read();
    tell(machine, {"xid", "0", "119"});
    DeviceReport device = look(*source, uuid);
    EXPECT_TRUE(device.lost);
    EXPECT_THAT(device.xids, testing::ElementsAre(119));
    now += 300'000;
    EXPECT_FALSE(look(*source, uuid).lost);
    tell(machine, {"lose", "0"});
    device = look(*source, uuid);
    EXPECT_TRUE(device.lost) << "the card does not answer any more";
    EXPECT_EQ(device.device.health, DeviceHealth::unhealthy);
    tell(machine, {"lose", "0", "--back"});
    EXPECT_EQ(look(*source, uuid).device.health, DeviceHealth::ok);
  });
}

TEST(NvmlMig, AModeThatWaitsForAResetIsTold) {
  const Machine machine("1x80GiB:A100");
  machine.client([&] {
    const auto source = source_on();
    EXPECT_EQ(look(*source).problem, "");
    const char* why = nullptr;
    fake::Books* books = fake::Books::open_from_environment(&why);
    ASSERT_NE(books, nullptr) << why;
    books->state().devices[0].mig_pending.store(1);
    const DeviceReport device = look(*source);
    EXPECT_FALSE(device.device.mig_enabled);
    EXPECT_THAT(device.problem, HasSubstr("MIG will be on after the next reset"));
  });
}

}  // namespace
}  // namespace berth::gpu::checks
