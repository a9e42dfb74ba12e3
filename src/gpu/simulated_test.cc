#include "gpu/simulated.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::gpu {
namespace {

using core::DeviceHealth;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kTotalMib = 16'384;

core::Node node_of(const std::string& name, int devices) {
  core::Node node;
  node.name = name;
  node.cpu = Milli{1000};
  node.ram = Memory::mib(1024);
  for (int index = 0; index < devices; ++index) {
    core::Device device;
    device.uuid = "GPU-" + name + "-" + std::to_string(index);
    device.index = index;
    device.model = "GPU";
    device.total = Memory::mib(kTotalMib);
    device.reserve = core::default_reserve(*device.total);
    node.devices.push_back(device);
  }
  return node;
}

std::unique_ptr<SimulatedSource> two_nodes() {
  auto made = SimulatedSource::make({node_of("n1", 2), node_of("n2", 1)});
  EXPECT_TRUE(made.ok());
  return std::move(made).value();
}

DeviceReport look(SimulatedSource& source, const std::string& uuid) {
  for (const DeviceReport& device : source.read().devices) {
    if (device.device.uuid == uuid) return device;
  }
  ADD_FAILURE() << uuid << " is not reported";
  return {};
}

std::vector<std::string> uuids(SimulatedSource& source) {
  std::vector<std::string> all;
  for (const DeviceReport& device : source.read().devices)
    all.push_back(device.device.uuid);
  return all;
}

TEST(SimulatedSource, StartsEmptyHealthyAndFresh) {
  const auto source = two_nodes();
  EXPECT_THAT(uuids(*source), ElementsAre("GPU-n1-0", "GPU-n1-1", "GPU-n2-0"));
  const DeviceReport device = look(*source, "GPU-n2-0");
  EXPECT_EQ(device.node, "n2");
  EXPECT_EQ(device.used, Memory());
  EXPECT_TRUE(device.attributed);
  EXPECT_EQ(device.age_ms, 0);
  EXPECT_EQ(device.device.health, DeviceHealth::ok);
  EXPECT_EQ(device.device.total, Memory::mib(kTotalMib));
  EXPECT_EQ(device.problem, "");
}

TEST(SimulatedSource, RepeatsTheLastSampleUntilTheNextPatch) {
  const auto source = two_nodes();
  ASSERT_TRUE(source->patch("GPU-n1-0", {.used_mib = 6144, .sample_age_ms = 90'000}).ok());
  EXPECT_TRUE(look(*source, "GPU-n1-0").restated) << "a patch counts, however old its sample";
  const Report first = source->read();
  EXPECT_FALSE(first.devices.front().restated) << "said once";
  EXPECT_EQ(source->read(), first);
  EXPECT_EQ(look(*source, "GPU-n1-0").used, Memory::mib(6144));
  EXPECT_EQ(look(*source, "GPU-n1-0").age_ms, 90'000);
  EXPECT_EQ(look(*source, "GPU-n1-1").used, Memory()) << "the others stay as they are";
  ASSERT_TRUE(source->patch("GPU-n1-0", {}).ok());
  EXPECT_EQ(look(*source, "GPU-n1-0").used, Memory::mib(6144));
  EXPECT_EQ(look(*source, "GPU-n1-0").age_ms, 0) << "a patch is a sample";
}

TEST(SimulatedSource, LeasesB31AFutureSampleIsReportedAsSuch) {
  const auto source = two_nodes();
  ASSERT_TRUE(source->patch("GPU-n1-0", {.sample_age_ms = -5000}).ok());
  EXPECT_EQ(look(*source, "GPU-n1-0").age_ms, -5000);
}

TEST(SimulatedSource, ProcessesAreReportedAndTheTotalIsAtLeastTheirSum) {
  const auto source = two_nodes();
  const std::vector<SimulatedProcess> two = {{.pid = 11, .used_mib = 1000, .name = "train"},
                                             {.pid = 12, .used_mib = 500}};
  ASSERT_TRUE(source->patch("GPU-n1-0", {.used_mib = 4000, .processes = two}).ok());
  DeviceReport device = look(*source, "GPU-n1-0");
  ASSERT_EQ(device.processes.size(), 2U);
  EXPECT_EQ(device.processes[0],
            (ProcessUse{.pid = 11, .used = Memory::mib(1000), .name = "train"}));
  EXPECT_EQ(device.used, Memory::mib(4000));
  ASSERT_TRUE(source->patch("GPU-n1-0", {.used_mib = 100}).ok());
  EXPECT_EQ(look(*source, "GPU-n1-0").used, Memory::mib(1500));
  ASSERT_TRUE(source->patch("GPU-n1-0", {.processes = std::vector<SimulatedProcess>{}}).ok());
  device = look(*source, "GPU-n1-0");
  EXPECT_EQ(device.used, Memory::mib(100));
  EXPECT_THAT(device.processes, IsEmpty());
  EXPECT_TRUE(device.attributed);
}

TEST(SimulatedSource, LeasesB21GarbageMakesTheMemoryUnknownAndSaysWhy) {
  for (const char* text : {"", "abc", "NaN", "-1", "9223372036854775794", "1e400", "2147483632"}) {
    const auto source = two_nodes();
    ASSERT_TRUE(source->patch("GPU-n1-0", {.used_mib = text}).ok());
    const DeviceReport device = look(*source, "GPU-n1-0");
    EXPECT_EQ(device.used, std::nullopt) << text;
    EXPECT_THAT(device.problem, HasSubstr("used_mib is \"" + std::string(text) + "\"")) << text;
    EXPECT_EQ(look(*source, "GPU-n1-0").used, std::nullopt) << "it stays so";
    ASSERT_TRUE(source->patch("GPU-n1-0", {.used_mib = "1024"}).ok());
    EXPECT_EQ(look(*source, "GPU-n1-0").used, Memory::mib(1024));
    EXPECT_EQ(look(*source, "GPU-n1-0").problem, "");
  }
}

TEST(SimulatedSource, AnAgeThatCannotBeReadMakesTheMemoryUnknown) {
  const auto source = two_nodes();
  ASSERT_TRUE(source->patch("GPU-n1-0", {.used_mib = 1, .sample_age_ms = "soon"}).ok());
  EXPECT_EQ(look(*source, "GPU-n1-0").used, std::nullopt);
  EXPECT_THAT(look(*source, "GPU-n1-0").problem, HasSubstr("sample_age_ms is \"soon\""));
  ASSERT_TRUE(source->patch("GPU-n1-0", {.used_mib = 1}).ok());
  EXPECT_EQ(look(*source, "GPU-n1-0").used, Memory::mib(1));
}

TEST(SimulatedSource, AListOfProcessesThatCannotBeReadIsNotComplete) {
  struct Row {
    RawProcesses processes;
    std::size_t kept;
    std::string problem;
  };
  const std::vector<Row> table = {
      {"garbage", 0, "processes is \"garbage\": not a list"},
      {std::vector<SimulatedProcess>{{.pid = "x", .used_mib = 1}}, 0, "processes.pid is \"x\""},
      {std::vector<SimulatedProcess>{{.pid = 0, .used_mib = 1}}, 0, "processes.pid is \"0\""},
      {std::vector<SimulatedProcess>{{.pid = -7, .used_mib = 1}}, 0, "processes.pid is \"-7\""},
      {std::vector<SimulatedProcess>{{.pid = 7, .used_mib = "NaN"}}, 1, "processes.used_mib"},
  };
  for (const Row& row : table) {
    const auto source = two_nodes();
    ASSERT_TRUE(source->patch("GPU-n1-0", {.used_mib = 10, .processes = row.processes}).ok());
    const DeviceReport device = look(*source, "GPU-n1-0");
    EXPECT_FALSE(device.attributed) << row.problem;
    EXPECT_EQ(device.processes.size(), row.kept) << row.problem;
    EXPECT_THAT(device.problem, HasSubstr(row.problem));
    EXPECT_EQ(device.used, Memory::mib(10)) << "the total is another figure";
  }
}

TEST(SimulatedSource, AProcessOfUnknownUseIsListedAsSuch) {
  const auto source = two_nodes();
  const std::vector<SimulatedProcess> one = {{.pid = 7, .used_mib = "N/A"}};
  ASSERT_TRUE(source->patch("GPU-n1-0", {.processes = one}).ok());
  const DeviceReport device = look(*source, "GPU-n1-0");
  ASSERT_EQ(device.processes.size(), 1U);
  EXPECT_FALSE(device.processes[0].used_known);
}

TEST(SimulatedSource, LeasesB34ACriticalXidLosesTheDeviceUntilItIsSaidToBeWell) {
  const auto source = two_nodes();
  ASSERT_TRUE(source->patch("GPU-n1-0", {.xid = 79}).ok());
  DeviceReport device = look(*source, "GPU-n1-0");
  EXPECT_TRUE(device.lost);
  EXPECT_EQ(device.device.health, DeviceHealth::unhealthy);
  EXPECT_THAT(device.xids, ElementsAre(79));
  EXPECT_EQ(device.problem, "critical XID 79 (gone)");
  device = look(*source, "GPU-n1-0");
  EXPECT_THAT(device.xids, IsEmpty()) << "an event is told once";
  EXPECT_TRUE(device.lost) << "the state stays";
  ASSERT_TRUE(source->patch("GPU-n1-0", {.used_mib = 5}).ok());
  EXPECT_TRUE(look(*source, "GPU-n1-0").lost);
  ASSERT_TRUE(source->patch("GPU-n1-0", {.health = "ok"}).ok());
  EXPECT_FALSE(look(*source, "GPU-n1-0").lost) << "B36";
  ASSERT_TRUE(source->patch("GPU-n1-0", {.xid = "48"}).ok());
  EXPECT_TRUE(look(*source, "GPU-n1-0").lost);
  ASSERT_TRUE(source->patch("GPU-n1-0", {.xid = 0}).ok());
  EXPECT_EQ(look(*source, "GPU-n1-0").device.health, DeviceHealth::ok);
}

TEST(SimulatedSource, LeasesB35AnApplicationsXidIsToldAndNothingMore) {
  const auto source = two_nodes();
  for (const int xid : {13, 31, 43, 45, 68, 109})
    ASSERT_TRUE(source->patch("GPU-n1-0", {.xid = xid}).ok());
  const DeviceReport device = look(*source, "GPU-n1-0");
  EXPECT_THAT(device.app_xids, ElementsAre(13, 31, 43, 45, 68, 109));
  EXPECT_THAT(device.xids, IsEmpty());
  EXPECT_FALSE(device.lost);
  EXPECT_EQ(device.device.health, DeviceHealth::ok);
  EXPECT_THAT(look(*source, "GPU-n1-0").app_xids, IsEmpty());
}

TEST(SimulatedSource, HealthIsOkUnhealthyOrFailsClosed) {
  const auto source = two_nodes();
  ASSERT_TRUE(source->patch("GPU-n1-0", {.health = "unhealthy"}).ok());
  EXPECT_EQ(look(*source, "GPU-n1-0").device.health, DeviceHealth::unhealthy);
  EXPECT_FALSE(look(*source, "GPU-n1-0").lost);
  ASSERT_TRUE(source->patch("GPU-n1-0", {.health = "so so"}).ok());
  EXPECT_EQ(look(*source, "GPU-n1-0").device.health, DeviceHealth::unhealthy);
  EXPECT_THAT(look(*source, "GPU-n1-0").problem, HasSubstr("health is \"so so\""));
  ASSERT_TRUE(source->patch("GPU-n1-0", {.health = "ok", .xid = "?"}).ok());
  EXPECT_EQ(look(*source, "GPU-n1-0").device.health, DeviceHealth::ok);
  EXPECT_THAT(look(*source, "GPU-n1-0").problem, HasSubstr("xid is \"?\""));
}

TEST(SimulatedSource, LeasesB32AnIndexChangesAndTheDeviceStays) {
  const auto source = two_nodes();
  ASSERT_TRUE(source->patch("GPU-n1-0", {.index = 1}).ok());
  ASSERT_TRUE(source->patch("GPU-n1-1", {.index = "0"}).ok());
  EXPECT_EQ(look(*source, "GPU-n1-0").device.index, 1);
  EXPECT_EQ(look(*source, "GPU-n1-1").device.index, 0);
  ASSERT_TRUE(source->patch("GPU-n1-1", {.index = "first"}).ok());
  EXPECT_EQ(look(*source, "GPU-n1-1").device.index, 0);
  EXPECT_THAT(look(*source, "GPU-n1-1").problem, HasSubstr("index is \"first\""));
}

TEST(SimulatedSource, LeasesB23ASourceThatIsDownSaysSoAndForgetsNothing) {
  const auto source = two_nodes();
  ASSERT_TRUE(source->patch("GPU-n1-0", {.used_mib = 77}).ok());
  source->set_up(false);
  EXPECT_FALSE(source->read().up);
  EXPECT_THAT(source->read().why_down, HasSubstr("switched off"));
  EXPECT_THAT(source->read().devices, IsEmpty());
  ASSERT_TRUE(source->patch("GPU-n1-0", {.xid = 31}).ok());
  source->set_up(true);
  const DeviceReport device = look(*source, "GPU-n1-0");
  EXPECT_EQ(device.used, Memory::mib(77));
  EXPECT_THAT(device.app_xids, ElementsAre(31)) << "told when somebody can hear it";
}

TEST(SimulatedSource, WithoutAttributionOnlyTotalsAreSeen) {
  const auto source = two_nodes();
  const std::vector<SimulatedProcess> one = {{.pid = 7, .used_mib = 30}};
  ASSERT_TRUE(source->patch("GPU-n1-0", {.used_mib = 20, .processes = one}).ok());
  source->set_attribution(false);
  const DeviceReport device = look(*source, "GPU-n1-0");
  EXPECT_FALSE(device.attributed);
  EXPECT_THAT(device.processes, IsEmpty());
  EXPECT_EQ(device.used, Memory::mib(30));
  source->set_attribution(true);
  EXPECT_TRUE(look(*source, "GPU-n1-0").attributed);
}

TEST(SimulatedSource, LeasesB36ADeviceGoesAndComesBackClean) {
  const auto source = two_nodes();
  ASSERT_TRUE(source->patch("GPU-n1-0", {.used_mib = 6000, .xid = 79}).ok());
  ASSERT_TRUE(source->remove("GPU-n1-0").ok());
  EXPECT_THAT(uuids(*source), ElementsAre("GPU-n1-1", "GPU-n2-0"));
  ASSERT_TRUE(source->put("GPU-n1-0", {.node = "n1", .model = "H100", .total_mib = 81'559}).ok());
  const DeviceReport device = look(*source, "GPU-n1-0");
  EXPECT_FALSE(device.lost);
  EXPECT_EQ(device.used, Memory());
  EXPECT_EQ(device.device.index, 0) << "the free place";
  EXPECT_EQ(device.device.model, "H100");
  EXPECT_EQ(device.device.total, Memory::mib(81'559));
  EXPECT_EQ(device.device.reserve, core::default_reserve(Memory::mib(81'559)));
}

TEST(SimulatedSource, ADeviceOfUnreadableSizeIsThereAndUnknown) {
  for (const char* total : {"", "lots", "0", "-16384", "9223372036854775794"}) {
    const auto source = two_nodes();
    ASSERT_TRUE(source->put("GPU-x", {.node = "n1", .total_mib = total}).ok()) << total;
    const DeviceReport device = look(*source, "GPU-x");
    EXPECT_EQ(device.device.total, std::nullopt) << total;
    EXPECT_EQ(device.used, std::nullopt) << total;
    EXPECT_THAT(device.problem, HasSubstr("total_mib is")) << total;
  }
}

TEST(SimulatedSource, LeasesB37InstancesAreDevicesAndTheirParentIsNotOffered) {
  const auto source = two_nodes();
  ASSERT_TRUE(
      source->put("MIG-a", {.node = "n1", .total_mib = 8192, .mig_parent = "GPU-n1-0"}).ok());
  ASSERT_TRUE(
      source
          ->put(
              "MIG-b",
              {.node = "n1", .total_mib = 2048, .mig_parent = "GPU-n1-0", .mig_profile = "1g.2gb"})
          .ok());
  EXPECT_TRUE(look(*source, "GPU-n1-0").device.mig_enabled);
  const core::Device first = look(*source, "MIG-a").device;
  EXPECT_EQ(first.mig_parent, "GPU-n1-0");
  EXPECT_EQ(first.mig_profile, "3g.8gb");
  EXPECT_TRUE(first.is_mig());
  EXPECT_EQ(look(*source, "MIG-b").device.mig_profile, "1g.2gb");
  EXPECT_EQ(look(*source, "MIG-b").device.index, 1);
  ASSERT_TRUE(source->patch("GPU-n1-0", {.xid = 79}).ok());
  EXPECT_TRUE(look(*source, "MIG-a").lost) << "what happens to the card happens to its instances";
  ASSERT_TRUE(source->patch("GPU-n1-0", {.xid = 0}).ok());
  ASSERT_TRUE(source->patch("MIG-a", {.xid = 94}).ok());
  ASSERT_TRUE(source->patch("MIG-a", {.xid = 95}).ok());
  EXPECT_FALSE(look(*source, "MIG-b").lost);
  ASSERT_TRUE(source->remove("MIG-a").ok());
  EXPECT_TRUE(look(*source, "GPU-n1-0").device.mig_enabled);
  ASSERT_TRUE(source->remove("MIG-b").ok());
  EXPECT_FALSE(look(*source, "GPU-n1-0").device.mig_enabled) << "a whole card again";
}

TEST(SimulatedSource, ACardTakesItsInstancesAlong) {
  const auto source = two_nodes();
  ASSERT_TRUE(
      source->put("MIG-a", {.node = "n1", .total_mib = 8192, .mig_parent = "GPU-n1-0"}).ok());
  ASSERT_TRUE(source->remove("GPU-n1-0").ok());
  EXPECT_THAT(uuids(*source), ElementsAre("GPU-n1-1", "GPU-n2-0"));
}

TEST(SimulatedSource, WhatCannotBeDoneNamesTheFieldTheValueAndTheFix) {
  const auto source = two_nodes();
  const auto unknown = source->patch("GPU-n1-9", {.used_mib = 1});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code(), ErrorCode::not_found);
  EXPECT_THAT(unknown.error().message(),
              HasSubstr("uuid is \"GPU-n1-9\": no such device; the nearest is GPU-n1-0"));
  EXPECT_EQ(source->remove("GPU-n1-9").error().code(), ErrorCode::not_found);
  EXPECT_THAT(source->put("GPU-x", {.node = "n3", .total_mib = 1}).error().message(),
              HasSubstr("node is \"n3\": no such node; the nearest is n1"));
  EXPECT_THAT(source->put("GPU-n2-0", {.node = "n1", .total_mib = 1}).error().message(),
              HasSubstr("the device is on node n2; DELETE it there first"));
  EXPECT_THAT(source->put("MIG-x", {.node = "n1", .total_mib = 1, .mig_parent = "GPU-n2-0"})
                  .error()
                  .message(),
              HasSubstr("mig_parent is \"GPU-n2-0\": no device of node n1"));
  ASSERT_TRUE(
      source->put("MIG-a", {.node = "n1", .total_mib = 8192, .mig_parent = "GPU-n1-0"}).ok());
  EXPECT_THAT(
      source->put("MIG-x", {.node = "n1", .total_mib = 1, .mig_parent = "MIG-a"}).error().message(),
      HasSubstr("name the GPU"));
  EXPECT_FALSE(
      source->put("GPU-n1-0", {.node = "n1", .total_mib = 1, .mig_parent = "GPU-n1-0"}).ok());
  EXPECT_FALSE(source->put("", {.node = "n1", .total_mib = 1}).ok());
  EXPECT_THAT(uuids(*source), ElementsAre("GPU-n1-0", "GPU-n1-1", "MIG-a", "GPU-n2-0"))
      << "nothing of it was done";
}

TEST(SimulatedSource, OneUuidIsOnOneNode) {
  core::Node other = node_of("n2", 1);
  other.devices[0].uuid = "GPU-n1-0";
  const auto made = SimulatedSource::make({node_of("n1", 1), other});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message(), HasSubstr("is on the nodes n1 and n2"));
}

// However patches, changes of the fleet and reads fall together: a sample is never half a patch.
TEST(SimulatedSource, TakesPatchesFromManyThreadsWhileItIsRead) {
  const auto source = two_nodes();
  constexpr int kRounds = 2000;
  std::atomic<int> at_work = 2;
  const std::jthread writer([&] {
    for (int round = 1; round <= kRounds; ++round) {
      const std::vector<SimulatedProcess> one = {{.pid = round, .used_mib = round}};
      EXPECT_TRUE(source->patch("GPU-n1-0", {.used_mib = round, .processes = one}).ok());
    }
    --at_work;
  });
  const std::jthread remover([&] {
    for (int round = 0; round < kRounds; ++round) {
      EXPECT_TRUE(source->remove("GPU-n2-0").ok());
      EXPECT_TRUE(source->put("GPU-n2-0", {.node = "n2", .total_mib = 16}).ok());
    }
    --at_work;
  });
  Memory last;
  while (at_work > 0) {
    const DeviceReport device = look(*source, "GPU-n1-0");
    ASSERT_TRUE(device.used.has_value());
    EXPECT_GE(*device.used, last) << "samples come in the order of the patches";
    last = *device.used;
    if (device.processes.empty()) continue;
    EXPECT_EQ(device.processes[0].used, last);
    EXPECT_EQ(device.processes[0].pid, last.floor_mib());
  }
  EXPECT_EQ(look(*source, "GPU-n1-0").used, Memory::mib(kRounds));
  EXPECT_EQ(look(*source, "GPU-n2-0").device.total, Memory::mib(16));
}

}  // namespace
}  // namespace berth::gpu
