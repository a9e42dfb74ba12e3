#include "scenario/script.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/section_test.h"
#include "scenario/sections.h"

namespace berth::scenario {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kHead = "about: a test\nfleet: n0=2x16GiB\n";

Script script_of(const std::string& text) {
  auto scripts = parse_scripts(text, "t.yaml");
  EXPECT_TRUE(scripts.ok()) << scripts.error().message();
  return scripts.ok() ? scripts->front() : Script{};
}

std::string message_of(const std::string& text) {
  const auto scripts = parse_scripts(text, "t.yaml");
  EXPECT_FALSE(scripts.ok()) << text;
  return scripts.ok() ? "" : scripts.error().message();
}

std::string in_steps(const std::string& steps) { return std::string(kHead) + "steps:\n" + steps; }

template <typename T>
T deed_of(const Script& script, std::size_t step = 0, std::size_t deed = 0) {
  return std::get<T>(script.steps.at(step).deeds.at(deed));
}

TEST(Script, ReadsEveryPartOfAScenario) {
  const Script script = script_of(R"(about: two tasks share a device
fleet: n0=2x16GiB:L4
config: {policy: best-fit, max_sample_age: 30s, aging: {step: 5min, max: 3}}
steps:
  - submit: {uid: train-1..3, gpu_memory: 4GiB, priority: 7, max_run: 1h, preemptible: true}
  - at: 10s
    end: train-1
    expect: {workloads: {train-2: granted on n0/g1}}
)");
  EXPECT_EQ(script.about, "two tasks share a device");
  EXPECT_EQ(script.fleet.front().devices.size(), 2U);
  EXPECT_EQ(script.config.policy, "best-fit");
  EXPECT_EQ(script.config.max_sample_age, Duration{30'000});
  EXPECT_EQ(script.config.aging_step, Duration{300'000});
  const auto submit = deed_of<Submit>(script);
  EXPECT_EQ(submit.uids.size(), 3U);
  EXPECT_EQ(submit.uids[2].text, "train-3");
  EXPECT_EQ(submit.options.priority, 7);
  EXPECT_EQ(submit.options.max_run, Duration{3'600'000});
  EXPECT_TRUE(submit.options.preemptible);
  EXPECT_EQ(submit.request.containers().front().gpu.mib, 4096);
  EXPECT_EQ(script.steps[1].at, Time{10'000});
  const auto expect = deed_of<Expect>(script, 1, 1);
  EXPECT_EQ(expect.workloads.front().state, WantedState::granted);
  EXPECT_EQ(*expect.workloads.front().on, std::vector<std::string>{"n0/g1"});
}

TEST(Script, ReadsTheKeysOfAStepInTheOrderWritten) {
  const Script script =
      script_of(in_steps("  - {cancel: a, end: b, expect: {actions: 1}, lost: c}\n"));
  EXPECT_EQ(deed_of<WorkloadDeed>(script, 0, 0).verb, WorkloadVerb::cancel);
  EXPECT_EQ(deed_of<WorkloadDeed>(script, 0, 1).verb, WorkloadVerb::end);
  EXPECT_EQ(deed_of<Expect>(script, 0, 2).actions->second, 1);
  EXPECT_EQ(deed_of<WorkloadDeed>(script, 0, 3).verb, WorkloadVerb::lost);
}

TEST(Script, ReadsADescribedFleet) {
  const Script script = script_of(R"(about: x
fleet:
  reserve: 0MiB
  nodes:
    - name: n0
      cpu: 8
      ram: 32GiB
      pods: 5
      labels: {zone: a}
      taints: [gpu=only:NoSchedule, old:NoExecute]
      replicas: 4
      sharing_ready: false
      devices:
        - {memory: 100MiB, count: 2}
        - {memory: unknown, uuid: GPU-odd, model: GB10, numa: 1}
        - {memory: 5GiB, mig: 1g.5gb, reserve: 10MiB, owned: false, sm_sharing: false}
        - {memory: 40GiB, mig: enabled, cordoned: true}
    - {name: cpu-only}
steps: []
)");
  ASSERT_EQ(script.fleet.size(), 2U);
  const core::Node& node = script.fleet[0];
  EXPECT_EQ(node.cpu, Milli{8000});
  EXPECT_EQ(node.pod_slots, 5);
  EXPECT_EQ(node.taints[0].value, "only");
  EXPECT_EQ(node.taints[1].key, "old");
  EXPECT_EQ(node.gpu_replicas, 4);
  ASSERT_EQ(node.devices.size(), 5U);
  EXPECT_EQ(node.devices[1].usable_mib(), 100);
  EXPECT_FALSE(node.devices[2].total.has_value());
  EXPECT_EQ(node.devices[2].uuid, "GPU-odd");
  EXPECT_EQ(node.devices[3].mig_profile, "1g.5gb");
  EXPECT_THAT(node.devices[3].uuid, StartsWith("MIG-"));
  EXPECT_TRUE(node.devices[4].mig_enabled);
  EXPECT_TRUE(script.fleet[1].devices.empty());
}

TEST(Script, DevicesOfSpecAndOfADescriptionHaveTheSameUuids) {
  const Script spec = script_of(std::string(kHead) + "steps: []\n");
  const Script described = script_of(
      "about: x\nfleet: {nodes: [{name: n0, devices: [{memory: 16GiB, count: 2}]}]}\nsteps: []\n");
  EXPECT_EQ(spec.fleet[0].devices[1].uuid, described.fleet[0].devices[1].uuid);
  EXPECT_EQ(spec.fleet[0].devices[1].reserve, described.fleet[0].devices[1].reserve);
}

TEST(Script, NamesTheNearestKeyForOneThatIsUnknown) {
  EXPECT_THAT(
      message_of("abuot: x\n"),
      StartsWith("t.yaml:1:1: abuot: 'abuot' is not a key of 'scenario'; did you mean 'about'?"));
  EXPECT_THAT(
      message_of(in_steps("  - submit: {uid: a, gpu_memroy: 4GiB}\n")),
      HasSubstr("t.yaml:4:22: gpu_memroy: 'gpu_memroy' is not a key of 'submit'; did you mean "
                "'gpu_memory'?"));
  EXPECT_THAT(message_of(in_steps("  - expect: {workloads: {a: {largestfree: 1MiB}}}\n")),
              HasSubstr("did you mean 'largest_free'?"));
  EXPECT_THAT(message_of(in_steps("  - expect: {devices: {n0/g0: {headrom: 1MiB}}}\n")),
              HasSubstr("did you mean 'headroom'?"));
  EXPECT_THAT(message_of(in_steps("  - expect: {workloads: {a: {cause: InsufficentMemory}}}\n")),
              HasSubstr("did you mean 'InsufficientMemory'?"));
  EXPECT_THAT(message_of(in_steps("  - expect: {workloads: {a: grented}}\n")),
              HasSubstr("did you mean 'granted'?"));
}

TEST(Script, SendsALoadToTheVerbThatPlaysIt) {
  EXPECT_THAT(message_of(std::string(kHead) + "load: {rate: 5}\nsteps: []\n"),
              HasSubstr("a load is played by `berth simulate --fleet FILE --load FILE`"));
}

TEST(Script, ReadsTheQueuesWithTheWordsOfAQueueFile) {
  const Script script = script_of(
      "about: x\nqueues: [{name: a, dims: {L4/devices: {deserved: 1}}}, {name: b, parent: "
      "nobody}]\n"
      "priorityRule: kai\nfleet: 2x16GiB:L4\nload: {}\nsteps: []\n");
  ASSERT_TRUE(script.queues.has_value());
  EXPECT_EQ(script.queues->priority_rule, core::PriorityRule::kai);
  EXPECT_EQ(script.queues->queues.at(0).dimensions.at(0).deserved, 1000);
  EXPECT_FALSE(script_of(in_steps("  - at: 1s\n")).queues.has_value());
}

TEST(Script, RefusesWrongQueuesWithEveryComplaint) {
  EXPECT_EQ(message_of("about: x\nfleet: 2x16GiB:L4\nqueues:\n"
                       "  - {name: a, dims: {L5/devices: {}}}\n  - {name: b, ordr: fifo}\n"
                       "steps: []\n"),
            "t.yaml:5:15: ordr: 'ordr' is not a key of 'queue'; did you mean 'order'? known are "
            "name, parent, priority, dims, order, reclaim, preempt, minRuntime, preemptionDelay, "
            "history, aging, evictions, stop, policy, deviceCap, device_cap, created\n"
            "t.yaml:4:22: queue a: dims.L5/devices: no device of the fleet is of class L5; name "
            "one that exists (nearest is L4) or * for all");
  EXPECT_THAT(message_of(std::string(kHead) + "priorityRule: kai\nsteps: []\n"),
              HasSubstr("t.yaml:3:15: priorityRule 'kai': it says nothing without `queues`"));
}

TEST(Script, FindsTheFleetOfAFileThatHoldsNothingElse) {
  const auto fleet = parse_fleet(
      "fleet: {nodes: [{name: n, devices: [{memory: 1GiB, model: B}, "
      "{memory: 1GiB, model: A, count: 2}]}]}\n",
      "f.yaml");
  ASSERT_TRUE(fleet.ok());
  EXPECT_EQ(device_classes(*fleet), (std::vector<std::string>{"A", "B"}));
  EXPECT_THAT(parse_fleet("queues: []\n", "f.yaml").error().message(),
              StartsWith("f.yaml:1:1: the file has no section `fleet:`"));
}

TEST(Script, RefusesWrongValuesWithPlaceFieldRuleAndFix) {
  const std::pair<const char*, const char*> kCases[] = {
      {"  - at: 10\n",
       "t.yaml:4:9: at '10': a duration is a whole number with ms, s, min, h or d: 90s"},
      {"  - at: -1s\n", "at '-1s': a duration"},
      {"  - at: 99999999999999999999s\n", "a duration"},
      {"  - at: NaN\n", "a duration"},
      {"  - at: 1.5s\n", "a duration"},
      {"  - {at: 1s, advance: 1s}\n", "the time comes first"},
      {"  - {end: a, at: 1s}\n", "the time comes first"},
      {"  - submit: {gpu_memory: 1GiB}\n", "'uid' is missing"},
      {"  - submit: {uid: '', gpu_memory: 1GiB}\n", "must not be empty"},
      {"  - submit: {uid: [a, [b]]}\n", "one word is expected"},
      {"  - submit: {uid: a-3..1}\n", "the range is backwards"},
      {"  - submit: {uid: a-1..}\n", "a range of names ends in two whole numbers"},
      {"  - submit: {uid: a-1..99999999999}\n", "a range of names ends in two whole numbers"},
      {"  - submit: {uid: a, priority: 1.5}\n", "priority '1.5': a whole number from"},
      {"  - submit: {uid: a, priority: 9223372036854775808}\n", "a whole number from"},
      {"  - submit: {uid: a, preemptible: yes}\n",
       "preemptible 'yes': not a word that is known here"},
      {"  - submit: {uid: a, gpu_fraction: 1.2}\n", "t.yaml:4:36: BadFraction: gpu_fraction=1.2"},
      {"  - submit: {uid: a, gpu_memory: -1}\n", "BadMemory"},
      {"  - submit: {uid: a, gpu_memory: 9223372036854775808}\n", "BadMemory"},
      {"  - submit: {uid: a, gpu_fraction: 0.5, gpu_memory: 1GiB}\n", "t.yaml:4:"},
      {"  - submit: {uid: a, whole: 99999}\n", "BadDeviceCount"},
      {"  - submit:\n", "nothing is written here"},
      {"  - submit: {uid: a, gpu_memory: }\n", "t.yaml:4:"},
      {"  - observe: {device: n0/g0}\n", "'used' is missing"},
      {"  - observe: {device: n0/g0, used: 5GB}\n",
       "a size is a whole number with MiB, GiB or TiB"},
      {"  - observe: {device: n0/g0, used: 5GiB, health: fine}\n", "health 'fine'"},
      {"  - observe: {device: n0/g0, used: 5GiB, by: [a]}\n", "a map is expected"},
      {"  - expect: {actions: -1}\n", "a whole number from 0"},
      {"  - expect: {workloads: {a: {nodes: {Nonsense: 1}}}}\n", "the key is not a cause"},
      {"  - expect: {devices: {n0/g0: headroom}}\n", "the keys of 'device figures' are expected"},
      {"  - expect: [a]\n", "the keys of 'expect' are expected"},
      {"  - submit\n", "the keys of 'step' are expected"},
      {"  - add_device: {node: n0, device: {memory: 1GiB}}\n", "has a `uuid`"},
      {"  - renumber: {node: n0, indices: [1, x]}\n", "a whole number"},
  };
  for (const auto& [steps, expected] : kCases) {
    EXPECT_THAT(message_of(in_steps(steps)), HasSubstr(expected)) << steps;
    EXPECT_THAT(message_of(in_steps(steps)), StartsWith("t.yaml:")) << steps;
  }
}

TEST(Script, RefusesWrongFleetsAndFilesWithoutWhatIsNeeded) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "t.yaml:1:1: the file is empty"},
      {"# only a remark\n", "the file is empty"},
      {"a scalar\n", "the keys of 'scenario' are expected"},
      {"[]\n", "the keys of 'scenario' are expected"},
      {"about: x\nsteps: []\n", "'fleet' is missing"},
      {"fleet: 1x1GiB\nsteps: []\n", "'about' is missing"},
      {"about: x\nfleet: 1x1GiB\n", "'steps' is missing"},
      {"about: x\nfleet: {}\nsteps: []\n", "a fleet has nodes"},
      {"about: x\nfleet: {nodes: []}\nsteps: []\n", "a fleet has nodes"},
      {"about: x\nfleet: {nodes: [{name: a}, {name: a}]}\nsteps: []\n",
       "the node a is given twice"},
      {"about: x\nfleet: {nodes: [{name: a, devices: [{memory: 1GiB, uuid: G}, {memory: 1GiB, "
       "uuid: "
       "G}]}]}\nsteps: []\n",
       "t.yaml:2:"},
      {"about: x\nfleet: {nodes: [{name: a, devices: [{memory: 1GiB, count: 2, uuid: "
       "G}]}]}\nsteps: "
       "[]\n",
       "a uuid names one device"},
      {"about: x\nfleet: {nodes: [{name: a, devices: [{count: 2}]}]}\nsteps: []\n",
       "'memory' is missing"},
      {"about: x\nfleet: {nodes: [{name: a, devices: [{memory: 1GiB, count: 65}]}]}\nsteps: []\n",
       "a whole number from 1 to 64"},
      {"about: x\nfleet: {nodes: [{name: a, devices: [{memory: 1GiB, count: 40}, {memory: 1GiB, "
       "count: 40}]}]}\nsteps: []\n",
       "a node has at most 64"},
      {"about: x\nfleet: {nodes: [{name: a, taints: [x]}]}\nsteps: []\n", "a taint is"},
      {"about: x\nfleet: {nodes: [{name: a, cpu: -1}]}\nsteps: []\n", "cpu '-1'"},
      {"about: x\nfleet: 2x16\nsteps: []\n", "t.yaml:2:8: fleet '2x16': '2x16': a size is"},
      {"about: x\nfleet: 1x1GiB\nfleet: 1x1GiB\nsteps: []\n", "the key 'fleet' is given twice"},
      {"about: x\nfleet: &f 1x1GiB\nsteps: []\n", "anchors"},
      {"about: x\nfleet: 1x1GiB\nconfig: {aging: {step: 0s, max: 1}}\nsteps: []\n", "above zero"},
      {"about: x\nfleet: 1x1GiB\nconfig: {policy: pakc}\nsteps: []\n",
       "t.yaml:3:18: policy 'pakc'"},
      {"about: x\nfleet: 1x1GiB\nconfig: {device_cap: 0}\nsteps: []\n", "a whole number from 1"},
      {"about: x\nfleet: 1x1GiB\nconfig: {limit_overcommit_percent: 99}\nsteps: []\n",
       "a whole number from 100"},
  };
  for (const auto& [text, expected] : kCases) {
    EXPECT_THAT(message_of(text), HasSubstr(expected)) << text;
    EXPECT_THAT(message_of(text), StartsWith("t.yaml:")) << text;
  }
}

TEST(Script, KeepsTheReasonOfARequestThatIsExpectedToBeRefused) {
  const Script script =
      script_of(in_steps("  - submit: {uid: a, gpu_fraction: NaN, refused: BadFraction}\n"));
  EXPECT_THAT(deed_of<Submit>(script).refused_as, HasSubstr("BadFraction: gpu_fraction=NaN"));
}

TEST(Script, AcceptsEveryExampleOfItsOwnTable) {
  expect_examples_are_accepted(fleet_section());
  expect_examples_are_accepted(node_section());
  expect_examples_are_accepted(device_section());
  expect_examples_are_accepted(config_section());
  expect_examples_are_accepted(aging_section());
  expect_examples_are_accepted(step_section());
  expect_examples_are_accepted(submit_section());
  expect_examples_are_accepted(adopt_section());
  expect_examples_are_accepted(join_section());
  expect_examples_are_accepted(group_section());
  expect_examples_are_accepted(member_section());
  expect_examples_are_accepted(topology_rule_section());
  expect_examples_are_accepted(segment_section());
  expect_examples_are_accepted(topology_section());
  expect_examples_are_accepted(observe_section());
  expect_examples_are_accepted(add_device_section());
  expect_examples_are_accepted(renumber_section());
  expect_examples_are_accepted(expect_section());
  expect_examples_are_accepted(expect_workload_section());
  expect_examples_are_accepted(expect_device_section());
  expect_examples_are_accepted(expect_node_section());
  expect_examples_are_accepted(expect_gang_section());
  expect_examples_are_accepted(expect_topology_section());
  expect_examples_are_accepted(expect_preemption_section());
  expect_examples_are_accepted(expect_quota_section());
  expect_examples_are_accepted(expect_eviction_section());
  expect_examples_are_accepted(expect_domains_section());
  expect_examples_are_accepted(expect_queue_section());
  expect_examples_are_accepted(script_section());
}

}  // namespace
}  // namespace berth::scenario
