#include "kube/objects/node_reading.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::kube {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Node machine() {
  Node node;
  node.meta.name = "n1";
  node.meta.uid = "u-1";
  node.allocatable = {{"cpu", "63500m"}, {"memory", "512Gi"}, {"pods", "110"}};
  node.conditions = {{.type = "Ready", .status = "True"}};
  return node;
}

Node annotated(const std::string& json) {
  Node node = machine();
  node.meta.annotations[std::string(kDevicesAnnotation)] = json;
  return node;
}

constexpr const char* kTwoDevices =
    R"({"v":1,"backend":"none","cdi":false,"owned":true,"devices":[)"
    R"({"uuid":"GPU-a","index":0,"model":"NVIDIA H100","totalMiB":81559,"reserveMiB":1383,)"
    R"("numa":1,"mig":null},)"
    R"({"uuid":"GPU-b","index":1,"model":"NVIDIA H100","totalMiB":81559}]})";

TEST(NodeFromAnnotation, TakesEveryFieldOfADevice) {
  const NodeReading reading = node_from(annotated(kTwoDevices), {.allow_advisory = true});
  EXPECT_EQ(reading.excluded, "");
  EXPECT_EQ(reading.source, DeviceSource::annotation);
  EXPECT_EQ(reading.sharing_why, "");
  EXPECT_TRUE(reading.node.ready);
  EXPECT_TRUE(reading.node.sharing_ready);
  EXPECT_EQ(reading.node.cpu, Milli{63500});
  EXPECT_EQ(reading.node.ram, Memory::mib(512 * 1024));
  EXPECT_EQ(reading.node.pod_slots, 110);
  ASSERT_EQ(reading.node.devices.size(), 2U);
  const core::Device& a = reading.node.devices[0];
  EXPECT_EQ(a.uuid, "GPU-a");
  EXPECT_EQ(a.model, "NVIDIA H100");
  EXPECT_EQ(a.usable_mib(), 81559 - 1383);
  EXPECT_EQ(a.numa, 1);
  EXPECT_TRUE(a.owned);
  EXPECT_EQ(reading.node.devices[1].reserve, core::default_reserve(Memory::mib(81559)));
  EXPECT_THAT(reading.notes, ElementsAre(HasSubstr("GPU-b: no reserve stated")));
}

TEST(NodeFromAnnotation, SharesNeedSomebodyWhoEnforcesThem) {
  const auto why = [](const std::string& head, NodeRules rules = {}) {
    return node_from(
        annotated(R"({"v":1,)" + head + R"(,"devices":[{"uuid":"GPU-a","totalMiB":100}]})"), rules);
  };
  NodeReading reading = why(R"("backend":"none","owned":true)");
  EXPECT_FALSE(reading.node.sharing_ready);
  EXPECT_THAT(reading.sharing_why, HasSubstr("allowAdvisory: true"));
  EXPECT_TRUE(reading.node.ready) << "whole devices are not concerned";

  reading = why(R"("backend":"guard","owned":true)");
  EXPECT_FALSE(reading.node.sharing_ready);
  EXPECT_THAT(reading.sharing_why, HasSubstr("\"ready\": true"));
  reading = why(R"("backend":"guard","owned":true,"ready":true)");
  EXPECT_TRUE(reading.node.sharing_ready);
  EXPECT_EQ(reading.backend, NodeBackend::guard);

  reading = why(R"("backend":"guard","ready":true)");
  EXPECT_FALSE(reading.node.devices[0].owned);
  EXPECT_THAT(reading.sharing_why, HasSubstr("\"owned\": true"));
}

