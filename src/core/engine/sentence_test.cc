// A world for each cause that the engine gives, and what its sentence must be.
#include "core/engine/sentence.h"

#include <cctype>
#include <set>

#include <gtest/gtest.h>

#include "core/engine/engine.h"

namespace berth::core {
namespace {

struct World {
  explicit World(EngineConfig config = {}) : engine(Engine::create(std::move(config)).value()) {}

  std::unique_ptr<Engine> engine;
  Time now;

  void apply(EventBody body) { (void)engine->apply({now, std::move(body)}); }

  void submit(const std::string& uid, DeviceAsk ask, WorkloadOptions options = {},
              NodeConstraints nodes = {}) {
    RequestSpec spec;
    spec.nodes = std::move(nodes);
    spec.containers.push_back({.name = "main", .kind = ContainerKind::app, .gpu = std::move(ask)});
    apply(
        WorkloadSubmitted{Workload::task(uid, Request::create(std::move(spec)).value(), options)});
  }

  void submit_cpu(const std::string& uid, std::int64_t milli) {
    RequestSpec spec;
    spec.cpu = Milli(milli);
    apply(WorkloadSubmitted{Workload::task(uid, Request::create(std::move(spec)).value())});
  }

  void observe(const std::string& uuid, std::int64_t mib, bool attributed,
               std::vector<DeviceObserved::Use> uses = {}) {
    DeviceObserved seen;
    seen.uuid = uuid;
    seen.sampled_at = now;
    seen.used = Memory::mib(mib);
    seen.attributed = attributed;
    seen.uses = std::move(uses);
    apply(std::move(seen));
  }
};

Node node_of(const std::string& name, int devices, std::int64_t mib = 16384) {
  Node node;
  node.name = name;
  node.cpu = Milli{8'000};
  node.ram = Memory::mib(65'536);
  for (int i = 0; i < devices; ++i) {
    Device device;
    device.uuid = "GPU-" + name + std::to_string(i);
    device.index = i;
    device.model = "A100";
    device.total = Memory::mib(mib);
    node.devices.push_back(device);
  }
  return node;
}

// Node n0 with its one device changed.
template <typename Change>
Node changed(Change change) {
  Node node = node_of("n0", 1);
  change(node, node.devices[0]);
  return node;
}

DeviceAsk some() { return DeviceAsk::memory_mib(4096); }

DeviceAsk limited(std::int64_t mib, std::int64_t limit) {
  DeviceAsk ask = DeviceAsk::memory_mib(mib);
  ask.limit_mib = limit;
  return ask;
}

DeviceAsk sm_sharing(int compute) {
  DeviceAsk ask = DeviceAsk::memory_mib(1024);
  ask.mode = SharingMode::sm_sharing;
  ask.compute_milli = compute;
  return ask;
}

struct Case {
  Cause cause;
  std::string sentence;
  void (*build)(World& world);  // submits "x" last
  EngineConfig config = {};
};

std::vector<Case> cases() {
  EngineConfig fresh;
  fresh.max_sample_age = Duration(30'000);
  EngineConfig capped;
  capped.device_cap = 1;
  return {
      {Cause::no_node_matches, "needs 4096 MiB on one GPU; none of 2 nodes is named n7",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.apply(NodeUpserted{node_of("n1", 1)});
         w.submit("x", some(), {}, {.names = {"n7"}, .labels = {}, .tolerations = {}});
       }},
      {Cause::no_node_matches, "needs 4096 MiB on one GPU; the 1 node is not labelled zone=a, !old",
       [](World& w) {
         w.apply(NodeUpserted{changed([](Node& n, Device&) { n.labels = {{"old", "1"}}; })});
         w.submit("x", some(), {},
                  {.names = {},
                   .labels = {{"zone", LabelRule::Op::in, {"a"}},
                              {"old", LabelRule::Op::does_not_exist, {}}},
                   .tolerations = {}});
       }},
      {Cause::no_node_matches,
       "needs 4096 MiB on one GPU; no node has joined yet (0 nodes serve queue default)",
       [](World& w) { w.submit("x", some()); }},
      {Cause::untolerated_taint,
       "needs 4096 MiB on one GPU; the 1 node has a taint that it does not tolerate (n0: "
       "gpu=only:NoSchedule)",
       [](World& w) {
         w.apply(NodeUpserted{
             changed([](Node& n, Device&) { n.taints = {{"gpu", "only", "NoSchedule"}}; })});
         w.submit("x", some());
       }},
      {Cause::node_not_ready, "needs 4096 MiB on one GPU; all 3 nodes are not ready (a and 2 more)",
       [](World& w) {
         for (const char* name : {"c", "a", "b"}) {
           Node node = node_of(name, 1);
           node.ready = false;
           w.apply(NodeUpserted{node});
         }
         w.submit("x", some());
       }},
      {Cause::node_cordoned, "needs 4096 MiB on one GPU; 1 of 2 nodes is cordoned (n0)",
       [](World& w) {
         w.apply(NodeUpserted{changed([](Node& n, Device&) { n.cordoned = true; })});
         Node down = node_of("n1", 1);
         down.ready = false;
         w.apply(NodeUpserted{down});
         w.submit("x", some());
       }},
      {Cause::insufficient_node_resource,
       "needs 6 CPU cores and 0 MiB of memory on one node; n0 comes nearest with 2.500 cores and "
       "65536 MiB free",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 0)});
         w.submit_cpu("a", 5500);
         w.submit_cpu("x", 6000);
       }},
      {Cause::exceeds_fleet,
       "needs 9 CPU cores and 0 MiB of memory on one node; n0 comes nearest with 8 cores and 65536 "
       "MiB in all",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 0)});
         w.submit_cpu("x", 9000);
       }},
      {Cause::no_pod_slot,
       "needs 4096 MiB on one GPU; the 1 node has no slot left (n0 carries 1 of 1)",
       [](World& w) {
         w.apply(NodeUpserted{changed([](Node& n, Device&) { n.pod_slots = 1; })});
         w.submit("a", some());
         w.submit("x", some());
       }},
      {Cause::no_devices, "needs 4096 MiB on one GPU; all 2 nodes have no GPU (n0 and n1)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 0)});
         w.apply(NodeUpserted{node_of("n1", 0)});
         w.submit("x", some());
       }},
      {Cause::resource_kind_mismatch,
       "needs 1 MIG instance 1g.5gb; the 1 node has no MIG instance (n0)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("x", DeviceAsk::mig_instances("1g.5gb"));
       }},
      {Cause::no_such_profile,
       "needs 1 MIG instance 1g.5gb; the 1 node has no instance of that profile (n0/GPU-n00 is "
       "another one)",
       [](World& w) {
         w.apply(NodeUpserted{changed([](Node&, Device& d) { d.mig_profile = "2g.10gb"; })});
         w.submit("x", DeviceAsk::mig_instances("1g.5gb"));
       }},
      {Cause::type_mismatch,
       "needs 4096 MiB on one GPU; the 1 node has no H100 (n0/GPU-n00 is another model)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         DeviceAsk ask = some();
         ask.filter.models = {"H100"};
         w.submit("x", ask);
       }},
      {Cause::uuid_mismatch,
       "needs 4096 MiB on one GPU; the 1 node has none of the devices that it may use: gpu=GPU-7 "
       "(n0)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         DeviceAsk ask = some();
         ask.filter.use_uuids = {"GPU-7"};
         w.submit("x", ask);
       }},
      {Cause::replicas_unknown,
       "needs one replica part of a GPU; the 1 node does not say into how many parts a GPU is "
       "divided, at least 2 (n0)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("x", DeviceAsk::replica_part());
       }},
      {Cause::device_not_owned,
       "needs 4096 MiB on one GPU; the 1 node has only devices that others hand out too "
       "(n0/GPU-n00 is not owned)",
       [](World& w) {
         w.apply(NodeUpserted{changed([](Node&, Device& d) { d.owned = false; })});
         w.submit("x", some());
       }},
      {Cause::sharing_not_ready,
       "needs 4096 MiB on one GPU; the 1 node is not ready to enforce shares (n0)",
       [](World& w) {
         w.apply(NodeUpserted{changed([](Node& n, Device&) { n.sharing_ready = false; })});
         w.submit("x", some());
       }},
      {Cause::backend_cannot_enforce,
       "needs 1024 MiB on one GPU; the 1 node has no MPS daemon for sm-sharing (n0/GPU-n00 has "
       "none)",
       [](World& w) {
         w.apply(NodeUpserted{changed([](Node&, Device& d) { d.sm_sharing = false; })});
         w.submit("x", sm_sharing(100));
       }},
      {Cause::no_usable_memory,
       "needs 4096 MiB on one GPU; the 1 node has no device of known and usable memory "
       "(n0/GPU-n00 has none)",
       [](World& w) {
         w.apply(NodeUpserted{changed([](Node&, Device& d) { d.total.reset(); })});
         w.submit("x", some());
       }},
      {Cause::device_unhealthy,
       "needs 4096 MiB on one GPU; the 1 node has no healthy device left for it (n0/GPU-n00 is "
       "unhealthy)",
       [](World& w) {
         w.apply(
             NodeUpserted{changed([](Node&, Device& d) { d.health = DeviceHealth::unhealthy; })});
         w.submit("x", some());
       }},
      {Cause::device_cordoned,
       "needs 4096 MiB on one GPU; the 1 node has no device open for it (n0/GPU-n00 is cordoned)",
       [](World& w) {
         w.apply(NodeUpserted{changed([](Node&, Device& d) { d.cordoned = true; })});
         w.submit("x", some());
       }},
      {Cause::stale_observation,
       "needs 4096 MiB on one GPU; the last sample of n0/GPU-n00 is 45 s old; at most 30 s are "
       "allowed",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.observe("GPU-n00", 0, true);
         w.now = Time(45'000);
         w.submit("x", some());
       },
       fresh},
      {Cause::stale_observation,
       "needs one whole GPU; the 1 node has no fresh sample; n0/GPU-n00 was not observed yet",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("x", DeviceAsk::whole_devices(1));
       },
       fresh},
      {Cause::share_below_minimum,
       "needs 0.001 % of one GPU; that is less than 1 MiB on 1 node (n0/GPU-n00 is too small)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("x", DeviceAsk::fraction_nano(10'000));
       }},
      {Cause::device_exclusive,
       "needs 4096 MiB on one GPU; the 1 node has no device that may be shared (n0/GPU-n00 is held "
       "by big)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("big", DeviceAsk::whole_devices(1));
         w.submit("x", some());
       }},
      {Cause::device_exclusive, "needs one whole GPU; the best node has 0 free (n0)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("a", some());
         w.submit("x", DeviceAsk::whole_devices(1));
       }},
      {Cause::foreign_use,
       "needs one whole GPU; n0/GPU-n00 has 3000 MiB of foreign use, 512 allowed: pid 4711 "
       "(python) uses 2100, pid 12 uses 600, 1 more",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.observe("GPU-n00", 3000, true,
                   {{"pid 12", Memory::mib(600)},
                    {"pid 9", Memory::mib(300)},
                    {"pid 4711 (python)", Memory::mib(2100)}});
         w.submit("x", DeviceAsk::whole_devices(1));
       }},
      {Cause::foreign_use,
       "needs one whole GPU; n0/GPU-n00 has 3000 MiB of foreign use, 512 allowed: the source does "
       "not attribute them",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.observe("GPU-n00", 3000, false);
         w.submit("x", DeviceAsk::whole_devices(1));
       }},
      {Cause::foreign_use,
       "needs one whole GPU; n0/GPU-n00 has 3000 MiB of foreign use, 512 allowed: the source names "
       "no process",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.observe("GPU-n00", 3000, true);
         w.submit("x", DeviceAsk::whole_devices(1));
       }},
      {Cause::device_cap, "needs 4096 MiB on one GPU; n0/GPU-n00 has 1 grant of at most 1",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("a", some());
         w.submit("x", some());
       },
       capped},
      {Cause::compute_mode_conflict,
       "needs 1024 MiB on one GPU; n0/GPU-n00 is shared in mode time-slicing by 1 workload, and "
       "this asks for sm-sharing",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("a", some());
         w.submit("x", sm_sharing(0));
       }},
      {Cause::insufficient_compute,
       "needs 1024 MiB on one GPU; of compute it takes 500 thousandths; the most left is 300 "
       "(n0/GPU-n00)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("a", sm_sharing(700));
         w.submit("x", sm_sharing(500));
       }},
      {Cause::insufficient_compute,
       "needs 1024 MiB on one GPU; all 1000 thousandths of compute want an empty device; "
       "n0/GPU-n00 has 1 grant",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("a", sm_sharing(700));
         w.submit("x", sm_sharing(1000));
       }},
      {Cause::insufficient_memory,
       "needs 14000 MiB on one GPU; largest free is 12288 MiB (n0/GPU-n00)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("a", some());
         w.submit("x", DeviceAsk::memory_mib(14'000));
       }},
      {Cause::insufficient_memory,
       "needs 4096 MiB on one GPU; none of the 1 device it may use has memory free (n0)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("a", DeviceAsk::memory_mib(16'384));
         w.submit("x", some());
       }},
      {Cause::limit_overcommit,
       "needs 4096 MiB on one GPU; its limit is 16384 MiB; limits on n0/GPU-n00 sum to 20000 of at "
       "most 32768 MiB",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("a", limited(1000, 10'000));
         w.submit("b", limited(1000, 10'000));
         w.submit("x", limited(4096, 16'384));
       }},
      {Cause::insufficient_devices, "needs 2 whole GPUs of one node; the best node has 1 free (n0)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 2)});
         w.submit("a", DeviceAsk::whole_devices(1));
         w.submit("x", DeviceAsk::whole_devices(2));
       }},
      {Cause::insufficient_devices,
       "needs 3 whole GPUs of one node; no node has more than 2 such devices (n0)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 2)});
         w.submit("x", DeviceAsk::whole_devices(3));
       }},
      {Cause::numa_unfit,
       "needs 4096 MiB on each of 2 GPUs; the 1 node has not 2 such devices on one NUMA node (n0)",
       [](World& w) {
         Node node = node_of("n0", 2);
         node.devices[1].numa = 1;
         w.apply(NodeUpserted{node});
         DeviceAsk ask = DeviceAsk::memory_mib(4096, 2);
         ask.numa_bind = true;
         w.submit("x", ask);
       }},
      {Cause::no_link_set,
       "needs 4096 MiB on each of 2 GPUs; the 1 node has not 2 such devices in one link set (n0)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 2)});
         DeviceAsk ask = DeviceAsk::memory_mib(4096, 2);
         ask.links = LinkRule::required;
         w.submit("x", ask);
       }},
      {Cause::waiting_for_release,
       "needs 14000 MiB on one GPU; it is promised on n0 as soon as 1 workload there is gone (a)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("a", some());
         w.apply(GrantReleasing{"a"});
         w.submit("x", DeviceAsk::memory_mib(14'000));
       }},
      {Cause::reserved_for_other,
       "needs 4096 MiB on one GPU; the room on n0 is kept for big, which is before it",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("a", some());
         w.submit("big", DeviceAsk::memory_mib(16'000));
         w.submit("x", some());
       }},
      {Cause::backfill_too_long,
       "needs 4096 MiB on one GPU; the room on n0 is kept for big, which is before it: due in 60 "
       "s, this runs 90 s",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("a", some(), {.max_run = Duration(60'000)});
         w.submit("big", DeviceAsk::memory_mib(16'000));
         w.submit("x", some(), {.max_run = Duration(90'000)});
       }},
      {Cause::largest_device_too_small,
       "needs 20000 MiB on one GPU; the largest device it may use holds 16384 MiB when empty "
       "(n0/GPU-n00)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("x", DeviceAsk::memory_mib(20'000));
       }},
      {Cause::unknown_queue, "queue team-z does not exist; there is 1 queue: default",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("x", some(), {.queue = "team-z"});
       }},
  };
}

// Causes that the engine cannot give to a workload that it still knows, or not yet; who makes the
// engine give one of them adds its world above.
const std::set<Cause>& without_a_world() {
  static const std::set<Cause> causes{Cause::none,
                                      Cause::wait_timed_out,
                                      Cause::search_budget,
                                      Cause::unequal_devices,
                                      Cause::device_held_by_peer,
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

Verdict verdict_of(const Case& one) {
  World world(one.config);
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
  for (const Case& one : cases()) {
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
  for (const Case& one : cases()) {
    EXPECT_FALSE(without_a_world().contains(one.cause)) << cause_name(one.cause);
    told.insert(one.cause);
  }
  EXPECT_EQ(told.size(), kCauseCount);
}

TEST(Sentence, StaysShortAndPrintableWhateverThingsAreCalled) {
  World world;
  Node node = node_of(std::string(250, 'n'), 1);
  node.devices[0].uuid = "GPU-\x1b[31m" + std::string(100, 'u');
  world.apply(NodeUpserted{node});
  world.submit("a\nb" + std::string(300, 'w'), DeviceAsk::whole_devices(1));
  world.submit("x", some());
  const Verdict verdict = world.engine->explain("x").value();
  EXPECT_LE(verdict.summary.size(), Sentence::kMost);
  EXPECT_EQ(verdict.summary.find('\x1b'), std::string::npos);
  EXPECT_NE(verdict.summary.find("is held by a\\nbwww"), std::string::npos) << verdict.summary;
}

}  // namespace
}  // namespace berth::core
