// Nodes that come and go, restarts, and pods that others decided.
#include <string>

#include <gtest/gtest.h>

#include "kube/scheduler/harbour_test_support.h"

namespace berth::kube {
namespace {

TEST(Restart, RebuildsTheBooksFromPodsAlone) {
  Cluster cluster;
  cluster.tell(test_node("n0", 2));
  cluster.ready();
  const Pod share = cluster.bind(share_pod("share", 30));
  const Pod fraction = cluster.bind(test_pod("fraction", {{"gpu-fraction", "0.5"}}));
  Pod asks = test_pod("whole");
  asks.words.containers[0].limits["nvidia.com/gpu"] = "1";
  const Pod whole = cluster.bind(asks);
  const std::int64_t first = cluster.promised_mib("GPU-n0-0");
  const std::int64_t second = cluster.promised_mib("GPU-n0-1");
  EXPECT_EQ(first + second, 180);
  cluster.restart();
  for (const Pod& pod : {whole, fraction, share}) {
    cluster.tell(pod);  // before their node
  }
  cluster.tell(test_node("n0", 2));
  cluster.ready();
  EXPECT_EQ(cluster.promised_mib("GPU-n0-0"), first);
  EXPECT_EQ(cluster.promised_mib("GPU-n0-1"), second);
  // Half of a device by fraction stays half: another half fits exactly.
  cluster.tell(test_pod("half", {{"gpu-fraction", "0.3"}}));
  EXPECT_TRUE(cluster.deeds_of<Bind>().empty());
}

TEST(Restart, BelievesNoGrantThatIsForAnotherNode) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.tell(test_node("n1", 1));
  cluster.ready();
  Pod bound = cluster.bind(share_pod("share", 30));
  const std::string other = bound.words.preset_node == "n0" ? "n1" : "n0";
  bound.words.preset_node = other;
  cluster.restart();
  cluster.tell(test_node("n0", 1));
  cluster.tell(test_node("n1", 1));
  cluster.tell(bound);
  EXPECT_GE(cluster.harbour->figures().alarms, 1);
}

TEST(Restart, AGrantThatCannotBeReadIsForeignUseAndAnAlarm) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  Pod bound = cluster.bind(share_pod("share", 30));
  for (Labels* annotations : {&bound.meta.annotations, &bound.words.annotations}) {
    std::string& grant = (*annotations)["berth.dev/grant"];
    grant.replace(grant.find("\"v\":1"), 5, "\"v\":2");
  }
  cluster.restart();
  cluster.tell(test_node("n0", 1));
  cluster.tell(bound);
  cluster.ready();
  EXPECT_EQ(cluster.harbour->figures().alarms, 1);
  EXPECT_EQ(cluster.promised_mib("GPU-n0-0"), 30);
  cluster.tell(share_pod("next", 80));
  EXPECT_TRUE(cluster.deeds_of<Bind>().empty());
}

// --- foreign --------------------------------------------------------------------------------

