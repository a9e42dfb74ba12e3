#include "config/queue_file.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/amount.h"
#include "config/instant.h"
#include "config/section_test.h"

namespace berth::config {
namespace {

using core::DimensionKind;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

QueueFile file_of(const std::string& text, const std::vector<std::string>& classes = {}) {
  QueueReader reader;
  reader.add_file(text, "q.yaml");
  return std::move(reader).finish(classes);
}

core::QueueConfig config_of(const std::string& text) {
  QueueFile file = file_of(text);
  EXPECT_EQ(file.text(), "") << text;
  return file.config;
}

// One queue `a` with these further lines.
core::QueueSpec queue_of(const std::string& lines) {
  return config_of("queues:\n  - name: a\n" + lines).queues.at(0);
}

std::string message_of(const std::string& lines) {
  const QueueFile file = file_of("queues:\n  - name: a\n" + lines);
  EXPECT_TRUE(file.refused()) << lines;
  return file.text();
}

TEST(QueueFile, ReadsEveryFieldOfAQueue) {
  const core::QueueConfig config = config_of(R"(priorityRule: kai
queues:
  - name: research
    parent: root
    priority: 200
    dims:
      "*/devices": {deserved: 20, limit: 40, reserved: 4.5, weight: 3}
      a100-80g/memory: {deserved: 160GiB}
      a100-80g/compute: {limit: 4000, deserved: -1}
    order: bestEffort
    reclaim: guarantee
    preempt: never
    minRuntime: {reclaim: 10min, classes: {100: {reclaim: 30min}, -5: {preempt: 1h}}, preempt: 5min}
    preemptionDelay: 90s
    history: {halfLife: 7d, k: 500}
    aging: {step: 5min, max: 3}
    evictions: {perWorkloadPerHour: unlimited, perClaim: 8}
    stop: holdAndDrain
    policy: nodes=spread,devices=pack
    deviceCap: 4
    created: 1970-01-02T00:00:00.5Z
)");
  EXPECT_EQ(config.priority_rule, core::PriorityRule::kai);
  core::QueueSpec expected;
  expected.name = "research";
  expected.priority = 200;
  expected.dimensions = {
      {"*", DimensionKind::devices, 20'000, 40'000, 4'500, 3},
      {"a100-80g", DimensionKind::memory, 163'840, core::kUnlimited, 0, 1},
      {"a100-80g", DimensionKind::compute, core::kUnlimited, 4'000, 0, 1},
  };
  expected.order = core::QueueOrder::best_effort;
  expected.reclaim = core::ReclaimRight::guarantee;
  expected.preempt = core::PreemptRight::never;
  expected.min_runtime = {.reclaim = Duration{600'000},
                          .preempt = Duration{300'000},
                          .by_priority = {{-5, Duration{600'000}, Duration{3'600'000}},
                                          {100, Duration{1'800'000}, Duration{300'000}}}};
  expected.preemption_delay = Duration{90'000};
  expected.history = core::QueueHistory{.half_life = Duration{604'800'000}, .k = 500};
  expected.aging = {.step = Duration{300'000}, .max = 3};
  expected.evictions = {.per_workload_per_hour = core::kNoCap, .per_claim = 8};
  expected.stop = core::QueueStop::hold_and_drain;
  expected.policy = "nodes=spread,devices=pack";
  expected.device_cap = 4;
  expected.created = Time{86'400'500};
  ASSERT_EQ(config.queues.size(), 1U);
  EXPECT_EQ(config.queues[0], expected);
}

TEST(QueueFile, WhatIsNotSaidIsTheDefault) {
  core::QueueSpec expected;
  expected.name = "a";
  EXPECT_EQ(queue_of(""), expected);
  expected.dimensions = {{"H100", DimensionKind::memory, 0, core::kUnlimited, 0, 1}};
  EXPECT_EQ(queue_of("    dims: {H100/memory: {}}\n"), expected);
  EXPECT_EQ(queue_of("    device_cap: 2\n").device_cap, 2);
  EXPECT_EQ(queue_of("    created: 5min\n").created, Time{300'000});
}

TEST(QueueFile, StandsBesideTheOtherSectionsOfAScenario) {
  const core::QueueConfig config = config_of(
      "about: x\nfleet: 1x16GiB\nconfig: {policy: pack}\nqueues: [{name: a}]\nload: {}\nsteps: "
      "[]\n");
  EXPECT_EQ(config.queues.size(), 1U);
}

TEST(QueueFile, SeveralFilesAreOneTree) {
  QueueReader reader;
  reader.add_file("queues: [{name: a}]\n", "a.yaml");
  reader.add_file("priorityRule: kai\nqueues: [{name: b, parent: a}]\n", "b.yaml");
  QueueFile file = std::move(reader).finish({});
  EXPECT_EQ(file.text(), "");
  EXPECT_EQ(file.config.queues.size(), 2U);
  EXPECT_EQ(file.config.priority_rule, core::PriorityRule::kai);
}

TEST(QueueFile, RefusesTwoPriorityRules) {
  QueueReader reader;
  reader.add_file("priorityRule: explicit\nqueues: [{name: a}]\n", "a.yaml");
  reader.add_file("priorityRule: kai\nqueues: [{name: b}]\n", "b.yaml");
  EXPECT_EQ(std::move(reader).finish({}).text(),
            "b.yaml:1:15: priorityRule 'kai': a.yaml:1:15 says otherwise: keep one");
}

TEST(QueueFile, RefusesWrongWordsWithPlaceFieldValueRuleAndFix) {
  const std::pair<const char*, const char*> kCases[] = {
      {"    prioritty: 1\n",
       "q.yaml:3:5: prioritty: 'prioritty' is not a key of 'queue'; did you "
       "mean 'priority'?"},
      {"    priority: 1.5\n", "q.yaml:3:15: priority '1.5': a whole number from -1000000000"},
      {"    priority: 9223372036854775808\n", "a whole number from"},
      {"    order: fiffo\n",
       "q.yaml:3:12: order 'fiffo': not a word that is known here; did you "
       "mean 'fifo'? known are fifo, strict, bestEffort"},
      {"    reclaim: always\n", "known are never, guarantee, fairShare"},
      {"    preempt: fairShare\n", "known are never, lowerPriority"},
      {"    stop: hodl\n", "did you mean 'hold'?"},
      {"    policy: pakc\n", "q.yaml:3:13: policy 'pakc'"},
      {"    deviceCap: 0\n", "a whole number from 1"},
      {"    deviceCap: 1\n    device_cap: 1\n", "one key: keep one"},
      {"    created: yesterday\n", "2026-01-31T10:00:00Z"},
      {"    created: 2026-02-30T10:00:00Z\n", "a date and time in UTC is expected"},
      {"    preemptionDelay: 5\n", "a duration is a whole number with"},
      {"    minRuntime: {reclaim: -1s}\n", "a duration is a whole number with"},
      {"    minRuntime: {classes: {high: {}}}\n", "q.yaml:3:28: classes 'high': the lowest"},
      {"    minRuntime: {classes: {1: {}, 01: {}}}\n", "the class is given twice"},
      {"    minRuntime: {classes: {1: {reclam: 1s}}}\n", "did you mean 'reclaim'?"},
      {"    history: {k: 1}\n", "'halfLife' is missing"},
      {"    history: {halfLife: 500ms}\n", "at least 1s"},
      {"    history: {halfLife: 1d, k: 10001}\n", "from 0 to 10000"},
      {"    aging: {step: 0s}\n", "above zero"},
      {"    evictions: {perClaim: -2}\n", "from -1"},
      {"    dims: {A100: {}}\n", "q.yaml:3:12: dims 'A100': a dimension is CLASS/memory"},
      {"    dims: {/devices: {}}\n", "a dimension is CLASS/memory"},
      {"    dims: {A100/device: {}}\n", "did you mean 'devices'?"},
      {"    dims: {A100/devices: 4}\n", "the keys of 'dimension' are expected"},
      {"    dims: {A100/devices: {desreved: 4}}\n", "did you mean 'deserved'?"},
      {"    dims: {*/devices: {}}\n", "in quotes"},
  };
  for (const auto& [lines, expected] : kCases) {
    EXPECT_THAT(message_of(lines), AllOf(StartsWith("q.yaml:"), HasSubstr(expected))) << lines;
  }
}

TEST(QueueFile, RefusesWrongAmountsAndNeverRoundsThem) {
  const std::pair<const char*, const char*> kCases[] = {
      {"A100/devices: {deserved: 0.0001}", "deserved '0.0001': devices are a number with at most"},
      {"A100/devices: {deserved: 1e3}", "devices are a number"},
      {"A100/devices: {deserved: -2}", "or -1 (unlimited)"},
      {"A100/devices: {deserved: 9223372036854775808}", "devices are a number"},
      {"A100/devices: {deserved: 9007199254741}", "from 0 to 9007199254740"},
      {"A100/devices: {reserved: -1}", "cannot be unlimited"},
      {"A100/devices: {reserved: unlimited}", "cannot be unlimited"},
      {"A100/devices: {weight: 10001}", "weight '10001': a whole number from 0 to 10000"},
      {"A100/devices: {weight: -1}", "a whole number from 0 to 10000"},
      {"A100/memory: {deserved: 160}", "memory is a whole number with MiB, GiB or TiB"},
      {"A100/memory: {deserved: 1.5GiB}", "memory is a whole number"},
      {"A100/memory: {deserved: 9223372036854775808MiB}", "memory is a whole number"},
      {"A100/memory: {limit: 160GB}", "memory is a whole number"},
      {"A100/compute: {limit: 0.5}", "compute is a whole number of thousandths"},
      {"A100/devices: {deserved: 40, limit: 20.5}",
       "q.yaml:3:37: dims.A100/devices.deserved '40': above the limit 20.5"},
      {"A100/memory: {deserved: 4GiB, reserved: 5GiB}",
       "dims.A100/memory.reserved '5GiB': above deserved 4GiB"},
      {"A100/memory: {deserved: -1, reserved: 5GiB, limit: 1GiB}",
       "reserved '5GiB': above the limit 1GiB"},
  };
  for (const auto& [dimension, expected] : kCases) {
    const std::string message = message_of("    dims: {" + std::string(dimension) + "}\n");
    EXPECT_THAT(message, AllOf(StartsWith("q.yaml:3:"), HasSubstr(expected))) << dimension;
    EXPECT_THAT(message, testing::Not(HasSubstr("\n"))) << "one fault, one line";
  }
}

TEST(QueueFile, RefusesFilesThatHoldNoTree) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "q.yaml:1:1: the file is empty"},
      {"- a\n", "the keys of 'file' are expected"},
      {"queus: []\n", "did you mean 'queues'?"},
      {"fleet: 1x1GiB\n", "'queues' is missing"},
      {"queues: []\n", "a quota tree has queues"},
      {"queues:\n", "nothing is written here"},
      {"queues: [a]\n", "the keys of 'queue' are expected"},
      {"queues: [{parent: a}]\n", "'name' is missing"},
      {"queues: [{name: a}]\npriorityRule: mine\n", "known are explicit, kai"},
      {"queues: [{name: a}]\n---\nqueues: [{name: b}]\n", "a second document"},
  };
  for (const auto& [text, expected] : kCases) {
    const QueueFile file = file_of(text);
    EXPECT_TRUE(file.refused()) << text;
    EXPECT_THAT(file.text(), AllOf(StartsWith("q.yaml:"), HasSubstr(expected))) << text;
  }
}

TEST(QueueFile, SaysAllThatIsWrongAndNotJustTheFirst) {
  const QueueFile file = file_of(R"(queues:
  - name: a
    ordr: fifo
    dims:
      "*/devices": {deserved: x, weight: 10001}
      A100/foo: {}
    minRuntime: {reclaim: 1, classes: {x: {}}}
  - name: b
    parent: nobody
)");
  EXPECT_TRUE(file.refused());
  EXPECT_EQ(file.complaints.size(), 7U) << file.text();
}

TEST(QueueFile, JudgesTheTree) {
  struct Case {
    const char* text;
    const char* expected;
    bool holds;
  };
  const Case kCases[] = {
      {"queues:\n  - {name: a, parent: b}\n  - {name: b, parent: a}\n",
       "q.yaml:2:23: queue a: parent: b closes the circle", true},
      {"queues:\n  - {name: team-a}\n  - {name: x, parent: taem-a}\n",
       "q.yaml:3:23: queue x: parent: taem-a does not exist; name a queue of the tree, nearest is "
       "team-a",
       true},
      {"queues:\n  - {name: root, parent: a}\n  - {name: a}\n",
       "q.yaml:2:26: queue root: parent: a; the root has no parent", true},
      {"queues:\n  - {name: a}\n  - {name: a}\n", "q.yaml:3:12: queue a: name: a is given 2 times",
       false},
      {"queues:\n  - {name: a/b}\n", "q.yaml:2:12: queue a/b: name: a/b contains '/'", false},
      {"queues:\n  - {name: a, dims: {H10/devices: {}}}\n",
       "q.yaml:2:22: queue a: dims.H10/devices: no device of the fleet is of class H10; name one "
       "that exists (nearest is H100)",
       false},
  };
  for (const Case& c : kCases) {
    const QueueFile file = file_of(c.text, {"A100", "H100"});
    EXPECT_THAT(file.text(), StartsWith(c.expected)) << c.text;
    EXPECT_NE(file.refused(), c.holds) << c.text;
  }
}

TEST(QueueFile, HoldsAreNoReasonToRefuse) {
  const auto config = read_queue_file("queues: [{name: a, parent: b}]\n", "q.yaml", {});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->queues[0].parent, "b");
  const auto refused =
      read_queue_file("queues: [{name: a, parent: b, stop: x}, {name: c, x: 1}]\n", "q.yaml", {});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("\nq.yaml:1:"));
}

TEST(QueueFile, AcceptsEveryExampleOfItsOwnTables) {
  expect_examples_are_accepted(queue_section());
  expect_examples_are_accepted(dimension_section());
  expect_examples_are_accepted(min_runtime_section());
  expect_examples_are_accepted(protection_section());
  expect_examples_are_accepted(history_section());
  expect_examples_are_accepted(queue_aging_section());
  expect_examples_are_accepted(evictions_section());
  for (const KeyDoc& key : {kQueuesKey, kPriorityRuleKey}) {
    const QueueFile file = file_of(std::string(key.name) + ": " + std::string(key.example) + "\n" +
                                   (key.name == "queues" ? "" : "queues: [{name: a}]\n"));
    EXPECT_EQ(file.text(), "");
  }
}

TEST(Instant, ReadsWhatClusterObjectsWrite) {
  EXPECT_EQ(*parse_instant("1970-01-01T00:00:00Z"), Time{0});
  EXPECT_EQ(*parse_instant("2026-01-31T10:00:00Z"), Time{1'769'853'600'000});
  EXPECT_EQ(instant_text(Time{1'769'853'600'000}), "2026-01-31T10:00:00Z");
  EXPECT_EQ(instant_text(*parse_instant("2026-01-31T10:00:00.25Z")), "2026-01-31T10:00:00.250Z");
  for (const char* bad : {"", "Z", "2026-01-31", "2026-01-31T10:00:00", "2026-01-31T24:00:00Z",
                          "2025-02-29T10:00:00Z", "1969-12-31T23:59:59Z", "2026-01-31T10:00:00.Z",
                          "2026-01-31T10:00:00.1234Z", "2026-01-31T10:00:00+01:00"}) {
    EXPECT_FALSE(parse_instant(bad).ok()) << bad;
  }
}

TEST(Amount, KeepsThousandths) {
  EXPECT_EQ(*parse_amount("0.5", DimensionKind::devices), 500);
  EXPECT_EQ(*parse_amount("1.125", DimensionKind::devices), 1'125);
  EXPECT_EQ(*parse_amount("9007199254740.991", DimensionKind::devices), core::kMostQuota - 1);
  EXPECT_FALSE(parse_amount("9007199254740.992", DimensionKind::devices).ok());
  EXPECT_EQ(*parse_amount("2TiB", DimensionKind::memory), 2 * 1024 * 1024);
  for (const char* bad : {"", ".", "1.", ".5", "1.0000", "+1", "1 ", "1_000", "٣"}) {
    EXPECT_FALSE(parse_amount(bad, DimensionKind::devices).ok()) << bad;
  }
}

}  // namespace
}  // namespace berth::config
