#include "core/engine/describe.h"

#include <variant>

#include <gtest/gtest.h>

#include "core/engine/random_values_test.h"

namespace berth::core {
namespace {

std::string submit(RequestSpec spec, WorkloadOptions options = {}) {
  return describe(Event{
      Time(12'500), WorkloadSubmitted{Workload::task(
                        "job-7", Request::create(std::move(spec)).value(), std::move(options))}});
}

TEST(Describe, SaysWhatASubmittedWorkloadAsksFor) {
  RequestSpec spec;
  spec.cpu = Milli(4000);
  spec.ram = Memory::mib(16384);
  DeviceAsk ask = DeviceAsk::memory_mib(4096, 2);
  ask.limit_mib = 8192;
  spec.containers.push_back({.name = "main", .kind = ContainerKind::app, .gpu = ask});
  spec.containers.push_back(
      {.name = "fetch", .kind = ContainerKind::init, .gpu = DeviceAsk::fraction_nano(250'000'000)});
  EXPECT_EQ(submit(spec),
            "12.500 s: submit job-7: 4000m cpu, 16384 MiB ram; main: 2 x 4096 MiB, limit 8192 MiB; "
            "init fetch: 250000000e-9 of a device");

  WorkloadOptions options;
  options.priority = 5;
  options.max_run = Duration(30'000);
  EXPECT_EQ(submit({}, options), "12.500 s: submit job-7 (priority 5, runs 30.000 s): nothing");
}

TEST(Describe, SaysWhatWasSeenOnADevice) {
  DeviceObserved seen;
  seen.uuid = "GPU-1";
  seen.sampled_at = Time(-1);
  EXPECT_EQ(describe(Event{Time(0), seen}),
            "0.000 s: observe GPU-1 at -0.001 s: use unknown, device total only");
  seen.used = Memory::mib(100);
  seen.attributed = true;
  seen.uses = {{"job-7", Memory::bytes(5)}};
  seen.health = DeviceHealth::unhealthy;
  EXPECT_EQ(describe(Event{Time(-1500), seen}),
            "-1.500 s: observe GPU-1 at -0.001 s: 100 MiB used, by process: job-7 5 bytes, "
            "unhealthy");
  seen.restated = true;
  EXPECT_TRUE(describe(Event{Time(0), seen}).ends_with(", instead of what was said before"));
}

TEST(Describe, ShowsControlCharactersOfNamesAsNumbers) {
  EXPECT_EQ(describe(Event{Time(0), WorkloadCancelled{"a\x1b[2J\nb"}}),
            "0.000 s: cancel a\\x1b[2J\\nb");
}

TEST(Describe, HasWordsForEveryKindOfEvent) {
  RandomValues random(3);
  for (std::size_t kind = 0; kind < std::variant_size_v<EventBody>; ++kind) {
    EXPECT_FALSE(describe(random.event(kind)).empty()) << kind;
  }
}

}  // namespace
}  // namespace berth::core