TEST(Foreign, PodsCountWithCpuMemoryAndSlotWhoeverBoundThem) {
  Cluster cluster;
  Node node = test_node("n0", 0);
  node.allocatable["pods"] = "3";
  cluster.tell(node);
  cluster.ready();
  cluster.tell(foreign_pod("one", "n0", "3"));
  Pod two = foreign_pod("two", "n0", "4");
  cluster.tell(two);
  EXPECT_EQ(cluster.cpu_free("n0"), 9'000);
  two.words.containers[0].requests["cpu"] = "6";  // resized
  cluster.tell(two);
  EXPECT_EQ(cluster.cpu_free("n0"), 7'000);
  cluster.tell(test_pod("mine"));
  EXPECT_EQ(cluster.deeds_of<Bind>().size(), 1U);
  cluster.tell(test_pod("no-slot"));
  EXPECT_TRUE(cluster.deeds_of<Bind>().empty());
  cluster.gone(two);
  EXPECT_EQ(cluster.deeds_of<Bind>().size(), 1U);
}

// annotations.md 6, B11.
TEST(Foreign, KaisReservationPodHoldsItsDeviceWholly) {
  Cluster cluster;
  cluster.tell(test_node("n0", 2));
  cluster.ready();
  Pod reservation = foreign_pod("gpu-reservation-x", "n0");
  reservation.meta.namespace_name = "kai-resource-reservation";
  reservation.meta.annotations["run.ai/reserve_for_gpu_index"] = "GPU-n0-0";
  cluster.tell(reservation);
  cluster.tell(share_pod("share", 50));
  EXPECT_EQ(cluster.binding().second.annotations.at("berth.dev/main.devices"), "GPU-n0-1");
  Pod whole = test_pod("whole");
  whole.words.containers[0].limits["nvidia.com/gpu"] = "1";
  cluster.tell(whole);
  cluster.tell(share_pod("big", 60));
  cluster.settle();
  EXPECT_NE(cluster.message("big").find("1 nodes: 1 InsufficientMemory"), std::string::npos)
      << cluster.message("big");
}

TEST(Foreign, AReservationWithoutItsDevicesNameHoldsOneBack) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  Pod reservation = foreign_pod("gpu-reservation-x", "n0");
  reservation.meta.namespace_name = "kai-resource-reservation";
  cluster.tell(reservation);
  cluster.tell(share_pod("share", 50));
  cluster.settle();
  EXPECT_NE(cluster.message("share").find("DeviceHeldByPeer"), std::string::npos)
      << cluster.message("share");
}

TEST(Foreign, SharesOfKaiCountWithTheirSizesAndDevices) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  Pod kai = foreign_pod("kai", "n0");
  kai.meta.annotations = {
      {"nvidia.com/container.main.gpus.devices", "k8s.device-plugin.nvidia.com/gpu=GPU-n0-0"},
      {"nvidia.com/container.main.gpu-memory.request", "60Mi"}};
  cluster.tell(kai);
  EXPECT_EQ(cluster.promised_mib("GPU-n0-0"), 60);
  cluster.tell(share_pod("fits", 40));
  EXPECT_EQ(cluster.deeds_of<Bind>().size(), 1U);
}

TEST(Foreign, WholeDevicesOfAVendorsPlugInAreHeldBackByNumber) {
  Cluster cluster;
  cluster.tell(test_node("n0", 3));
  cluster.ready();
  Pod other = foreign_pod("other", "n0");
  other.words.containers[0].limits["nvidia.com/gpu"] = "2";
  other.words.containers[0].requests["nvidia.com/gpu"] = "2";
  cluster.tell(other);
  Pod whole = test_pod("whole");
  whole.words.containers[0].limits["nvidia.com/gpu"] = "1";
  whole.words.containers[0].requests["nvidia.com/gpu"] = "1";
  cluster.tell(whole);
  EXPECT_EQ(cluster.deeds_of<Bind>().size(), 1U);
  cluster.tell(share_pod("share", 1));
  EXPECT_TRUE(cluster.deeds_of<Bind>().empty());
  cluster.gone(other);
  EXPECT_EQ(cluster.deeds_of<Bind>().size(), 1U);
}

