// Properties of the pod grammar over random pods made of words that occur and words that nearly do.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "request/admission.h"
#include "request/pod.h"

namespace berth::request {
namespace {

const std::vector<std::string> kKeys{"gpu-fraction",
                                     "gpu-fraction.limit",
                                     "gpu-memory",
                                     "gpu-memory.limit",
                                     "gpu-fraction-num-devices",
                                     "gpu-fraction-container-name",
                                     "mps",
                                     "nvidia.com/container.a.gpu-memory.request",
                                     "nvidia.com/container.a.gpu-memory.limit",
                                     "nvidia.com/container.b.gpu-memory.request",
                                     "nvidia.com/container.b.gpu-compute.mode",
                                     "nvidia.com/container.b.gpu-compute.request",
                                     "nvidia.com/container.c.gpu-memory.limit",
                                     "kai.scheduler/container.a.gpu-memory.portion.limit",
                                     "nvidia.com/vgpu-mode",
                                     "hami.io/gpu-scheduler-policy",
                                     "nvidia.com/use-gputype"};
const std::vector<std::string> kResources{"nvidia.com/gpu",
                                          "nvidia.com/gpumem",
                                          "nvidia.com/gpumem-percentage",
                                          "nvidia.com/gpucores",
                                          "nvidia.com/gpu.shared",
                                          "nvidia.com/mig-1g.5gb",
                                          "nvidia.com/priority",
                                          "cpu",
                                          "memory"};
const std::vector<std::string> kValues{"0",  "1",   "2",    "0.25", "0.5", "1e-1", "50",
                                       "4k", "8Gi", "16Gi", "4096", "a",   "b",    "sm-sharing",
                                       "",   "-1",  "NaN",  "true", "mps", "100",  "spread"};

// Mostly what fits the key, so that many pods are accepted; else anything.
rc::Gen<std::string> value_for(const std::string& key) {
  std::vector<std::string> fitting{"1", "true", "sm-sharing"};
  const auto has = [&](const char* part) { return key.find(part) != std::string::npos; };
  if (key == "gpu-fraction" || has("compute.request")) fitting = {"0.25", "0.5", "1e-1"};
  if (key == "gpu-fraction.limit" || has("portion")) fitting = {"0.6", "0.75"};
  if (has("gpu-memory.request") || has("percentage")) fitting = {"50", "8Gi", "100M"};
  if (has("gpu-memory.limit")) fitting = {"8Gi", "16Gi"};
  if (key == "gpu-memory") fitting = {"4096", "1Gi"};
  if (has("container-name")) fitting = {"a", "b"};
  if (has("vgpu-mode")) fitting = {"mps", "mig", "hami-core"};
  if (has("scheduler-policy")) fitting = {"spread", "binpack"};
  if (has("gpumem") || has("gpucores")) fitting = {"50", "30", "0"};
  return rc::gen::weightedOneOf<std::string>({{40, rc::gen::elementOf(fitting)},
                                              {3, rc::gen::elementOf(kValues)},
                                              {1, rc::gen::arbitrary<std::string>()}});
}

std::map<std::string, std::string> words_of(const std::vector<std::string>& keys) {
  std::map<std::string, std::string> words;
  for (int n = *rc::gen::inRange(0, 4); n > 0; --n) {
    const std::string key = *rc::gen::elementOf(keys);
    words[key] = *value_for(key);
  }
  return words;
}

rc::Gen<PodWords> any_pod() {
  return rc::gen::exec([] {
    PodWords pod;
    pod.annotations = words_of(kKeys);
    for (const char* name : {"a", "b"}) {
      ContainerWords& container = pod.containers.emplace_back();
      container.name = name;
      container.kind = *rc::gen::element(core::ContainerKind::app, core::ContainerKind::init,
                                         core::ContainerKind::sidecar);
      if (*rc::gen::arbitrary<bool>()) container.limits = words_of(kResources);
    }
    return pod;
  });
}

RC_GTEST_PROP(AnyPod, IsAcceptedOrSaysWhy, ()) {
  const PodOutcome outcome = read_pod(*any_pod());
  RC_ASSERT(outcome.ok() == outcome.errors.empty());
  RC_CLASSIFY(outcome.ok());
  for (const Finding& finding : outcome.errors)
    RC_ASSERT(!finding.rule.empty());
}

RC_GTEST_PROP(AnyPod, ReportsErrorsInKeyOrderAndOnce, ()) {
  const PodOutcome outcome = read_pod(*any_pod());
  for (std::size_t i = 1; i < outcome.errors.size(); ++i) {
    RC_ASSERT(outcome.errors[i - 1].key <= outcome.errors[i].key);
    RC_ASSERT(!(outcome.errors[i - 1] == outcome.errors[i]));
  }
}

RC_GTEST_PROP(AnyPod, NeverLimitsBelowItsRequest, ()) {
  const PodOutcome outcome = read_pod(*any_pod());
  if (!outcome.ok()) return;
  const auto usable = *rc::gen::inRange<std::int64_t>(1, 200'000);
  for (const core::ContainerAsk& container : outcome.request->containers()) {
    RC_ASSERT(core::limit_mib_on(container.gpu, usable, 2) >=
              core::request_mib_on(container.gpu, usable, 2));
  }
}

// annotations.md 2.4: what the webhook converts reads back as the same request.
RC_GTEST_PROP(Conversion, OfShorthandsChangesNothing, ()) {
  const auto size = [] {
    return std::to_string(*rc::gen::inRange(2, 100'000)) + *rc::gen::element("M", "Mi", "G", "Gi");
  };
  PodWords pod;
  pod.containers.emplace_back().name = "a";
  pod.annotations["gpu-memory"] = size();
  if (*rc::gen::arbitrary<bool>()) pod.annotations["gpu-memory.limit"] = size();
  const PodOutcome first = admit_create(pod, {});
  RC_PRE(first.ok());
  const std::string prefix = "nvidia.com/container.a.gpu-memory.";
  pod.annotations[prefix + "request"] =
      std::to_string(first.request->containers().at(0).gpu.mib) + "Mi";
  if (pod.annotations.contains("gpu-memory.limit")) {
    pod.annotations[prefix + "limit"] = pod.annotations["gpu-memory.limit"];
  }
  const PodOutcome second = admit_create(pod, {});
  for (const Finding& finding : second.errors)
    RC_FAIL(finding.text());
  RC_ASSERT(*second.request == *first.request);
}

RC_GTEST_PROP(Fraction, TakesMoreOfADeviceTheLargerItIs, ()) {
  const auto usable = *rc::gen::inRange<std::int64_t>(1, 1'000'000);
  const auto a = *rc::gen::inRange<std::int64_t>(1, 1'000'000'000);
  const auto b = *rc::gen::inRange<std::int64_t>(a, 1'000'000'000);
  const auto take = [&](std::int64_t nano) {
    return core::request_mib_on(core::DeviceAsk::fraction_nano(nano), usable, 0);
  };
  RC_ASSERT(take(a) <= take(b));
  RC_ASSERT(take(a) + take(1'000'000'000 - a) <= usable);
}

}  // namespace
}  // namespace berth::request