TEST(NodeFromAnnotation, FractiondNeedsItsConditionAndTheWayOfNaming) {
  Node node = annotated(
      R"({"v":1,"backend":"fractiond","owned":true,"devices":[{"uuid":"GPU-a","totalMiB":9}]})");
  EXPECT_THAT(node_from(node, {}).sharing_why, HasSubstr("named by CDI"));
  node = annotated(R"({"v":1,"backend":"fractiond","cdi":true,"owned":true,
                       "devices":[{"uuid":"GPU-a","totalMiB":9}]})");
  EXPECT_THAT(node_from(node, {}).sharing_why, HasSubstr("Unknown/ConditionNotFound"));
  node.conditions.push_back({.type = "gpu-fractioning.nvidia.com/Ready",
                             .status = "False",
                             .reason = "DriverTooOld",
                             .message = "needs 615"});
  EXPECT_THAT(node_from(node, {}).sharing_why, HasSubstr("False/DriverTooOld: needs 615"));
  node.conditions.back().status = "True";
  const NodeReading reading = node_from(node, {});
  EXPECT_TRUE(reading.node.sharing_ready);
  EXPECT_TRUE(reading.cdi);
}

TEST(NodeFromAnnotation, KnowsInstancesAndTheirParents) {
  const NodeReading reading = node_from(annotated(R"({"v":1,"owned":true,"devices":[
        {"uuid":"GPU-p","totalMiB":40000,"mig":{"enabled":true}},
        {"uuid":"MIG-1","totalMiB":4864,"mig":{"profile":"1g.5gb","parent":"GPU-p"}}]})"),
                                        {});
  ASSERT_EQ(reading.node.devices.size(), 2U) << reading.excluded;
  EXPECT_TRUE(reading.node.devices[0].mig_enabled);
  EXPECT_EQ(reading.node.devices[1].mig_profile, "1g.5gb");
  EXPECT_EQ(reading.node.devices[1].mig_parent, "GPU-p");
}

TEST(NodeFromAnnotation, AnUnreadableOneExcludesTheNodeAndNamesTheFault) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{", "one line of JSON"},
      {"[]", "an object with v"},
      {"{}", "=v: a whole number from 1"},
      {R"({"v":2,"devices":[]})", "v=2: v 1; a newer Berth wrote this"},
      {R"({"v":1})", "=devices: a list"},
      {R"({"v":1,"backend":"magic","devices":[]})", "backend=magic: none, guard or fractiond"},
      {R"({"v":1,"owned":"yes","devices":[]})", "=owned: true or false"},
      {R"({"v":1,"devices":[{"totalMiB":5}]})", "=devices[0].uuid: a text"},
      {R"({"v":1,"devices":[{"uuid":"a","totalMiB":-5}]})", "=devices[0].totalMiB: a whole number"},
      {R"({"v":1,"devices":[{"uuid":"a","totalMiB":1e30}]})", "=devices[0].totalMiB: a whole"},
      {R"({"v":1,"devices":[{"uuid":"a","totalMiB":5},{"uuid":"a","totalMiB":5}]})",
       "=devices[1].uuid: a UUID of its own"},
      {R"({"v":1,"v":1,"devices":[]})", "stands twice"},
  };
  for (const auto& [text, expected] : cases) {
    const NodeReading reading = node_from(annotated(text), {});
    EXPECT_THAT(reading.excluded, StartsWith("BadNodeAnnotation: berth.dev/devices=")) << text;
    EXPECT_THAT(reading.excluded, HasSubstr(expected)) << text;
    EXPECT_FALSE(reading.node.ready) << text;
    EXPECT_TRUE(reading.node.devices.empty()) << text;
  }
}

TEST(NodeFromAnnotation, ACountOfLabelsThatDisagreesExcludesTheNode) {
  Node node = annotated(kTwoDevices);
  node.meta.labels["nvidia.com/gpu.count"] = "8";
  EXPECT_THAT(node_from(node, {}).excluded,
              StartsWith("DeviceCountsDisagree: nvidia.com/gpu.count=8: the 2 devices"));
  node.meta.labels["nvidia.com/gpu.count"] = "2";
  EXPECT_EQ(node_from(node, {}).excluded, "");
}

Node labelled(const Labels& labels, const std::string& offered = "2") {
  Node node = machine();
  node.meta.labels = labels;
  node.allocatable["nvidia.com/gpu"] = offered;
  return node;
}

