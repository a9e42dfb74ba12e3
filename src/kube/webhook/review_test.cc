#include "kube/webhook/review.h"

#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kube/client/text.h"
#include "kube/webhook/review_test_support.h"

namespace berth::kube {
namespace {

using Json = nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

Json answer_to(ReviewKind kind, const ReviewWords& words, const ReviewRules& rules = {}) {
  Reviewer reviewer(rules);
  const ReviewAnswer answer = reviewer.review(kind, review_text(words));
  EXPECT_EQ(answer.status, 200);
  Json body = Json::parse(answer.body);
  EXPECT_EQ(body["apiVersion"], "admission.k8s.io/v1");
  EXPECT_EQ(body["kind"], "AdmissionReview");
  EXPECT_EQ(body["response"]["uid"], "r-1");
  return body["response"];
}

// The object as the mutating review leaves it. A second pass must change nothing, and the
// validating review must take what came out.
Json mutated(ReviewWords words, const ReviewRules& rules = {}) {
  const Json response = answer_to(ReviewKind::mutate, words, rules);
  EXPECT_EQ(response["allowed"], true);
  Json object = Json::parse(words.object);
  if (response.contains("patch")) {
    EXPECT_EQ(response["patchType"], "JSONPatch");
    object = object.patch(Json::parse(*from_base64(response["patch"].get<std::string>())));
  }
  words.object = object.dump();
  const Json again = answer_to(ReviewKind::mutate, words, rules);
  EXPECT_FALSE(again.contains("patch")) << again.dump() << "\n" << object.dump(1);
  const Json valid = answer_to(ReviewKind::validate, words, rules);
  EXPECT_EQ(valid["allowed"], true) << valid.dump();
  return object;
}

std::string refusal(const ReviewWords& words, const ReviewRules& rules = {}) {
  const Json response = answer_to(ReviewKind::validate, words, rules);
  EXPECT_EQ(response["allowed"], false);
  EXPECT_EQ(response["status"]["code"], 422);
  return response["status"]["message"];
}

bool is_taken(const ReviewWords& words) {
  return answer_to(ReviewKind::validate, words)["allowed"];
}

constexpr const char* kMain = R"({"name":"main","image":"x"})";

TEST(Mutate, GivesAShareItsKeysEnvironmentAndRuntime) {
  const Json pod =
      mutated({.object = pod_text(R"({"gpu-memory":"4096","gpu-memory.limit":"8Gi"})", kMain)});
  const Json& annotations = pod["metadata"]["annotations"];
  EXPECT_EQ(annotations["nvidia.com/container.main.gpu-memory.request"], "4096Mi");
  EXPECT_EQ(annotations["nvidia.com/container.main.gpu-memory.limit"], "8Gi") << "verbatim";
  EXPECT_EQ(pod["spec"]["runtimeClassName"], "nvidia");
  Json env;
  for (const Json& one : pod["spec"]["containers"][0]["env"]) {
    env[one["name"]] = one["valueFrom"]["fieldRef"]["fieldPath"];
  }
  EXPECT_EQ(env, Json::parse(R"json({
    "NVIDIA_VISIBLE_DEVICES":"metadata.annotations['berth.dev/main.devices']",
    "NVIDIA_GPU_MEMORY_REQUEST":"metadata.annotations['berth.dev/main.memory-request-mib']",
    "NVIDIA_GPU_MEMORY_LIMIT":"metadata.annotations['berth.dev/main.memory-limit-mib']",
    "BERTH_MEMORY_MIB":"metadata.annotations['berth.dev/main.memory-request-mib']",
    "BERTH_MEMORY_LIMIT_MIB":"metadata.annotations['berth.dev/main.memory-limit-mib']"})json"));
}

TEST(Mutate, ConvertsUnitsAndPortionLimitsForTheirTarget) {
  const Json memory = mutated({.object = pod_text(R"({"gpu-memory":"1500M"})", kMain)});
  EXPECT_EQ(memory["metadata"]["annotations"]["nvidia.com/container.main.gpu-memory.request"],
            "1431Mi");
  const Json fraction =
      mutated({.object = pod_text(R"({"gpu-fraction":"0.25","gpu-fraction.limit":"0.5",
                              "gpu-fraction-container-name":"two"})",
                                  R"({"name":"one"},{"name":"two"})")});
  EXPECT_EQ(
      fraction["metadata"]["annotations"]["kai.scheduler/container.two.gpu-memory.portion.limit"],
      "0.5");
  EXPECT_EQ(fraction["metadata"]["annotations"].size(), 4U)
      << "a fraction is converted at binding, when the device is known";
}

