// annotations.md 1.5, row by row: from the words of a pod through the engine to the annotations of
// its Binding, on a device with U = 81559 MiB unless a row says otherwise.
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/engine/engine.h"
#include "json/text.h"
#include "kube/objects/grant.h"
#include "kube/objects/node_reading.h"
#include "kube/objects/objects_test_support.h"
#include "request/pod.h"

namespace berth::kube {
namespace {

std::string device(std::string_view uuid, int total, int reserve, std::string_view mig = "null") {
  return fmt::format(R"({{"uuid":"{}","totalMiB":{},"reserveMiB":{},"mig":{}}})", uuid, total,
                     reserve, mig);
}

struct World {
  std::string devices = device("GPU-0", 81559, 0) + "," + device("GPU-1", 81559, 0);
  std::string labels = "{}";
};

struct Bound {
  GrantRecord record;
  Labels annotations;
};

// What a pod with these annotations and limits gets.
Bound bound_by(std::string_view annotations, std::string_view limits, const World& world = {}) {
  const std::string facts =
      fmt::format(R"({{"v":1,"backend":"none","owned":true,"devices":[{}]}})", world.devices);
  std::string quoted;
  json::append_quoted(quoted, facts);
  const auto node = read_text(
      read_node, fmt::format(R"({{"metadata":{{"name":"n1","uid":"u","labels":{},"annotations":
      {{"berth.dev/devices":{}}}}},"status":{{"allocatable":{{"cpu":"64","memory":"512Gi",
      "pods":"110"}}}}}})",
                             world.labels, quoted));
  const NodeReading reading = node_from(*node, {.allow_advisory = true});
  EXPECT_EQ(reading.excluded, "");
  const auto pod = read_text(
      read_pod, fmt::format(R"({{"metadata":{{"name":"p","namespace":"n","annotations":{}}},
      "spec":{{"containers":[{{"name":"main","resources":{{"limits":{}}}}}]}}}})",
                            annotations, limits));
  const request::PodOutcome outcome = request::read_pod(pod->words);
  EXPECT_TRUE(outcome.ok()) << (outcome.errors.empty() ? "" : outcome.errors.front().text());

  auto engine = std::move(*core::Engine::create(core::EngineConfig{}));
  engine->apply({Time{0}, core::NodeUpserted{reading.node}});
  engine->apply({Time{1}, core::WorkloadSubmitted{core::Workload::task("n/p", *outcome.request)}});
  const core::Grant* grant = engine->grant("n/p");
  EXPECT_NE(grant, nullptr);
  GrantRecord record = record_of(*grant, *outcome.request, engine->fleet());
  Labels written = binding_annotations(record, pod->meta.annotations, {});
  const GrantReading back = read_grant(written.at("berth.dev/grant"));
  EXPECT_TRUE(back.record.has_value()) << back.problem;
  EXPECT_EQ(grant_text(*back.record), written.at("berth.dev/grant"));
  return {std::move(record), std::move(written)};
}

// "request/limit" of each device, by spaces.
std::string sizes(const Bound& bound) {
  std::string text;
  for (const GrantedDevice& granted : bound.record.containers.at(0).devices) {
    text += fmt::format("{}{}/{}", text.empty() ? "" : " ", granted.request_mib, granted.limit_mib);
  }
  return text;
}

TEST(GrantConversions, V1AFractionWithALimit) {
  const Bound bound = bound_by(R"({"gpu-fraction":"0.25","gpu-fraction.limit":"0.5"})", "{}");
  EXPECT_EQ(sizes(bound), "20389/40779");
  EXPECT_EQ(bound.record.containers[0].nano, 250'000'000);
  EXPECT_EQ(bound.annotations.at("berth.dev/main.memory-request-mib"), "20389");
  EXPECT_EQ(bound.annotations.at("berth.dev/main.memory-limit-mib"), "40779");
  EXPECT_EQ(bound.annotations.at("nvidia.com/container.main.gpu-memory.request"), "20389Mi");
  EXPECT_EQ(bound.annotations.at("nvidia.com/container.main.gpu-memory.limit"), "40779Mi");
}

TEST(GrantConversions, V2AndV3MebibytesAndUnits) {
  EXPECT_EQ(sizes(bound_by(R"({"gpu-memory":"4096","gpu-memory.limit":"8Gi"})", "{}")),
            "4096/8192");
  EXPECT_EQ(sizes(bound_by(R"({"gpu-memory":"1500M"})", "{}")), "1431/1431");
}

