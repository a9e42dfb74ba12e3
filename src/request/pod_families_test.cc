// Every row of annotations.md 1.5 (V1 … V14), then what the table of 2.2 leaves to prose: HAMi's
// families, constraints, CPU and RAM, several containers, how errors are reported.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "request/pod.h"
#include "request/pod_support_test.h"

namespace berth::request {
namespace {

using core::AskKind;
using core::Backend;
using core::ContainerKind;
using core::DeviceAsk;
using core::OrderHint;
using core::SharingMode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::ask_of;
using testing_support::Grant;
using testing_support::grant_on;
using testing_support::kCompute;
using testing_support::key_of;
using testing_support::kL;
using testing_support::kR;
using testing_support::Pod;

TEST(Conversion, V1FractionWithLimit) {
  const DeviceAsk ask =
      ask_of(Pod().with("gpu-fraction", "0.25").with("gpu-fraction.limit", "0.5"));
  EXPECT_EQ(ask.nano, 250'000'000);
  EXPECT_EQ(ask.limit_nano, 500'000'000);
  EXPECT_EQ(grant_on(ask), (Grant{20389, 40779}));
}

TEST(Conversion, V2MemoryInMebibytesWithLimit) {
  EXPECT_EQ(grant_on(ask_of(Pod().with("gpu-memory", "4096").with("gpu-memory.limit", "8Gi"))),
            (Grant{4096, 8192}));
}

TEST(Conversion, V3MemoryWithDecimalUnitRoundsUp) {
  EXPECT_EQ(grant_on(ask_of(Pod().with("gpu-memory", "1500M"))), (Grant{1431, 1431}));
}

TEST(Conversion, V4RequestWithDecimalUnitRoundsUp) {
  EXPECT_EQ(grant_on(ask_of(Pod().with(kR, "1000M"))), (Grant{954, 954}));
}

TEST(Conversion, V5LimitOrRequestAloneIsBoth) {
  EXPECT_EQ(grant_on(ask_of(Pod().with(kL, "8Gi"))), (Grant{8192, 8192}));
  EXPECT_EQ(grant_on(ask_of(Pod().with(kR, "8Gi"))), (Grant{8192, 8192}));
}

TEST(Conversion, V6FractionOfTwoDevices) {
  const DeviceAsk ask =
      ask_of(Pod().with("gpu-fraction", "0.5").with("gpu-fraction-num-devices", "2"));
  EXPECT_EQ(ask.count, 2);
  EXPECT_EQ(grant_on(ask).request, 40779);
}

TEST(Conversion, V7HamiCountMemoryAndCores) {
  const DeviceAsk ask = ask_of(Pod()
                                   .limit("nvidia.com/gpu", "2")
                                   .limit("nvidia.com/gpumem", "3000")
                                   .limit("nvidia.com/gpucores", "30"));
  EXPECT_EQ(ask.count, 2);
  EXPECT_EQ(ask.compute_milli, 300);
  EXPECT_EQ(grant_on(ask), (Grant{3000, 3000}));
}

TEST(Conversion, V8HamiMemoryByValue) {
  for (const char* text : {"4k", "4000", "4e3"}) {
    const DeviceAsk ask = ask_of(Pod().limit("nvidia.com/gpumem", text));
    EXPECT_EQ(ask.count, 1) << text;
    EXPECT_EQ(grant_on(ask), (Grant{4000, 4000})) << text;
  }
}

TEST(Conversion, V9HamiPercent) {
  const DeviceAsk ask =
      ask_of(Pod().limit("nvidia.com/gpu", "1").limit("nvidia.com/gpumem-percentage", "50"));
  EXPECT_EQ(ask.nano, 500'000'000);
  EXPECT_EQ(grant_on(ask).request, 40779);
}

TEST(Conversion, V10WholeDevices) {
  EXPECT_EQ(ask_of(Pod().limit("nvidia.com/gpu", "2")), DeviceAsk::whole_devices(2));
  EXPECT_EQ(ask_of(Pod().limit("nvidia.com/gpu", "2").limit("nvidia.com/gpucores", "100")),
            DeviceAsk::whole_devices(2));
}

TEST(Conversion, V11SharedPart) {
  const DeviceAsk ask = ask_of(Pod().limit("nvidia.com/gpu.shared", "1"));
  EXPECT_EQ(ask, DeviceAsk::replica_part());
  EXPECT_EQ(grant_on(ask, 81559, 4).request, 20389);
}

TEST(Conversion, V12MigInstance) {
  EXPECT_EQ(ask_of(Pod().limit("nvidia.com/mig-1g.5gb", "1")), DeviceAsk::mig_instances("1g.5gb"));
  EXPECT_EQ(ask_of(Pod().limit("nvidia.com/mig-1g.5gb.me", "2")),
            DeviceAsk::mig_instances("1g.5gb+me", 2));
}

TEST(Conversion, V13FractionOfASmallDeviceRoundsDown) {
  EXPECT_EQ(grant_on(ask_of(Pod().with("gpu-fraction", "0.8")), 976).request, 780);
}

TEST(Conversion, V14SpellingsOfOneHalf) {
  for (const char* text : {"5e-1", ".5", "+0.5"}) {
    EXPECT_EQ(ask_of(Pod().with("gpu-fraction", text)).nano, 500'000'000) << text;
  }
}

TEST(Hami, MemoryOrCoresWithoutACountMeanOneDevice) {
  EXPECT_EQ(ask_of(Pod().limit("nvidia.com/gpumem", "4000")).count, 1);
  EXPECT_EQ(ask_of(Pod().limit("nvidia.com/gpumem-percentage", "50")).count, 1);
  EXPECT_EQ(ask_of(Pod().limit("nvidia.com/gpucores", "50")).count, 1);
}

TEST(Hami, AllOfTheMemoryWithoutCoresIsExclusive) {
  EXPECT_EQ(ask_of(Pod().limit("nvidia.com/gpumem-percentage", "100")),
            DeviceAsk::whole_devices(1));
  EXPECT_EQ(ask_of(Pod().limit("nvidia.com/gpucores", "100")), DeviceAsk::whole_devices(1));
}

TEST(Hami, AllOfTheMemoryWithFewerCoresKeepsTheirCap) {
  const DeviceAsk ask =
      ask_of(Pod().limit("nvidia.com/gpu", "1").limit("nvidia.com/gpucores", "30"));
  EXPECT_EQ(ask.kind, AskKind::whole);
  EXPECT_EQ(ask.compute_milli, 300);
}

TEST(Hami, AllCoresOfAShareNeedTheWholeDevicesCompute) {
  const DeviceAsk ask =
      ask_of(Pod().limit("nvidia.com/gpumem", "3000").limit("nvidia.com/gpucores", "100"));
  EXPECT_EQ(ask.kind, AskKind::memory);
  EXPECT_EQ(ask.compute_milli, 1000);
}

TEST(Hami, MemoryCountsInUnitsOfTheFactor) {
  const PodOutcome outcome =
      Pod().limit("nvidia.com/gpumem", "4").read({.gpumem_factor_mib = 1024});
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.request->containers()[0].gpu.mib, 4096);
  EXPECT_THAT(
      Pod().limit("nvidia.com/gpumem", "8796093022207").error_codes({.gpumem_factor_mib = 2}),
      ElementsAre("BadMemory"));
}

TEST(Hami, ContainersOfOnePodAskInDifferentWays) {  // R31
  const Pod pod = Pod()
                      .container("none")
                      .container("absolute")
                      .limit("nvidia.com/gpumem-percentage", "50")
                      .limit("absolute", "nvidia.com/gpumem", "2000");
  EXPECT_EQ(ask_of(pod), DeviceAsk::fraction_nano(500'000'000));
  EXPECT_FALSE(ask_of(pod, "none").wants_gpu());
  EXPECT_EQ(ask_of(pod, "absolute"), DeviceAsk::memory_mib(2000));
}

TEST(Hami, PriorityIsAHintBesideTheRequest) {
  const PodOutcome outcome =
      Pod().limit("nvidia.com/gpumem", "1").limit("nvidia.com/priority", "1").read();
  EXPECT_EQ(outcome.task_priorities.at("main"), 1);
  EXPECT_THAT(Pod().limit("nvidia.com/priority", "2").error_codes(), ElementsAre("BadValue"));
}

TEST(Hami, ConstraintsHoldForEveryContainerWithAGpu) {
  const DeviceAsk ask = ask_of(Pod()
                                   .with("gpu-fraction", "0.5")
                                   .with("nvidia.com/use-gputype", "A100, H100")
                                   .with("nvidia.com/nouse-gputype", "T4")
                                   .with("nvidia.com/use-gpuuuid", "GPU-1,GPU-2")
                                   .with("nvidia.com/nouse-gpuuuid", "GPU-3")
                                   .with("nvidia.com/numa-bind", "true")
                                   .with("nvidia.com/vgpu-mode", "hami-core")
                                   .with("hami.io/node-scheduler-policy", "spread")
                                   .with("hami.io/gpu-scheduler-policy", "mutex,binpack"));
  EXPECT_THAT(ask.filter.use_types, ElementsAre("A100", "H100"));
  EXPECT_THAT(ask.filter.avoid_types, ElementsAre("T4"));
  EXPECT_THAT(ask.filter.use_uuids, ElementsAre("GPU-1", "GPU-2"));
  EXPECT_THAT(ask.filter.avoid_uuids, ElementsAre("GPU-3"));
  EXPECT_TRUE(ask.numa_bind);
  EXPECT_EQ(ask.backend, Backend::guard);
  EXPECT_EQ(ask.node_order, OrderHint::spread);
  EXPECT_EQ(ask.device_order, OrderHint::pack);
  EXPECT_TRUE(ask.mutex);
}

TEST(Hami, ModeMpsIsSmSharing) {
  const DeviceAsk ask =
      ask_of(Pod().limit("nvidia.com/gpumem", "4000").with("nvidia.com/vgpu-mode", "mps"));
  EXPECT_EQ(ask.mode, SharingMode::sm_sharing);
  EXPECT_EQ(ask.backend, Backend::mps);
}

TEST(Hami, UnknownWordsAreRefused) {
  for (const char* key : {"nvidia.com/vgpu-mode", "hami.io/node-scheduler-policy",
                          "hami.io/gpu-scheduler-policy", "nvidia.com/numa-bind"}) {
    EXPECT_THAT(Pod().with(key, "banana").error_codes(), ElementsAre("BadValue")) << key;
    EXPECT_THAT(Pod().with(key, "").error_codes(), ElementsAre("BadValue")) << key;
  }
  for (const char* key : {"nvidia.com/use-gputype", "nvidia.com/nouse-gputype",
                          "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"}) {
    EXPECT_THAT(Pod().with(key, " , ").error_codes(), ElementsAre("BadValue")) << key;
  }
  EXPECT_THAT(Pod().with("mps", "").error_codes(), ElementsAre("BadValue"));
}

TEST(Hami, OrderWordsThatNothingFollowsAreSaid) {
  EXPECT_THAT(Pod().with("hami.io/gpu-scheduler-policy", "numa,topology-aware").warning_codes(),
              ElementsAre("HintIgnored", "HintIgnored"));
}

TEST(NvFractions, ComputeShareNeedsSmSharing) {
  const Pod pod = Pod().with(kR, "8Gi").with(kCompute, "0.5");
  EXPECT_EQ(ask_of(pod).compute_milli, 0);
  EXPECT_THAT(pod.warning_codes(), ElementsAre("ComputeIgnored"));
}

TEST(Target, IsTheOneContainerWithKeysElseTheFirstApp) {
  const Pod plain = Pod().container("prepare", ContainerKind::init).with("gpu-fraction", "0.5");
  EXPECT_TRUE(ask_of(plain).is_share());
  const Pod keyed = Pod()
                        .container("side")
                        .with("gpu-fraction", "0.5")
                        .with(key_of("side", "gpu-compute.mode"), "sm-sharing");
  EXPECT_FALSE(ask_of(keyed).wants_gpu());
  EXPECT_EQ(ask_of(keyed, "side").nano, 500'000'000);
  EXPECT_EQ(ask_of(keyed, "side").mode, SharingMode::sm_sharing);
}

TEST(Target, MayBeAnInitContainerOrASidecar) {
  for (const ContainerKind kind : {ContainerKind::init, ContainerKind::sidecar}) {
    const Pod pod = Pod()
                        .container("early", kind)
                        .with("gpu-memory", "100")
                        .with("gpu-fraction-container-name", "early");
    EXPECT_FALSE(ask_of(pod).wants_gpu());
    EXPECT_EQ(ask_of(pod, "early"), DeviceAsk::memory_mib(100));
  }
}

TEST(PodRequest, HasItsContainersInStartOrder) {
  const PodOutcome outcome = Pod()
                                 .container("second")
                                 .container("fetch", ContainerKind::init)
                                 .container("proxy", ContainerKind::sidecar)
                                 .read();
  ASSERT_TRUE(outcome.ok());
  std::vector<std::string> names;
  for (const core::ContainerAsk& ask : outcome.request->containers())
    names.push_back(ask.name);
  EXPECT_THAT(names, ElementsAre("fetch", "proxy", "main", "second"));
}

TEST(PodRequest, CountsTheCpuAndRamOfTheLargestPhase) {
  Pod pod;
  pod.container("fetch", ContainerKind::init)
      .container("proxy", ContainerKind::sidecar)
      .container("late", ContainerKind::init);
  auto& containers = pod.words().containers;
  containers[0].requests = {{"cpu", "2"}, {"memory", "1Gi"}};
  containers[1].requests = {{"cpu", "3500m"}, {"memory", "4Gi"}};
  containers[2].limits = {{"cpu", "1"}, {"memory", "512Mi"}};
  containers[3].requests = {{"cpu", "2.2"}, {"memory", "128Mi"}};
  const PodOutcome outcome = pod.read();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.request->cpu(), Milli{3500}) << "fetch runs alone; late beside proxy is 3200";
  EXPECT_EQ(outcome.request->ram(), Memory::mib(4096));
}