TEST(Mutate, LeavesEqualSizesThatStandThere) {
  const Json pod =
      mutated({.object = pod_text(
                   R"({"gpu-memory":"4096","nvidia.com/container.main.gpu-memory.request":"4Gi"})",
                   kMain)});
  EXPECT_EQ(pod["metadata"]["annotations"]["nvidia.com/container.main.gpu-memory.request"], "4Gi");
}

TEST(Mutate, HidesDevicesFromContainersWithoutARequest) {
  const Json pod =
      mutated({.object = pod_text(R"({"gpu-fraction":"0.5"})",
                                  R"({"name":"main"},{"name":"side","env":[{"name":"A"}]})",
                                  R"("initContainers":[{"name":"fetch"}],)")});
  const Json hidden = {{"name", "NVIDIA_VISIBLE_DEVICES"}, {"value", "void"}};
  EXPECT_THAT(pod["spec"]["containers"][1]["env"], Contains(hidden));
  EXPECT_EQ(pod["spec"]["containers"][1]["env"].size(), 2U);
  EXPECT_THAT(pod["spec"]["initContainers"][0]["env"], Contains(hidden));
  EXPECT_EQ(pod["spec"]["containers"][0]["env"].size(), 5U);
}

TEST(Mutate, APodWithoutARequestSeesNoDeviceAndNeedsNoRuntime) {
  const Json pod = mutated({.object = pod_text("{}", kMain)});
  EXPECT_EQ(pod["spec"]["containers"][0]["env"][0]["value"], "void");
  EXPECT_FALSE(pod["spec"].contains("runtimeClassName"));
}

TEST(Mutate, WritesItsReferenceOverVoid) {
  const Json pod = mutated({.object = pod_text(R"({"gpu-fraction":"0.5"})",
                                               R"({"name":"main","env":[{"name":"A","value":"1"},
                                  {"name":"NVIDIA_VISIBLE_DEVICES","value":"void"}]})")});
  EXPECT_EQ(pod["spec"]["containers"][0]["env"][1]["valueFrom"]["fieldRef"]["fieldPath"],
            "metadata.annotations['berth.dev/main.devices']");
  EXPECT_FALSE(pod["spec"]["containers"][0]["env"][1].contains("value"));
}

TEST(Mutate, NeverMakesRoomForWhatIsRefused) {
  const ReviewWords words{
      .object = pod_text(R"({"gpu-fraction":"0.5"})",
                         R"({"name":"main","env":[{"name":"NVIDIA_VISIBLE_DEVICES","value":"all"},
                            {"name":"BERTH_MEMORY_MIB","value":"99999"}]})")};
  const Json response = answer_to(ReviewKind::mutate, words);
  ReviewWords after = words;
  after.object = Json::parse(words.object)
                     .patch(Json::parse(*from_base64(response["patch"].get<std::string>())))
                     .dump();
  const std::string message = refusal(after);
  EXPECT_THAT(message, HasSubstr("ProtectedEnv: NVIDIA_VISIBLE_DEVICES=all"));
  EXPECT_THAT(message, HasSubstr("ProtectedEnv: BERTH_MEMORY_MIB=99999"));
}

TEST(Mutate, WholeDevicesAreTheVendorsUnlessBerthAssignsThem) {
  const ReviewWords words{.object = pod_text("{}", R"({"name":"main","resources":{"limits":
                                {"nvidia.com/gpu":"1"}}})")};
  EXPECT_FALSE(mutated(words)["spec"]["containers"][0].contains("env"));
  const Json own = mutated(words, {.assigns_whole = true});
  ASSERT_EQ(own["spec"]["containers"][0]["env"].size(), 1U);
  EXPECT_EQ(own["spec"]["containers"][0]["env"][0]["name"], "NVIDIA_VISIBLE_DEVICES");
}

TEST(Mutate, CarriesThePriorityOfHami) {
  const Json pod = mutated({.object = pod_text("{}", R"({"name":"main","resources":{"limits":
                                {"nvidia.com/gpumem":"4k","nvidia.com/priority":"1"}}})")});
  EXPECT_THAT(pod["spec"]["containers"][0]["env"],
              Contains(Json{{"name", "CUDA_TASK_PRIORITY"}, {"value", "1"}}));
}

TEST(Mutate, KeepsARuntimeClassAndMayWriteNone) {
  const Json kept = mutated(
      {.object = pod_text(R"({"gpu-fraction":"0.5"})", kMain, R"("runtimeClassName":"own",)")});
  EXPECT_EQ(kept["spec"]["runtimeClassName"], "own");
  const Json none =
      mutated({.object = pod_text(R"({"gpu-fraction":"0.5"})", kMain)}, {.runtime_class = ""});
  EXPECT_FALSE(none["spec"].contains("runtimeClassName"));
}

