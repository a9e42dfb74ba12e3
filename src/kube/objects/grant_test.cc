#include "kube/objects/grant.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/objects/bodies.h"

namespace berth::kube {
namespace {

using core::ContainerKind;
using core::SharingMode;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;

// The example of annotations.md 3.2.
constexpr std::string_view kExample =
    R"({"containers":[{"devices":[{"limitMiB":40779,"requestMiB":20389,)"
    R"("uuid":"GPU-11111111-2222-3333-4444-555555555555"}],"exclusive":false,"kind":"app",)"
    R"("mode":"time-slicing","name":"main","nano":250000000}],"id":"g-0000001f","node":"n1",)"
    R"("v":1})";

GrantRecord example() {
  return {.id = "g-0000001f",
          .node = "n1",
          .containers = {{.name = "main",
                          .nano = 250'000'000,
                          .devices = {{.uuid = "GPU-11111111-2222-3333-4444-555555555555",
                                       .request_mib = 20389,
                                       .limit_mib = 40779}}}}};
}

TEST(GrantText, IsTheContractsExampleByteForByte) { EXPECT_EQ(grant_text(example()), kExample); }

TEST(GrantText, ReadsBack) {
  const GrantReading reading = read_grant(kExample);
  EXPECT_EQ(reading.problem, "");
  EXPECT_EQ(reading.record, example());

  GrantRecord whole{.id = "g-1",
                    .node = "n2",
                    .containers = {{.name = "fetch",
                                    .kind = ContainerKind::init,
                                    .mode = SharingMode::sm_sharing,
                                    .devices = {{"GPU-a", 5, 6}}},
                                   {.name = "main",
                                    .exclusive = true,
                                    .devices = {{"MIG-a", 7, 7}, {"MIG-b", 8, 8}},
                                    .mig = true}}};
  EXPECT_EQ(read_grant(grant_text(whole)).record, whole);
}

TEST(GrantText, ANewerOneIsForeignUseOfItsDevices) {
  std::string newer(kExample);
  newer.replace(newer.find("\"v\":1"), 5, "\"v\":2");
  const GrantReading reading = read_grant(newer);
  EXPECT_FALSE(reading.record.has_value());
  EXPECT_THAT(reading.problem, HasSubstr("v is 2, and this Berth reads 1"));
  EXPECT_EQ(reading.node, "n1");
  EXPECT_THAT(reading.foreign, ElementsAre(example().containers[0].devices[0]));
}

TEST(GrantText, AMalformedOneGivesWhatItNamesAndAProblem) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "not JSON"},
      {"[]", "it is no object"},
      {"{}", "v is missing"},
      {R"({"v":1,"id":"g","node":"n"})", "containers is no list"},
      {R"({"v":1,"id":"g","node":"n","containers":[]})", "containers is no list"},
      {R"({"v":1,"id":7,"node":"n","containers":[{}]})", "id is no text"},
  };
  for (const auto& [text, expected] : cases) {
    const GrantReading reading = read_grant(text);
    EXPECT_FALSE(reading.record.has_value()) << text;
    EXPECT_THAT(reading.problem, HasSubstr(expected)) << text;
  }
  const auto broken = [](std::string_view part, std::string_view by) {
    std::string text(kExample);
    text.replace(text.find(part), part.size(), by);
    GrantReading reading = read_grant(text);
    EXPECT_FALSE(reading.record.has_value()) << by;
    EXPECT_EQ(reading.foreign.size(), 1U) << by;
    return reading.problem;
  };
  EXPECT_THAT(broken("20389", "50000"), HasSubstr("limitMiB is below requestMiB"));
  EXPECT_THAT(broken("20389", "-1"), HasSubstr("requestMiB is no size"));
  EXPECT_THAT(broken("20389", "1e30"), HasSubstr("requestMiB is no size"));
  EXPECT_THAT(broken("\"app\"", "\"boss\""), HasSubstr("kind is boss"));
  EXPECT_THAT(broken("\"time-slicing\"", "3"), HasSubstr("mode is "));
  EXPECT_THAT(broken("250000000", "0"), HasSubstr("nano is no share"));
  EXPECT_THAT(broken("false", "\"no\""), HasSubstr("exclusive is not"));
  EXPECT_THAT(broken("\"node\":\"n1\",", ""), HasSubstr("node is no text"));
  std::string twice(kExample);
  const std::string one = R"({"limitMiB":40779,"requestMiB":20389,)"
                          R"("uuid":"GPU-11111111-2222-3333-4444-555555555555"})";
  twice.replace(twice.find(one), one.size(), one + "," + one);
  EXPECT_THAT(read_grant(twice).problem, HasSubstr("stands twice"));
}