TEST(NodeFromLabels, OffersWholeDevicesThatTheVendorsPlugInChooses) {
  const NodeReading reading = node_from(labelled({{"nvidia.com/gpu.count", "2"},
                                                  {"nvidia.com/gpu.memory", "81559"},
                                                  {"nvidia.com/gpu.product", "NVIDIA-H100"},
                                                  {"nvidia.com/gpu.replicas", "1"}}),
                                        {});
  EXPECT_EQ(reading.excluded, "");
  EXPECT_EQ(reading.source, DeviceSource::labels);
  ASSERT_EQ(reading.node.devices.size(), 2U);
  EXPECT_EQ(reading.node.devices[1].uuid, "u-1/gpu/1") << "the same as long as the node is";
  EXPECT_EQ(reading.node.devices[1].model, "NVIDIA-H100");
  EXPECT_EQ(reading.node.devices[1].total, Memory::mib(81559));
  EXPECT_EQ(reading.node.devices[1].reserve, core::default_reserve(Memory::mib(81559)));
  EXPECT_FALSE(reading.node.devices[1].owned) << "DeviceNotOwned keeps shares off";
  EXPECT_THAT(reading.sharing_why, HasSubstr("berth gpus --node-annotation"));
}

TEST(NodeFromLabels, MemoryIsMebibytesBelowOneMebibyteAndBytesAbove) {
  const auto total = [](const std::string& value) {
    return node_from(
               labelled({{"nvidia.com/gpu.count", "1"}, {"nvidia.com/gpu.memory", value}}, "1"), {})
        .node.devices.at(0)
        .total;
  };
  EXPECT_EQ(total("1048575"), Memory::mib(1048575));
  EXPECT_EQ(total("1048576"), Memory::bytes(1048576));
  EXPECT_EQ(total("85520809984"), Memory::bytes(85520809984));
}

TEST(NodeFromLabels, DevicesThatAreNotOfferedTakeNothingNew) {
  const NodeReading reading = node_from(
      labelled({{"nvidia.com/gpu.count", "2"}, {"nvidia.com/gpu.memory", "100"}}, "1"), {});
  ASSERT_EQ(reading.node.devices.size(), 2U);
  EXPECT_EQ(reading.node.devices[0].health, core::DeviceHealth::ok);
  EXPECT_EQ(reading.node.devices[1].health, core::DeviceHealth::unhealthy);
  EXPECT_THAT(reading.notes, ElementsAre(HasSubstr("1 of 2 devices are offered")));
}

TEST(NodeFromLabels, PartsOfDevicesAreNoWholeDevices) {
  const NodeReading reading = node_from(labelled({{"nvidia.com/gpu.count", "2"},
                                                  {"nvidia.com/gpu.memory", "100"},
                                                  {"nvidia.com/gpu.replicas", "4"}},
                                                 "8"),
                                        {});
  EXPECT_TRUE(reading.node.devices.empty());
  EXPECT_EQ(reading.node.gpu_replicas, 4);
  EXPECT_THAT(reading.notes, ElementsAre(HasSubstr("stands for a part of a device")));
}

TEST(NodeFromLabels, OffersInstancesOfTheMixedStrategy) {
  Node node = labelled({{"nvidia.com/gpu.count", "1"},
                        {"nvidia.com/gpu.memory", "40960"},
                        {"nvidia.com/gpu.replicas", "0"},
                        {"nvidia.com/mig-1g.5gb.count", "2"},
                        {"nvidia.com/mig-1g.5gb.memory", "4864"},
                        {"nvidia.com/mig-1g.5gb.product", "A100-MIG-1g.5gb"},
                        {"nvidia.com/mig-1g.10gb.me.count", "1"},
                        {"nvidia.com/mig.strategy", "mixed"}},
                       "0");
  node.allocatable["nvidia.com/mig-1g.5gb"] = "2";
  node.allocatable["nvidia.com/mig-1g.10gb.me"] = "1";
  const NodeReading reading = node_from(node, {});
  ASSERT_EQ(reading.node.devices.size(), 3U) << reading.excluded;
  EXPECT_EQ(reading.node.devices[0].mig_profile, "1g.10gb+me");
  EXPECT_EQ(reading.node.devices[0].total, std::nullopt) << "no label says how much";
  EXPECT_EQ(reading.node.devices[1].mig_profile, "1g.5gb");
  EXPECT_EQ(reading.node.devices[1].total, Memory::mib(4864));
}

