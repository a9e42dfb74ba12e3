#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/objects/objects_test_support.h"
#include "kube/objects/time.h"

namespace berth::kube {
namespace {

using core::ContainerKind;
using core::LabelRule;
using testing::ElementsAre;
using testing::HasSubstr;

Pod sample() {
  auto pod = read_text(read_pod, kPodText);
  EXPECT_TRUE(pod.ok()) << pod.error().message();
  return *std::move(pod);
}

// A pod with this `spec` and nothing else.
Result<Pod> pod_of(const std::string& spec) {
  return read_text(read_pod, R"({"metadata":{"name":"p","namespace":"n"},"spec":)" + spec + "}");
}

TEST(ReadPod, ReadsWhoItIs) {
  const Pod pod = sample();
  EXPECT_EQ(pod.meta.namespace_name, "team-a");
  EXPECT_EQ(pod.meta.name, "train-0");
  EXPECT_EQ(pod.meta.uid, "7d3f8c1e-5a9b-4c1e-9f0e-2b8a4f6d1c33");
  EXPECT_EQ(pod.meta.resource_version, "104233");
  EXPECT_EQ(pod.meta.generation, 2);
  EXPECT_EQ(pod.meta.created_ms, parse_time_ms("2026-01-31T10:00:00Z"));
  EXPECT_EQ(pod.meta.owner_kind, "Job") << "the controlling owner";
  EXPECT_EQ(pod.meta.owner_uid, "u-1");
  EXPECT_FALSE(pod.meta.deleting);
  EXPECT_EQ(pod.words.annotations.at("gpu-fraction"), "0.25");
  EXPECT_EQ(pod.words.labels.at("berth.dev/queue"), "research");
  EXPECT_TRUE(pod.assigned());
  EXPECT_EQ(pod.words.preset_node, "n1");
}

TEST(ReadPod, ReadsContainersInStartOrderWithTheirKinds) {
  const Pod pod = sample();
  ASSERT_EQ(pod.words.containers.size(), 3U);
  const auto& [fetch, log, main] =
      std::tie(pod.words.containers[0], pod.words.containers[1], pod.words.containers[2]);
  EXPECT_EQ(fetch.kind, ContainerKind::init);
  EXPECT_EQ(log.kind, ContainerKind::sidecar);
  EXPECT_EQ(main.kind, ContainerKind::app);
  EXPECT_EQ(log.requests.at("cpu"), "1") << "a number stands for a quantity";
  EXPECT_EQ(main.limits.at("memory"), "16Gi");
  EXPECT_TRUE(main.privileged);
  ASSERT_EQ(main.env.size(), 2U);
  EXPECT_EQ(main.env[1].field_path, "metadata.annotations['berth.dev/main.devices']");
}

TEST(ReadPod, TakesHostPortsOfWhatRunsForGood) {
  std::vector<std::string> ports;
  for (const HostPort& port : sample().host_ports) {
    ports.push_back(port.protocol + " " + port.ip + " " + std::to_string(port.port));
  }
  EXPECT_THAT(ports, ElementsAre("UDP 10.0.0.1 514", "TCP 0.0.0.0 80"));
}

TEST(ReadPod, ReadsNodeTermsAsAlternatives) {
  const Pod pod = sample();
  ASSERT_EQ(pod.node_terms.size(), 3U);
  EXPECT_THAT(pod.node_terms[0].rules,
              ElementsAre(LabelRule{.key = "zone", .values = {"a", "b"}},
                          LabelRule{.key = "gen", .op = LabelRule::Op::greater, .values = {"3"}}));
  EXPECT_THAT(pod.node_terms[1].fields,
              ElementsAre(LabelRule{.key = "metadata.name", .values = {"n7"}}));
  EXPECT_TRUE(pod.node_terms[2].matches_nothing) << "an empty term";
}

TEST(ReadPod, ReadsRequiredPodAffinity) {
  const Pod pod = sample();
  ASSERT_EQ(pod.affinity.size(), 1U);
  EXPECT_EQ(pod.affinity[0].topology_key, "zone");
  EXPECT_THAT(pod.affinity[0].namespaces, ElementsAre("shared"));
  EXPECT_EQ(pod.affinity[0].selector.rules.size(), 2U);
  EXPECT_FALSE(pod.affinity[0].namespace_selector.has_value());
  ASSERT_EQ(pod.anti_affinity.size(), 1U);
  EXPECT_TRUE(pod.anti_affinity[0].selector.matches_nothing) << "no selector selects no pod";
  ASSERT_TRUE(pod.anti_affinity[0].namespace_selector.has_value());
  EXPECT_FALSE(pod.anti_affinity[0].namespace_selector->matches_nothing) << "{}: every namespace";
  EXPECT_THAT(pod.anti_affinity[0].match_label_keys, ElementsAre("rev"));
}

TEST(ReadPod, ReadsSpread) {
  const Pod pod = sample();
  ASSERT_EQ(pod.spread.size(), 2U);
  EXPECT_TRUE(pod.spread[0].hard);
  EXPECT_EQ(pod.spread[0].max_skew, 2);
  EXPECT_EQ(pod.spread[0].min_domains, 3);
  EXPECT_FALSE(pod.spread[0].honor_node_affinity);
  EXPECT_TRUE(pod.spread[0].honor_node_taints);
  EXPECT_FALSE(pod.spread[1].hard);
  EXPECT_EQ(pod.spread[1].min_domains, 1);
  EXPECT_TRUE(pod.spread[1].honor_node_affinity);
  EXPECT_THAT(pod.unsupported, ElementsAre());
}

TEST(ReadPod, ReadsVolumesThatBindToNodes) {
  const Pod pod = sample();
  ASSERT_EQ(pod.volumes.size(), 2U);
  EXPECT_EQ(pod.volumes[0].claim, "set");
  EXPECT_TRUE(pod.volumes[0].read_only);
  EXPECT_EQ(pod.volumes[1].claim, "train-0-scratch");
  EXPECT_TRUE(pod.volumes[1].ephemeral);
}

TEST(ReadPod, ReadsTheRestOfSpecAndStatus) {
  const Pod pod = sample();
  EXPECT_EQ(pod.scheduler_name, "berth-scheduler");
  EXPECT_EQ(pod.priority, 50);
  EXPECT_TRUE(pod.never_preempts);
  EXPECT_TRUE(pod.gated);
  EXPECT_THAT(pod.resource_claims, ElementsAre("nic"));
  EXPECT_EQ(pod.scheduling_group, "g1");
  EXPECT_EQ(pod.overhead.at("cpu"), "250m");
  EXPECT_EQ(pod.pod_requests.at("memory"), "20Gi");
  EXPECT_EQ(pod.runtime_class, "nvidia");
  EXPECT_EQ(pod.nominated_node, "n2");
  EXPECT_EQ(pod.words.tolerations.size(), 2U) << "Gt is alpha and tolerates nothing here";
  ASSERT_EQ(pod.conditions.size(), 2U);
  EXPECT_EQ(pod.conditions[0].transition_ms, parse_time_ms("2026-01-31T10:00:05Z"));
  EXPECT_TRUE(pod.resize_infeasible);
  EXPECT_FALSE(pod.ended());
}

TEST(ReadPod, ReadsWhatTheKubeletGaveWhereItGivesResources) {
  const Pod pod = sample();
  ASSERT_EQ(pod.given.size(), 2U);
  EXPECT_EQ(pod.given.at("log").requests.at("cpu"), "2");
  EXPECT_EQ(pod.given.at("main").allocated.at("cpu"), "3");
}

TEST(ReadPod, NamesTheFeaturesThatANodeMustDeclare) {
  const auto pod = pod_of(R"({"hostNetwork":true,"hostUsers":false,"containers":[{"name":"a",
    "restartPolicyRules":[{"action":"RestartAllContainers"},
     {"action":"RestartAllContainers"}]}]})");
  ASSERT_TRUE(pod.ok());
  EXPECT_THAT(pod->required_features, ElementsAre("RestartAllContainersOnContainerExits",
                                                  "UserNamespacesHostNetworkSupport"));
}

