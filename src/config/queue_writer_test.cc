#include "config/queue_writer.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "config/queue_file.h"

namespace berth::config {
namespace {

TEST(QueueWriter, WritesOnlyWhatIsNotTheDefault) {
  core::QueueConfig config;
  core::QueueSpec& queue = config.queues.emplace_back();
  queue.name = "a";
  EXPECT_EQ(queue_file_text(config), "queues:\n  - name: a\n");
  queue.dimensions = {{"*", core::DimensionKind::devices, 2'500, 8'000, 0, 0}};
  queue.reclaim = core::ReclaimRight::never;
  EXPECT_EQ(queue_file_text(config, "from\n\nK"),
            "# from\n#\n# K\nqueues:\n  - name: a\n    dims:\n"
            "      \"*/devices\": {deserved: 2.5, limit: 8, weight: 0}\n    reclaim: never\n");
}

std::int64_t number(std::int64_t least, std::int64_t most) {
  return *rc::gen::inRange<std::int64_t>(least, most + 1);
}

// Small numbers often, so that the forms of all units are met.
std::int64_t any_amount(std::int64_t most) {
  const std::int64_t factor = *rc::gen::element<std::int64_t>(1, 1000, 1024, 1 << 20);
  return number(0, most / factor / (std::int64_t{1} << number(0, 30))) * factor;
}

Duration any_duration() {
  return Duration{number(0, 1000) *
                  *rc::gen::element<std::int64_t>(1, 1000, 60'000, 3'600'000, 86'400'000)};
}

std::string any_name(std::int64_t index) {
  return *rc::gen::element<std::string>("a", "team-a", "no", "null", "~", "1", "0x1", "a b", "#x",
                                        "ä", "\"", "'", "\\", "a: b", "- x", "\x01", "*x", "True",
                                        "-1", "a\tb", "é\x7f") +
         std::to_string(index);
}

core::QueueDimension any_dimension(int index) {
  core::QueueDimension d;
  d.device_class = index == 0 ? "*" : any_name(index) + *rc::gen::element<std::string>("", "/x");
  d.kind = static_cast<core::DimensionKind>(number(0, 2));
  d.limit = *rc::gen::arbitrary<bool>() ? core::kUnlimited : any_amount(core::kMostQuota - 1);
  const std::int64_t most = d.limit == core::kUnlimited ? core::kMostQuota - 1 : d.limit;
  d.deserved = number(0, 4) == 0 ? core::kUnlimited : std::min(most, any_amount(most));
  d.reserved = number(0, d.deserved == core::kUnlimited ? most : d.deserved);
  d.weight = number(0, core::kMostWeight);
  return d;
}

core::QueueSpec any_queue(int index) {
  core::QueueSpec queue;
  queue.name = any_name(index);
  if (*rc::gen::arbitrary<bool>()) queue.parent = any_name(number(0, 5));
  queue.priority = number(-1000, 1'000'000'000);
  for (int i = 0; i < number(0, 3); ++i)
    queue.dimensions.push_back(any_dimension(i));
  queue.order = static_cast<core::QueueOrder>(number(0, 2));
  queue.reclaim = static_cast<core::ReclaimRight>(number(0, 2));
  queue.preempt = static_cast<core::PreemptRight>(number(0, 1));
  queue.min_runtime = {any_duration(), any_duration(), {}};
  for (std::int64_t i = 0; i < number(0, 2); ++i) {
    queue.min_runtime.by_priority.push_back({i * 50 - 50, any_duration(), any_duration()});
  }
  queue.preemption_delay = any_duration();
  if (*rc::gen::arbitrary<bool>()) {
    queue.history = core::QueueHistory{any_duration() + Duration{1000}, number(0, 10'000)};
  }
  queue.aging = {.step = any_duration() + Duration{1}, .max = number(0, 100)};
  queue.evictions = {.per_workload_per_hour = number(-1, 5), .per_claim = number(-1, 5)};
  queue.stop = static_cast<core::QueueStop>(number(0, 2));
  queue.policy = *rc::gen::element<std::string>("", "pack", "nodes=spread,devices=pack");
  if (*rc::gen::arbitrary<bool>()) queue.device_cap = number(1, 100);
  queue.created = Time{number(0, 253'402'300'799'999)};
  return queue;
}

RC_GTEST_PROP(QueueWriter, WhatItWritesReadsBackToTheSame, ()) {
  core::QueueConfig config;
  config.priority_rule = static_cast<core::PriorityRule>(number(0, 1));
  for (int i = 0; i < number(1, 4); ++i)
    config.queues.push_back(any_queue(i));
  const std::string text = queue_file_text(config, "written\nby a test");
  QueueReader reader;
  reader.add_file(text, "q.yaml");
  const QueueFile file = std::move(reader).finish({});
  RC_LOG() << text << file.text();
  RC_ASSERT(!file.refused());
  RC_ASSERT(file.config == config);
}

}  // namespace
}  // namespace berth::config
