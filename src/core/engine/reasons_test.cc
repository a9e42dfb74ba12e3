// The reasons that a lease may wait for (leases.md 3.5) are told apart, each by a cause of its own,
// and the nearest device and its shortfall are the right ones.
#include <map>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "core/engine/sentence_cases_test.h"

namespace berth::core {
namespace {

using World = SentenceWorld;

DeviceAsk mib(std::int64_t amount) { return DeviceAsk::memory_mib(amount); }

// One machine with one GPU of 16384 MiB, unless a case brings others.
void one_gpu(World& world) { world.apply(NodeUpserted{sentence_node("n0", 1)}); }

EngineConfig sampled() {
  EngineConfig config;
  config.max_sample_age = Duration(30'000);
  return config;
}

EngineConfig capped() {
  EngineConfig config;
  config.device_cap = 1;
  return config;
}

void with_limit(World& world, std::int64_t limit_mib) {
  QueueSpec queue;
  queue.name = "default";
  queue.dimensions = {{.kind = DimensionKind::memory, .deserved = limit_mib, .limit = limit_mib}};
  world.apply(QueuesChanged{{.queues = {queue}}});
}

struct Nearest {
  std::int64_t need_mib = 0;
  std::int64_t free_mib = 0;
  std::string uuid;  // empty: no device with free memory is open to it
};

struct Situation {
  std::string reason;  // the word of leases.md 3.5
  Outcome outcome;
  Cause cause;
  Nearest nearest;
  void (*build)(World& world);  // submits "x" last
  EngineConfig config = {};
};

std::vector<Situation> waiting_situations() {
  return {
      {"no-room",
       Outcome::waiting,
       Cause::insufficient_memory,
       {6144, 4384, "GPU-n01"},
       [](World& w) {
         w.apply(NodeUpserted{sentence_node("n0", 2)});
         w.submit("a", mib(14'000));
         w.submit("b", mib(12'000));
         w.submit("x", mib(6144));
       }},
      {"behind-head",
       Outcome::waiting,
       Cause::reserved_for_other,
       {4096, 12'288, "GPU-n00"},
       [](World& w) {
         one_gpu(w);
         w.submit("a", mib(4096));
         w.submit("head", mib(16'000));
         w.submit("x", mib(4096));
       }},
      {"device-cap",
       Outcome::waiting,
       Cause::device_cap,
       {4096, 15'384, "GPU-n00"},
       [](World& w) {
         one_gpu(w);
         w.submit("a", mib(1000));
         w.submit("x", mib(4096));
       },
       capped()},
      {"quota",
       Outcome::waiting,
       Cause::over_limit,
       {4096, 12'384, "GPU-n00"},
       [](World& w) {
         one_gpu(w);
         with_limit(w, 5000);
         w.submit("a", mib(4000));
         w.submit("x", mib(4096));
       }},
      {"stale-samples",
       Outcome::waiting,
       Cause::stale_observation,
       {4096, 0, ""},
       [](World& w) {
         one_gpu(w);
         w.observe("GPU-n00", 0, true);
         w.now = Time(60'000);
         w.apply(TimeReached{});
         w.submit("x", mib(4096));
       },
       sampled()},
      {"unknown-memory",
       Outcome::waiting,
       Cause::no_usable_memory,
       {4096, 0, ""},
       [](World& w) {
         one_gpu(w);
         w.apply(DeviceObserved{
             .uuid = "GPU-n00", .sampled_at = w.now, .used = {}, .uses = {}, .health = {}});
         w.submit("x", mib(4096));
       },
       sampled()},
      {"reconciling",
       Outcome::waiting,
       Cause::granting_held,
       {4096, 16'384, "GPU-n00"},
       [](World& w) {
         one_gpu(w);
         w.apply(GrantingHeld{true});
         w.submit("x", mib(4096));
       }},
      {"drained",
       Outcome::waiting,
       Cause::device_cordoned,
       {4096, 0, ""},
       [](World& w) {
         one_gpu(w);
         w.apply(DeviceCordoned{"GPU-n00", true});
         w.submit("x", mib(4096));
       }},
      {"unhealthy",
       Outcome::waiting,
       Cause::device_unhealthy,
       {4096, 0, ""},
       [](World& w) {
         one_gpu(w);
         DeviceObserved seen{
             .uuid = "GPU-n00", .sampled_at = w.now, .used = Memory(), .uses = {}, .health = {}};
         seen.health = DeviceHealth::unhealthy;
         w.apply(seen);
         w.submit("x", mib(4096));
       }},
  };
}

// Whether they wait for hardware instead is the harbour's to say (`wait_for_hardware`).
std::vector<Situation> never_situations() {
  return {
      {"too-large",
       Outcome::never,
       Cause::largest_device_too_small,
       {20'000, 16'384, "GPU-n00"},
       [](World& w) {
         one_gpu(w);
         w.submit("x", mib(20'000));
       }},
      {"no-such-device",
       Outcome::never,
       Cause::uuid_mismatch,
       {4096, 0, ""},
       [](World& w) {
         one_gpu(w);
         DeviceAsk ask = mib(4096);
         ask.filter.use_uuids = {"GPU-gone"};
         w.submit("x", ask);
       }},
      {"no-eligible-device: model",
       Outcome::never,
       Cause::type_mismatch,
       {4096, 0, ""},
       [](World& w) {
         one_gpu(w);
         DeviceAsk ask = mib(4096);
         ask.filter.models = {"H100"};
         w.submit("x", ask);
       }},
      {"no-eligible-device: node",
       Outcome::never,
       Cause::no_node_matches,
       {4096, 0, ""},
       [](World& w) {
         one_gpu(w);
         w.submit("x", mib(4096), {}, {.names = {"n7"}, .labels = {}, .tolerations = {}});
       }},
      {"no-eligible-device: none",
       Outcome::never,
       Cause::no_devices,
       {4096, 0, ""},
       [](World& w) {
         w.apply(NodeUpserted{sentence_node("n0", 0)});
         w.submit("x", mib(4096));
       }},
  };
}

void check(const Situation& one) {
  World world(one.config);
  one.build(world);
  const Verdict verdict = world.engine->explain("x").value();
  EXPECT_EQ(outcome_name(verdict.outcome), outcome_name(one.outcome)) << one.reason;
  EXPECT_EQ(cause_name(verdict.cause), cause_name(one.cause)) << one.reason;
  EXPECT_EQ(cause_name(world.engine->cause("x")), cause_name(one.cause)) << one.reason;
  ASSERT_TRUE(verdict.devices.has_value()) << one.reason;
  EXPECT_EQ(verdict.devices->need_mib, one.nearest.need_mib) << one.reason;
  EXPECT_EQ(verdict.devices->largest_free_mib, one.nearest.free_mib) << one.reason;
  EXPECT_EQ(verdict.devices->largest_free_uuid, one.nearest.uuid) << one.reason;
  EXPECT_EQ(verdict.devices->largest_free_node.empty(), one.nearest.uuid.empty()) << one.reason;
}

TEST(Reasons, OfLeasesAreToldApartByTheirCauses) {
  std::map<Cause, std::string> of_cause;
  for (const std::vector<Situation>& some : {waiting_situations(), never_situations()}) {
    for (const Situation& one : some) {
      check(one);
      const auto [same, fresh] = of_cause.emplace(one.cause, one.reason);
      EXPECT_TRUE(fresh) << one.reason << " and " << same->second << " are both "
                         << cause_name(one.cause);
    }
  }
}

// The reason of one device does not hide that another could serve when something ends there.
TEST(Reasons, NameTheDeviceThatIsNearestToServing) {
  World world(sampled());
  world.apply(NodeUpserted{sentence_node("n0", 4)});
  for (const char* uuid : {"GPU-n01", "GPU-n02", "GPU-n03"}) {
    world.observe(uuid, 0, true);  // the first is never seen
  }
  world.apply(DeviceCordoned{"GPU-n01", true});
  DeviceAsk there = mib(15'000);
  there.filter.use_uuids = {"GPU-n02"};
  world.submit("a", there);
  there.mib = 10'000;
  there.filter.use_uuids = {"GPU-n03"};
  world.submit("b", there);
  world.submit("x", mib(8000));
  const Verdict verdict = world.engine->explain("x").value();
  EXPECT_EQ(cause_name(verdict.cause), "InsufficientMemory");
  EXPECT_EQ(verdict.devices->largest_free_uuid, "GPU-n03");
  EXPECT_EQ(verdict.devices->need_mib - verdict.devices->largest_free_mib, 8000 - 6384);
  EXPECT_EQ(verdict.summary, "needs 8000 MiB on one GPU; largest free is 6384 MiB (n0/GPU-n03)");
}

}  // namespace
}  // namespace berth::core