TEST(NodeFromLabels, WhatIsNoNumberOrDisagreesExcludesTheNode) {
  const auto excluded = [](const Labels& labels, const std::string& offered = "2") {
    const NodeReading reading = node_from(labelled(labels, offered), {});
    EXPECT_FALSE(reading.node.ready);
    EXPECT_TRUE(reading.node.devices.empty());
    return reading.excluded;
  };
  EXPECT_EQ(excluded({{"nvidia.com/gpu.count", "two"}}),
            "BadNodeLabel: nvidia.com/gpu.count=two: a whole number from 0 to 64");
  EXPECT_THAT(excluded({{"nvidia.com/gpu.count", "-1"}}), HasSubstr("gpu.count=-1"));
  EXPECT_THAT(excluded({{"nvidia.com/gpu.count", "65"}}), HasSubstr("from 0 to 64"));
  EXPECT_THAT(excluded({{"nvidia.com/gpu.count", ""}}), HasSubstr("gpu.count=: a whole"));
  EXPECT_THAT(excluded({{"nvidia.com/gpu.count", "1"},
                        {"nvidia.com/gpu.memory", "1000000000000000000000000000000"}},
                       "1"),
              HasSubstr("gpu.memory=1000000000"));
  EXPECT_THAT(excluded({{"nvidia.com/gpu.count", "2"}, {"nvidia.com/gpu.replicas", "x"}}),
              HasSubstr("gpu.replicas=x"));
  EXPECT_THAT(excluded({{"nvidia.com/gpu.count", "2"}, {"nvidia.com/gpu.memory", "9"}}, "3"),
              HasSubstr("no less than the 3 that the node offers"));
}

TEST(NodeFrom, AMachineWithoutGpusIsOne) {
  const NodeReading reading = node_from(machine(), {});
  EXPECT_EQ(reading.excluded, "");
  EXPECT_EQ(reading.source, DeviceSource::none);
  EXPECT_TRUE(reading.node.ready);
}

TEST(NodeFrom, CapacityThatNoMachineHasExcludesTheNode) {
  Node node = machine();
  node.allocatable["memory"] = "1e30";
  EXPECT_THAT(node_from(node, {}).excluded,
              StartsWith("BadNodeCapacity: status.allocatable[memory]=1e30"));
  node = machine();
  node.allocatable.erase("pods");
  EXPECT_EQ(node_from(node, {}).node.pod_slots, 0) << "missing is none, as for kube-scheduler";
}

TEST(NodeFrom, ReadinessCordonAndDeletionComeThrough) {
  Node node = machine();
  node.unschedulable = true;
  NodeReading reading = node_from(node, {});
  ASSERT_EQ(reading.node.taints.size(), 1U);
  EXPECT_EQ(reading.node.taints[0].key, "node.kubernetes.io/unschedulable");
  node.taints = {{"node.kubernetes.io/unschedulable", "", "NoSchedule"}};
  EXPECT_EQ(node_from(node, {}).node.taints.size(), 1U) << "once is enough";

  node = machine();
  node.conditions[0].status = "Unknown";
  EXPECT_FALSE(node_from(node, {}).node.ready);
  node.conditions.clear();
  EXPECT_TRUE(node_from(node, {}).node.ready) << "nobody says that it is not";
  node.meta.deleting = true;
  EXPECT_FALSE(node_from(node, {}).node.ready);
}

TEST(NodeFrom, CordonsDevicesByUuid) {
  Node node = annotated(kTwoDevices);
  node.meta.annotations[std::string(kCordonAnnotation)] = "GPU-x, GPU-b";
  const NodeReading reading = node_from(node, {});
  EXPECT_FALSE(reading.node.devices.at(0).cordoned);
  EXPECT_TRUE(reading.node.devices.at(1).cordoned);
}

}  // namespace
}  // namespace berth::kube
