// Nodes, namespaces, storage objects, and times.
#include <cstdint>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/objects/objects_test_support.h"
#include "kube/objects/time.h"

namespace berth::kube {
namespace {

using core::LabelRule;
using testing::ElementsAre;
using testing::Pair;

TEST(ReadNode, ReadsTaintsCapacityAndConditions) {
  const auto node = read_text(read_node, R"json({"metadata":{"name":"n1","uid":"u",
    "labels":{"nvidia.com/gpu.count":"8"},"deletionTimestamp":"2026-01-31T10:00:00Z"},
    "spec":{"unschedulable":true,"taints":[{"key":"nvidia.com/gpu","effect":"NoSchedule"}]},
    "status":{"allocatable":{"cpu":"64","nvidia.com/gpu":"8","pods":110},
      "conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}],
      "declaredFeatures":["F"]}})json");
  ASSERT_TRUE(node.ok()) << node.error().message();
  EXPECT_EQ(node->meta.name, "n1");
  EXPECT_TRUE(node->meta.deleting);
  EXPECT_TRUE(node->unschedulable);
  ASSERT_EQ(node->taints.size(), 1U);
  EXPECT_EQ(node->taints[0].key, "nvidia.com/gpu");
  EXPECT_THAT(node->allocatable,
              ElementsAre(Pair("cpu", "64"), Pair("nvidia.com/gpu", "8"), Pair("pods", "110")));
  EXPECT_EQ(node->conditions[0].status, "True");
  EXPECT_THAT(node->declared_features, ElementsAre("F"));
}

TEST(ReadNode, SaysWhatIsWrong) {
  const auto node = read_text(read_node, R"({"metadata":{"name":"n1"},"spec":{"taints":7}})");
  ASSERT_FALSE(node.ok());
  EXPECT_EQ(node.error().message(), "Node n1: spec.taints is a number, not a list");
}

TEST(ReadNamespace, ReadsItsLabels) {
  const auto value = read_text(read_namespace, R"({"metadata":{"name":"a","labels":{"x":"y"}}})");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->meta.labels.at("x"), "y");
}

TEST(ReadMeta, ReadsAnyObject) {
  const auto meta = read_text(
      read_meta, R"({"kind":"Lease","metadata":{"name":"l","namespace":"n","labels":[]}})");
  ASSERT_FALSE(meta.ok());
  EXPECT_EQ(meta.error().message(), "Lease n/l: metadata.labels is a list, not an object");
}

TEST(ReadStorage, ReadsClaims) {
  const auto claim = read_text(read_volume_claim, R"json({"metadata":{"name":"set","namespace":"a",
    "annotations":{"pv.kubernetes.io/bind-completed":"yes",
      "volume.kubernetes.io/selected-node":"n1"}},
    "spec":{"volumeName":"pv-1","storageClassName":"fast","accessModes":["ReadWriteOncePod"],
      "resources":{"requests":{"storage":"10Gi"}},
      "selector":{"matchLabels":{"tier":"gold"}}},
    "status":{"phase":"Bound"}})json");
  ASSERT_TRUE(claim.ok());
  EXPECT_EQ(claim->volume, "pv-1");
  EXPECT_EQ(claim->storage_class, "fast");
  EXPECT_THAT(claim->access_modes, ElementsAre("ReadWriteOncePod"));
  EXPECT_EQ(claim->request, "10Gi");
  EXPECT_EQ(claim->volume_mode, "Filesystem");
  EXPECT_EQ(claim->selector.rules.size(), 1U);
  EXPECT_TRUE(claim->bind_completed);
  EXPECT_EQ(claim->selected_node, "n1");
  EXPECT_EQ(claim->phase, "Bound");
}

TEST(ReadStorage, TheOldAnnotationStillNamesTheClass) {
  const auto claim = read_text(read_volume_claim, R"json({"metadata":{"name":"c",
    "annotations":{"volume.beta.kubernetes.io/storage-class":"old"}},
    "spec":{"storageClassName":"new","volumeMode":"Block"}})json");
  ASSERT_TRUE(claim.ok());
  EXPECT_EQ(claim->storage_class, "old");
  EXPECT_EQ(claim->volume_mode, "Block");
  EXPECT_FALSE(claim->selector.matches_nothing) << "a claim without a selector takes any volume";
}

