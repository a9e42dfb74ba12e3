// Every row of annotations.md 2.2 that the grammar decides (A1 … A43, A51), each value one check.
#include "request/pod.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "request/pod_support_test.h"

namespace berth::request {
namespace {

using core::ContainerKind;
using core::DeviceAsk;
using core::SharingMode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_support::ask_of;
using testing_support::Grant;
using testing_support::grant_on;
using testing_support::kCompute;
using testing_support::key_of;
using testing_support::kL;
using testing_support::kMode;
using testing_support::kPortion;
using testing_support::kR;
using testing_support::Pod;

TEST(Admission, A1RefusesWhatIsNoMemory) {
  for (const char* text : {"", "0", "-1Gi", "NaN", "abc"}) {
    EXPECT_THAT(Pod().with(kR, text).error_codes(), ElementsAre("BadMemory")) << text;
    EXPECT_THAT(Pod().with(kL, text).error_codes(), ElementsAre("BadMemory")) << text;
  }
}

TEST(Admission, A2RefusesLessThanAMebibyte) {
  for (const char* text : {"8192", "1", "1000Ki"}) {
    EXPECT_THAT(Pod().with(kR, text).error_codes(), ElementsAre("MemoryBelowMinimum")) << text;
  }
  EXPECT_THAT(Pod().with(kR, "8192").read().errors[0].text(), HasSubstr("a bare number is bytes"));
}

TEST(Admission, A3RefusesSubUnits) {
  for (const char* text : {"500m", "4096m"}) {
    EXPECT_THAT(Pod().with(kR, text).error_codes(), ElementsAre("BadMemoryUnit")) << text;
  }
}

TEST(Admission, A4RefusesUnknownKeys) {
  for (const char* key : {"nvidia.com/container.main.gpu-memory.requests",
                          "nvidia.com/container.main.foo", "nvidia.com/container.main",
                          "nvidia.com/container..gpu-memory.request", "nvidia.com/container."}) {
    EXPECT_THAT(Pod().with(key, "8Gi").error_codes(), ElementsAre("UnknownKey")) << key;
  }
}

TEST(Admission, A5RefusesUnknownModes) {
  for (const char* text : {"", "mps", "Time-Slicing"}) {
    EXPECT_THAT(Pod().with(kR, "8Gi").with(kMode, text).error_codes(),
                ElementsAre("BadComputeMode"))
        << text;
  }
  EXPECT_EQ(ask_of(Pod().with(kR, "8Gi")).mode, SharingMode::time_slicing);
  EXPECT_EQ(ask_of(Pod().with(kR, "8Gi").with(kMode, "sm-sharing")).mode, SharingMode::sm_sharing);
}

TEST(Admission, A6RefusesWhatIsNoComputeShare) {
  for (const char* text : {"0", "1.01", "x"}) {
    EXPECT_THAT(Pod().with(kR, "8Gi").with(kMode, "sm-sharing").with(kCompute, text).error_codes(),
                ElementsAre("BadComputeShare"))
        << text;
  }
  const auto share = [](const char* text) {
    return ask_of(Pod().with(kR, "8Gi").with(kMode, "sm-sharing").with(kCompute, text))
        .compute_milli;
  };
  EXPECT_EQ(share("1"), 1000);
  EXPECT_EQ(share("0.25"), 250);
}

TEST(Admission, A7WarnsOfAModeWithoutMemory) {
  const Pod pod = Pod().with(kMode, "sm-sharing");
  EXPECT_FALSE(ask_of(pod).wants_gpu());
  EXPECT_THAT(pod.warning_codes(), ElementsAre("ModeWithoutMemory"));
}

TEST(Admission, A8RefusesKeysOfNoContainer) {
  EXPECT_THAT(Pod().with(key_of("other", "gpu-memory.request"), "8Gi").error_codes(),
              ElementsAre("UnknownContainer"));
  EXPECT_THAT(
      Pod().with("gpu-fraction", "0.5").with("gpu-fraction-container-name", "other").error_codes(),
      ElementsAre("UnknownContainer"));
  EXPECT_THAT(Pod()
                  .with("gpu-fraction", "0.5")
                  .with("kai.scheduler/container.other.gpu-memory.portion.limit", "0.6")
                  .error_codes(),
              ElementsAre("UnknownContainer"));
}

TEST(Admission, A9AcceptsSharesOfSeveralContainers) {
  const Pod pod =
      Pod().container("side").with(kR, "8Gi").with(key_of("side", "gpu-memory.request"), "2Gi");
  EXPECT_EQ(ask_of(pod).mib, 8192);
  EXPECT_EQ(ask_of(pod, "side").mib, 2048);
  EXPECT_THAT(pod.warning_codes(), ElementsAre("NotPortableToKai"));
}

TEST(Admission, A10RefusesALimitBelowTheRequest) {
  EXPECT_THAT(Pod().with(kR, "16Gi").with(kL, "8Gi").error_codes(),
              ElementsAre("LimitBelowRequest"));
}

TEST(Admission, A11AcceptsEqualAndSingleSizes) {
  EXPECT_EQ(ask_of(Pod().with(kR, "8Gi").with(kL, "8Gi")), DeviceAsk::memory_mib(8192));
  EXPECT_EQ(ask_of(Pod().with(kR, "8Gi")), DeviceAsk::memory_mib(8192));
  EXPECT_EQ(ask_of(Pod().with(kL, "8Gi")), DeviceAsk::memory_mib(8192));
}

TEST(Admission, A12RefusesATargetWithoutKeysWhereAnotherHasThem) {
  EXPECT_THAT(Pod()
                  .container("side")
                  .with(kR, "8Gi")
                  .with("gpu-fraction-container-name", "side")
                  .error_codes(),
              ElementsAre("TargetMismatch"));
}

TEST(Admission, A13RefusesAnAmbiguousTarget) {
  const Pod pod = Pod()
                      .container("side")
                      .with(kR, "8Gi")
                      .with(key_of("side", "gpu-memory.request"), "2Gi")
                      .with("gpu-memory", "8192");
  EXPECT_THAT(pod.error_codes(), ElementsAre("AmbiguousTarget"));
}

TEST(Admission, A14RefusesWholeAndShareOnOneContainer) {
  EXPECT_THAT(Pod().with("gpu-fraction", "0.5").limit("nvidia.com/gpu", "1").error_codes(),
              ElementsAre("WholeAndShare"));
  EXPECT_THAT(Pod().with(kR, "8Gi").limit("nvidia.com/gpu", "1").error_codes(),
              ElementsAre("WholeAndShare"));
}

TEST(Admission, A15AcceptsWholeAndShareOnDifferentContainers) {
  for (const ContainerKind kind :
       {ContainerKind::app, ContainerKind::init, ContainerKind::sidecar}) {
    const Pod pod = Pod()
                        .container("other", kind)
                        .with("gpu-fraction", "0.5")
                        .limit("other", "nvidia.com/gpu", "1");
    EXPECT_EQ(ask_of(pod), DeviceAsk::fraction_nano(500'000'000));
    EXPECT_EQ(ask_of(pod, "other"), DeviceAsk::whole_devices(1));
    EXPECT_THAT(pod.warning_codes(), ElementsAre("NotPortableToKai"));
  }
}

TEST(Admission, A16RefusesTwoFamiliesOnOneContainer) {
  const std::vector<std::pair<std::string, std::string>> families{{"nvidia.com/gpumem", "4000"},
                                                                  {"nvidia.com/mig-1g.5gb", "1"},
                                                                  {"nvidia.com/gpu.shared", "1"}};
  for (const auto& [key, value] : families) {
    EXPECT_THAT(Pod().with(kR, "8Gi").limit(key, value).error_codes(), ElementsAre("MixedFamilies"))
        << key;
    EXPECT_THAT(Pod().with("gpu-fraction", "0.5").limit(key, value).error_codes(),
                ElementsAre("MixedFamilies"))
        << key;
    for (const auto& [other, other_value] : families) {
      if (other == key) continue;
      EXPECT_THAT(Pod().limit(key, value).limit(other, other_value).error_codes(),
                  ElementsAre("MixedFamilies"))
          << key << " and " << other;
    }
  }
  EXPECT_THAT(Pod().limit("nvidia.com/gpu", "1").limit("nvidia.com/mig-1g.5gb", "1").error_codes(),
              ElementsAre("MixedFamilies"));
}

TEST(Admission, A17RefusesFractionAndMemory) {
  EXPECT_THAT(Pod().with("gpu-fraction", "0.5").with("gpu-memory", "4096").error_codes(),
              ElementsAre("FractionAndMemory"));
}

TEST(Admission, A18ThePerContainerRequestBeatsTheFraction) {
  const Pod pod = Pod().with("gpu-fraction", "0.5").with(kR, "8Gi");
  EXPECT_EQ(ask_of(pod), DeviceAsk::memory_mib(8192));
  EXPECT_THAT(pod.warning_codes(), ElementsAre("FractionIgnored"));
}

TEST(Admission, A19MemoryMustAgreeWithTheRequest) {
  for (const char* text : {"4Gi", "4096Mi"}) {
    EXPECT_EQ(ask_of(Pod().with("gpu-memory", "4096").with(kR, text)), DeviceAsk::memory_mib(4096))
        << text;
  }
  EXPECT_THAT(Pod().with("gpu-memory", "4096").with(kR, "4097Mi").error_codes(),
              ElementsAre("MemoryDisagrees"));
  // What admission writes for 1500M (2.4, rule 4: a second pass changes nothing).
  EXPECT_EQ(ask_of(Pod().with("gpu-memory", "1500M").with(kR, "1431Mi")),
            DeviceAsk::memory_mib(1431));
  EXPECT_THAT(Pod().with("gpu-memory", "1500M").with(kR, "1431M").error_codes(),
              ElementsAre("MemoryDisagrees"));
}

TEST(Admission, A20RefusesALimitBesideShorthands) {
  EXPECT_THAT(Pod().with(kL, "8Gi").with("gpu-fraction", "0.5").error_codes(),
              ElementsAre("LimitConflict"));
  EXPECT_THAT(Pod().with(kL, "8Gi").with("gpu-memory", "4096").error_codes(),
              ElementsAre("LimitConflict"));
  // What admission writes for gpu-memory with gpu-memory.limit.
  EXPECT_EQ(grant_on(ask_of(Pod()
                                .with("gpu-memory", "4096")
                                .with("gpu-memory.limit", "8Gi")
                                .with(kR, "4096Mi")
                                .with(kL, "8Gi"))),
            (Grant{4096, 8192}));
  EXPECT_EQ(
      grant_on(ask_of(
          Pod().with("gpu-memory", "4096").with("gpu-memory.limit", "8Gi").with(kL, "8192Mi"))),
      (Grant{4096, 8192}));
  EXPECT_THAT(Pod()
                  .with("gpu-memory", "4096")
                  .with("gpu-memory.limit", "8Gi")
                  .with(kL, "9Gi")
                  .error_codes(),
              ElementsAre("LimitConflict"));
}

TEST(Admission, A21RefusesACountWithoutAShare) {
  EXPECT_THAT(Pod().with("gpu-fraction-num-devices", "2").error_codes(),
              ElementsAre("CountWithoutShare"));
  EXPECT_EQ(ask_of(Pod().with(kR, "8Gi").with("gpu-fraction-num-devices", "2")).count, 2);
}

TEST(Admission, A22RefusesWhatIsNoCount) {
  for (const char* text : {"0", "-1", "1.5", "x", ""}) {
    EXPECT_THAT(
        Pod().with("gpu-fraction", "0.5").with("gpu-fraction-num-devices", text).error_codes(),
        ElementsAre("BadDeviceCount"))
        << text;
  }
}

TEST(Admission, A23RefusesLimitsWithoutTheirRequest) {
  EXPECT_THAT(Pod().with(kPortion, "0.5").error_codes(), ElementsAre("LimitWithoutRequest"));
  EXPECT_THAT(Pod().with("gpu-fraction.limit", "0.5").error_codes(),
              ElementsAre("LimitWithoutRequest"));
  EXPECT_THAT(Pod().with("gpu-memory.limit", "8Gi").error_codes(),
              ElementsAre("LimitWithoutRequest"));
}

TEST(Admission, A24RefusesAPortionLimitOfAnotherContainer) {
  EXPECT_THAT(Pod()
                  .container("side")
                  .with("gpu-fraction", "0.25")
                  .with("kai.scheduler/container.side.gpu-memory.portion.limit", "0.5")
                  .error_codes(),
              ElementsAre("TargetMismatch"));
  EXPECT_EQ(ask_of(Pod().with("gpu-fraction", "0.25").with(kPortion, "0.5")).limit_nano,
            500'000'000);
}

TEST(Admission, A25RefusesWhatIsNoFractionLimit) {
  for (const char* text : {"0", "1", "-0.1", "0.500001"}) {
    EXPECT_THAT(Pod().with("gpu-fraction", "0.25").with(kPortion, text).error_codes(),
                ElementsAre("BadFraction"))
        << text;
    EXPECT_THAT(Pod().with("gpu-fraction", "0.25").with("gpu-fraction.limit", text).error_codes(),
                ElementsAre("BadFraction"))
        << text;
  }
}

TEST(Admission, A26AFractionLimitIsGreaterThanTheFraction) {
  for (const char* text : {"0.5", "0.4"}) {
    EXPECT_THAT(Pod().with("gpu-fraction", "0.5").with("gpu-fraction.limit", text).error_codes(),
                ElementsAre("LimitBelowRequest"))
        << text;
    EXPECT_THAT(Pod().with("gpu-fraction", "0.5").with(kPortion, text).error_codes(),
                ElementsAre("LimitBelowRequest"))
        << text;
  }
}

TEST(Admission, A27AMemoryLimitNeedsAUnit) {
  EXPECT_THAT(Pod().with("gpu-memory", "4096").with("gpu-memory.limit", "8192").error_codes(),
              ElementsAre("BadMemoryUnit"));
}

TEST(Admission, A28AcceptsAMemoryLimitWithAUnit) {
  EXPECT_EQ(grant_on(ask_of(Pod().with("gpu-memory", "4096").with("gpu-memory.limit", "8Gi"))),
            (Grant{4096, 8192}));
  EXPECT_EQ(grant_on(ask_of(Pod().with("gpu-memory", "4096").with("gpu-memory.limit", "4Gi"))),
            (Grant{4096, 4096}));
}

TEST(Admission, A29RefusesASmallerMemoryLimit) {
  EXPECT_THAT(Pod().with("gpu-memory", "4096").with("gpu-memory.limit", "2Gi").error_codes(),
              ElementsAre("LimitBelowRequest"));
  EXPECT_THAT(Pod().with("gpu-memory", "4096").with("gpu-memory.limit", "0Gi").error_codes(),
              ElementsAre("BadMemory"));
}

TEST(Admission, A30RefusesWhatIsNoMemory) {
  for (const char* text : {"0", "-5", "abc", "1.5", "+5"}) {
    EXPECT_THAT(Pod().with("gpu-memory", text).error_codes(), ElementsAre("BadMemory")) << text;
  }
}

TEST(Admission, A31AcceptsMemoryWithAUnit) {
  const std::vector<std::pair<std::string, std::int64_t>> sizes{
      {"1Gi", 1024}, {"1.5Gi", 1536}, {"1500M", 1431}};
  for (const auto& [text, mib] : sizes) {
    const Pod pod = Pod().with("gpu-memory", text);
    EXPECT_EQ(ask_of(pod), DeviceAsk::memory_mib(mib)) << text;
    EXPECT_THAT(pod.warning_codes(), ElementsAre("NotPortableToKai")) << text;
  }
}

TEST(Admission, A32RefusesWhatIsNoFraction) {
  for (const char* text : {"0", "1", "1.2", "-0.5", "NaN", "abc", "500m", "0x1p-1"}) {
    EXPECT_THAT(Pod().with("gpu-fraction", text).error_codes(), ElementsAre("BadFraction")) << text;
  }
  EXPECT_THAT(Pod().with("gpu-fraction", "1").read().errors[0].text(),
              HasSubstr("nvidia.com/gpu: 1"));
}

TEST(Admission, A33RefusesEmptyAndOverlyFineValues) {
  EXPECT_THAT(Pod().with("gpu-fraction", "").error_codes(), ElementsAre("BadFraction"));
  EXPECT_THAT(Pod().with("gpu-memory", "").error_codes(), ElementsAre("BadMemory"));
  EXPECT_THAT(Pod().with("gpu-fraction", "0.1234567891").error_codes(), ElementsAre("BadFraction"));
}

TEST(Admission, A34RefusesMpsWithoutAShare) {
  EXPECT_THAT(Pod().with("mps", "true").error_codes(), ElementsAre("MpsWithoutShare"));
  EXPECT_THAT(Pod().with("mps", "true").limit("nvidia.com/gpu", "1").error_codes(),
              ElementsAre("MpsWithoutShare"));
  EXPECT_EQ(ask_of(Pod().with("mps", "true").with("gpu-fraction", "0.5")).mode,
            SharingMode::sm_sharing);
  EXPECT_EQ(
      ask_of(Pod().with("mps", "true").with("gpu-fraction", "0.5").with(kMode, "time-slicing"))
          .mode,
      SharingMode::time_slicing);
}

TEST(Admission, A35RefusesSharesWhereSharingIsDisabled) {
  const PodRules rules{.sharing_enabled = false};
  for (const Pod& pod :
       {Pod().with("gpu-fraction", "0.5"), Pod().with("gpu-memory", "4096"), Pod().with(kR, "8Gi"),
        Pod().limit("nvidia.com/gpumem", "4000"), Pod().limit("nvidia.com/gpu.shared", "1")}) {
    EXPECT_THAT(pod.error_codes(rules), ElementsAre("SharingDisabled"));
    EXPECT_THAT(pod.read(rules).errors[0].text(), HasSubstr("team/train"));
  }
  EXPECT_THAT(Pod().limit("nvidia.com/gpu", "1").error_codes(rules), IsEmpty());
}

TEST(Admission, A36RefusesHamiMemoryThatIsNoWholeNumber) {
  EXPECT_THAT(Pod().limit("nvidia.com/gpumem", "4Gi").error_codes(), ElementsAre("BadMemoryUnit"));
  for (const char* text : {"-1", "1.5", "x", ""}) {
    EXPECT_THAT(Pod().limit("nvidia.com/gpumem", text).error_codes(), ElementsAre("BadMemory"))
        << text;
  }
}

TEST(Admission, A37TakesZeroMemoryAsUnset) {
  for (const char* key : {"nvidia.com/gpumem", "nvidia.com/gpumem-percentage"}) {
    const Pod pod = Pod().limit("nvidia.com/gpu", "1").limit(key, "0");
    EXPECT_EQ(ask_of(pod), DeviceAsk::whole_devices(1)) << key;
    EXPECT_THAT(pod.warning_codes(), ElementsAre("ZeroIgnored")) << key;
  }
}

TEST(Admission, A38RefusesWhatIsNoPercentage) {
  for (const char* text : {"101", "-1"}) {
    EXPECT_THAT(Pod().limit("nvidia.com/gpumem-percentage", text).error_codes(),
                ElementsAre("BadPercent"))
        << text;
  }
}

TEST(Admission, A39HamiMemoryBeatsThePercentage) {
  const Pod pod =
      Pod().limit("nvidia.com/gpumem", "4000").limit("nvidia.com/gpumem-percentage", "50");
  EXPECT_EQ(ask_of(pod), DeviceAsk::memory_mib(4000));
  EXPECT_THAT(pod.warning_codes(), ElementsAre("PercentIgnored"));
}

TEST(Admission, A40RefusesMoreThanAllCores) {
  EXPECT_THAT(Pod().limit("nvidia.com/gpucores", "101").error_codes(), ElementsAre("BadCores"));
}

TEST(Admission, A41RefusesMemoryOfNoDevice) {
  EXPECT_THAT(Pod().limit("nvidia.com/gpu", "0").limit("nvidia.com/gpumem", "4000").error_codes(),
              ElementsAre("BadDeviceCount"));
  EXPECT_FALSE(ask_of(Pod().limit("nvidia.com/gpu", "0")).wants_gpu());
}

TEST(Admission, A42RefusesMoreThanOneSharedPart) {
  EXPECT_THAT(Pod().limit("nvidia.com/gpu.shared", "2").error_codes(),
              ElementsAre("SharedCountAboveOne"));
}

TEST(Admission, A43RefusesBadMigProfilesAndAcceptsUnknownOnes) {
  EXPECT_THAT(Pod().limit("nvidia.com/mig-foo", "1").error_codes(), ElementsAre("BadMigProfile"));
  EXPECT_EQ(ask_of(Pod().limit("nvidia.com/mig-9g.999gb", "1")).mig_profile, "9g.999gb");
}

TEST(Admission, A51WarnsOfNamesThatFractiondCannotTake) {
  const std::string name(35, 'x');
  Pod pod;
  pod.words().containers[0].name = name;
  pod.with("gpu-fraction", "0.5");
  EXPECT_TRUE(ask_of(pod, name).is_share());
  EXPECT_THAT(pod.warning_codes(), ElementsAre("NameTooLongForFractiond"));
  pod.words().containers[0].name = name.substr(1);
  EXPECT_THAT(pod.warning_codes(), IsEmpty());
}

}  // namespace
}  // namespace berth::request
