#include "kube/objects/write_node_annotation.h"

#include <gtest/gtest.h>

namespace berth::kube {

namespace {

DevicesOfNode two_devices() {
  core::Device gpu;
  gpu.uuid = "GPU-1";
  gpu.model = "NVIDIA A100";
  gpu.total = Memory::mib(81'559);
  gpu.reserve = Memory::mib(1'383);
  gpu.numa = 1;
  gpu.pci_bus_id = "0000:3b:00.0";
  core::Device instance;
  instance.uuid = "MIG-2";
  instance.index = 1;
  instance.model = "NVIDIA A100";
  instance.total = Memory::mib(4'864);
  instance.reserve = Memory::mib(256);
  instance.mig_profile = "1g.5gb";
  instance.mig_parent = "GPU-3";
  instance.health = core::DeviceHealth::unhealthy;
  return {.backend = NodeBackend::guard,
          .ready = true,
          .cdi = true,
          .owned = true,
          .devices = {gpu, instance}};
}

Node node_with(const std::string& annotation) {
  Node node;
  node.meta.name = "n1";
  node.meta.uid = "u1";
  node.meta.annotations[std::string(kDevicesAnnotation)] = annotation;
  node.allocatable = {{"cpu", "8"}, {"memory", "64Gi"}, {"pods", "110"}};
  node.conditions = {{.type = "Ready", .status = "True"}};
  return node;
}

}  // namespace

TEST(WriteNodeAnnotation, HasTheFormOfTheContract) {
  DevicesOfNode node = two_devices();
  node.backend = NodeBackend::none;
  node.cdi = false;
  node.devices.resize(1);
  node.devices[0].pci_bus_id.clear();
  node.devices[0].numa = 0;
  EXPECT_EQ(write_devices_annotation(node),
            R"({"v":1,"backend":"none","cdi":false,"owned":true,"devices":[{"uuid":"GPU-1",)"
            R"("index":0,"model":"NVIDIA A100","totalMiB":81559,"reserveMiB":1383,"numa":0,)"
            R"("mig":null}]})");
}

TEST(WriteNodeAnnotation, IsReadAsItWasWritten) {
  const DevicesOfNode node = two_devices();
  const NodeReading reading = node_from(node_with(write_devices_annotation(node)), {});
  EXPECT_EQ(reading.excluded, "");
  EXPECT_EQ(reading.backend, NodeBackend::guard);
  EXPECT_TRUE(reading.cdi);
  ASSERT_EQ(reading.node.devices.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(reading.node.devices[i], node.devices[i]) << i;
  }
}

TEST(WriteNodeAnnotation, KeepsADeviceOfUnknownSizeAndGrantsNothingOnIt) {
  DevicesOfNode node = two_devices();
  node.devices[0].total.reset();
  const NodeReading reading = node_from(node_with(write_devices_annotation(node)), {});
  EXPECT_EQ(reading.excluded, "");
  ASSERT_EQ(reading.node.devices.size(), 2U);
  EXPECT_EQ(reading.node.devices[0].usable_mib(), 0);
}

}  // namespace berth::kube
