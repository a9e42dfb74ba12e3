#include "core/engine/sentence_cases_test.h"

#include <iterator>
#include <utility>

namespace berth::core {

Node sentence_node(const std::string& name, int devices, std::int64_t mib) {
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

namespace {

using Case = SentenceCase;
using World = SentenceWorld;

Node node_of(const std::string& name, int devices, std::int64_t mib = 16384) {
  return sentence_node(name, devices, mib);
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

// What keeps it off every node.
std::vector<Case> of_nodes() {
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
       "needs 6 CPU cores on one node; n0 comes nearest with 2.500 cores and "
       "65536 MiB free",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 0)});
         w.submit_cpu("a", 5500);
         w.submit_cpu("x", 6000);
       }},
      {Cause::exceeds_fleet,
       "needs 9 CPU cores on one node; n0 comes nearest with 8 cores and 65536 "
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
  };
}

// No device is of the kind that it asks for.
std::vector<Case> of_kinds_of_devices() {
  return {
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
      {Cause::type_mismatch,
       "needs 4096 MiB on one GPU; the 1 node has no model with T4 and without A in its name "
       "(n0/GPU-n00 is another model)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         DeviceAsk ask = some();
         ask.filter.use_types = {"T4"};
         ask.filter.avoid_types = {"A"};
         w.submit("x", ask);
       }},
      {Cause::uuid_mismatch,
       "needs 4096 MiB on one GPU; the 1 node has only devices that it must not use: GPU-n00 "
       "(n0)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         DeviceAsk ask = some();
         ask.filter.avoid_uuids = {"GPU-n00"};
         w.submit("x", ask);
       }},
      {Cause::uuid_mismatch,
       "needs 4096 MiB on one GPU; the 1 node has none of the devices that it may use: GPU-7 "
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
      {Cause::backend_cannot_enforce,
       "needs 4096 MiB on one GPU; the 1 node enforces shares by container names of at most 34 "
       "characters (n0)",
       [](World& w) {
         w.apply(NodeUpserted{changed([](Node& n, Device&) { n.sizes_by_name = true; })});
         RequestSpec spec;
         spec.containers = {{.name = std::string(35, 'c'), .gpu = some()}};
         w.apply(WorkloadSubmitted{Workload::task("x", Request::create(spec).value(), {})});
       }},
      {Cause::no_usable_memory,
       "needs 4096 MiB on one GPU; the 1 node has no device of known and usable memory "
       "(n0/GPU-n00 has none)",
       [](World& w) {
         w.apply(NodeUpserted{changed([](Node&, Device& d) { d.total.reset(); })});
         w.submit("x", some());
       }},
  };
}

