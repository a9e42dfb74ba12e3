#include "kube/objects/amounts.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::kube {
namespace {

using core::ContainerKind;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

struct Uses {
  std::vector<std::pair<ContainerKind, int>> init = {};
  std::vector<int> apps = {};
};

// A pod of containers that ask for so much of each of three kinds of resources.
Pod pod_with(const Uses& uses) {
  Pod pod;
  const auto add = [&](ContainerKind kind, int amount) {
    request::ContainerWords& container = pod.words.containers.emplace_back();
    container.name = "c" + std::to_string(pod.words.containers.size());
    container.kind = kind;
    container.requests = {{"cpu", std::to_string(amount)},
                          {"memory", std::to_string(amount) + "Gi"},
                          {"example.com/nic", std::to_string(amount)}};
  };
  for (const auto& [kind, amount] : uses.init) {
    add(kind, amount);
  }
  for (const int amount : uses.apps) {
    add(ContainerKind::app, amount);
  }
  return pod;
}

void expect_units(const Pod& pod, std::int64_t units) {
  const auto amounts = effective_request(pod);
  ASSERT_TRUE(amounts.ok()) << amounts.error().message();
  EXPECT_THAT(*amounts, UnorderedElementsAre(Pair("cpu", units * 1000),
                                             Pair("memory", units * 1024 * 1024 * 1024),
                                             Pair("example.com/nic", units), Pair("pods", 1)));
}

constexpr auto kInit = ContainerKind::init;
constexpr auto kSidecar = ContainerKind::sidecar;

// The vectors of kubernetes-api.md 12, row by row.
TEST(EffectiveRequest, SumsAppsAndSidecarsWhereThatIsMost) {
  expect_units(pod_with({.init = {{kInit, 4}, {kSidecar, 1}, {kInit, 3}}, .apps = {2, 1}}), 4);
}

TEST(EffectiveRequest, TakesThePeakOfInitContainersBesideEarlierSidecars) {
  expect_units(pod_with({.init = {{kSidecar, 1}, {kInit, 5}}, .apps = {2, 1}}), 6);
}

TEST(EffectiveRequest, CountsSidecarsBesideApps) {
  expect_units(pod_with({.init = {{kInit, 2}, {kSidecar, 1}, {kSidecar, 2}}, .apps = {3}}), 6);
}

TEST(EffectiveRequest, PodLevelRequestsReplaceAndOverheadIsAdded) {
  Pod pod = pod_with({.init = {{kInit, 4}, {kSidecar, 1}, {kInit, 3}}, .apps = {2, 1}});
  pod.pod_requests = {{"cpu", "7"}, {"memory", "7Gi"}, {"example.com/nic", "7"}};
  pod.overhead = {{"cpu", "1"}, {"memory", "1Gi"}};
  const auto amounts = effective_request(pod);
  ASSERT_TRUE(amounts.ok());
  EXPECT_EQ(amounts->at("cpu"), 8000);
  EXPECT_EQ(amounts->at("memory"), std::int64_t{8} << 30);
  EXPECT_EQ(amounts->at("example.com/nic"), 4) << "not a resource of whole pods";
}

TEST(EffectiveRequest, ARunningPodHoldsTheMostOfAskedGivenAndAllocated) {
  Pod pod = pod_with({.apps = {2}});
  pod.given["c1"] = {.requests = {{"cpu", "3"}, {"memory", "1Gi"}},
                     .allocated = {{"cpu", "2500m"}, {"memory", "4Gi"}}};
  auto amounts = effective_request(pod);
  ASSERT_TRUE(amounts.ok());
  EXPECT_EQ(amounts->at("cpu"), 3000);
  EXPECT_EQ(amounts->at("memory"), std::int64_t{4} << 30);
  EXPECT_EQ(amounts->at("example.com/nic"), 2);

  pod.words.containers[0].requests["cpu"] = "64";
  EXPECT_EQ(effective_request(pod)->at("cpu"), 64000) << "a resize under way";
  pod.resize_infeasible = true;
  EXPECT_EQ(effective_request(pod)->at("cpu"), 3000) << "what it wants and cannot get";
}

TEST(EffectiveRequest, WhatAnInitContainerWasGivenDoesNotCount) {
  Pod pod = pod_with({.init = {{kInit, 1}}, .apps = {1}});
  pod.given["c1"] = {.requests = {{"cpu", "9"}}};
  EXPECT_EQ(effective_request(pod)->at("cpu"), 1000);
}

TEST(EffectiveRequest, APodWithoutRequestsTakesItsSlot) {
  const auto amounts = effective_request(Pod{});
  ASSERT_TRUE(amounts.ok());
  EXPECT_THAT(*amounts, UnorderedElementsAre(Pair("pods", 1)));
}

TEST(EffectiveRequest, NamesWhatIsNoQuantity) {
  Pod pod = pod_with({.apps = {1}});
  pod.words.containers[0].requests["memory"] = "lots";
  const auto amounts = effective_request(pod);
  ASSERT_FALSE(amounts.ok());
  EXPECT_THAT(amounts.error().message(),
              HasSubstr("spec.containers[c1].resources.requests[memory]=lots: a quantity"));
}

TEST(ReadAmount, RoundsUpLikeKubernetes) {
  EXPECT_EQ(*read_amount("cpu", "0.1"), 100);
  EXPECT_EQ(*read_amount("cpu", "100m"), 100);
  EXPECT_EQ(*read_amount("cpu", "1500u"), 2);
  EXPECT_EQ(*read_amount("memory", "1.5Gi"), 1'610'612'736);
  EXPECT_EQ(*read_amount("memory", "128974848000m"), 128'974'848);
  EXPECT_EQ(*read_amount("nvidia.com/gpu", "2"), 2);
  EXPECT_EQ(*read_amount("nvidia.com/gpumem", "4k"), 4000);
  for (const char* text : {"", "x", "-1", "1e30", "1Gx"}) {
    EXPECT_FALSE(read_amount("memory", text).ok()) << text;
    EXPECT_FALSE(read_amount("cpu", text).ok()) << text;
  }
}

TEST(ReadCapacity, LeavesOutWhatCannotBeRead) {
  EXPECT_THAT(read_capacity({{"cpu", "4"}, {"memory", "1Gi"}, {"x/y", "1e40"}}),
              UnorderedElementsAre(Pair("cpu", 4000), Pair("memory", std::int64_t{1} << 30)));
}

}  // namespace
}  // namespace berth::kube
