// Every cause has a sentence, and what all sentences keep to.
#include "core/engine/sentence.h"

#include <cctype>
#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "core/engine/sentence_cases_test.h"

namespace berth::core {
namespace {

// Causes that the engine cannot give to a workload that it still knows, or not yet; who makes the
// engine give one of them adds its world above.
const std::set<Cause>& without_a_world() {
  static const std::set<Cause> causes{Cause::none,
                                      Cause::wait_timed_out,
                                      Cause::search_budget,
                                      Cause::unequal_devices,
                                      Cause::contradictory_constraint,
                                      Cause::gated,
                                      Cause::back_off,
                                      Cause::gang_incomplete,
                                      Cause::not_a_leaf_queue,
                                      Cause::queue_held,
                                      Cause::over_limit,
                                      Cause::non_preemptible_over_quota,
                                      Cause::unknown_resource,
                                      Cause::unsupported_constraint,
                                      Cause::no_topology_domain,
                                      Cause::preempting,
                                      Cause::preemption_delay,
                                      Cause::internal};
  return causes;
}

Verdict verdict_of(const SentenceCase& one) {
  SentenceWorld world(one.config);
  one.build(world);
  EXPECT_TRUE(verify(*world.engine).ok());
  const Result<Verdict> verdict = world.engine->explain("x");
  EXPECT_TRUE(verdict.ok());
  return verdict.ok() ? *verdict : Verdict();
}

bool has_digit(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

TEST(Sentence, OfEachCauseHasANumberANameAndTwoHundredCharactersAtMost) {
  for (const SentenceCase& one : sentence_cases()) {
    const Verdict verdict = verdict_of(one);
    EXPECT_EQ(cause_name(verdict.cause), cause_name(one.cause)) << verdict.summary;
    EXPECT_EQ(verdict.summary, one.sentence);
    EXPECT_LE(verdict.summary.size(), Sentence::kMost);
    // A number besides those of the request, where there is a reason.
    EXPECT_TRUE(has_digit(verdict.summary)) << verdict.summary;
  }
}

TEST(Sentence, EveryCauseHasAWorldOrAReasonForNone) {
  std::set<Cause> told = without_a_world();
  for (const SentenceCase& one : sentence_cases()) {
    EXPECT_FALSE(without_a_world().contains(one.cause)) << cause_name(one.cause);
    told.insert(one.cause);
  }
  EXPECT_EQ(told.size(), kCauseCount);
}

TEST(Sentence, StaysShortAndPrintableWhateverThingsAreCalled) {
  SentenceWorld world;
  Node node = sentence_node(std::string(250, 'n'), 1);
  node.devices[0].uuid = "GPU-\x1b[31m" + std::string(100, 'u');
  world.apply(NodeUpserted{node});
  world.submit("a\nb" + std::string(300, 'w'), DeviceAsk::whole_devices(1));
  world.submit("x", DeviceAsk::memory_mib(4096));
  const Verdict verdict = world.engine->explain("x").value();
  EXPECT_LE(verdict.summary.size(), Sentence::kMost);
  EXPECT_EQ(verdict.summary.find('\x1b'), std::string::npos);
  EXPECT_NE(verdict.summary.find("is held by a\\nbwww"), std::string::npos) << verdict.summary;
}

}  // namespace
}  // namespace berth::core