TEST(Foreign, OurPodThatSomebodyElseBoundIsCountedWhereItLies) {
  Cluster cluster;
  cluster.tell(test_node("n0", 0));
  cluster.ready();
  Pod pod = share_pod("train", 40);
  cluster.tell(pod);
  EXPECT_TRUE(cluster.deeds_of<Bind>().empty());
  pod.words.preset_node = "n0";
  pod.words.containers[0].requests["cpu"] = "1";
  cluster.tell(pod);
  EXPECT_EQ(cluster.cpu_free("n0"), 15'000);
  EXPECT_EQ(cluster.phase("train"), PodPhase::confirmed);
}

// --- nodes ----------------------------------------------------------------------------------

TEST(Nodes, CordonedGetNothingNewAndKeepWhatTheyHave) {
  Cluster cluster;
  Node node = test_node("n0", 1);
  cluster.tell(node);
  cluster.ready();
  cluster.bind(share_pod("first", 30));
  node.unschedulable = true;
  node.taints.push_back(
      {.key = "node.kubernetes.io/unschedulable", .value = "", .effect = "NoSchedule"});
  cluster.tell(node);
  cluster.tell(share_pod("second", 30));
  EXPECT_TRUE(cluster.deeds_of<Bind>().empty());
  EXPECT_EQ(cluster.promised_mib("GPU-n0-0"), 30);
  cluster.tell(test_node("n0", 1));
  EXPECT_EQ(cluster.deeds_of<Bind>().size(), 1U);
}

TEST(Nodes, ReCreatedWithOtherDevicesKeepPodsInTheBooksWithWhatIsLeft) {
  Cluster cluster;
  cluster.tell(test_node("n0", 2));
  cluster.ready();
  Pod pod = share_pod("train", 30);
  pod.words.containers[0].requests["cpu"] = "4";
  cluster.bind(pod);
  Node again = test_node("n0", 0);
  again.meta.uid = "another";
  cluster.tell(again);
  EXPECT_EQ(cluster.cpu_free("n0"), 12'000);  // its device is gone, its CPU is not
  EXPECT_GE(cluster.harbour->figures().alarms, 1);
  Node back = test_node("n0", 2);
  back.meta.uid = "a-third";
  cluster.tell(back);
  EXPECT_EQ(cluster.promised_mib("GPU-n0-0") + cluster.promised_mib("GPU-n0-1"), 30);
}

TEST(Nodes, ThatFlapLoseNothing) {
  Cluster cluster;
  Node node = test_node("n0", 1);
  cluster.tell(node);
  cluster.ready();
  cluster.bind(share_pod("train", 30));
  for (int i = 0; i < 5; ++i) {
    node.conditions = {{.type = "Ready", .status = i % 2 == 0 ? "False" : "True"}};
    cluster.tell(node);
    cluster.pass(1'000);
    EXPECT_EQ(cluster.promised_mib("GPU-n0-0"), 30);
  }
}

TEST(Nodes, ThatGoTakeTheirPodsOutOfTheBooksAndBringThemBack) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  cluster.bind(share_pod("train", 30));
  cluster.harbour->node_gone("n0", "node-n0", cluster.now);
  cluster.check();
  cluster.tell(test_node("n0", 1));
  EXPECT_EQ(cluster.promised_mib("GPU-n0-0"), 30);
}

TEST(Nodes, AForgottenDeletionOfAnOlderNodeDoesNotRemoveTheNewer) {
  Cluster cluster;
  Node node = test_node("n0", 1);
  node.meta.uid = "new";
  cluster.tell(node);
  cluster.ready();
  cluster.harbour->node_gone("n0", "old", cluster.now);
  cluster.tell(share_pod("train", 30));
  EXPECT_EQ(cluster.deeds_of<Bind>().size(), 1U);
}

TEST(Nodes, ThatContradictThemselvesKeepWhatRunsAndGetNothingNew) {
  Cluster cluster;
  Node node = test_node("n0", 1);
  cluster.tell(node);
  cluster.ready();
  cluster.bind(share_pod("first", 30));
  node.meta.annotations["berth.dev/devices"] = "{not json";
  cluster.tell(node);
  EXPECT_EQ(cluster.promised_mib("GPU-n0-0"), 30);
  cluster.tell(share_pod("second", 30));
  EXPECT_TRUE(cluster.deeds_of<Bind>().empty());
  EXPECT_EQ(cluster.harbour->figures().alarms, 1);
}

TEST(Nodes, TwoThatNameOneDeviceDoNotBothOfferIt) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  Node copy = test_node("n0", 1);
  copy.meta.name = "n1";
  copy.meta.uid = "node-n1";
  cluster.tell(copy);
  cluster.ready();
  EXPECT_EQ(cluster.harbour->figures().alarms, 1);
  cluster.tell(share_pod("one", 60));
  cluster.tell(share_pod("two", 60));
  EXPECT_EQ(cluster.deeds_of<Bind>().size(), 1U);
}

// --- rules of this room, through the harbour ------------------------------------------------

TEST(RoomRules, ReplicasWithAntiAffinityGoToNodesOfTheirOwn) {
  Cluster cluster;
  for (const std::string name : {"n0", "n1", "n2"}) {
    cluster.tell(test_node(name, 1));
  }
  cluster.ready();
  std::set<std::string> nodes;
  for (int i = 0; i < 4; ++i) {
    Pod pod = share_pod("replica-" + std::to_string(i), 10);
    pod.meta.labels = {{"app", "x"}};
    PodAffinityTerm term;
    term.selector.rules.push_back({.key = "app", .op = core::LabelRule::Op::in, .values = {"x"}});
    term.topology_key = "kubernetes.io/hostname";
    pod.anti_affinity.push_back(term);
    cluster.tell(pod);
  }
  std::vector<Bind> binds;
  for (const auto& [number, bind] : cluster.deeds_of<Bind>()) {
    nodes.insert(bind.node);
    cluster.answer(number, 201);
    binds.push_back(bind);
  }
  EXPECT_EQ(nodes.size(), 3U);
  EXPECT_EQ(binds.size(), 3U);
  EXPECT_EQ(cluster.message("replica-3"),
            "Unschedulable: the rules of the pod and its neighbours leave no node. "
            "0/3 nodes: 3 PodAntiAffinity.");
  // A node that comes later is used.
  cluster.tell(test_node("n3", 1));
  cluster.pass(1'000);
  EXPECT_EQ(cluster.binding().second.node, "n3");
}

TEST(RoomRules, OneAndTheSameHostPortTwice) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  Pod first = share_pod("first", 10);
  first.host_ports = {{.port = 80}};
  Pod second = share_pod("second", 10);
  second.host_ports = {{.port = 80}};
  cluster.tell(first);
  cluster.tell(second);
  EXPECT_EQ(cluster.deeds_of<Bind>().size(), 1U);
  EXPECT_NE(cluster.message("second").find("1 HostPortTaken"), std::string::npos);
}

TEST(RoomRules, TermsOfNodeAffinityAreAlternatives) {
  Cluster cluster;
  Node slow = test_node("n0", 1);
  Node fast = test_node("n1", 1);
  fast.meta.labels["gpu"] = "fast";
  cluster.tell(slow);
  cluster.tell(fast);
  cluster.ready();
  Pod pod = share_pod("train", 10);
  Selector by_label;
  by_label.rules.push_back({.key = "gpu", .op = core::LabelRule::Op::in, .values = {"fast"}});
  Selector by_name;
  by_name.fields.push_back(
      {.key = "metadata.name", .op = core::LabelRule::Op::in, .values = {"n9"}});
  pod.node_terms = {by_name, by_label};
  cluster.tell(pod);
  EXPECT_EQ(cluster.binding().second.node, "n1");
}

TEST(RoomRules, NodesThatTheyShutOutAreToldByTheirWord) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.tell(test_node("n1", 1));
  cluster.ready();
  Pod blocker = foreign_pod("blocker", "n0");
  blocker.host_ports = {{.port = 80}};
  cluster.tell(blocker);
  Pod pod = share_pod("train", 10);
  pod.host_ports = {{.port = 80}};
  pod.words.containers[0].requests["cpu"] = "15900m";
  cluster.tell(foreign_pod("busy", "n1", "1"));
  cluster.tell(pod);
  cluster.settle();
  EXPECT_NE(cluster.message("train").find("0/2 nodes: 1 HostPortTaken, 1 "), std::string::npos)
      << cluster.message("train");
}

}  // namespace
}  // namespace berth::kube