TEST(PodRequest, KeepsNodeConstraints) {
  Pod pod;
  pod.words().node_selector = {{"zone", "a"}};
  pod.words().tolerations = {{"gpu", true, "", ""}};
  pod.words().node_names = {"n1", "n2"};
  const PodOutcome outcome = pod.read();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.request->nodes().labels.at(0).values, std::vector<std::string>{"a"});
  EXPECT_EQ(outcome.request->nodes().tolerations.size(), 1U);
  EXPECT_THAT(outcome.request->nodes().names, ElementsAre("n1", "n2"));
}

TEST(PodErrors, ComeAllAtOnceInKeyOrder) {
  const PodOutcome outcome = Pod()
                                 .with(kR, "abc")
                                 .with("gpu-fraction", "NaN")
                                 .with("gpu-fraction-num-devices", "0")
                                 .limit("nvidia.com/gpucores", "101")
                                 .read();
  std::vector<std::string> texts;
  texts.reserve(outcome.errors.size());
  for (const Finding& finding : outcome.errors)
    texts.push_back(finding.text());
  ASSERT_EQ(texts.size(), 5U);
  EXPECT_THAT(texts[0], ::testing::StartsWith("BadFraction: gpu-fraction=NaN: "));
  EXPECT_THAT(texts[1], ::testing::StartsWith("BadDeviceCount: gpu-fraction-num-devices=0: "));
  EXPECT_THAT(texts[2], ::testing::StartsWith("BadMemory: " + kR + "=abc: "));
  EXPECT_THAT(texts[3], ::testing::StartsWith("BadCores: nvidia.com/gpucores=101: "));
  EXPECT_THAT(texts[4], ::testing::StartsWith("MixedFamilies: nvidia.com/gpucores=101: "));
}

