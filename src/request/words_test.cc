#include "request/words.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace berth::request {
namespace {

using core::ContainerKind;
using core::DeviceAsk;
using ::testing::ElementsAre;

Word text(std::string key, std::string value) {
  static std::size_t position = 100;
  return Word::text(std::move(key), std::move(value), ++position);
}

Word list(std::string key, const std::vector<std::string>& texts) {
  std::vector<Word> items;
  items.reserve(texts.size());
  for (const std::string& item : texts)
    items.push_back(Word::text("", item));
  return Word::list(std::move(key), std::move(items));
}

core::Request request_of(const std::vector<Word>& words) {
  const WordsOutcome outcome = read_words(words);
  EXPECT_TRUE(outcome.ok());
  for (const Finding& finding : outcome.errors)
    ADD_FAILURE() << finding.text();
  return outcome.ok() ? *outcome.request : core::Request();
}

DeviceAsk gpu_of(const std::vector<Word>& words) {
  const core::Request request = request_of(words);
  return request.containers().size() == 1 ? request.containers()[0].gpu : DeviceAsk();
}

std::vector<std::string> codes_of(const std::vector<Word>& words) {
  std::vector<std::string> codes;
  for (const Finding& finding : read_words(words).errors) {
    codes.emplace_back(reason_name(finding.code));
  }
  return codes;
}

TEST(Words, ApiExample) {
  const std::vector<Word> words{Word::text("gpu_memory", "4GiB", 7), Word::text("cpu", "4", 8)};
  const WordsOutcome outcome = read_words(words);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.request->cpu(), Milli{4000});
  ASSERT_EQ(outcome.request->containers().size(), 1U);
  EXPECT_EQ(outcome.request->containers()[0].gpu, DeviceAsk::memory_mib(4096));
}

TEST(Words, OfNothingAskForNothing) {
  EXPECT_FALSE(request_of({}).wants_gpu());
  EXPECT_FALSE(request_of({text("gpu_memory", "0")}).wants_gpu());
  EXPECT_FALSE(request_of({text("whole", "0"), text("cpu", "2")}).wants_gpu());
}

TEST(Words, SayEveryKindOfRequest) {
  EXPECT_EQ(gpu_of({text("gpu_memory", "4GB")}), DeviceAsk::memory_mib(3815));
  EXPECT_EQ(gpu_of({text("gpu_fraction", "0.25"), text("gpus", "2")}),
            DeviceAsk::fraction_nano(250'000'000, 2));
  EXPECT_EQ(gpu_of({text("gpu_shared", "1")}), DeviceAsk::replica_part());
  EXPECT_EQ(gpu_of({text("whole", "2")}), DeviceAsk::whole_devices(2));
  EXPECT_EQ(gpu_of({text("mig", "1c.1g.5gb")}), DeviceAsk::mig_instances("1g.5gb"));
}

TEST(Words, SayLimits) {
  EXPECT_EQ(gpu_of({text("gpu_memory", "4G"), text("gpu_memory_limit", "8G")}).limit_mib, 8192);
  EXPECT_EQ(gpu_of({text("gpu_memory", "4G"), text("gpu_memory_limit", "4G")}).limit_mib,
            std::nullopt);
  EXPECT_EQ(gpu_of({text("gpu_fraction", ".25"), text("gpu_fraction_limit", ".5")}).limit_nano,
            500'000'000);
}

