// The words `annotations` and `limits`: the grammar of a pod inside a scenario file.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "request/words.h"

namespace berth::request {
namespace {

using core::DeviceAsk;
using ::testing::ElementsAre;
using ::testing::StartsWith;

Word annotations(std::vector<Word> entries) {
  return Word::map("annotations", std::move(entries), 1);
}

Word limits(std::vector<Word> entries) { return Word::map("limits", std::move(entries), 20); }

std::vector<std::string> codes_of(const std::vector<Word>& words) {
  std::vector<std::string> codes;
  for (const Finding& finding : read_words(words).errors) {
    codes.emplace_back(reason_name(finding.code));
  }
  return codes;
}

DeviceAsk gpu_of(const std::vector<Word>& words) {
  const WordsOutcome outcome = read_words(words);
  for (const Finding& finding : outcome.errors)
    ADD_FAILURE() << finding.text();
  return outcome.ok() ? outcome.request->containers().at(0).gpu : DeviceAsk();
}

TEST(PodInWords, ReadsAnnotations) {
  EXPECT_EQ(gpu_of({annotations({Word::text("gpu-fraction", "0.25")})}),
            DeviceAsk::fraction_nano(250'000'000));
}

TEST(PodInWords, ReadsLimitsOfTheContainerMain) {
  EXPECT_EQ(gpu_of({limits({Word::text("nvidia.com/gpumem", "4k")})}), DeviceAsk::memory_mib(4000));
  EXPECT_EQ(
      gpu_of({annotations({Word::text("nvidia.com/container.main.gpu-memory.limit", "8Gi")})}),
      DeviceAsk::memory_mib(8192));
}

TEST(PodInWords, ReadsLimitsOfSeveralContainers) {
  const WordsOutcome outcome = read_words(std::vector<Word>{
      annotations({Word::text("nvidia.com/container.b.gpu-memory.request", "50Mi")}),
      Word::list("containers", {Word::map("", {Word::text("name", "a"),
                                               limits({Word::text("nvidia.com/gpu", "1")})}),
                                Word::map("", {Word::text("name", "b")})})});
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.request->containers()[0].gpu, DeviceAsk::whole_devices(1));
  EXPECT_EQ(outcome.request->containers()[1].gpu, DeviceAsk::memory_mib(50));
  ASSERT_EQ(outcome.warnings.size(), 1U);
  EXPECT_EQ(outcome.warnings[0].code, ReasonCode::not_portable_to_kai);
}

TEST(PodInWords, TakesCpuRamAndNodesBesideIt) {
  const WordsOutcome outcome = read_words(
      std::vector<Word>{annotations({Word::text("gpu-memory", "4096")}), Word::text("cpu", "2"),
                        Word::text("ram", "1GiB"), Word::text("node", "n1")});
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.request->cpu(), Milli{2000});
  EXPECT_EQ(outcome.request->ram(), Memory::mib(1024));
  EXPECT_THAT(outcome.request->nodes().names, ElementsAre("n1"));
}

TEST(PodInWords, TakesCpuAndMemoryFromLimitsWhereNoWordSaysMore) {
  const WordsOutcome outcome = read_words(
      std::vector<Word>{limits({Word::text("nvidia.com/gpu", "1"), Word::text("cpu", "500m"),
                                Word::text("memory", "1Gi")})});
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.request->cpu(), Milli{500});
  EXPECT_EQ(outcome.request->ram(), Memory::mib(1024));
}

TEST(PodInWords, GivesErrorsThePositionOfTheirEntry) {
  const WordsOutcome outcome = read_words(std::vector<Word>{
      annotations({Word::text("gpu-fraction", "NaN", 2), Word::text("gpu-memory", "0", 3)}),
      limits({Word::text("nvidia.com/gpucores", "101", 21)})});
  std::vector<std::string> texts;
  std::vector<std::size_t> positions;
  for (const Finding& finding : outcome.errors) {
    texts.push_back(finding.text());
    positions.push_back(finding.position);
  }
  EXPECT_THAT(texts, ElementsAre(StartsWith("BadFraction: gpu-fraction=NaN: "),
                                 StartsWith("FractionAndMemory: gpu-fraction=NaN: "),
                                 StartsWith("BadMemory: gpu-memory=0: "),
                                 StartsWith("BadCores: nvidia.com/gpucores=101: "),
                                 StartsWith("MixedFamilies: nvidia.com/gpucores=101: ")));
  EXPECT_THAT(positions, ElementsAre(2U, 2U, 3U, 21U, 21U));
}

TEST(PodInWords, IsRefusedBesideGpuWords) {
  EXPECT_THAT(codes_of({annotations({Word::text("gpu-fraction", "0.5")}),
                        Word::text("mode", "sm-sharing")}),
              ElementsAre("MixedFamilies"));
  EXPECT_THAT(codes_of({limits({Word::text("nvidia.com/gpu", "1")}), Word::text("whole", "1")}),
              ElementsAre("MixedFamilies"));
}

TEST(PodInWords, IsRefusedInAnotherShape) {
  EXPECT_THAT(codes_of({Word::text("annotations", "gpu-fraction=0.5")}), ElementsAre("BadValue"));
  EXPECT_THAT(codes_of({annotations({Word::list("gpu-fraction", {Word::text("", "0.5")})})}),
              ElementsAre("BadValue"));
  EXPECT_THAT(codes_of({annotations(
                  {Word::text("gpu-fraction", "0.5"), Word::text("gpu-fraction", "0.5")})}),
              ElementsAre("BadValue"));
}

TEST(PodInWords, FollowsTheRulesOfTheAdministrator) {
  const std::vector<Word> words{annotations({Word::text("gpu-fraction", "0.5")})};
  const WordsOutcome outcome = read_words(words, {.sharing_enabled = false});
  ASSERT_EQ(outcome.errors.size(), 1U);
  EXPECT_EQ(outcome.errors[0].code, ReasonCode::sharing_disabled);
}

}  // namespace
}  // namespace berth::request