TEST(ReadPod, NamesEveryHardRuleThatNobodyCanEvaluate) {
  const auto pod = pod_of(R"({
    "volumes":[{"name":"disk","iscsi":{}}],
    "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
      {"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Near","values":["1"]}]},
       {"matchFields":[{"key":"spec.x","operator":"In","values":["1"]}]}]}},
     "podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{}}]}},
    "topologySpreadConstraints":[
      {"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"Sometimes"},
      {"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule","nodeTaintsPolicy":"X"},
      {"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"ScheduleAnyway",
       "nodeTaintsPolicy":"X"}]})");
  ASSERT_TRUE(pod.ok());
  EXPECT_THAT(pod->unsupported,
              ElementsAre("spec.volumes[disk].iscsi", "spec.affinity.nodeAffinity (operator Near)",
                          "spec.affinity.nodeAffinity (field spec.x)",
                          "spec.affinity.podAffinity (no topologyKey)",
                          "spec.topologySpreadConstraints (Sometimes)",
                          "spec.topologySpreadConstraints (X)"));
}

TEST(ReadPod, SaysWhichFieldIsOfAnotherKind) {
  const auto refused = [](const std::string& spec) {
    const auto pod = pod_of(spec);
    return pod.ok() ? "" : pod.error().message();
  };
  EXPECT_EQ(refused("[]"), "Pod n/p: spec is a list, not an object");
  EXPECT_EQ(refused(R"({"containers":{}})"), "Pod n/p: spec.containers is an object, not a list");
  EXPECT_EQ(refused(R"({"containers":[{"name":7}]})"),
            "Pod n/p: spec.containers[].name is a number, not a string");
  EXPECT_EQ(refused(R"({"priority":"high"})"),
            "Pod n/p: spec.priority is a string, not a whole number within 63 bits");
  EXPECT_THAT(refused(R"({"containers":[{"resources":{"limits":{"cpu":[]}}}]})"),
              HasSubstr("limits is a list, not a quantity"));
}

TEST(ReadPod, TakesNullForAbsence) {
  const auto pod = pod_of(R"({"containers":null,"affinity":null,"priority":null})");
  ASSERT_TRUE(pod.ok());
  EXPECT_TRUE(pod->words.containers.empty());
}

TEST(ReadPod, EndsForAnObjectThatIsNone) {
  EXPECT_TRUE(read_text(read_pod, "{}").ok());
  EXPECT_TRUE(read_text(read_pod, "[1,2]").ok()) << "nothing in it, nothing wrong with it";
  const auto pod = read_text(read_pod, R"({"metadata":{"creationTimestamp":"yesterday"}})");
  ASSERT_FALSE(pod.ok());
  EXPECT_THAT(pod.error().message(), HasSubstr("metadata.creationTimestamp is no time"));
}

}  // namespace
}  // namespace berth::kube
