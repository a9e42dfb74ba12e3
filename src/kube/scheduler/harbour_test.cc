// A pod's way, on values: from its words to the confirmed binding, and what is said meanwhile.
#include "kube/scheduler/harbour.h"

#include <string>

#include <gtest/gtest.h>

#include "kube/scheduler/harbour_test_support.h"

namespace berth::kube {
namespace {

TEST(Harbour, BindsAPodWithItsDeviceInOneWrite) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  cluster.tell(share_pod("train", 40));
  const auto [number, bind] = cluster.binding();
  EXPECT_EQ(bind.node, "n0");
  EXPECT_EQ(bind.annotations.at("berth.dev/main.devices"), "GPU-n0-0");
  EXPECT_EQ(bind.annotations.at("berth.dev/main.memory-request-mib"), "40");
  EXPECT_NE(bind.annotations.at("berth.dev/grant").find("GPU-n0-0"), std::string::npos);
  EXPECT_FALSE(bind.pod.uid.empty());
  EXPECT_EQ(cluster.promised_mib("GPU-n0-0"), 40);
}

TEST(Harbour, DecidesNothingBeforeEverythingWasTold) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.tell(share_pod("train", 40));
  EXPECT_TRUE(cluster.deeds().empty());
  cluster.ready();
  EXPECT_EQ(cluster.deeds_of<Bind>().size(), 1U);
}

TEST(Harbour, PodsMayComeBeforeTheirNodes) {
  Cluster cluster;
  cluster.ready();
  cluster.tell(share_pod("train", 40));
  cluster.tell(foreign_pod("other", "n0", "2"));
  EXPECT_TRUE(cluster.deeds_of<Bind>().empty());
  cluster.tell(test_node("n0", 1));
  EXPECT_EQ(cluster.cpu_free("n0"), 14'000);
  EXPECT_EQ(cluster.binding().second.node, "n0");
}

TEST(Harbour, HigherPriorityIsTriedFirstThenTheOlder) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  Pod young = share_pod("young", 30);
  young.meta.created_ms = 3000;
  Pod old = share_pod("old", 30);
  old.meta.created_ms = 2000;
  Pod urgent = share_pod("urgent", 30);
  urgent.meta.created_ms = 4000;
  urgent.priority = 10;
  for (const Pod& pod : {young, old, urgent}) {
    cluster.tell(pod);
  }
  std::vector<std::string> order;
  for (const auto& [number, bind] : cluster.deeds_of<Bind>()) {
    order.push_back(bind.pod.name);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"urgent", "old", "young"}));
}

TEST(Harbour, ConfirmsWhatTheWatchShows) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  const Pod bound = cluster.bind(share_pod("train", 40));
  EXPECT_EQ(cluster.phase("train"), PodPhase::confirmed);
  EXPECT_EQ(cluster.promised_mib("GPU-n0-0"), 40);
  cluster.gone(bound);
  EXPECT_EQ(cluster.promised_mib("GPU-n0-0"), 0);
}

// The watch may be faster than the answer.
TEST(Harbour, AnAnswerAfterTheWatchChangesNothing) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  const Pod pod = share_pod("train", 40);
  cluster.tell(pod);
  const auto [number, bind] = cluster.binding();
  cluster.tell(bound_by(pod, bind));
  cluster.answer(number, 201);
  EXPECT_EQ(cluster.phase("train"), PodPhase::confirmed);
  EXPECT_EQ(cluster.harbour->figures().bound, 1);
  EXPECT_EQ(cluster.deeds_of<Say>().size(), 1U);
  EXPECT_TRUE(cluster.deeds_of<ReadPod>().empty());
}

TEST(Harbour, AnOlderStateOfABoundPodTakesNothingBack) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  const Pod pod = share_pod("train", 40);
  cluster.bind(pod);
  cluster.tell(pod);
  EXPECT_EQ(cluster.phase("train"), PodPhase::confirmed);
  EXPECT_TRUE(cluster.deeds_of<Bind>().empty());
}

TEST(Harbour, APodBeingDeletedHoldsItsDeviceUntilItIsGone) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  Pod bound = cluster.bind(share_pod("train", 80));
  bound.meta.deleting = true;
  cluster.tell(bound);
  cluster.tell(share_pod("next", 80));
  EXPECT_TRUE(cluster.deeds_of<Bind>().empty());
  cluster.gone(bound);
  EXPECT_EQ(cluster.binding().second.pod.name, "next");
}

TEST(Harbour, APodThatEndedFreesItsDevice) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  Pod bound = cluster.bind(share_pod("train", 80));
  bound.phase = "Succeeded";
  cluster.tell(bound);
  EXPECT_EQ(cluster.promised_mib("GPU-n0-0"), 0);
}

TEST(Harbour, GatesAreWaitedFor) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  Pod pod = share_pod("train", 40);
  pod.gated = true;
  cluster.tell(pod);
  EXPECT_TRUE(cluster.deeds().empty());
  pod.gated = false;
  cluster.tell(pod);
  EXPECT_EQ(cluster.binding().second.pod.name, "train");
}