TEST(Words, SayHowAndWhere) {
  const DeviceAsk ask =
      gpu_of({text("gpu_memory", "1G"), text("mode", "sm-sharing"), text("compute", "250"),
              list("models", {"A100", "H100"}), text("use_types", "a, b"),
              text("avoid_types", "T4"), text("use_uuids", "GPU-1"), text("avoid_uuids", "GPU-2"),
              text("numa", "true"), text("mutex", "true"), text("node_order", "spread"),
              text("device_order", "pack"), text("links", "required")});
  EXPECT_EQ(ask.mode, core::SharingMode::sm_sharing);
  EXPECT_EQ(ask.compute_milli, 250);
  EXPECT_THAT(ask.filter.models, ElementsAre("A100", "H100"));
  EXPECT_THAT(ask.filter.use_types, ElementsAre("a", "b"));
  EXPECT_THAT(ask.filter.avoid_types, ElementsAre("T4"));
  EXPECT_THAT(ask.filter.use_uuids, ElementsAre("GPU-1"));
  EXPECT_THAT(ask.filter.avoid_uuids, ElementsAre("GPU-2"));
  EXPECT_TRUE(ask.numa_bind);
  EXPECT_TRUE(ask.mutex);
  EXPECT_EQ(ask.node_order, core::OrderHint::spread);
  EXPECT_EQ(ask.device_order, core::OrderHint::pack);
  EXPECT_EQ(ask.links, core::LinkRule::required);
}

TEST(Words, SayNodes) {
  const core::Request request =
      request_of({text("node", "n1"),
                  list("node_labels",
                       {"zone in (a, b)", "!old", "gpu", "cores > 8", "disk=ssd", "os!=windows"}),
                  list("tolerate", {"gpu=yes:NoSchedule", "spot", "x:NoExecute", "*"})});
  using Op = core::LabelRule::Op;
  EXPECT_THAT(request.nodes().names, ElementsAre("n1"));
  EXPECT_THAT(request.nodes().labels, ElementsAre(core::LabelRule{"zone", Op::in, {"a", "b"}},
                                                  core::LabelRule{"old", Op::does_not_exist, {}},
                                                  core::LabelRule{"gpu", Op::exists, {}},
                                                  core::LabelRule{"cores", Op::greater, {"8"}},
                                                  core::LabelRule{"disk", Op::in, {"ssd"}},
                                                  core::LabelRule{"os", Op::not_in, {"windows"}}));
  EXPECT_THAT(request.nodes().tolerations,
              ElementsAre(core::Toleration{"gpu", false, "yes", "NoSchedule"},
                          core::Toleration{"spot", true, "", ""},
                          core::Toleration{"x", true, "", "NoExecute"},
                          core::Toleration{"", true, "", ""}));
}

TEST(Words, SayNodeLabelsAsAMap) {
  const core::Request request = request_of(
      {Word::map("node_labels", {Word::text("zone", "a"), list("disk", {"ssd", "nvme"})})});
  using Op = core::LabelRule::Op;
  EXPECT_THAT(request.nodes().labels,
              ElementsAre(core::LabelRule{"zone", Op::in, {"a"}},
                          core::LabelRule{"disk", Op::in, {"ssd", "nvme"}}));
}

TEST(Words, OfSeveralContainersComeInStartOrder) {
  const core::Request request = request_of({Word::list(
      "containers", {Word::map("", {Word::text("name", "train"), Word::text("gpu_memory", "50"),
                                    Word::text("cpu", "2"), Word::text("ram", "1GiB")}),
                     Word::map("", {Word::text("name", "proxy"), Word::text("kind", "sidecar"),
                                    Word::text("cpu", "1")}),
                     Word::map("", {Word::text("name", "fetch"), Word::text("kind", "init"),
                                    Word::text("cpu", "4"), Word::text("gpu_memory", "60")})})});
  ASSERT_EQ(request.containers().size(), 3U);
  EXPECT_EQ(request.containers()[0].name, "proxy");
  EXPECT_EQ(request.containers()[1].name, "fetch");
  EXPECT_EQ(request.containers()[1].kind, ContainerKind::init);
  EXPECT_EQ(request.containers()[1].gpu, DeviceAsk::memory_mib(60));
  EXPECT_EQ(request.containers()[2].gpu, DeviceAsk::memory_mib(50));
  EXPECT_EQ(request.cpu(), Milli{5000}) << "init 4 beside sidecar 1 is more than 2 + 1";
  EXPECT_EQ(request.ram(), Memory::mib(1024));
}