// The devices are there and may not be used now.
std::vector<Case> of_states_of_devices() {
  return {
      {Cause::device_unhealthy,
       "needs 4096 MiB on one GPU; the only GPU that it may use is unhealthy (n0/GPU-n00)",
       [](World& w) {
         w.apply(
             NodeUpserted{changed([](Node&, Device& d) { d.health = DeviceHealth::unhealthy; })});
         w.submit("x", some());
       }},
      {Cause::device_cordoned,
       "needs 4096 MiB on one GPU; the only GPU that it may use is drained (n0/GPU-n00)",
       [](World& w) {
         w.apply(NodeUpserted{changed([](Node&, Device& d) { d.cordoned = true; })});
         w.submit("x", some());
       }},
      {Cause::device_held_by_peer,
       "needs 4096 MiB on one GPU; the 1 node has no device left for it (n0/GPU-n00 is held by "
       "another scheduler)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         WorkloadOptions options;
         options.foreign = true;
         RequestSpec spec;
         spec.containers.push_back({.gpu = DeviceAsk::whole_devices(1)});
         w.apply(GrantAdopted{
             .workload = Workload::task("peer", Request::create(spec).value(), options),
             .node = "n0",
             .shares = {{.uuid = "GPU-n00", .request_mib = 1, .limit_mib = 1}}});
         w.submit("x", some());
       }},
      {Cause::device_cordoned,
       "needs 4096 MiB on one GPU; all 3 GPUs that it may use are drained (n0/GPU-n00 and 2 more)",
       [](World& w) {
         Node node = node_of("n0", 3);
         for (Device& device : node.devices) {
           device.cordoned = true;
         }
         w.apply(NodeUpserted{node});
         w.submit("x", some());
       }},
      {Cause::device_cordoned,
       "needs 4096 MiB on one GPU; of 2 GPUs that it may use 1 is drained (n0/GPU-n01), and no "
       "other takes it",
       [](World& w) {
         Node node = node_of("n0", 2);
         node.devices[0].health = DeviceHealth::unhealthy;
         node.devices[1].cordoned = true;
         w.apply(NodeUpserted{node});
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
       sampled()},
      {Cause::stale_observation,
       "needs one whole GPU; the 1 node has no fresh sample; n0/GPU-n00 was not observed yet",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("x", DeviceAsk::whole_devices(1));
       },
       sampled()},
      {Cause::share_below_minimum,
       "needs 0.001 % of one GPU; that is less than 1 MiB on 1 node (n0/GPU-n00 is too small)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("x", DeviceAsk::fraction_nano(10'000));
       }},
      {Cause::device_exclusive,
       "needs 4096 MiB on one GPU; the 1 node has no GPU that may be shared (n0/GPU-n00 is held "
       "by big)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("big", DeviceAsk::whole_devices(1));
         w.submit("x", some());
       }},
      {Cause::device_exclusive, "needs one whole GPU; n0 has 0 such GPUs free, 1 in use",
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
  };
}

// What others hold.
std::vector<Case> of_room() {
  return {
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
       capped()},
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
       "needs 4096 MiB on one GPU; the only GPU that it may use has no memory free (n0)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("a", DeviceAsk::memory_mib(16'384));
         w.submit("x", some());
       }},
      {Cause::limit_overcommit,
       "needs 4096 MiB on one GPU; its limit is 16384 MiB; limits on n0/GPU-n00 sum to 20000 of at "
       "most 32768 MiB, where one of 12768 MiB would fit",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("a", limited(1000, 10'000));
         w.submit("b", limited(1000, 10'000));
         w.submit("x", limited(4096, 16'384));
       }},
  };
}

// Devices that are too few, or not the right ones together.
std::vector<Case> of_several_devices() {
  return {
      {Cause::insufficient_devices,
       "needs 2 whole GPUs of one node; n0 has 1 such GPU free, 1 in use",
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
       "needs 4096 MiB on each of 2 GPUs; the 1 node has not 2 such devices on one NUMA node "
       "(n0)",
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
  };
}

// Whose turn it is, and what can never be.
std::vector<Case> of_turns() {
  return {
      {Cause::waiting_for_release,
       "needs 14000 MiB on one GPU; it is promised on n0 as soon as 1 workload there is gone (a)",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.submit("a", some());
         w.apply(GrantReleasing{"a"});
         w.submit("x", DeviceAsk::memory_mib(14'000));
       }},
      {Cause::granting_held,
       "the service makes no grants at the moment: it is starting, or cannot write its books; "
       "needs 4096 MiB on one GPU; nodes with room for it now: 0 of 2",
       [](World& w) {
         w.apply(NodeUpserted{node_of("n0", 1)});
         w.apply(NodeUpserted{node_of("n1", 0)});
         w.submit("a", DeviceAsk::whole_devices(1));
         w.apply(GrantingHeld{true});
         w.submit("x", some());
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

}  // namespace

std::vector<SentenceCase> sentence_cases() {
  std::vector<Case> all;
  for (auto* room : {of_nodes, of_kinds_of_devices, of_states_of_devices, of_room,
                     of_several_devices, of_turns}) {
    std::vector<Case> cases = room();
    all.insert(all.end(), std::make_move_iterator(cases.begin()),
               std::make_move_iterator(cases.end()));
  }
  return all;
}

}  // namespace berth::core