TEST(Harbour, ACpuPodIsBoundWithoutAGrant) {
  Cluster cluster;
  cluster.tell(test_node("n0", 0));
  cluster.ready();
  Pod pod = test_pod("plain");
  pod.words.containers[0].requests["cpu"] = "2";
  cluster.tell(pod);
  const auto [number, bind] = cluster.binding();
  EXPECT_TRUE(bind.annotations.empty());
  EXPECT_EQ(cluster.cpu_free("n0"), 14'000);
  cluster.answer(number, 201);
  cluster.tell(bound_by(pod, bind));
  EXPECT_EQ(cluster.phase("plain"), PodPhase::confirmed);
}

// annotations.md 1.4: after `Initialized` the init container's share is free.
TEST(Harbour, InitContainersGiveTheirShareBack) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  Pod pod = test_pod("train", {{"nvidia.com/container.prepare.gpu-memory.request", "60Mi"},
                               {"nvidia.com/container.main.gpu-memory.request", "50Mi"}});
  request::ContainerWords init = pod.words.containers[0];
  init.name = "prepare";
  init.kind = core::ContainerKind::init;
  pod.words.containers.insert(pod.words.containers.begin(), init);
  Pod bound = cluster.bind(pod);
  EXPECT_EQ(cluster.promised_mib("GPU-n0-0"), 60);
  bound.conditions.push_back({.type = "Initialized", .status = "True"});
  cluster.tell(bound);
  EXPECT_EQ(cluster.promised_mib("GPU-n0-0"), 50);
  // The same ledger after a restart, before and after.
  for (const bool initialized : {true, false}) {
    if (!initialized) {
      bound.conditions.clear();
    }
    cluster.restart();
    cluster.tell(test_node("n0", 1));
    cluster.tell(bound);
    cluster.ready();
    EXPECT_EQ(cluster.promised_mib("GPU-n0-0"), initialized ? 50 : 60);
  }
}

// --- what is said ---------------------------------------------------------------------------

TEST(HarbourSays, WhyAPodWaitsInOneSentence) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  cluster.bind(share_pod("first", 80));
  cluster.deeds();
  cluster.tell(share_pod("second", 40));
  const auto said = cluster.deeds_of<PatchStatus>();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].second.reason, "Unschedulable");
  EXPECT_EQ(said[0].second.message,
            "needs 40 MiB on one GPU; largest free is 20 MiB (n0/GPU-n0-0). "
            "0/1 nodes: 1 InsufficientMemory.");
}

TEST(HarbourSays, NothingTwice) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  Pod pod = share_pod("big", 90);
  cluster.bind(share_pod("first", 80));
  cluster.deeds();
  cluster.tell(pod);
  EXPECT_EQ(cluster.deeds().size(), 2U);  // one condition, one event
  for (int i = 0; i < 20; ++i) {
    cluster.tell(pod);
    cluster.pass(60'000);
    EXPECT_TRUE(cluster.deeds().empty());
  }
}

// The condition of a pod once it was patched so.
Condition as_it_stands(const PatchStatus& patch) {
  return {.type = "PodScheduled",
          .status = "False",
          .reason = patch.reason,
          .message = patch.message,
          .transition_ms = 5};
}

TEST(HarbourSays, AfterARestartNothingThatStandsThereAlready) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  Pod pod = share_pod("big", 120);
  cluster.tell(pod);
  const auto said = cluster.deeds_of<PatchStatus>();
  ASSERT_EQ(said.size(), 1U);
  pod.conditions.push_back(as_it_stands(said[0].second));
  cluster.restart();
  cluster.tell(test_node("n0", 1));
  cluster.tell(pod);
  cluster.ready();
  EXPECT_TRUE(cluster.deeds().empty());
}

TEST(HarbourSays, NothingThatAnotherLeaderSaidWhileItWaitedToLead) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  Pod pod = share_pod("big", 120);
  cluster.tell(pod);
  const auto said = cluster.deeds_of<PatchStatus>();
  ASSERT_EQ(said.size(), 1U);
  cluster.restart();
  cluster.tell(test_node("n0", 1));
  cluster.tell(pod);
  pod.conditions.push_back(as_it_stands(said[0].second));
  cluster.tell(pod);
  cluster.ready();
  EXPECT_TRUE(cluster.deeds().empty());
}

TEST(HarbourSays, TheTimeOfTheConditionStaysWhileItStaysFalse) {
  Cluster cluster;
  cluster.ready();
  Pod pod = share_pod("big", 120);
  pod.conditions.push_back(
      {.type = "PodScheduled", .status = "False", .reason = "Old", .transition_ms = 5000});
  cluster.tell(pod);
  cluster.tell(test_node("n0", 1));
  const auto said = cluster.deeds_of<PatchStatus>();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].second.transition_ms, 5000);
}

TEST(HarbourSays, AConditionAtMostEveryHalfMinute) {
  Cluster cluster;
  cluster.ready();
  cluster.tell(share_pod("big", 120));
  EXPECT_EQ(cluster.deeds_of<PatchStatus>().size(), 1U);  // no node at all
  cluster.tell(test_node("n0", 1));
  EXPECT_TRUE(cluster.deeds_of<PatchStatus>().empty());
  cluster.pass(31'000);
  const auto said = cluster.deeds_of<PatchStatus>();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].second.message.find("120 MiB"), std::string::npos);
}

