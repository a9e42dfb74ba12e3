#include "config/import.h"

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/manifest.h"
#include "config/queue_file.h"
#include "config/queue_writer.h"
#include "core/queue/queue_tree.h"

namespace berth::config {
namespace {

using core::kUnlimited;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Import import_of(const std::string& text) {
  auto import = import_manifests({{"k.yaml", text}});
  EXPECT_TRUE(import.ok()) << import.error().message();
  return import.ok() ? *std::move(import) : Import{};
}

std::string refusal_of(const std::string& text) {
  const auto import = import_manifests({{"k.yaml", text}});
  EXPECT_FALSE(import.ok()) << text;
  return import.ok() ? "" : import.error().message();
}

core::QueueSpec queue_of(const Import& import, const std::string& name) {
  for (const core::QueueSpec& queue : import.config.queues) {
    if (queue.name == name) return queue;
  }
  ADD_FAILURE() << "no queue " << name;
  return {};
}

// A ClusterQueue of one flavor "gpu" with the quota, and further lines of its spec.
std::string cluster_queue(const std::string& name, const std::string& quota,
                          const std::string& spec = "") {
  return "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: " + name +
         "}\nspec:\n  resourceGroups:\n    - coveredResources: [nvidia.com/gpu]\n      flavors:\n"
         "        - {name: gpu, resources: [{name: nvidia.com/gpu, " +
         quota + "}]}\n" + spec;
}

std::string cohort(const std::string& name, const std::string& quota, const std::string& spec) {
  std::string text = cluster_queue(name, quota, spec);
  return text.replace(text.find("ClusterQueue"), 12, "Cohort");
}

const std::string kFlavor =
    "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: gpu}\n"
    "spec: {nodeLabels: {nvidia.com/gpu.product: A100}}\n";

core::QueueDimension a100(std::int64_t deserved, std::int64_t limit, std::int64_t reserved = 0,
                          std::int64_t weight = 1) {
  return {"A100",          core::DimensionKind::devices,
          deserved * 1000, limit == kUnlimited ? kUnlimited : limit * 1000,
          reserved * 1000, weight};
}

// queues-gangs-topology.md 2.1, vector, and 4.2: charge(A) = 7, charge(B) = 5, C = 16, 4 free.
TEST(ImportKueue, TheVectorLeavesFourOfSixteen) {
  const Import import = import_of(
      kFlavor + cluster_queue("a", "nominalQuota: 10, lendingLimit: 4", "  cohortName: c\n") +
      cluster_queue("b", "nominalQuota: 6, borrowingLimit: 3", "  cohortName: c\n"));
  EXPECT_THAT(queue_of(import, "a").dimensions, ElementsAre(a100(10, kUnlimited, 6)));
  EXPECT_THAT(queue_of(import, "b").dimensions, ElementsAre(a100(6, 9)));
  EXPECT_THAT(queue_of(import, "c").dimensions, ElementsAre(a100(16, 16)));
  EXPECT_EQ(queue_of(import, "a").parent, "c");

  core::QueueTree tree;
  EXPECT_THAT(tree.configure(import.config, {}), IsEmpty());
  const core::DeviceClassId device_class = tree.class_of("A100");
  const auto devices = [&](std::int64_t count) {
    return core::Charge{{{.device_class = device_class, .whole = count}}};
  };
  tree.set_capacity(device_class, core::DimensionKind::devices, 16'000);
  const core::QueueId a = tree.find("a").value();
  const core::QueueId b = tree.find("b").value();
  tree.add(a, devices(7), core::BookingState::running, true);
  tree.add(b, devices(5), core::BookingState::running, true);
  const auto may_start = [&](core::QueueId queue, std::int64_t count) {
    return !tree.may_start(queue, devices(count), true, core::Counting::present).refused();
  };
  EXPECT_TRUE(may_start(a, 4));
  EXPECT_FALSE(may_start(a, 5));
  EXPECT_TRUE(may_start(b, 4));
  EXPECT_FALSE(may_start(b, 5));
}

TEST(ImportKueue, WhatACohortKeepsIsReservedWithWhatItsChildrenKeep) {
  const Import import = import_of(
      kFlavor + cohort("inner", "nominalQuota: 5, lendingLimit: 3", "  parentName: top\n") +
      cluster_queue("a", "nominalQuota: 10, lendingLimit: 4", "  cohortName: inner\n") +
      cluster_queue("b", "nominalQuota: 2", "  cohortName: top\n"));
  // S(inner) = 5 + (10 - 6) = 9, L(inner) = 9 - 3 = 6; kept = 6 + 6.
  EXPECT_THAT(queue_of(import, "inner").dimensions, ElementsAre(a100(15, kUnlimited, 12)));
  EXPECT_THAT(queue_of(import, "top").dimensions, ElementsAre(a100(17, 17)));
}

TEST(ImportKueue, WithoutACohortNothingCanBeBorrowed) {
  const Import import = import_of(kFlavor + cluster_queue("a", "nominalQuota: 10"));
  EXPECT_THAT(queue_of(import, "a").dimensions, ElementsAre(a100(10, 10)));
}

TEST(ImportKueue, ACellThatIsNotListedMayNotBeUsed) {
  std::string other = cluster_queue("b", "nominalQuota: 2", "  cohortName: c\n");
  other.replace(other.find("name: gpu,"), 10, "name: l4,");
  const Import import =
      import_of(kFlavor + cluster_queue("a", "nominalQuota: 1", "  cohortName: c\n") + other);
  EXPECT_THAT(
      queue_of(import, "a").dimensions,
      ElementsAre(a100(1, kUnlimited), core::QueueDimension{.device_class = "l4", .limit = 0}));
  EXPECT_THAT(import.remarks, Contains(HasSubstr("ClusterQueue b: name 'l4': its ResourceFlavor is "
                                                 "not given: its name is taken")));
}

TEST(ImportKueue, WeightsStayInProportion) {
  const auto weights = [](const std::vector<std::string>& given) {
    std::string text = kFlavor;
    for (std::size_t i = 0; i < given.size(); ++i) {
      text += cluster_queue("q" + std::to_string(i), "nominalQuota: 1",
                            "  fairSharing: {weight: " + given[i] + "}\n");
    }
    const Import import = import_of(text);
    std::vector<std::int64_t> read;
    for (const core::QueueSpec& queue : import.config.queues)
      read.push_back(queue.dimensions.at(0).weight);
    const std::string remarks = fmt::format("{}", fmt::join(import.remarks, "\n"));
    read.push_back(remarks.find("rounded") == std::string::npos ? 0 : 1);
    return read;
  };
  EXPECT_THAT(weights({"2", "4"}), ElementsAre(2, 4, 0));
  EXPECT_THAT(weights({"500m", "1.5", "2"}), ElementsAre(1, 3, 4, 0));
  EXPECT_THAT(weights({"1m", "10"}), ElementsAre(1, 10'000, 0));
  EXPECT_THAT(weights({"0.001", "20"}), ElementsAre(1, 10'000, 1));
  EXPECT_THAT(weights({"0", "1"}), ElementsAre(0, 1, 0));
  EXPECT_THAT(weights({"0.0015", "1"}), ElementsAre(1, 1000, 1));
}

TEST(ImportKueue, NamesAreUniqueInOneTree) {
  const Import import =
      import_of(kFlavor + cluster_queue("x", "nominalQuota: 1", "  cohortName: x\n") +
                cluster_queue("root", "nominalQuota: 1"));
  EXPECT_EQ(queue_of(import, "x").parent, "x-cohort");
  EXPECT_EQ(queue_of(import, "root-queue").parent, "root");
  EXPECT_THAT(import.remarks, Contains(HasSubstr("it becomes root-queue")));
}

TEST(ImportKueue, ACircleOfCohortsIsOnHold) {
  const Import import = import_of(kFlavor + cohort("a", "nominalQuota: 1", "  parentName: b\n") +
                                  cohort("b", "nominalQuota: 1", "  parentName: a\n") +
                                  cluster_queue("q", "nominalQuota: 1", "  cohortName: a\n"));
  EXPECT_THAT(import.remarks, Contains(HasSubstr("closes the circle")));
}

TEST(Import, RefusesWhatCannotBeReadAndSaysAllOfIt) {
  EXPECT_THAT(refusal_of(""), HasSubstr("no queue to import"));
  EXPECT_THAT(refusal_of("a: [\n"), HasSubstr("k.yaml:"));
  EXPECT_THAT(refusal_of("kind: Queue\n"), HasSubstr("'apiVersion' is missing"));
  EXPECT_THAT(
      refusal_of(kFlavor + cluster_queue("a", "nominalQuota: many") +
                 cluster_queue("b", "nominalQuota: 99999999999999") +
                 cluster_queue("c", "nominalQuota: 1, lendingLimit: -1") +
                 cluster_queue("d", "nominalQuota: 1", "  stopPolicy: Hodl\n")),
      testing::AllOf(HasSubstr("k.yaml:14:72: ClusterQueue a: nominalQuota 'many': a number"),
                     HasSubstr("\nk.yaml:23:"), HasSubstr("an amount from 0"),
                     HasSubstr("\nk.yaml:42:15: stopPolicy 'Hodl': not a word that is "
                               "known here; did you mean 'Hold'? known are None, Hold, "
                               "HoldAndDrain (ClusterQueue d)")));
  EXPECT_THAT(
      refusal_of(cluster_queue("a", "nominalQuota: 1") + cluster_queue("a", "nominalQuota: 1")),
      HasSubstr("ClusterQueue a: described twice, first in k.yaml:2"));
}

std::string kai(const std::string& spec) {
  return "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: a}\nspec: " + spec + "\n";
}

TEST(ImportKai, RefusesWrongFigures) {
  EXPECT_THAT(refusal_of(kai("{resources: {gpu: {quota: -2}}}")), HasSubstr("or -1 for unlimited"));
  EXPECT_THAT(refusal_of(kai("{resources: {gpu: {quota: 4, limit: 2}}}")),
              HasSubstr("is above the limit"));
  EXPECT_THAT(refusal_of(kai("{resources: {gpu: {overQuotaWeight: -1}}}")),
              HasSubstr("below zero"));
  EXPECT_THAT(refusal_of(kai("{priority: high}")), HasSubstr("a whole number"));
  EXPECT_THAT(refusal_of(kai("{reclaimMinRuntime: soon}")), HasSubstr("a duration of Go"));
}

TEST(ImportKai, WhatCannotBeKeptIsSaid) {
  const Import import = import_of(
      kai("{reclaimMinRuntime: -1s, resources: {gpu: {quota: 0.3333, limit: -1, overQuotaWeight: "
          "1}}}"));
  EXPECT_THAT(import.remarks,
              ElementsAre(HasSubstr("there is no protection without end"),
                          HasSubstr("quota '0.3333': rounded down to 333 thousandths")));
  EXPECT_EQ(import.config.priority_rule, core::PriorityRule::kai);
}

// Each value of a manifest is used, or stands in a remark.
TEST(Import, NothingIsDroppedSilently) {
  const Import import = import_of(kai(
      "{resources: {gpu: {quota: 1, limit: 2, overQuotaWeight: 1}}, new: [{x: 1}, []], y: null}"));
  EXPECT_THAT(import.remarks,
              ElementsAre("k.yaml:4:78: Queue a: spec.new[0].x '1': has no equal in a queue file",
                          "k.yaml:4:82: Queue a: spec.new[1] []: has no equal in a queue file",
                          "k.yaml:4:87: Queue a: spec.y null: has no equal in a queue file"));
}

TEST(Manifest, ReadsNumbersOfKubernetes) {
  const std::map<std::string, std::int64_t> kNumbers = {
      {"0", 0},           {"10", 10'000},   {"500m", 500},        {"1.5", 1'500}, {"2k", 2'000'000},
      {"1e3", 1'000'000}, {"15e-1", 1'500}, {"4Ki", 4'096'000},   {"-1", -1'000}, {"+1", 1'000},
      {".5", 500},        {"1.", 1'000},    {"0.0005Mi", 524'288}};
  for (const auto& [text, expected] : kNumbers) {
    const auto read = parse_thousandths(text);
    ASSERT_TRUE(read.ok()) << text;
    EXPECT_EQ(read->count, expected) << text;
    EXPECT_TRUE(read->exact) << text;
  }
  EXPECT_FALSE(parse_thousandths("0.0005")->exact);
  EXPECT_FALSE(parse_thousandths("100n")->exact);
  for (const char* bad : {"", "-", ".", "1x", "1 ", "1e", "1e99", "9007199254741", "1Ei", "5E",
                          "99999999999999999999999", "0x1"}) {
    EXPECT_FALSE(parse_thousandths(bad).ok()) << bad;
  }
}

TEST(Manifest, ReadsDurationsOfGo) {
  const std::map<std::string, std::int64_t> kDurations = {
      {"0", 0},   {"90s", 90'000}, {"1h30m", 5'400'000}, {"1.5h", 5'400'000},
      {"1ns", 1}, {"250ms", 250}};
  for (const auto& [text, ms] : kDurations) {
    const auto read = parse_go_duration(text);
    ASSERT_TRUE(read.ok()) << text;
    EXPECT_EQ(read->count(), ms) << text;
  }
  for (const char* bad : {"", "5", "1d", "h", "1h-1m", "9999999999h"}) {
    EXPECT_FALSE(parse_go_duration(bad).ok()) << bad;
  }
}

// --- manifests as clusters give them, and what becomes of them ----------------------------------

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(std::string(BERTH_SOURCE_DIR) + "/" + path).rdbuf();
  return text.str();
}

void expect_golden(const std::string& name) {
  const std::string path = "tests/import/" + name + ".yaml";
  const auto import = import_manifests({{path, read_file(path)}});
  ASSERT_TRUE(import.ok()) << import.error().message();
  const std::string queues = queue_file_text(import->config);
  EXPECT_EQ(queues, read_file("tests/import/" + name + ".queues.yaml")) << queues;
  const std::string remarks = fmt::format("{}\n", fmt::join(import->remarks, "\n"));
  EXPECT_EQ(remarks, read_file("tests/import/" + name + ".remarks.txt")) << remarks;
  const auto again = read_queue_file(queues, "again.yaml", {});
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(*again, import->config);
}

TEST(ImportGolden, Kueue) { expect_golden("kueue"); }

TEST(ImportGolden, Kai) { expect_golden("kai"); }

}  // namespace
}  // namespace berth::config