TEST(PodErrors, NameTheOffendingKeyAndValue) {  // R21
  for (const char* text : {"NaN", "inf", "-0.1", "", "0,5"}) {
    const PodOutcome outcome = Pod().with("gpu-fraction", text).read();
    ASSERT_EQ(outcome.errors.size(), 1U) << text;
    EXPECT_THAT(outcome.errors[0].text(),
                ::testing::StartsWith("BadFraction: gpu-fraction=" + std::string(text) + ": "));
  }
}

TEST(PodWarnings, SayWhatIsNotRead) {  // R24
  EXPECT_THAT(Pod().with("nvidia.com/gpumem", "4000").warning_codes(), ElementsAre("MisplacedKey"));
  EXPECT_THAT(Pod().limit("nvidia.com/container.main.gpu-memory.request", "1").warning_codes(),
              ElementsAre("MisplacedKey"));
  EXPECT_THAT(Pod().with("gpu-memroy", "4000").warning_codes(), ElementsAre("UnknownKey"));
  EXPECT_THAT(Pod().limit("nvidia.com/gpumemory", "4000").warning_codes(),
              ElementsAre("UnknownKey"));
  EXPECT_THAT(Pod().limit("volcano.sh/vgpu-memory", "1").warning_codes(),
              ElementsAre("UnsupportedFamily"));
  EXPECT_THAT(Pod().limit("aliyun.com/gpu-mem", "1").warning_codes(),
              ElementsAre("UnsupportedFamily"));
  EXPECT_THAT(Pod().with("runai/shared-gpu-configmap", "x").warning_codes(),
              ElementsAre("UnsupportedFamily"));
  EXPECT_THAT(Pod().with("example.com/anything", "x").warning_codes(), IsEmpty());
}

TEST(PodRequest, IgnoresWhatTheSchedulerWrote) {
  const Pod pod = Pod()
                      .with(kR, "8Gi")
                      .with(key_of("main", "gpus.devices"), "GPU-1")
                      .with(key_of("main", "gpu-compute.portion"), "0.1")
                      .with("berth.dev/grant", "{}");
  EXPECT_EQ(ask_of(pod), DeviceAsk::memory_mib(8192));
  EXPECT_THAT(pod.warning_codes(), IsEmpty());
}

}  // namespace
}  // namespace berth::request
