// Each hard rule that the engine has no word for. kubernetes-api.md 13.
#include "kube/scheduler/place_rules.h"

#include <list>
#include <string>

#include <gtest/gtest.h>

namespace berth::kube {
namespace {

Selector app(const std::string& name) {
  Selector selector;
  selector.rules.push_back({.key = "app", .op = core::LabelRule::Op::in, .values = {name}});
  return selector;
}

// A census with a few nodes in two zones, and pods that a test puts there.
struct Place {
  Census census;
  std::list<PodFacts> pods;

  Place() {
    node("n0", {{"zone", "a"}, {"kubernetes.io/hostname", "n0"}});
    node("n1", {{"zone", "a"}, {"kubernetes.io/hostname", "n1"}});
    node("n2", {{"zone", "b"}, {"kubernetes.io/hostname", "n2"}});
  }

  NodeFacts& node(const std::string& name, Labels labels) {
    NodeFacts& facts = census.node(census.index_of(name));
    facts.present = true;
    facts.labels = std::move(labels);
    return facts;
  }

  PodFacts& pod(const std::string& id, Labels labels, PodRules rules = {}) {
    PodFacts& facts = pods.emplace_back();
    facts.id = id;
    facts.uid = "uid-" + id;
    facts.labels = census.intern(labels);
    facts.rules = std::make_shared<const PodRules>(std::move(rules));
    return facts;
  }

  PodFacts& on(const std::string& node, const std::string& id, Labels labels, PodRules rules = {}) {
    PodFacts& facts = pod(id, std::move(labels), std::move(rules));
    census.place(facts, census.index_of(node));
    return facts;
  }

