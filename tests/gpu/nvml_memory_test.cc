// What the NVML source says of devices, memory and processes.
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake/state/books.h"
#include "gpu/nvml_world_test_support.h"

namespace berth::gpu::checks {
namespace {

using core::DeviceHealth;
using fake::checks::kGiB;
using fake::checks::Signal;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(NvmlSource, DevicesHaveIdentityAndMemoryWithTheReserveApart) {
  const Machine machine("2x16GiB:H100");
  tell(machine, {"foreign", "77", "1GiB"});
  machine.client([] {
    const auto source = source_on();
    const Report report = source->read();
    ASSERT_TRUE(report.up) << report.why_down;
    EXPECT_THAT(report.about, testing::StartsWith("driver 535."));
    EXPECT_THAT(report.problems, IsEmpty());
    ASSERT_EQ(report.devices.size(), 2U);
    const DeviceReport& first = report.devices[0];
    EXPECT_EQ(first.node, "n1");
    EXPECT_THAT(first.device.uuid, testing::StartsWith("GPU-"));
    EXPECT_EQ(first.device.index, 0);
    EXPECT_EQ(first.minor, 0);
    EXPECT_THAT(first.device.model, HasSubstr("H100"));
    EXPECT_EQ(first.device.pci_bus_id, "00000000:01:00.0");
    EXPECT_EQ(first.device.total, Memory::mib(16'384));
    EXPECT_EQ(first.device.reserve, Memory::mib(kReservedMib + 128));
    EXPECT_EQ(first.used, Memory::mib(1024));
    EXPECT_EQ(first.device.health, DeviceHealth::ok);
    EXPECT_EQ(first.compute_mode, ComputeMode::shared);
    EXPECT_FALSE(first.device.mig_enabled);
    EXPECT_EQ(first.problem, "");
    EXPECT_EQ(first.age_ms, 0);
    EXPECT_EQ(report.devices[1].used, Memory());
    EXPECT_EQ(report.devices[1].device.index, 1);
  });
}

class NvmlLine : public testing::TestWithParam<const char*> {};

TEST_P(NvmlLine, EveryDriverLineTellsTheSame) {
  const Machine machine("1x16GiB", {"--driver", GetParam()});
  tell(machine, {"foreign", "77", "1GiB", "--name", "render"});
  tell(machine, {"xid", "0", "31"});
  machine.client(
      [&] {
        const auto source = source_on(GetParam());
        DeviceReport device = look(*source);
        EXPECT_EQ(device.device.total, Memory::mib(16'384));
        EXPECT_EQ(device.used, Memory::mib(1024));
        EXPECT_TRUE(device.attributed);
        ASSERT_EQ(device.processes.size(), 1U);
        EXPECT_EQ(device.processes[0],
                  (ProcessUse{.pid = 77, .used = Memory::mib(1024), .name = "render"}));
        EXPECT_EQ(device.problem, "");
        tell(machine, {"xid", "0", "13"});
        device = look(*source);
        EXPECT_THAT(device.app_xids, testing::ElementsAre(13)) << "what came before is the past";
        EXPECT_EQ(device.device.health, DeviceHealth::ok);
      },
      GetParam());
}

INSTANTIATE_TEST_SUITE_P(Lines, NvmlLine,
                         testing::Values("495", "535", "570", "580", "615", "future"));

// Old forms: a driver that refuses the newer ones, by any of its words for that.
TEST(NvmlSource, TheFirstFormOfMemoryCountsTheReserveAsUsedAndKeepsMoreBack) {
  for (const char* code : {"3", "13", "25"}) {
    const Machine machine("1x16GiB");
    tell(machine, {"foreign", "77", "1GiB"});
    tell(machine, {"fail", "nvmlDeviceGetMemoryInfo_v2", "--code", code, "--times", "0"});
    machine.client([] {
      const auto source = source_on();
      const DeviceReport device = look(*source);
      EXPECT_EQ(device.used, Memory::mib(1024 + kReservedMib));
      EXPECT_EQ(device.device.total, Memory::mib(16'384));
      EXPECT_EQ(device.device.reserve, core::default_reserve(Memory::mib(16'384)));
      EXPECT_EQ(device.problem, "");
    });
  }
}

TEST(NvmlSource, TheFirstFormOfProcessListsIsReadToo) {
  const Machine machine("1x16GiB");
  tell(machine, {"foreign", "77", "1GiB"});
  tell(machine, {"foreign", "78", "2GiB", "--graphics"});
  for (const char* kind : {"Compute", "Graphics"}) {
    tell(machine, {"fail", std::string("nvmlDeviceGet") + kind + "RunningProcesses_v3", "--code",
                   "13", "--times", "0"});
  }
  machine.client([] {
    const auto source = source_on();
    const DeviceReport device = look(*source);
    EXPECT_TRUE(device.attributed);
    ASSERT_EQ(device.processes.size(), 2U);
    EXPECT_EQ(device.processes[0].pid, 77);
    EXPECT_EQ(device.processes[1].used, Memory::mib(2048));
  });
}

TEST(NvmlSource, AProcessComesAndGoesWithItsMemory) {
  const Machine machine("2x16GiB");
  const Signal ready;
  const Signal go;
  const pid_t worker = machine.start([&] {
    client::Session session = fake::checks::open_session();
    ASSERT_EQ(take(session, *client::family_named("linear"), kGiB), 0);
    ready.send();
    EXPECT_TRUE(go.wait());
  });
  ASSERT_TRUE(ready.wait());
  machine.client([&] {
    const auto source = source_on();
    const DeviceReport device = look(*source);
    EXPECT_EQ(device.used, Memory::mib(1024 + kContextMib));
    ASSERT_EQ(device.processes.size(), 1U);
    EXPECT_EQ(device.processes[0].pid, worker);
    EXPECT_EQ(device.processes[0].used, Memory::mib(1024 + kContextMib));
    EXPECT_EQ(device.processes[0].name, "gpu_driver_test");
    EXPECT_THAT(look(*source, 1).processes, IsEmpty());
    go.send();
    while (!look(*source).processes.empty())
      (void)usleep(1000);
    EXPECT_EQ(look(*source).used, Memory());
  });
  EXPECT_EQ(fake::checks::wait_for(worker), 0);
}

TEST(NvmlSource, AProcessOfComputeAndGraphicsIsOne) {
  const Machine machine("1x16GiB");
  machine.client([&] {
    const client::Session session = fake::checks::open_session();
    tell(machine, {"foreign", std::to_string(getpid()), "300MiB", "--graphics"});
    const auto source = source_on();
    const DeviceReport device = look(*source);
    ASSERT_EQ(device.processes.size(), 1U);
    EXPECT_EQ(device.processes[0].pid, getpid());
    EXPECT_EQ(device.processes[0].used, Memory::mib(300)) << "each list tells the whole";
  });
}

TEST(NvmlSource, ListsLongerThanAFirstGuessAreReadWhole) {
  const Machine machine("1x16GiB");
  for (int pid = 100; pid < 140; ++pid)
    tell(machine, {"foreign", std::to_string(pid), "1MiB"});
  for (int pid = 300; pid < 320; ++pid)
    tell(machine, {"foreign", std::to_string(pid), "1MiB", "--graphics"});
  machine.client([] {
    const auto source = source_on();
    const DeviceReport device = look(*source);
    EXPECT_EQ(device.processes.size(), 60U);
    EXPECT_TRUE(device.attributed);
    EXPECT_EQ(device.used, Memory::mib(60));
  });
}

// The driver writes 2^64 - 1 where it does not know what a process holds.
TEST(NvmlSource, AUseThatIsNotAvailableIsUnknownAndTheListNotComplete) {
  const Machine machine("1x16GiB");
  tell(machine, {"foreign", "77", "1GiB"});
  tell(machine, {"foreign", "78", "18446744073709551615"});
  machine.client([] {
    const auto source = source_on();
    const DeviceReport device = look(*source);
    EXPECT_FALSE(device.attributed);
    ASSERT_EQ(device.processes.size(), 2U);
    EXPECT_TRUE(device.processes[0].used_known);
    EXPECT_FALSE(device.processes[1].used_known);
    EXPECT_EQ(device.processes[1].used, Memory());
    EXPECT_EQ(device.used, Memory::bytes((std::int64_t{1} << 30) - 1)) << "the total is known";
  });
}

TEST(NvmlSource, AListThatMayNotBeReadIsNotAttributed) {
  const Machine machine("1x16GiB");
  tell(machine, {"foreign", "77", "1GiB"});
  tell(machine, {"fail", "nvmlDeviceGetComputeRunningProcesses_v3", "--code", "4", "--times", "0"});
  machine.client([] {
    const auto source = source_on();
    const DeviceReport device = look(*source);
    EXPECT_FALSE(device.attributed);
    EXPECT_EQ(device.used, Memory::mib(1024));
    EXPECT_THAT(device.problem,
                HasSubstr("its processes cannot be listed: NVML says no permission"));
  });
}

TEST(NvmlSource, LeasesB21MemoryThatCannotBeReadIsUnknownAndTheOthersGoOn) {
  for (const char* how : {"--poison", "--code"}) {
    const Machine machine("2x16GiB");
    std::vector<std::string> words = {"fail", "nvmlDeviceGetMemoryInfo_v2", "--times", "1", how};
    if (words.back() == "--code") words.emplace_back("999");
    machine.client([&] {
      const auto source = source_on();
      (void)source->read();
      tell(machine, words);
      const Report report = source->read();
      ASSERT_EQ(report.devices.size(), 2U);
      EXPECT_EQ(report.devices[0].used, std::nullopt);
      EXPECT_EQ(report.devices[0].device.total, std::nullopt);
      EXPECT_FALSE(report.devices[0].lost);
      EXPECT_THAT(report.devices[0].problem, HasSubstr("its memory cannot be read"));
      EXPECT_EQ(report.devices[1].used, Memory());
      EXPECT_EQ(look(*source).used, Memory()) << "known again";
    });
  }
}

TEST(NvmlSource, ATotalThatNoDeviceCanHaveIsNoFigure) {
  for (const std::uint64_t total : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    const Machine machine("1x16GiB");
    machine.client([&] {
      const char* why = nullptr;
      fake::Books* books = fake::Books::open_from_environment(&why);
      ASSERT_NE(books, nullptr) << why;
      books->state().devices[0].total = total;
      const auto source = source_on();
      const DeviceReport device = look(*source);
      EXPECT_EQ(device.device.total, std::nullopt);
      EXPECT_EQ(device.used, std::nullopt);
      EXPECT_THAT(device.problem, HasSubstr("total memory is " + std::to_string(total) + " bytes"));
    });
  }
}

TEST(NvmlSource, ComputeModesThatRefuseProcessesAreTold) {
  const Machine machine("1x16GiB");
  machine.client([&] {
    const auto source = source_on();
    tell(machine, {"set", "compute-mode=exclusive"});
    DeviceReport device = look(*source);
    EXPECT_EQ(device.compute_mode, ComputeMode::exclusive);
    EXPECT_EQ(device.device.health, DeviceHealth::ok);
    EXPECT_THAT(device.problem, HasSubstr("nvidia-smi -c 0"));
    tell(machine, {"set", "compute-mode=prohibited"});
    device = look(*source);
    EXPECT_EQ(device.compute_mode, ComputeMode::prohibited);
    EXPECT_EQ(device.device.health, DeviceHealth::unhealthy);
    EXPECT_FALSE(device.lost);
    tell(machine, {"set", "compute-mode=default"});
    EXPECT_EQ(look(*source).problem, "");
  });
}

TEST(NvmlSource, TheNumaNodeIsReadWhereTheKernelKeepsIt) {
  const Machine machine("2x16GiB");
  const std::string folder = machine.folder() + "/pci";
  std::filesystem::create_directories(folder + "/0000:01:00.0");
  std::filesystem::create_directories(folder + "/0000:02:00.0");
  std::ofstream(folder + "/0000:01:00.0/numa_node") << "1\n";
  std::ofstream(folder + "/0000:02:00.0/numa_node") << "-1\n";
  machine.client([&] {
    const auto source =
        make_nvml_source({.node = "n1", .library = library_of(""), .pci_folder = folder});
    ASSERT_TRUE(source.ok());
    EXPECT_EQ(look(**source, 0).device.numa, 1);
    EXPECT_EQ(look(**source, 1).device.numa, -1);
  });
}

}  // namespace
}  // namespace berth::gpu::checks