TEST(Mutate, KeysOfLongNamesAreLeftOut) {
  const std::string name(50, 'c');
  const Json pod =
      mutated({.object = pod_text(R"({"gpu-memory":"4096"})", R"({"name":")" + name + R"("})")});
  EXPECT_EQ(pod["metadata"]["annotations"].size(), 1U);
  EXPECT_EQ(pod["spec"]["containers"][0]["env"].size(), 5U);
}

TEST(Mutate, WritesAnnotationsWhereThereAreNone) {
  std::string pod = pod_text("{}", R"({"name":"main","resources":{"limits":
                              {"nvidia.com/gpumem":"100"}}})");
  pod.replace(pod.find(R"(,"annotations":{})"), 17, "");
  EXPECT_EQ(mutated({.object = pod})["spec"]["containers"][0]["env"].size(), 5U);
}

TEST(Mutate, LeavesOtherSchedulersAlone) {
  std::string pod = pod_text(R"({"gpu-fraction":"0.5"})", kMain);
  pod.replace(pod.find("berth-scheduler"), 15, "kai-scheduler");
  EXPECT_FALSE(answer_to(ReviewKind::mutate, {.object = pod}).contains("patch"));
}

TEST(Mutate, LeavesWhatIsWrongToTheValidatingReview) {
  const ReviewWords words{.object = pod_text(R"({"gpu-fraction":"2"})", kMain)};
  EXPECT_FALSE(answer_to(ReviewKind::mutate, words).contains("patch"));
  EXPECT_THAT(refusal(words), HasSubstr("BadFraction: gpu-fraction=2"));
}

TEST(Mutate, NewEphemeralContainersSeeNoDevice) {
  const std::string before = pod_text("{}", kMain, R"("ephemeralContainers":[{"name":"old"}],)");
  const std::string after =
      pod_text("{}", kMain,
               R"("ephemeralContainers":[{"name":"old"},{"name":"new"},{"name":"own","env":[
          {"name":"NVIDIA_VISIBLE_DEVICES","value":"none"}]}],)");
  const Json pod = mutated({.object = after,
                            .old_object = before,
                            .operation = "UPDATE",
                            .subresource = "ephemeralcontainers"});
  const Json& list = pod["spec"]["ephemeralContainers"];
  EXPECT_FALSE(list[0].contains("env"));
  EXPECT_EQ(list[1]["env"][0]["value"], "void");
  EXPECT_EQ(list[2]["env"].size(), 1U);
}

TEST(Validate, TellsAllErrorsAtOnceInKeyOrder) {
  const std::string message =
      refusal({.object = pod_text(
                   R"({"gpu-memory":"abc","gpu-fraction":"2","berth.dev/grant":"{}"})", kMain)});
  std::vector<std::string> starts;
  std::istringstream lines(message);
  for (std::string line; std::getline(lines, line);) {
    starts.push_back(line.substr(0, line.find(": ", line.find(": ") + 1)));
  }
  EXPECT_THAT(starts,
              ElementsAre("ProtectedKey: berth.dev/grant={}", "BadFraction: gpu-fraction=2",
                          "FractionAndMemory: gpu-fraction=2", "BadMemory: gpu-memory=abc"));
}

TEST(Mutate, WarnsOfTheWordsAsTheyWereWritten) {
  const Json response =
      answer_to(ReviewKind::mutate, {.object = pod_text(R"({"gpu-memory":"1Gi"})", kMain)});
  EXPECT_THAT(response["warnings"][0], HasSubstr("NotPortableToKai: gpu-memory=1Gi"));
}

TEST(Validate, WarnsWithoutRefusing) {
  const Json response =
      answer_to(ReviewKind::validate, {.object = pod_text(R"({"gpu-memory":"1Gi"})", kMain)});
  EXPECT_EQ(response["allowed"], true);
  EXPECT_THAT(response["warnings"][0], HasSubstr("NotPortableToKai"));
}

TEST(Validate, OnlyTheWriterOfAKeyWritesIt) {
  const std::string before = pod_text("{}", kMain);
  const std::string grant = pod_text(R"({"berth.dev/grant":"{}"})", kMain);
  const std::string isolation = pod_text(R"({"berth.dev/isolation":"library"})", kMain);
  const std::string scheduler = "system:serviceaccount:berth-system:berth-scheduler";
  const std::string agent = "system:serviceaccount:berth-system:berth-agent";
  const auto update = [&](const std::string& object, const std::string& user,
                          const std::string& subresource = "") {
    return is_taken({.object = object,
                     .old_object = before,
                     .operation = "UPDATE",
                     .subresource = subresource,
                     .user = user});
  };
  EXPECT_FALSE(update(grant, "alice"));
  EXPECT_FALSE(update(grant, "alice", "status")) << "pods/status can change metadata, too";
  EXPECT_FALSE(update(grant, agent));
  EXPECT_TRUE(update(grant, scheduler));
  EXPECT_TRUE(update(isolation, agent));
  EXPECT_FALSE(update(isolation, scheduler));
  EXPECT_TRUE(update(before, "alice")) << "what stays is nobody's change";
}