TEST(BindingAnnotations, NameDevicesInTheCdiWayWhereTheNodeDoes) {
  const Labels written = binding_annotations(example(), {}, {.cdi = true});
  const std::string name =
      "k8s.device-plugin.nvidia.com/gpu=GPU-11111111-2222-3333-4444-555555555555";
  EXPECT_THAT(written, Contains(Pair("berth.dev/main.devices", name)));
  EXPECT_THAT(written, Contains(Pair("nvidia.com/container.main.gpus.devices", name)));
  EXPECT_THAT(written, Contains(Pair("received-resource-type", "Fraction")));
  EXPECT_EQ(written.at("berth.dev/grant"), kExample);
}

TEST(BindingAnnotations, LeaveSizesThatSomebodyWrote) {
  const Labels written =
      binding_annotations(example(),
                          {{"nvidia.com/container.main.gpu-memory.request", "20G"},
                           {"nvidia.com/container.main.gpu-memory.limit", "40G"}},
                          {});
  EXPECT_THAT(written, Not(Contains(Key("nvidia.com/container.main.gpu-memory.request"))));
  EXPECT_THAT(written, Not(Contains(Key("nvidia.com/container.main.gpu-memory.limit"))));
}

TEST(BindingAnnotations, WriteNoLimitWhereThereIsNone) {
  GrantRecord record = example();
  record.containers[0].devices[0].limit_mib = 20389;
  const Labels written = binding_annotations(record, {}, {});
  EXPECT_THAT(written, Not(Contains(Key("nvidia.com/container.main.gpu-memory.limit"))));
  EXPECT_EQ(written.at("berth.dev/main.memory-limit-mib"), "20389");
}

TEST(BindingAnnotations, LongNamesGetASlotAndNoVendorKeys) {
  GrantRecord record = example();
  record.containers[0].name = std::string(50, 'c');
  const Labels written = binding_annotations(record, {}, {});
  for (const auto& [key, value] : written) {
    EXPECT_FALSE(key.starts_with("nvidia.com/container.")) << key;
    EXPECT_LE(key.substr(key.find('/') + 1).size(), 63U) << key;
  }
  EXPECT_EQ(written.size(), 5U);

  record.containers[0].name = std::string(37, 'c');
  const Labels some = binding_annotations(record, {}, {});
  EXPECT_THAT(some,
              Contains(Key("nvidia.com/container." + record.containers[0].name + ".gpus.devices")));
  EXPECT_THAT(some, Not(Contains(Key("nvidia.com/container." + record.containers[0].name +
                                     ".gpu-memory.request"))));
}

TEST(BindingAnnotations, SmSharingHasItsModeAndPortion) {
  GrantRecord record = example();
  record.containers[0].mode = SharingMode::sm_sharing;
  const auto portion = [&](int milli) {
    record.containers[0].compute_milli = milli;
    return binding_annotations(record, {}, {}).at("nvidia.com/container.main.gpu-compute.portion");
  };
  EXPECT_EQ(portion(250), "0.25");
  EXPECT_EQ(portion(1), "0.001");
  EXPECT_EQ(portion(500), "0.5");
  EXPECT_EQ(portion(1000), "1");
  EXPECT_THAT(binding_annotations(record, {}, {}),
              Contains(Pair("nvidia.com/container.main.gpu-compute.mode", "sm-sharing")));
}