  // The nodes that are left, and who keeps the others out: "n0 n2:PodAffinity".
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

PodAffinityTerm near_app(const std::string& name, const std::string& key) {
  PodAffinityTerm term;
  term.selector = app(name);
  term.topology_key = key;
  return term;
}

TEST(PlaceRules, DoNotApplyToAPodWithoutRules) {
  Place place;
  place.on("n0", "ns/other", {{"app", "web"}});
  EXPECT_FALSE(PlaceRules(place.census, place.pod("ns/plain", {})).apply());
}

TEST(PlaceRules, AlternativesOfNodeAffinityAreORed) {
  Place place;
  Selector by_name;
  by_name.fields.push_back(
      {.key = "metadata.name", .op = core::LabelRule::Op::in, .values = {"n1"}});
  Selector by_zone;
  by_zone.rules.push_back({.key = "zone", .op = core::LabelRule::Op::in, .values = {"b"}});
  PodRules rules;
  rules.node_terms = {by_name, by_zone};
  rules.terms_apply = true;
  EXPECT_EQ(place.answer(place.pod("ns/x", {}, rules)), "n0:NodeAffinity n1 n2");
}

TEST(PlaceRules, ATermWithoutAnyRequirementMatchesNoNode) {
  Place place;
  PodRules rules;
  rules.node_terms = {Selector()};
  rules.terms_apply = true;
  EXPECT_EQ(place.answer(place.pod("ns/x", {}, rules)),
            "n0:NodeAffinity n1:NodeAffinity n2:NodeAffinity");
}

TEST(PlaceRules, AffinityWantsAPodInTheSameDomain) {
  Place place;
  place.on("n2", "ns/db", {{"app", "db"}});
  PodRules rules;
  rules.affinity = {near_app("db", "zone")};
  EXPECT_EQ(place.answer(place.pod("ns/x", {}, rules)), "n0:PodAffinity n1:PodAffinity n2");
}

TEST(PlaceRules, AffinityOfTwoTermsWantsPodsThatMeetBoth) {
  Place place;
  place.on("n0", "ns/db", {{"app", "db"}});
  place.on("n2", "ns/both", {{"app", "db"}, {"tier", "x"}});
  PodRules rules;
  rules.affinity = {near_app("db", "zone"), near_app("db", "zone")};
  rules.affinity[1].selector.rules = {
      {.key = "tier", .op = core::LabelRule::Op::exists, .values = {}}};
  EXPECT_EQ(place.answer(place.pod("ns/x", {}, rules)), "n0:PodAffinity n1:PodAffinity n2");
}

TEST(PlaceRules, TheFirstOfAGroupThatWantsItsOwnKindIsFree) {
  Place place;
  place.node("bare", {});
  PodRules rules;
  rules.affinity = {near_app("x", "zone")};
  EXPECT_EQ(place.answer(place.pod("ns/x", {{"app", "x"}}, rules)), "n0 n1 n2 bare:PodAffinity");
  EXPECT_EQ(place.answer(place.pod("ns/y", {{"app", "y"}}, rules)),
            "n0:PodAffinity n1:PodAffinity n2:PodAffinity bare:PodAffinity");
}

TEST(PlaceRules, AffinityLooksInTheNamespacesThatItNames) {
  Place place;
  place.census.namespaces["team-a"] = {{"team", "a"}};
  place.on("n0", "other/db", {{"app", "db"}});
  place.on("n2", "team-a/db", {{"app", "db"}});
  PodRules rules;
  rules.affinity = {near_app("db", "zone")};
  EXPECT_EQ(place.answer(place.pod("ns/x", {}, rules)),
            "n0:PodAffinity n1:PodAffinity n2:PodAffinity");
  rules.affinity[0].namespaces = {"other"};
  EXPECT_EQ(place.answer(place.pod("ns/y", {}, rules)), "n0 n1 n2:PodAffinity");
  rules.affinity[0].namespaces.clear();
  rules.affinity[0].namespace_selector =
      Selector{.rules = {{.key = "team", .op = core::LabelRule::Op::exists, .values = {}}}};
  EXPECT_EQ(place.answer(place.pod("ns/z", {}, rules)), "n0:PodAffinity n1:PodAffinity n2");
  rules.affinity[0].namespace_selector = Selector();  // every namespace
  EXPECT_EQ(place.answer(place.pod("ns/all", {}, rules)), "n0 n1 n2");
}

TEST(PlaceRules, AntiAffinityKeepsAwayFromTheDomain) {
  Place place;
  place.on("n0", "ns/db", {{"app", "db"}});
  PodRules rules;
  rules.anti_affinity = {near_app("db", "zone")};
  EXPECT_EQ(place.answer(place.pod("ns/x", {}, rules)), "n0:PodAntiAffinity n1:PodAntiAffinity n2");
}

TEST(PlaceRules, AntiAffinityOfThosePresentCountsToo) {
  Place place;
  PodRules rules;
  rules.anti_affinity = {near_app("noisy", "kubernetes.io/hostname")};
  place.on("n1", "ns/shy", {{"app", "shy"}}, rules);
  EXPECT_EQ(place.answer(place.pod("ns/x", {{"app", "noisy"}})), "n0 n1:OthersAntiAffinity n2");
  EXPECT_EQ(place.answer(place.pod("ns/y", {{"app", "quiet"}})), "n0 n1 n2");
  EXPECT_EQ(place.answer(place.pod("elsewhere/x", {{"app", "noisy"}})), "n0 n1 n2");
}

TEST(PlaceRules, AReplicaIsNotCountedAgainstItself) {
  Place place;
  PodRules rules;
  rules.anti_affinity = {near_app("x", "kubernetes.io/hostname")};
  PodFacts& self = place.on("n0", "ns/x-0", {{"app", "x"}}, rules);
  EXPECT_EQ(place.answer(self), "n0 n1 n2");
  EXPECT_EQ(place.answer(place.pod("ns/x-1", {{"app", "x"}}, rules)), "n0:PodAntiAffinity n1 n2");
}

SpreadConstraint spread(std::int64_t skew, const std::string& key) {
  SpreadConstraint rule;
  rule.max_skew = skew;
  rule.topology_key = key;
  rule.selector = app("x");
  return rule;
}

TEST(PlaceRules, SpreadKeepsTheSkewOfDomains) {
  Place place;
  place.node("bare", {});
  place.on("n0", "ns/x-0", {{"app", "x"}});
  PodRules rules;
  rules.spread = {spread(1, "zone")};
  EXPECT_EQ(place.answer(place.pod("ns/x-1", {{"app", "x"}}, rules)),
            "n0:TopologySpread n1:TopologySpread n2 bare:TopologySpread");
  // One that does not count itself may join.
  EXPECT_EQ(place.answer(place.pod("ns/y", {{"app", "y"}}, rules)), "n0 n1 n2 bare:TopologySpread");
}

TEST(PlaceRules, SpreadLeavesOutWhatIsBeingDeleted) {
  Place place;
  PodFacts& gone = place.on("n0", "ns/x-0", {{"app", "x"}});
  place.census.set_deleting(gone);
  PodRules rules;
  rules.spread = {spread(1, "zone")};
  EXPECT_EQ(place.answer(place.pod("ns/x-1", {{"app", "x"}}, rules)), "n0 n1 n2");
}

TEST(PlaceRules, SpreadCountsOnlyNodesThatThePodMayUseUnlessToldOtherwise) {
  Place place;
  place.on("n0", "ns/x-0", {{"app", "x"}});
  PodRules rules;
  rules.spread = {spread(1, "zone")};
  rules.node_selector = {{"zone", "a"}};
  EXPECT_EQ(place.answer(place.pod("ns/x-1", {{"app", "x"}}, rules)), "n0 n1 n2");
  rules.spread[0].honor_node_affinity = false;  // zone b counts and has none
  EXPECT_EQ(place.answer(place.pod("ns/x-2", {{"app", "x"}}, rules)),
            "n0:TopologySpread n1:TopologySpread n2");
}

TEST(PlaceRules, SpreadHonoursTaintsWhereItIsToldTo) {
  Place place;
  place.census.node(place.census.index_of("n2")).taints = {
      {.key = "gone", .value = "", .effect = "NoSchedule"}};
  place.on("n0", "ns/x-0", {{"app", "x"}});
  PodRules rules;
  rules.spread = {spread(1, "zone")};
  rules.spread[0].honor_node_taints = true;
  EXPECT_EQ(place.answer(place.pod("ns/x-1", {{"app", "x"}}, rules)), "n0 n1 n2");
}

TEST(PlaceRules, SpreadCountsNobodyWhileThereAreFewerDomainsThanItWants) {
  Place place;
  place.on("n0", "ns/x-0", {{"app", "x"}});
  place.on("n2", "ns/x-1", {{"app", "x"}});
  PodRules rules;
  rules.spread = {spread(1, "zone")};
  rules.spread[0].min_domains = 3;
  EXPECT_EQ(place.answer(place.pod("ns/x-2", {{"app", "x"}}, rules)),
            "n0:TopologySpread n1:TopologySpread n2:TopologySpread");
}

TEST(PlaceRules, SpreadOfOneRevisionDoesNotCountTheOther) {
  Place place;
  place.on("n0", "ns/old", {{"app", "x"}, {"hash", "1"}});
  PodRules rules;
  rules.spread = {spread(1, "zone")};
  rules.spread[0].match_label_keys = {"hash"};
  EXPECT_EQ(place.answer(place.pod("ns/new", {{"app", "x"}, {"hash", "2"}}, rules)), "n0 n1 n2");
}

TEST(PlaceRules, HostPortsClashByProtocolPortAndAddress) {
  Place place;
  PodRules taken;
  taken.ports = {{.protocol = "TCP", .ip = "10.0.0.1", .port = 80}};
  place.on("n0", "ns/a", {}, taken);
  taken.ports = {{.protocol = "TCP", .ip = "0.0.0.0", .port = 80}};
  place.on("n1", "ns/b", {}, taken);
  PodRules rules;
  rules.ports = {{.protocol = "TCP", .ip = "10.0.0.2", .port = 80}};
  EXPECT_EQ(place.answer(place.pod("ns/x", {}, rules)), "n0 n1:HostPortTaken n2");
  rules.ports = {{.protocol = "UDP", .ip = "0.0.0.0", .port = 80}};
  EXPECT_EQ(place.answer(place.pod("ns/y", {}, rules)), "n0 n1 n2");
  rules.ports = {{.protocol = "TCP", .ip = "0.0.0.0", .port = 80}};
  EXPECT_EQ(place.answer(place.pod("ns/z", {}, rules)), "n0:HostPortTaken n1:HostPortTaken n2");
}

TEST(PlaceRules, OtherResourcesAreWhatTheNodeOffersLessWhatItsPodsTake) {
  Place place;
  place.census.node(0).offered["rdma/hca"] = 2;
  place.census.node(1).offered["rdma/hca"] = 2;
  PodFacts& other = place.pod("ns/other", {});
  other.takes.others = {{"rdma/hca", 1}};
  place.census.place(other, 0);
  PodFacts& wants = place.pod("ns/x", {});
  wants.takes.others = {{"rdma/hca", 2}};
  EXPECT_EQ(place.answer(wants), "n0:InsufficientResource n1 n2:InsufficientResource");
  place.census.leave(other);
  EXPECT_EQ(place.answer(wants), "n0 n1 n2:InsufficientResource");
}

TEST(PlaceRules, FeaturesMustBeDeclared) {
  Place place;
  place.census.node(2).features = {"A", "GuaranteedQoSPodCPUResize"};
  PodRules rules;
  rules.features = {"GuaranteedQoSPodCPUResize"};
  EXPECT_EQ(place.answer(place.pod("ns/x", {}, rules)), "n0:MissingFeature n1:MissingFeature n2");
}

TEST(PlaceRules, SayWhatTheyDependOn) {
  Place place;
  PodRules rules;
  rules.ports = {{.port = 80}};
  EXPECT_EQ(PlaceRules(place.census, place.pod("ns/x", {}, rules)).grounds(),
            bit(Ground::ports) | bit(Ground::nodes));
}

TEST(Census, ForgetsAGroupWithItsLastPod) {
  Place place;
  PodFacts& pod = place.on("n0", "ns/x", {{"app", "x"}});
  EXPECT_EQ(place.census.groups().size(), 1U);
  place.census.leave(pod);
  EXPECT_TRUE(place.census.groups().empty());
  EXPECT_TRUE(place.census.node(0).pods.empty());
}

TEST(Census, KeepsEqualLabelsOnce) {
  Census census;
  EXPECT_EQ(census.intern({{"a", "b"}}), census.intern({{"a", "b"}}));
  EXPECT_NE(census.intern({{"a", "b"}}), census.intern({{"ab", ""}}));
}

}  // namespace
}  // namespace berth::kube