TEST(Validate, SizesAreFixedOnceThePodExists) {
  const std::string before = pod_text(R"({"gpu-memory":"4096","mine":"1"})", kMain);
  const auto update = [&](const std::string& annotations) {
    return ReviewWords{
        .object = pod_text(annotations, kMain), .old_object = before, .operation = "UPDATE"};
  };
  EXPECT_THAT(refusal(update(R"({"gpu-memory":"8192","mine":"1"})")),
              HasSubstr("ImmutableKey: gpu-memory=8192"));
  EXPECT_THAT(refusal(update(R"({"mine":"1"})")), HasSubstr("ImmutableKey: gpu-memory=4096"));
  EXPECT_TRUE(is_taken(update(R"({"gpu-memory":"4096","mine":"2"})")));
}

TEST(Validate, ABindingByAnybodyElseBringsNoKeysOfOurs) {
  const auto binding = [](const std::string& annotations, const std::string& user) {
    return ReviewWords{.object = R"({"kind":"Binding","metadata":{"name":"p","annotations":)" +
                                 annotations + R"(},"target":{"kind":"Node","name":"n1"}})",
                       .kind = "Binding",
                       .subresource = "binding",
                       .user = user};
  };
  EXPECT_THAT(refusal(binding(R"({"berth.dev/main.devices":"all"})", "other")),
              HasSubstr("ProtectedKey: berth.dev/main.devices=all"));
  EXPECT_TRUE(is_taken(binding("{}", "other")));
  EXPECT_TRUE(is_taken(binding(R"({"berth.dev/main.devices":"GPU-a",
                                   "nvidia.com/container.main.gpu-memory.request":"5Mi"})",
                               "system:serviceaccount:berth-system:berth-scheduler")));
}

TEST(Validate, NewEphemeralContainersMayNotShowDevices) {
  const std::string before = pod_text("{}", kMain);
  const auto with = [&](const std::string& env) {
    return ReviewWords{
        .object = pod_text("{}", kMain,
                           R"("ephemeralContainers":[{"name":"debug","env":[)" + env + "]}],"),
        .old_object = before,
        .operation = "UPDATE",
        .subresource = "ephemeralcontainers"};
  };
  EXPECT_THAT(refusal(with(R"({"name":"NVIDIA_VISIBLE_DEVICES","value":"all"})")),
              HasSubstr("ProtectedEnv: NVIDIA_VISIBLE_DEVICES=all"));
  EXPECT_THAT(refusal(with(R"({"name":"NVIDIA_VISIBLE_DEVICES","valueFrom":{"fieldRef":
                {"fieldPath":"metadata.annotations['berth.dev/main.devices']"}}})")),
              HasSubstr("ProtectedEnv"));
  EXPECT_TRUE(is_taken(with(R"({"name":"NVIDIA_VISIBLE_DEVICES","value":"void"})")));
}

TEST(Validate, NodePresetAndPrivilegedSharesAreRefused) {
  EXPECT_THAT(
      refusal({.object = pod_text(R"({"gpu-fraction":"0.5"})", kMain, R"("nodeName":"n1",)")}),
      HasSubstr("NodeNamePreset: spec.nodeName=n1"));
  EXPECT_THAT(
      refusal({.object = pod_text(R"({"gpu-fraction":"0.5"})",
                                  R"({"name":"main","securityContext":{"privileged":true}})")}),
      HasSubstr("PrivilegedShare"));
}

TEST(Validate, AnObjectThatCannotBeReadIsRefusedByName) {
  EXPECT_EQ(refusal({.object = R"({"metadata":{"name":"p"},"spec":{"containers":7}})"}),
            "Pod p: spec.containers is a number, not a list");
}

TEST(Validate, OtherOperationsPass) {
  EXPECT_TRUE(is_taken({.object = "null", .operation = "DELETE"}));
  EXPECT_TRUE(is_taken({.object = "{}", .operation = "CONNECT"}));
}

TEST(Review, WhatIsNoReviewGets400) {
  Reviewer reviewer({});
  for (const char* body :
       {"", "{", "[]", "{}",
        R"({"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"})",
        R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}})"}) {
    const ReviewAnswer answer = reviewer.review(ReviewKind::mutate, body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(answer.result, ReviewResult::malformed);
    EXPECT_FALSE(Json::parse(answer.body)["message"].get<std::string>().empty());
  }
}

}  // namespace
}  // namespace berth::kube
