// Volumes and nodes, kubernetes-api.md 15.
#include "kube/scheduler/volumes.h"

#include <list>
#include <string>

#include <gtest/gtest.h>

#include "kube/scheduler/place_rules.h"

namespace berth::kube {
namespace {

Selector zone(const std::string& name) {
  Selector term;
  term.rules.push_back({.key = "zone", .op = core::LabelRule::Op::in, .values = {name}});
  return term;
}

struct Store {
  Census census;
  std::list<PodFacts> pods;

  Store() {
    for (const std::string name : {"a", "b"}) {
      NodeFacts& node = census.node(census.index_of("n-" + name));
      node.present = true;
      node.labels = {{"zone", name}};
    }
    StorageClass slow;
    slow.meta.name = "slow";
    slow.provisioner = "csi.test";
    slow.waits_for_consumer = true;
    census.classes["slow"] = slow;
    slow.meta.name = "now";
    slow.waits_for_consumer = false;
    census.classes["now"] = slow;
  }

  VolumeClaim& claim(const std::string& name, const std::string& of_class) {
    VolumeClaim& made = census.claims["ns/" + name];
    made.meta.namespace_name = "ns";
    made.meta.name = name;
    made.meta.uid = "claim-" + name;
    made.storage_class = of_class;
    made.access_modes = {"ReadWriteOnce"};
    made.phase = "Pending";
    made.request = "10Gi";
    return made;
  }

  Volume& volume(const std::string& name, const std::string& of_class, const std::string& size) {
    Volume& made = census.volumes[name];
    made.meta.name = name;
    made.storage_class = of_class;
    made.capacity = size;
    made.access_modes = {"ReadWriteOnce"};
    made.phase = "Available";
    made.csi_driver = "csi.test";
    return made;
  }

  void bind(const std::string& claim_name, const std::string& volume_name) {
    VolumeClaim& one = census.claims.at("ns/" + claim_name);
    one.volume = volume_name;
    one.bind_completed = true;
    one.phase = "Bound";
    census.volumes.at(volume_name).phase = "Bound";
    census.volumes.at(volume_name).claim_name = claim_name;
    census.volumes.at(volume_name).claim_namespace = "ns";
  }

  PodFacts& pod(const std::string& name, const std::vector<std::string>& claims) {
    PodFacts& made = pods.emplace_back();
    made.id = "ns/" + name;
    made.uid = "uid-" + name;
    made.labels = census.intern({});
    PodRules rules;
    for (const std::string& one : claims) {
      rules.volumes.push_back({.name = "v-" + one, .claim = one});
    }
    made.rules = std::make_shared<const PodRules>(rules);
    return made;
  }