TEST(GrantConversions, V4AndV5KeysOfNvFractions) {
  EXPECT_EQ(sizes(bound_by(R"({"nvidia.com/container.main.gpu-memory.request":"1000M"})", "{}")),
            "954/954");
  EXPECT_EQ(sizes(bound_by(R"({"nvidia.com/container.main.gpu-memory.limit":"8Gi"})", "{}")),
            "8192/8192");
  EXPECT_EQ(sizes(bound_by(R"({"nvidia.com/container.main.gpu-memory.request":"8Gi"})", "{}")),
            "8192/8192");
}

TEST(GrantConversions, V6AFractionOfTwoDevices) {
  const Bound bound = bound_by(R"({"gpu-fraction":"0.5","gpu-fraction-num-devices":"2"})", "{}");
  EXPECT_EQ(sizes(bound), "40779/40779 40779/40779");
  EXPECT_EQ(bound.annotations.at("berth.dev/main.devices"), "GPU-0,GPU-1");
}

TEST(GrantConversions, V7ToV9Hami) {
  EXPECT_EQ(sizes(bound_by("{}", R"({"nvidia.com/gpu":"2","nvidia.com/gpumem":"3000",
                                 "nvidia.com/gpucores":"30"})")),
            "3000/3000 3000/3000");
  EXPECT_EQ(sizes(bound_by("{}", R"({"nvidia.com/gpumem":"4k"})")), "4000/4000");
  const Bound half =
      bound_by("{}", R"({"nvidia.com/gpu":"1","nvidia.com/gpumem-percentage":"50"})");
  EXPECT_EQ(sizes(half), "40779/40779");
  EXPECT_EQ(half.record.containers[0].nano, 500'000'000);
}

TEST(GrantConversions, V10WholeDevices) {
  for (const char* limits :
       {R"({"nvidia.com/gpu":"2"})", R"({"nvidia.com/gpu":"2","nvidia.com/gpucores":"100"})"}) {
    const Bound bound = bound_by("{}", limits);
    EXPECT_EQ(sizes(bound), "81559/81559 81559/81559");
    EXPECT_TRUE(bound.record.containers[0].exclusive);
    EXPECT_EQ(bound.annotations.at("received-resource-type"), "Regular");
    EXPECT_EQ(bound.annotations.size(), 2U) << "no devices, no limit: the plug-in chooses";
  }
}

TEST(GrantConversions, V11AReplica) {
  const Bound bound = bound_by("{}", R"({"nvidia.com/gpu.shared":"1"})",
                               {.labels = R"({"nvidia.com/gpu.replicas":"4"})"});
  EXPECT_EQ(sizes(bound), "20389/20389");
  EXPECT_EQ(bound.record.containers[0].nano, 0) << "no fraction request";
}

TEST(GrantConversions, V12AnInstance) {
  const Bound bound =
      bound_by("{}", R"({"nvidia.com/mig-1g.5gb":"1"})",
               {.devices = device("GPU-0", 40960, 0, R"({"enabled":true})") + "," +
                           device("MIG-0", 4864, 0, R"({"profile":"1g.5gb","parent":"GPU-0"})")});
  EXPECT_EQ(sizes(bound), "4864/4864");
  EXPECT_TRUE(bound.record.containers[0].exclusive);
  EXPECT_EQ(bound.record.containers[0].devices[0].uuid, "MIG-0");
  EXPECT_EQ(bound.annotations.at("received-resource-type"), "MigInstance");
}

TEST(GrantConversions, V13TheReserveComesOffFirst) {
  EXPECT_EQ(
      sizes(bound_by(R"({"gpu-fraction":"0.8"})", "{}", {.devices = device("GPU-0", 2000, 1024)})),
      "780/780");
}

TEST(GrantConversions, V14WaysToWriteAHalf) {
  for (const char* half : {"5e-1", ".5", "+0.5"}) {
    const Bound bound = bound_by(fmt::format(R"({{"gpu-fraction":"{}"}})", half), "{}");
    EXPECT_EQ(sizes(bound), "40779/40779") << half;
    EXPECT_EQ(bound.record.containers[0].nano, 500'000'000) << half;
  }
}

}  // namespace
}  // namespace berth::kube