TEST(BindingAnnotations, WholeDevicesAreNamedWhereBerthAssignsThem) {
  GrantRecord record = example();
  record.containers[0].exclusive = true;
  EXPECT_EQ(binding_annotations(record, {}, {.assigns_whole = true}).at("berth.dev/main.devices"),
            "GPU-11111111-2222-3333-4444-555555555555");
  EXPECT_EQ(binding_annotations(record, {}, {}).count("berth.dev/main.devices"), 0U);
}

TEST(Bodies, ABindingSendsTheUidAndNoVersion) {
  Pod pod;
  pod.meta = {.namespace_name = "n", .name = "p", .uid = "u-1", .resource_version = "7"};
  EXPECT_EQ(binding_path("n", "p"), "/api/v1/namespaces/n/pods/p/binding");
  EXPECT_EQ(binding_body(ref_of(pod), "node-7", {{"a", "1"}, {"b", "\"x\""}}),
            R"({"apiVersion":"v1","kind":"Binding","metadata":{"name":"p","namespace":"n",)"
            R"("uid":"u-1","annotations":{"a":"1","b":"\"x\""}},)"
            R"("target":{"kind":"Node","name":"node-7"}})");
}

TEST(Bodies, AConditionIsAStrategicMerge) {
  EXPECT_EQ(condition_body("u-1", {.reason = "Unschedulable",
                                   .message = "no room",
                                   .transition_ms = 1'769'853'600'000,
                                   .observed_generation = 3}),
            R"({"metadata":{"uid":"u-1"},"status":{"conditions":[{"type":"PodScheduled",)"
            R"("status":"False","reason":"Unschedulable","message":"no room",)"
            R"("lastProbeTime":null,"lastTransitionTime":"2026-01-31T10:00:00Z",)"
            R"("observedGeneration":3}]}})");
}

TEST(Bodies, AnEventHasAllThatIsRequired) {
  const EventWords words{.regarding = {.namespace_name = "n", .name = "p", .uid = "u-1"},
                         .type = "Warning",
                         .reason = "FailedScheduling",
                         .action = "Scheduling",
                         .note = "no room",
                         .instance = "berth-0",
                         .time_us = 1'769'853'600'000'001};
  EXPECT_EQ(event_body(words, event_name(words.regarding, words.time_us)),
            R"({"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":)"
            R"("p.188fc878dc7243e8","namespace":"n"},"eventTime":"2026-01-31T10:00:00.000001Z",)"
            R"("type":"Warning","reason":"FailedScheduling","action":"Scheduling",)"
            R"("reportingController":"berth.dev/scheduler","reportingInstance":"berth-0",)"
            R"("note":"no room","regarding":{"apiVersion":"v1","kind":"Pod","namespace":"n",)"
            R"("name":"p","uid":"u-1"}})");
}

TEST(Bodies, AnEventsWordsKeepWithinTheirBounds) {
  std::string note;
  for (int i = 0; i < 600; ++i) {
    note += "é";
  }
  const std::string name(253, 'x');
  const EventWords words{.regarding = {.kind = "Node", .name = name}, .note = note};
  const std::string body = event_body(words, event_name(words.regarding, 1));
  EXPECT_THAT(body, HasSubstr(R"("namespace":"default")"));
  EXPECT_THAT(body, Not(HasSubstr("é\"é")));
  const std::size_t from = body.find("\"note\":\"") + 8;
  EXPECT_LE(body.find('"', from) - from, 1024U);
  EXPECT_LE(event_name(words.regarding, INT64_MAX / 2000).size(), 253U);
}

TEST(Bodies, ASeriesCountsAndDates) {
  EXPECT_EQ(event_series_body(2, 1'769'853'600'000'000),
            R"({"series":{"count":2,"lastObservedTime":"2026-01-31T10:00:00.000000Z"}})");
}

}  // namespace
}  // namespace berth::kube
