// Rows A44 … A50 of annotations.md 2.2.
#include "request/admission.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "request/pod_support_test.h"

namespace berth::request {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::kL;
using testing_support::kR;
using testing_support::Pod;

std::vector<std::string> codes_of(Pod pod, const PodRules& rules = {}) {
  return Pod::codes(admit_create(pod.words(), rules).errors);
}

std::vector<std::string> update_codes(const Annotations& before, const Annotations& after,
                                      Writer writer = Writer::user) {
  return Pod::codes(check_update(before, after, writer));
}

const std::vector<std::string> kSchedulersKeys{"nvidia.com/container.main.gpus.devices",
                                               "nvidia.com/container.main.gpu-compute.portion",
                                               "received-resource-type",
                                               "berth.dev/grant",
                                               "berth.dev/main.devices",
                                               "berth.dev/main.memory-request-mib",
                                               "berth.dev/main.memory-limit-mib"};

TEST(Admission, A44ProtectedKeysHaveOneWriter) {
  for (const std::string& key : kSchedulersKeys) {
    EXPECT_TRUE(is_protected_key(key)) << key;
    EXPECT_THAT(codes_of(Pod().with(key, "x")), ElementsAre("ProtectedKey")) << key;
    for (const Writer writer : {Writer::user, Writer::webhook, Writer::agent}) {
      EXPECT_THAT(update_codes({}, {{key, "x"}}, writer), ElementsAre("ProtectedKey")) << key;
      EXPECT_THAT(update_codes({{key, "x"}}, {{key, "y"}}, writer), ElementsAre("ProtectedKey"));
      EXPECT_THAT(update_codes({{key, "x"}}, {}, writer), ElementsAre("ProtectedKey"));
    }
    EXPECT_THAT(update_codes({}, {{key, "x"}}, Writer::scheduler), IsEmpty()) << key;
  }
  EXPECT_THAT(update_codes({}, {{"berth.dev/isolation", "library"}}, Writer::agent), IsEmpty());
  EXPECT_THAT(update_codes({}, {{"berth.dev/isolation", "library"}}, Writer::scheduler),
              ElementsAre("ProtectedKey"));
}

TEST(Admission, A45UnchangedProtectedKeysAreAnybodysToSend) {
  for (const std::string& key : kSchedulersKeys) {
    EXPECT_THAT(update_codes({{key, "x"}}, {{key, "x"}, {"note", "new"}}), IsEmpty()) << key;
  }
}

TEST(Admission, A46SizingKeysAreFixedAtCreation) {
  for (const char* key : {"gpu-fraction", "gpu-memory", "gpu-memory.limit", "mps",
                          "nvidia.com/container.main.gpu-memory.request",
                          "nvidia.com/container.main.gpu-compute.mode", "nvidia.com/vgpu-mode",
                          "kai.scheduler/container.main.gpu-memory.portion.limit"}) {
    EXPECT_THAT(update_codes({{key, "1Gi"}}, {{key, "2Gi"}}), ElementsAre("ImmutableKey")) << key;
    EXPECT_THAT(update_codes({{key, "1Gi"}}, {}), ElementsAre("ImmutableKey")) << key;
    EXPECT_THAT(update_codes({{key, "1Gi"}}, {{key, "1Gi"}}), IsEmpty()) << key;
  }
  EXPECT_THAT(update_codes({}, {{kR, "20389Mi"}, {kL, "20389Mi"}}, Writer::scheduler), IsEmpty());
  EXPECT_THAT(update_codes({}, {{kR, "20389Mi"}}), ElementsAre("ImmutableKey"));
  EXPECT_THAT(update_codes({{kR, "1Gi"}}, {{kR, "2Gi"}}, Writer::scheduler),
              ElementsAre("ImmutableKey"));
}

TEST(Admission, A47RefusesAPresetNodeForAShare) {
  Pod share = Pod().with("gpu-fraction", "0.5");
  share.words().preset_node = "n1";
  EXPECT_THAT(codes_of(share), ElementsAre("NodeNamePreset"));
  Pod whole = Pod().limit("nvidia.com/gpu", "1");
  whole.words().preset_node = "n1";
  EXPECT_THAT(codes_of(whole), IsEmpty());
}

TEST(Admission, A48RefusesAPrivilegedShare) {
  Pod pod = Pod().container("helper").with("gpu-fraction", "0.5");
  pod.words().containers[1].privileged = true;
  EXPECT_THAT(codes_of(pod), IsEmpty()) << "the helper has no share";
  pod.words().containers[0].privileged = true;
  EXPECT_THAT(codes_of(pod), ElementsAre("PrivilegedShare"));
  EXPECT_THAT(codes_of(pod, {.allow_privileged_shares = true}), IsEmpty());
}

TEST(Admission, A49RefusesAChoiceOfVisibleDevices) {
  for (const char* value : {"all", "0", "", "GPU-1"}) {
    Pod pod;
    pod.words().containers[0].env = {{"NVIDIA_VISIBLE_DEVICES", value, ""}};
    EXPECT_THAT(codes_of(pod), ElementsAre("ProtectedEnv")) << value;
  }
  for (const char* value : {"void", "none"}) {
    Pod pod = Pod().with("gpu-fraction", "0.5");
    pod.words().containers[0].env = {{"NVIDIA_VISIBLE_DEVICES", value, ""}};
    EXPECT_THAT(codes_of(pod), IsEmpty()) << value;
  }
}

TEST(Admission, A50RefusesOtherProtectedEnvironmentOfAShare) {
  for (const char* name :
       {"NVIDIA_GPU_MEMORY_LIMIT", "NVIDIA_GPU_MEMORY_REQUEST", "BERTH_MEMORY_MIB",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_PIPE_DIRECTORY"}) {
    Pod pod = Pod().with("gpu-fraction", "0.5");
    pod.words().containers[0].env = {{name, "1", ""}};
    EXPECT_THAT(codes_of(pod), ElementsAre("ProtectedEnv")) << name;
    Pod plain;
    plain.words().containers[0].env = {{name, "1", ""}};
    EXPECT_THAT(codes_of(plain), IsEmpty()) << name;
  }
  Pod narrowed = Pod().with("gpu-fraction", "0.5");
  narrowed.words().containers[0].env = {{"CUDA_VISIBLE_DEVICES", "0", ""}};
  EXPECT_THAT(codes_of(narrowed), IsEmpty());
}

TEST(Admission, TakesItsOwnEnvironmentBack) {
  Pod pod = Pod().with("gpu-fraction", "0.5");
  pod.words().containers[0].env = {
      {"NVIDIA_VISIBLE_DEVICES", "", "metadata.annotations['berth.dev/main.devices']"},
      {"NVIDIA_GPU_MEMORY_LIMIT", "", "metadata.annotations['berth.dev/main.memory-limit-mib']"}};
  EXPECT_THAT(codes_of(pod), IsEmpty());
  for (const char* path : {"metadata.annotations['mine']", "metadata.annotations['berth.dev/mine']",
                           "metadata.annotations['berth.dev/other.devices']",
                           "metadata.annotations['berth.dev/main.memory-limit-mib']"}) {
    pod.words().containers[0].env = {{"NVIDIA_VISIBLE_DEVICES", "", path}};
    EXPECT_THAT(codes_of(pod), ElementsAre("ProtectedEnv")) << path;
  }
}

TEST(Admission, ReportsItsErrorsTogetherWithTheGrammars) {
  Pod pod = Pod().with("gpu-fraction", "2").with("berth.dev/grant", "{}");
  pod.words().preset_node = "n1";
  EXPECT_THAT(codes_of(pod), ElementsAre("ProtectedKey", "BadFraction", "NodeNamePreset"));
}

}  // namespace
}  // namespace berth::request