TEST(Words, ThatDoNotGoTogetherAreRefused) {
  EXPECT_THAT(codes_of({text("gpu_memory", "1G"), text("gpu_fraction", "0.5")}),
              ElementsAre("FractionAndMemory"));
  EXPECT_THAT(codes_of({text("whole", "1"), text("mig", "1g.5gb")}), ElementsAre("MixedFamilies"));
  EXPECT_THAT(codes_of({text("gpu_memory_limit", "1G")}), ElementsAre("LimitWithoutRequest"));
  EXPECT_THAT(codes_of({text("gpu_fraction_limit", "0.5")}), ElementsAre("LimitWithoutRequest"));
  EXPECT_THAT(codes_of({text("gpu_memory", "2G"), text("gpu_memory_limit", "1G")}),
              ElementsAre("LimitBelowRequest"));
  EXPECT_THAT(codes_of({text("gpu_fraction", "0.5"), text("gpu_fraction_limit", "0.4")}),
              ElementsAre("LimitBelowRequest"));
  EXPECT_THAT(codes_of({text("gpus", "2")}), ElementsAre("CountWithoutShare"));
  EXPECT_THAT(codes_of({text("gpus", "2"), text("whole", "2")}), ElementsAre("MixedFamilies"));
  EXPECT_THAT(codes_of({text("gpu_shared", "2")}), ElementsAre("SharedCountAboveOne"));
  EXPECT_THAT(codes_of({text("gpu_shared", "1"), text("gpus", "2")}),
              ElementsAre("SharedCountAboveOne"));
}

TEST(Words, WithBadValuesAreRefusedByTheirOwnCode) {
  EXPECT_THAT(codes_of({text("gpu_memory", "-1")}), ElementsAre("BadMemory"));
  EXPECT_THAT(codes_of({text("gpu_memory", "4gb")}), ElementsAre("BadMemoryUnit"));
  EXPECT_THAT(codes_of({text("gpu_fraction", "NaN")}), ElementsAre("BadFraction"));
  EXPECT_THAT(codes_of({text("gpus", "0"), text("gpu_memory", "1")}),
              ElementsAre("BadDeviceCount"));
  EXPECT_THAT(codes_of({text("whole", "-1")}), ElementsAre("BadDeviceCount"));
  EXPECT_THAT(codes_of({text("whole", "100000")}), ElementsAre("BadDeviceCount"));
  EXPECT_THAT(codes_of({text("mig", "foo")}), ElementsAre("BadMigProfile"));
  EXPECT_THAT(codes_of({text("mode", "mps")}), ElementsAre("BadComputeMode"));
  EXPECT_THAT(codes_of({text("compute", "1001")}), ElementsAre("BadComputeShare"));
  EXPECT_THAT(codes_of({text("cpu", "x")}), ElementsAre("BadCpu"));
  EXPECT_THAT(codes_of({text("ram", "1.5G")}), ElementsAre("BadRam"));
  EXPECT_THAT(codes_of({text("numa", "yes")}), ElementsAre("BadValue"));
  EXPECT_THAT(codes_of({text("models", "")}), ElementsAre("BadValue"));
  EXPECT_THAT(codes_of({text("tolerate", "a=b:Never")}), ElementsAre("BadValue"));
  EXPECT_THAT(codes_of({text("node_labels", "a in b")}), ElementsAre("BadValue"));
  EXPECT_THAT(codes_of({list("gpu_memory", {"1"})}), ElementsAre("BadValue"));
  EXPECT_THAT(codes_of({text("containers", "main")}), ElementsAre("BadValue"));
}

TEST(Words, UnknownNameTheNearestKnownOne) {
  const WordsOutcome outcome = read_words(std::vector<Word>{Word::text("gpu_memry", "4GiB", 12)});
  ASSERT_EQ(outcome.errors.size(), 1U);
  EXPECT_EQ(outcome.errors[0].position, 12U);
  EXPECT_EQ(outcome.errors[0].text(),
            "UnknownKey: gpu_memry=4GiB: no such word; did you mean gpu_memory?");
}