TEST(HarbourSays, NothingOfAPodThatFoundItsPlaceMeanwhile) {
  Cluster cluster;
  cluster.ready();
  cluster.tell(share_pod("train", 40));
  cluster.settle();
  cluster.tell(test_node("n0", 1));
  for (const Deed& deed : cluster.deeds()) {
    EXPECT_FALSE(std::holds_alternative<PatchStatus>(deed.body));
  }
}

TEST(HarbourSays, OneEventPerBoundPod) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  cluster.bind(share_pod("train", 40));
  const auto said = cluster.deeds_of<Say>();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].second.reason, "Scheduled");
  EXPECT_EQ(said[0].second.action, "Binding");
  EXPECT_EQ(said[0].second.note, "Successfully assigned ns/train to n0 with 40 MiB of GPU-n0-0");
}

TEST(HarbourSays, RepeatedFailuresAreOneSeries) {
  Cluster cluster;
  cluster.ready();
  cluster.tell(share_pod("big", 120));
  const auto first = cluster.deeds_of<Say>();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].second.count, 1);
  std::vector<Say> later;
  for (int i = 0; i < 6; ++i) {  // the reason changes every minute
    cluster.tell(test_node("n" + std::to_string(i), 1));
    cluster.pass(60'000);
    for (const auto& [number, say] : cluster.deeds_of<Say>()) {
      later.push_back(say);
    }
  }
  ASSERT_EQ(later.size(), 1U);  // the second; what follows is only counted
  EXPECT_EQ(later[0].count, 2);
  EXPECT_EQ(later[0].first_us, first[0].second.first_us);
}

TEST(HarbourSays, EveryErrorOfAWrongPodAtOnce) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  cluster.tell(test_pod("wrong", {{"gpu-memory", "-5"}, {"gpu-fraction", "1.2"}}));
  const std::string message = cluster.message("wrong");
  EXPECT_TRUE(message.starts_with("SchedulerError: ")) << message;
  EXPECT_NE(message.find("BadMemory: gpu-memory=-5"), std::string::npos) << message;
  EXPECT_NE(message.find("BadFraction: gpu-fraction=1.2"), std::string::npos) << message;
}

TEST(HarbourSays, NotAdmittedOfAShareWithoutTheWebhooksEnvironment) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  Pod pod = share_pod("train", 40);
  pod.words.containers[0].env.clear();
  cluster.tell(pod);
  EXPECT_TRUE(cluster.message("train").starts_with("SchedulerError: NotAdmitted: container main"))
      << cluster.message("train");
  EXPECT_TRUE(cluster.deeds_of<Bind>().empty());
}

TEST(HarbourSays, NotAdmittedOfAWholeDeviceThatWeWouldNameWithoutThatEnvironment) {
  for (const bool ours : {false, true}) {
    HarbourConfig config;
    config.assigns_whole = ours;
    Cluster cluster(config);
    cluster.tell(test_node("n0", 1));
    cluster.ready();
    Pod pod = test_pod("train", {});
    pod.words.containers[0].env.clear();
    pod.words.containers[0].limits["nvidia.com/gpu"] = "1";
    cluster.tell(pod);
    EXPECT_EQ(cluster.deeds_of<Bind>().empty(), ours);
    EXPECT_EQ(cluster.message("train").starts_with("SchedulerError: NotAdmitted"), ours)
        << cluster.message("train");
  }
}

TEST(HarbourSays, AConstraintThatNobodyCanEvaluateByItsName) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  Pod pod = share_pod("train", 40);
  pod.resource_claims = {"gpu"};
  pod.unsupported = {"spec.volumes[data].iscsi"};
  cluster.tell(pod);
  EXPECT_EQ(cluster.message("train"),
            "SchedulerError: unsupported constraint: spec.volumes[data].iscsi, "
            "spec.resourceClaims");
  EXPECT_TRUE(cluster.deeds_of<Bind>().empty());
}

TEST(HarbourSays, QuotaExceededOfAPodThatItsQueueHoldsBack) {
  HarbourConfig config;
  core::QueueSpec team;
  team.name = "team";
  team.dimensions.push_back({.deserved = 500, .limit = 500});
  config.queues = core::QueueConfig();
  config.queues->queues.push_back(team);
  Cluster cluster(config);
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  Pod pod = share_pod("big", 80);
  pod.meta.labels["berth.dev/queue"] = "team";
  cluster.tell(pod);
  cluster.settle();
  EXPECT_TRUE(cluster.message("big").starts_with("QuotaExceeded: ")) << cluster.message("big");
  Pod lost = share_pod("lost", 10);
  lost.meta.labels["berth.dev/queue"] = "nowhere";
  cluster.tell(lost);
  cluster.settle();
  EXPECT_TRUE(cluster.message("lost").starts_with("SchedulerError: ")) << cluster.message("lost");
}

}  // namespace
}  // namespace berth::kube