  std::string answer(const PodFacts& facts) const {
    const PlaceRules rules(census, facts);
    if (!rules.waits().empty()) {
      return rules.waits();
    }
    std::string text;
    for (NodeIndex i = 0; i < census.node_slots(); ++i) {
      const std::string_view word = rules.refusal(i);
      text += (text.empty() ? "" : " ") + census.node(i).name;
      text += word.empty() ? "" : ":" + std::string(word);
    }
    return text;
  }
};

TEST(Volumes, ABoundClaimBindsThePodToWhereItsVolumeIs) {
  Store store;
  store.claim("data", "slow");
  store.volume("pv", "slow", "10Gi").node_terms = {zone("b")};
  store.bind("data", "pv");
  EXPECT_EQ(store.answer(store.pod("x", {"data"})), "n-a:VolumeNodeConflict n-b");
}

TEST(Volumes, AClaimThatIsMissingOrNobodysIsWaitedForByName) {
  Store store;
  EXPECT_EQ(store.answer(store.pod("x", {"data"})),
            "waits for PersistentVolumeClaim ns/data, which does not exist");
  store.claim("lost", "slow").phase = "Lost";
  EXPECT_EQ(store.answer(store.pod("y", {"lost"})),
            "PersistentVolumeClaim ns/lost has lost its volume");
}

TEST(Volumes, AnImmediateClaimIsBoundBeforeANodeIsChosen) {
  Store store;
  store.claim("data", "now");
  EXPECT_TRUE(store.answer(store.pod("x", {"data"}))
                  .starts_with("unbound immediate PersistentVolumeClaims: ns/data"));
}

TEST(Volumes, AVolumeThatExistsIsTakenWhereItIsTheSmallestThatServes) {
  Store store;
  store.census.classes["slow"].provisioner = "kubernetes.io/no-provisioner";
  store.claim("data", "slow");
  store.volume("small", "slow", "5Gi").node_terms = {zone("a")};
  store.volume("huge", "slow", "100Gi").node_terms = {zone("b")};
  store.volume("fits", "slow", "10Gi").node_terms = {zone("b")};
  PodFacts& pod = store.pod("x", {"data"});
  EXPECT_EQ(store.answer(pod), "n-a:VolumeNodeConflict n-b");
  EXPECT_EQ(steps_to_bind(store.census, pod, 1),
            (std::vector<ClaimStep>{{.claim = "ns/data", .volume = "fits"}}));
}

TEST(Volumes, TwoClaimsOfOnePodDoNotGetOneVolume) {
  Store store;
  store.census.classes["slow"].provisioner = "kubernetes.io/no-provisioner";
  store.claim("one", "slow");
  store.claim("two", "slow");
  store.volume("pv", "slow", "10Gi");
  EXPECT_EQ(store.answer(store.pod("x", {"one", "two"})),
            "n-a:VolumeNodeConflict n-b:VolumeNodeConflict");
}

TEST(Volumes, WhatIsMadeOnDemandGoesWhereItsClassAllows) {
  Store store;
  store.claim("data", "slow");
  store.census.classes["slow"].allowed_topologies = {zone("a")};
  PodFacts& pod = store.pod("x", {"data"});
  EXPECT_EQ(store.answer(pod), "n-a n-b:VolumeNodeConflict");
  EXPECT_EQ(steps_to_bind(store.census, pod, 0), (std::vector<ClaimStep>{{.claim = "ns/data"}}));
  EXPECT_FALSE(all_bound(store.census, pod));
}

TEST(Volumes, StorageThatCountsItsCapacityMustHaveEnough) {
  Store store;
  store.claim("data", "slow");
  CsiDriver driver;
  driver.storage_capacity = true;
  store.census.csi_drivers["csi.test"] = driver;
  CsiCapacity room;
  room.storage_class = "slow";
  room.node_topology = zone("a");
  room.capacity = "9Gi";
  store.census.csi_capacities["x/a"] = room;
  room.node_topology = zone("b");
  room.capacity = "10Gi";
  store.census.csi_capacities["x/b"] = room;
  EXPECT_EQ(store.answer(store.pod("x", {"data"})), "n-a:VolumeNodeConflict n-b");
}

TEST(Volumes, AnEphemeralClaimMustBeThePodsOwn) {
  Store store;
  PodFacts& pod = store.pod("x", {});
  PodRules rules;
  rules.volumes.push_back({.name = "scratch", .ephemeral = true});
  pod.rules = std::make_shared<const PodRules>(rules);
  EXPECT_EQ(store.answer(pod),
            "waits for PersistentVolumeClaim ns/x-scratch, which does not exist");
  store.claim("x-scratch", "slow").meta.owner_uid = "somebody";
  EXPECT_TRUE(store.answer(pod).find("was not made for this pod") != std::string::npos);
  store.census.claims["ns/x-scratch"].meta.owner_uid = "uid-x";
  EXPECT_EQ(store.answer(pod), "n-a n-b");
}

TEST(Volumes, AVolumeForOnePodOnlyHasOneUser) {
  Store store;
  store.claim("data", "slow").access_modes = {"ReadWriteOncePod"};
  store.volume("pv", "slow", "10Gi").access_modes = {"ReadWriteOncePod"};
  store.bind("data", "pv");
  PodFacts& first = store.pod("first", {"data"});
  EXPECT_EQ(store.answer(first), "n-a n-b");
  store.census.place(first, 0);
  EXPECT_EQ(store.answer(store.pod("second", {"data"})),
            "PersistentVolumeClaim ns/data is for one pod only, and ns/first uses it");
  EXPECT_EQ(store.answer(first), "n-a n-b");
}

TEST(Volumes, ADriverAttachesSoManyAndNoMore) {
  Store store;
  CsiNode limits;
  limits.limits["csi.test"] = 1;
  store.census.csi_nodes["n-a"] = limits;
  for (const std::string name : {"one", "two"}) {
    store.claim(name, "slow");
    store.volume("pv-" + name, "slow", "10Gi");
    store.bind(name, "pv-" + name);
  }
  store.census.place(store.pod("first", {"one"}), 0);
  EXPECT_EQ(store.answer(store.pod("second", {"two"})), "n-a:VolumeLimit n-b");
  EXPECT_EQ(store.answer(store.pod("same", {"one"})), "n-a n-b");  // attached already
}

TEST(Volumes, AreBoundWhenEveryClaimHasItsOwn) {
  Store store;
  store.claim("data", "slow");
  PodFacts& pod = store.pod("x", {"data"});
  EXPECT_FALSE(all_bound(store.census, pod));
  store.volume("pv", "slow", "10Gi");
  store.bind("data", "pv");
  EXPECT_TRUE(all_bound(store.census, pod));
  EXPECT_TRUE(steps_to_bind(store.census, pod, 0).empty());
}

}  // namespace
}  // namespace berth::kube