TEST(ReadStorage, ReadsVolumes) {
  const auto volume = read_text(read_volume, R"json({"metadata":{"name":"pv-1"},
    "spec":{"capacity":{"storage":"10Gi"},"accessModes":["ReadWriteOnce"],
      "claimRef":{"namespace":"a","name":"set","uid":"u-9"},"storageClassName":"fast",
      "csi":{"driver":"disk.example"},
      "nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[
        {"key":"zone","operator":"In","values":["a"]}]}]}}},
    "status":{"phase":"Bound"}})json");
  ASSERT_TRUE(volume.ok());
  EXPECT_EQ(volume->capacity, "10Gi");
  EXPECT_EQ(volume->claim_namespace + "/" + volume->claim_name + "/" + volume->claim_uid,
            "a/set/u-9");
  EXPECT_EQ(volume->csi_driver, "disk.example");
  ASSERT_EQ(volume->node_terms.size(), 1U);
  EXPECT_THAT(volume->node_terms[0].rules, ElementsAre(LabelRule{.key = "zone", .values = {"a"}}));
}

TEST(ReadStorage, ReadsClassesDriversAndCapacities) {
  const auto fast = read_text(read_storage_class, R"json({"metadata":{"name":"fast"},
    "provisioner":"disk.example","volumeBindingMode":"WaitForFirstConsumer",
    "allowedTopologies":[{"matchLabelExpressions":[{"key":"zone","values":["a","b"]}]},{}]})json");
  ASSERT_TRUE(fast.ok());
  EXPECT_TRUE(fast->waits_for_consumer);
  EXPECT_EQ(fast->provisioner, "disk.example");
  ASSERT_EQ(fast->allowed_topologies.size(), 2U);
  EXPECT_TRUE(fast->allowed_topologies[1].matches_nothing);

  const auto node = read_text(read_csi_node, R"json({"metadata":{"name":"n1"},"spec":{"drivers":[
    {"name":"disk.example","allocatable":{"count":25}},{"name":"free"}]}})json");
  ASSERT_TRUE(node.ok());
  EXPECT_THAT(node->limits, ElementsAre(Pair("disk.example", 25)));

  const auto driver =
      read_text(read_csi_driver, R"({"metadata":{"name":"d"},"spec":{"storageCapacity":true}})");
  ASSERT_TRUE(driver.ok());
  EXPECT_TRUE(driver->storage_capacity);

  const auto capacity = read_text(read_csi_capacity, R"json({"metadata":{"name":"x","namespace":
    "d"},"storageClassName":"fast","capacity":"1Ti","maximumVolumeSize":"100Gi"})json");
  ASSERT_TRUE(capacity.ok());
  EXPECT_EQ(capacity->maximum_volume_size, "100Gi");
  EXPECT_TRUE(capacity->node_topology.matches_nothing) << "no topology: reachable from no node";
}

TEST(Times, ReadWhatKubernetesWrites) {
  EXPECT_EQ(parse_time_ms("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(parse_time_ms("2026-01-31T10:00:00Z"), 1'769'853'600'000);
  EXPECT_EQ(parse_time_ms("2026-01-31T10:00:00.123456Z"), 1'769'853'600'123);
  EXPECT_EQ(parse_time_ms("2026-01-31T10:00:00.5Z"), 1'769'853'600'500);
  EXPECT_EQ(parse_time_ms("2026-01-31T12:30:00+02:30"), 1'769'853'600'000);
  for (const char* text : {"", "2026-01-31", "2026-02-30T10:00:00Z", "2026-01-31T10:00:00",
                           "2026-01-31T24:00:00Z", "2026-01-31T10:00:00.Z", "1969-12-31T23:59:59Z",
                           "2026-01-31T10:00:00Zz", "20a6-01-31T10:00:00Z"}) {
    EXPECT_EQ(parse_time_ms(text), std::nullopt) << text;
  }
}

TEST(Times, WriteWhatKubernetesReads) {
  EXPECT_EQ(time_text(1'769'853'600'999), "2026-01-31T10:00:00Z");
  EXPECT_EQ(micro_time_text(1'769'853'600'000'042), "2026-01-31T10:00:00.000042Z");
  EXPECT_EQ(time_text(-5), "1970-01-01T00:00:00Z");
  for (const std::int64_t ms : {0LL, 951'782'400'000LL, 4'102'444'799'000LL}) {
    EXPECT_EQ(parse_time_ms(time_text(ms)), ms);
  }
}

}  // namespace
}  // namespace berth::kube