TEST(Words, ReportAllErrorsInOrderOfPosition) {
  const WordsOutcome outcome = read_words(std::vector<Word>{
      Word::text("gpu_memory", "-1", 3), Word::text("cpu", "x", 1), Word::text("zzz", "", 2)});
  ASSERT_EQ(outcome.errors.size(), 3U);
  EXPECT_EQ(outcome.errors[0].key, "cpu");
  EXPECT_EQ(outcome.errors[1].key, "zzz");
  EXPECT_EQ(outcome.errors[2].key, "gpu_memory");
}

TEST(Words, SaidTwiceOrInTheWrongPlaceAreRefused) {
  EXPECT_THAT(codes_of({text("cpu", "1"), text("cpu", "2")}), ElementsAre("BadValue"));
  EXPECT_THAT(codes_of({text("kind", "init")}), ElementsAre("MisplacedKey"));
  EXPECT_THAT(
      codes_of({text("cpu", "1"), Word::list("containers", {Word::map("", {text("cpu", "1")})})}),
      ElementsAre("MisplacedKey"));
  EXPECT_THAT(codes_of({Word::list("containers", {Word::map("", {text("node", "n1")})})}),
              ElementsAre("MisplacedKey"));
  EXPECT_THAT(codes_of({Word::list("containers", {Word::map("", {}), Word::map("", {})})}),
              ElementsAre("DuplicateContainer"));
}

TEST(Words, ThatSteerNoGpuAreWarnedAbout) {
  const WordsOutcome outcome =
      read_words(std::vector<Word>{text("models", "A100"), text("cpu", "1")});
  EXPECT_TRUE(outcome.ok());
  ASSERT_EQ(outcome.warnings.size(), 1U);
  EXPECT_EQ(outcome.warnings[0].key, "models");
}

TEST(WordTable, EveryExampleParses) {
  for (const WordRule& rule : word_rules()) {
    EXPECT_TRUE(rule.example.starts_with(std::string(rule.name) + ": ")) << rule.name;
    EXPECT_FALSE(rule.summary.empty()) << rule.name;
    EXPECT_EQ(find_word(rule.name), &rule);
    const std::string value(rule.example.substr(rule.name.size() + 2));
    if (value.front() == '[' || value.front() == '{') continue;
    std::vector<Word> words{text(std::string(rule.name), value)};
    if (rule.scope == WordScope::container) {
      words = {Word::list("containers", {Word::map("", words)})};
    }
    for (const std::string& code : codes_of(words)) {
      EXPECT_THAT(code, ::testing::AnyOf("LimitWithoutRequest", "CountWithoutShare")) << rule.name;
    }
  }
}

TEST(WordTable, RefusesWhatIsNoWord) { EXPECT_EQ(find_word("gpu"), nullptr); }

RC_GTEST_PROP(Words, OfAnyBytesGiveAnAnswer, ()) {
  const auto word = rc::gen::exec([] {
    const WordRule& rule = word_rules()[*rc::gen::inRange<std::size_t>(0, word_rules().size())];
    const auto value =
        *rc::gen::oneOf(rc::gen::arbitrary<std::string>(),
                        rc::gen::element<std::string>("1", "0", "4GiB", "0.5", "true", "pack",
                                                      "1g.5gb", "a in (b)"));
    const auto shape = *rc::gen::inRange(0, 3);
    if (shape == 0) return Word::text(std::string(rule.name), value);
    if (shape == 1) return Word::list(std::string(rule.name), {Word::text("", value)});
    return Word::map(std::string(rule.name), {Word::text(value, value)});
  });
  const auto words = *rc::gen::resize(4, rc::gen::container<std::vector<Word>>(word));
  const WordsOutcome outcome = read_words(words);
  RC_ASSERT(outcome.ok() == outcome.errors.empty());
  const auto nested =
      read_words(std::vector<Word>{Word::list("containers", {Word::map("", words)})});
  RC_ASSERT(nested.ok() == nested.errors.empty());
}

}  // namespace
}  // namespace berth::request
