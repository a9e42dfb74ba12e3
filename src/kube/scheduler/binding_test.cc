// What can become of a binding: kubernetes-api.md 4, 23.4 and 23.12.
#include <string>

#include <gtest/gtest.h>

#include "kube/scheduler/harbour_test_support.h"

namespace berth::kube {
namespace {

// One device of 100 MiB, and a pod whose binding was sent.
struct Sent : Cluster {
  Pod pod = share_pod("train", 80);
  std::uint64_t number = 0;
  Bind bind;

  Sent() {
    tell(test_node("n0", 1));
    ready();
    pod.words.containers[0].requests["cpu"] = "1";
    tell(pod);
    std::tie(number, bind) = binding();
  }

  bool device_is_free() const { return promised_mib("GPU-n0-0") == 0; }
};

TEST(Binding, IsKeptAfterTheAnswerUntilTheWatchShowsIt) {
  Sent sent;
  sent.answer(sent.number, 201);
  EXPECT_EQ(sent.phase("train"), PodPhase::bound);
  EXPECT_FALSE(sent.device_is_free());
}

TEST(Binding, ThatTheWatchNeverShowsIsReadInTheEnd) {
  Sent sent;
  sent.answer(sent.number, 201);
  sent.deeds();
  sent.pass(61'000);
  sent.answer_read(bound_by(sent.pod, sent.bind));
  EXPECT_EQ(sent.phase("train"), PodPhase::confirmed);
}

TEST(Binding, OfAPodThatIsGoneReleasesItsPlace) {
  Sent sent;
  sent.answer(sent.number, 404, "pods \"train\" not found");
  EXPECT_TRUE(sent.device_is_free());
  EXPECT_TRUE(sent.deeds_of<Bind>().empty());
}

// 409, cause 1.
TEST(Binding, ConflictByAnotherUidMakesTheNewPodANewRequest) {
  Sent sent;
  sent.answer(sent.number, 409, "Precondition failed: UID in precondition");
  EXPECT_FALSE(sent.device_is_free());  // until it was read
  Pod fresh = share_pod("train", 60);
  sent.answer_read(fresh);
  const auto [number, bind] = sent.binding();
  EXPECT_EQ(bind.pod.uid, fresh.meta.uid);
  EXPECT_EQ(sent.promised_mib("GPU-n0-0"), 60);
}

// 409, cause 2: cannot happen without a resourceVersion; it is tried again all the same.
TEST(Binding, ConflictThatLeavesThePodUnassignedSendsTheSameAgain) {
  Sent sent;
  sent.answer(sent.number, 409, "Precondition failed: ResourceVersion in precondition");
  sent.answer_read(sent.pod);
  EXPECT_TRUE(sent.deeds_of<Bind>().empty());  // not at once
  sent.pass(1'000);
  const auto [number, again] = sent.binding();
  EXPECT_EQ(again, sent.bind);
}

// 409, cause 3.
TEST(Binding, ConflictByDeletionReleasesAndDoesNotRetry) {
  Sent sent;
  sent.answer(sent.number, 409, "is being deleted, cannot be assigned to a host");
  Pod going = sent.pod;
  going.meta.deleting = true;
  sent.answer_read(going);
  EXPECT_TRUE(sent.device_is_free());
  sent.pass(120'000);
  EXPECT_TRUE(sent.deeds_of<Bind>().empty());
}

// 409, cause 4.
TEST(Binding, ConflictByAnotherNodeReleasesHereAndCountsThere) {
  Sent sent;
  sent.tell(test_node("n1", 0));
  sent.answer(sent.number, 409, "is already assigned to node \"n1\"");
  Pod elsewhere = sent.pod;
  elsewhere.words.preset_node = "n1";
  elsewhere.words.containers[0].requests["cpu"] = "3";
  sent.answer_read(elsewhere);
  EXPECT_TRUE(sent.device_is_free());
  EXPECT_EQ(sent.cpu_free("n1"), 13'000);
}

// 409, cause 5, an earlier try of ours.
TEST(Binding, ConflictByOurOwnEarlierTryIsSuccess) {
  Sent sent;
  sent.answer(sent.number, 409, "is already assigned to node \"n0\"");
  sent.answer_read(bound_by(sent.pod, sent.bind));
  EXPECT_EQ(sent.phase("train"), PodPhase::confirmed);
  EXPECT_EQ(sent.promised_mib("GPU-n0-0"), 80);
  EXPECT_EQ(sent.harbour->figures().alarms, 0);
}

// 409, cause 5, another writer.
TEST(Binding, ConflictByAnotherWriterBelievesThePodAndAlarms) {
  Sent sent;
  sent.answer(sent.number, 409, "is already assigned to node \"n0\"");
  Bind other = sent.bind;
  std::string& grant = other.annotations["berth.dev/grant"];
  for (std::size_t at = grant.find("80"); at != std::string::npos; at = grant.find("80", at + 1)) {
    grant.replace(at, 2, "50");
  }
  sent.answer_read(bound_by(sent.pod, other));
  EXPECT_EQ(sent.promised_mib("GPU-n0-0"), 50);
  EXPECT_EQ(sent.harbour->figures().alarms, 1);
}

// 409, cause 6.
TEST(Binding, ConflictByGatesWaitsForThemToGo) {
  Sent sent;
  sent.answer(sent.number, 409, "has non-empty .spec.schedulingGates");
  Pod gated = sent.pod;
  gated.gated = true;
  sent.answer_read(gated);
  EXPECT_TRUE(sent.device_is_free());
  EXPECT_TRUE(sent.deeds_of<Bind>().empty());
  sent.tell(sent.pod);
  EXPECT_EQ(sent.binding().second.pod.name, "train");
}

TEST(Binding, RefusedAsWrongIsNotTriedAgain) {
  for (const int status : {400, 422}) {
    Sent sent;
    sent.answer(sent.number, status, "name does not match");
    EXPECT_TRUE(sent.device_is_free());
    EXPECT_EQ(sent.message("train"),
              "SchedulerError: the API server refuses the binding: name does not match");
    sent.pass(3'600'000);
    EXPECT_TRUE(sent.deeds_of<Bind>().empty());
    EXPECT_EQ(sent.harbour->figures().alarms, 1);
  }
}

TEST(Binding, ForbiddenIsTriedAgainAfterLongAndSaysSo) {
  Sent sent;
  sent.answer(sent.number, 403, "pods/binding is forbidden");
  EXPECT_TRUE(sent.device_is_free());
  EXPECT_EQ(sent.message("train"),
            "SchedulerError: the API server forbids the binding: pods/binding is forbidden");
  EXPECT_TRUE(sent.deeds_of<Bind>().empty());
  sent.pass(29'000);
  EXPECT_TRUE(sent.deeds_of<Bind>().empty());
  sent.pass(2'000);
  EXPECT_EQ(sent.deeds_of<Bind>().size(), 1U);
}

TEST(Binding, WithoutAnAnswerIsReadBeforeAnythingElse) {
  Sent sent;
  sent.no_answer(sent.number);
  EXPECT_FALSE(sent.device_is_free());
  sent.answer_read(bound_by(sent.pod, sent.bind));
  EXPECT_EQ(sent.phase("train"), PodPhase::confirmed);
}

TEST(Binding, WithoutAnAnswerThatDidNotArriveIsSentAgainUnchanged) {
  Sent sent;
  sent.no_answer(sent.number);
  sent.answer_read(sent.pod);
  sent.tell(test_node("n1", 1));  // another place would do; the first binding may still arrive
  sent.pass(2'000);
  const auto [number, again] = sent.binding();
  EXPECT_EQ(again, sent.bind);
  sent.answer(number, 409, "is already assigned to node \"n0\"");
  sent.answer_read(bound_by(sent.pod, again));
  EXPECT_EQ(sent.phase("train"), PodPhase::confirmed);
}

TEST(Binding, OverloadIsReadWhenTheServerWantsIt) {
  Sent sent;
  sent.harbour->answered(sent.number, {.status = 429, .retry_after = Duration(5'000)}, sent.now);
  EXPECT_TRUE(sent.deeds_of<ReadPod>().empty());
  sent.pass(5'000);
  EXPECT_EQ(sent.deeds_of<ReadPod>().size(), 1U);
}

TEST(Binding, AReadingThatFailsIsRepeated) {
  Sent sent;
  sent.no_answer(sent.number);
  for (int i = 0; i < 3; ++i) {
    auto reads = sent.deeds_of<ReadPod>();
    ASSERT_EQ(reads.size(), 1U);
    sent.answer(reads.front().first, 500);
    EXPECT_FALSE(sent.device_is_free());
    sent.pass(60'000);
  }
}

TEST(Binding, NotSentIsSentLater) {
  Sent sent;
  sent.harbour->answered(sent.number, {.outcome = Said::Outcome::not_sent}, sent.now);
  EXPECT_TRUE(sent.deeds_of<Bind>().empty());
  sent.pass(1'000);
  EXPECT_EQ(sent.deeds_of<Bind>().size(), 1U);
}

TEST(Binding, AnAnswerForAPodThatWasReplacedMeansNothing) {
  Sent sent;
  sent.tell(share_pod("train", 60));
  sent.answer(sent.number, 201);
  EXPECT_EQ(sent.binding().second.annotations.at("berth.dev/main.memory-request-mib"), "60");
}

// --- before it is sent ----------------------------------------------------------------------

struct Granted : Cluster {
  Pod pod = share_pod("train", 80);

  Granted() {
    tell(test_node("n0", 1));
    ready();
    tell(pod);
    harbour->settle(now);
    EXPECT_EQ(phase("train"), PodPhase::granted);
  }
};

TEST(Withdrawal, AForeignPodThatWasFirstOnTheDevice) {
  Granted granted;
  granted.tell(test_node("n1", 1));
  Pod kai = foreign_pod("kai", "n0");
  kai.meta.annotations = {{"nvidia.com/container.main.gpus.devices", "GPU-n0-0"},
                          {"nvidia.com/container.main.gpu-memory.request", "50Mi"}};
  granted.tell(kai);
  EXPECT_EQ(granted.binding().second.node, "n1");
  EXPECT_EQ(granted.promised_mib("GPU-n0-0"), 50);
}

TEST(Withdrawal, AForeignPodThatTookTheCpu) {
  Cluster cluster;
  cluster.tell(test_node("n0", 1));
  cluster.ready();
  Pod pod = share_pod("train", 10);
  pod.words.containers[0].requests["cpu"] = "10";
  cluster.tell(pod);
  cluster.settle();
  cluster.tell(foreign_pod("other", "n0", "8"));
  EXPECT_TRUE(cluster.deeds_of<Bind>().empty());
  EXPECT_EQ(cluster.cpu_free("n0"), 8'000);
}

TEST(Withdrawal, AForeignPodBesideWhichThereIsRoomChangesNothing) {
  Granted granted;
  granted.tell(foreign_pod("other", "n0", "8"));
  EXPECT_EQ(granted.binding().second.node, "n0");
}

TEST(Withdrawal, TheNodeThatWentAway) {
  Granted granted;
  granted.tell(test_node("n1", 1));
  granted.harbour->node_gone("n0", "node-n0", granted.now);
  EXPECT_EQ(granted.binding().second.node, "n1");
}

TEST(Withdrawal, TheDeviceThatWentAway) {
  Granted granted;
  granted.tell(test_node("n1", 1));
  granted.tell(test_node("n0", 0));
  EXPECT_EQ(granted.binding().second.node, "n1");
}

TEST(Withdrawal, ThePodThatIsBeingDeleted) {
  Granted granted;
  granted.pod.meta.deleting = true;
  granted.tell(granted.pod);
  EXPECT_TRUE(granted.deeds_of<Bind>().empty());
  EXPECT_EQ(granted.promised_mib("GPU-n0-0"), 0);
}

// What was sent is not taken back: it may have arrived.
TEST(Withdrawal, IsNotForWhatWasSent) {
  Sent sent;
  sent.tell(foreign_pod("other", "n0", "16"));
  sent.pass(1'000);
  EXPECT_EQ(sent.phase("train"), PodPhase::sent);
  EXPECT_EQ(sent.promised_mib("GPU-n0-0"), 80);
}

// Its device went away while nobody knew whether the first binding had arrived.
TEST(Withdrawal, OfAnUnknownOutcomeIsNotSentAgainToADeviceThatIsGone) {
  Sent sent;
  sent.no_answer(sent.number);
  sent.tell(test_node("n0", 0));
  sent.tell(test_node("n1", 1));
  sent.answer_read(sent.pod);
  sent.pass(5'000);
  EXPECT_TRUE(sent.deeds_of<Bind>().empty());
  sent.pass(61'000);
  sent.answer_read(sent.pod);
  EXPECT_EQ(sent.binding().second.node, "n1");
}

// A place that is not good any more is given up once the first binding surely did not happen.
TEST(Withdrawal, OfAnUnknownOutcomeWaitsUntilTheServerHasEnded) {
  Sent sent;
  sent.tell(test_node("n1", 1));
  sent.no_answer(sent.number);
  sent.tell(foreign_pod("other", "n0", "17"));
  sent.answer_read(sent.pod);
  EXPECT_TRUE(sent.deeds_of<Bind>().empty());
  EXPECT_EQ(sent.promised_mib("GPU-n0-0"), 80);
  sent.pass(61'000);
  sent.answer_read(sent.pod);
  EXPECT_EQ(sent.binding().second.node, "n1");
}

// --- claims ---------------------------------------------------------------------------------

struct WithClaim : Cluster {
  Pod pod = share_pod("train", 40);
  VolumeClaim claim;

  WithClaim() {
    tell(test_node("n0", 1));
    StorageClass slow;
    slow.meta.name = "slow";
    slow.provisioner = "csi.test";
    slow.waits_for_consumer = true;
    harbour->storage().classes["slow"] = slow;
    claim.meta.namespace_name = "ns";
    claim.meta.name = "data";
    claim.meta.uid = "claim-uid";
    claim.storage_class = "slow";
    claim.phase = "Pending";
    claim.request = "1Gi";
    put(claim);
    pod.words.containers[0].name = "main";
    pod.volumes.push_back({.name = "v", .claim = "data"});
    ready();
  }

  void put(const VolumeClaim& changed) {
    harbour->storage().claims["ns/data"] = changed;
    harbour->storage_changed(now);
  }

  void bind_claim() {
    Volume volume;
    volume.meta.name = "pv";
    harbour->storage().volumes["pv"] = volume;
    claim.volume = "pv";
    claim.bind_completed = true;
    claim.phase = "Bound";
    put(claim);
  }
};

TEST(Claims, AreProvidedOnTheChosenNodeBeforeThePodIsBound) {
  WithClaim world;
  world.tell(world.pod);
  auto deeds = world.deeds();
  ASSERT_EQ(deeds.size(), 1U);
  const auto& patch = std::get<PatchClaim>(deeds[0].body);
  EXPECT_EQ(patch.claim, "data");
  EXPECT_EQ(patch.node, "n0");
  world.answer(deeds[0].number, 200);
  EXPECT_TRUE(world.deeds().empty());
  EXPECT_EQ(world.promised_mib("GPU-n0-0"), 40);
  world.bind_claim();
  EXPECT_EQ(world.binding().second.node, "n0");
}

TEST(Claims, ThatAreNotProvidedInTimeGiveThePlaceBack) {
  WithClaim world;
  world.tell(world.pod);
  world.deeds();
  world.claim.selected_node = "n0";
  world.put(world.claim);
  world.now = world.now + Duration(601'000);
  world.harbour->tick(world.now);
  EXPECT_EQ(world.promised_mib("GPU-n0-0"), 0);
  bool undone = false;
  for (const Deed& deed : world.deeds()) {
    const auto* patch = std::get_if<PatchClaim>(&deed.body);
    undone = undone || (patch != nullptr && patch->node.empty());
  }
  EXPECT_TRUE(undone);
}

TEST(Claims, ThatDoNotExistAreWaitedFor) {
  WithClaim world;
  world.harbour->storage().claims.clear();
  world.harbour->storage_changed(world.now);
  world.tell(world.pod);
  world.settle();
  EXPECT_EQ(world.message("train"),
            "Unschedulable: waits for PersistentVolumeClaim ns/data, which does not exist");
  world.bind_claim();
  world.pass(1'000);
  EXPECT_EQ(world.binding().second.node, "n0");
}

}  // namespace
}  // namespace berth::kube
