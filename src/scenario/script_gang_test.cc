// Reading gangs, topologies, queues as steps, and what is expected of them.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenario/script.h"

namespace berth::scenario {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kHead = "about: a test\nfleet: n0=2x16GiB:L4\nsteps:\n";

Result<std::vector<Script>> scripts_of(const std::string& steps) {
  return parse_scripts(std::string(kHead) + steps, "t.yaml");
}

// The first deed of the first step.
template <typename T>
T deed_of(const std::string& steps) {
  const auto scripts = scripts_of(steps);
  EXPECT_TRUE(scripts.ok()) << scripts.error().message();
  return scripts.ok() ? std::get<T>(scripts->front().steps.at(0).deeds.at(0)) : T{};
}

std::string message_of(const std::string& steps) {
  const auto scripts = scripts_of(steps);
  EXPECT_FALSE(scripts.ok()) << steps;
  return scripts.ok() ? "" : scripts.error().message();
}

TEST(ScriptGangs, AreSoManyAlikeOfOneRequest) {
  const auto submit = deed_of<Submit>(
      "  - submit: {uid: job-1..2, members: 4, min: 3, whole: 1, queue: a, preemption_delay: 10s,\n"
      "      restartable: false, backfill: true, stale_grace: never, start_timeout: 5min,\n"
      "      recovery_timeout: 1min, whole_only: true}\n");
  EXPECT_EQ(submit.uids.size(), 2U);
  ASSERT_TRUE(submit.gang.has_value());
  const core::Group& root = submit.gang->root;
  EXPECT_EQ(root.min, 3);
  ASSERT_EQ(root.members.size(), 1U);
  EXPECT_EQ(root.members[0].count, 4);
  EXPECT_EQ(core::member_name(root.members[0], 2), "worker-2");
  EXPECT_EQ(root.members[0].request.containers().front().gpu.count, 1);
  EXPECT_EQ(submit.options.queue, "a");
  EXPECT_EQ(submit.options.preemption_delay, Duration{10'000});
  EXPECT_FALSE(submit.options.restartable);
  EXPECT_TRUE(submit.options.backfill);
  EXPECT_EQ(submit.gang->options.stale_grace, Duration{-1});
  EXPECT_EQ(submit.gang->options.start_timeout, Duration{300'000});
  EXPECT_EQ(submit.gang->options.recovery_timeout, Duration{60'000});
  EXPECT_TRUE(submit.gang->options.whole_only);
}

TEST(ScriptGangs, AreTreesWhoseGroupsInheritTheWordsAroundThem) {
  const auto submit = deed_of<Submit>(R"(  - submit:
      uid: job
      gpu_memory: 1GiB
      min_groups: 1
      topology: {name: racks, required: zone}
      groups:
        - {name: left, members: 2, topology: {preferred: rack, segments: {level: rack, size: 2}}}
        - name: right
          min: 1
          count: 3
          gpu_memory: 2GiB
          members: [{name: lead, priority: 9, gpu_memory: 3GiB}, {name: rest, count: 2}]
)");
  const core::Group& root = submit.gang->root;
  EXPECT_EQ(root.min_groups, 1);
  EXPECT_EQ(root.topology.topology, "racks");
  EXPECT_EQ(root.topology.required, "zone");
  const core::Group& left = root.groups.at(0);
  EXPECT_EQ(core::member_name(left.members.at(0), 1), "left-1");
  EXPECT_EQ(left.members[0].request.containers().front().gpu.mib, 1024);
  EXPECT_EQ(left.topology.preferred, "rack");
  EXPECT_EQ(left.topology.segments.at(0).size, 2);
  const core::Group& right = root.groups.at(1);
  EXPECT_EQ(right.min, 1);
  EXPECT_EQ(right.count, 3);
  EXPECT_EQ(right.members.at(0).priority, 9);
  EXPECT_EQ(right.members[0].request.containers().front().gpu.mib, 3072);
  EXPECT_EQ(right.members.at(1).request.containers().front().gpu.mib, 2048);
}

TEST(ScriptGangs, GrowByMembersThatJoin) {
  const auto join = deed_of<Join>(
      "  - join: {uid: job, group: right, members: {name: late, count: 2, whole: 1}}\n");
  EXPECT_EQ(join.uid, "job");
  EXPECT_EQ(join.group, "right");
  EXPECT_EQ(join.members.name, "late");
  EXPECT_EQ(join.members.count, 2);
  EXPECT_EQ(join.members.request.containers().front().gpu.count, 1);
}

TEST(ScriptGangs, AreRefusedWithPlaceAndRule) {
  const std::pair<const char*, const char*> kCases[] = {
      {"  - submit: {uid: a, members: 2, min: 3, whole: 1}\n",
       "t.yaml:4:13: the gang: min is 3 but there are only 2 members"},
      {"  - submit: {uid: a, min: 3, whole: 1}\n", "the gang has no members and declares none"},
      {"  - submit: {uid: a, members: 2, min_groups: 1}\n", "use min"},
      {"  - submit: {uid: a, whole: 1, stale_grace: 1s}\n", "only a gang has stale_grace"},
      {"  - submit: {uid: a, groups: [{name: x, members: 1}, {name: x, members: 1}]}\n",
       "two groups are called x"},
      {"  - submit: {uid: a, groups: [{name: x, groups: [{name: x, members: 1}]}]}\n",
       "two groups are called x; a group cannot be its own subgroup"},
      {"  - submit: {uid: a, groups: [{name: x, members: 1}], members: 2}\n",
       "both groups and members"},
      {"  - submit: {uid: a, members: 0}\n", "a whole number from 1 to 100000"},
      {"  - submit: {uid: a, members: [{name: x, gpu_memroy: 1GiB}]}\n",
       "did you mean 'gpu_memory'?"},
      {"  - submit: {uid: a, members: 1, topology: {requried: rack}}\n",
       "did you mean 'required'?"},
      {"  - submit: {uid: a, members: 4, topology: {segments: [{level: r, size: 4}, {level: n, "
       "size: 3}]}}\n",
       "each layer must divide the one around it"},
      {"  - submit: {uid: a, members: 1, gpu_fraction: 2}\n", "t.yaml:4:48: BadFraction"},
      {"  - submit: {uid: a, members: 1, stale_grace: -1s}\n", "a duration"},
      {"  - join: {uid: a}\n", "'members' is missing"},
      {"  - submit_together: {uid: a, gpu_fraction: 2, refused: BadFraction}\n",
       "what is refused never arrives"},
      {"  - topologies: [{name: racks, levels: []}]\n", "t.yaml:4:"},
      {"  - topologies: [{name: racks, levels: [a, a]}]\n", "racks: "},
      {"  - queues: [{name: a, dims: {L5/devices: {}}}]\n",
       "no device of the fleet is of class L5"},
      {"  - queues: [{name: a, ordr: fifo}]\n", "t.yaml:4:24: ordr: 'ordr' is not a key"},
      {"  - expect: {evictions: {a: fairShair}}\n", "did you mean 'fairShare'?"},
      {"  - expect: {evictions: {a: fairShare by b}}\n", "RULE for NAME to NODE"},
      {"  - expect: {evictions: all}\n", "a map is expected"},
      {"  - expect: {domains: {level: rack, of: a}}\n", "say `are` or `count`"},
      {"  - expect: {workloads: {a: {quota: {q: {devices: {used: 1}}}}}}\n",
       "t.yaml:4:42: 'devices': a dimension is CLASS/devices"},
      {"  - expect: {workloads: {a: {quota: {q: {'*/devics': {used: 1}}}}}}\n",
       "did you mean 'devices'?"},
      {"  - expect: {workloads: {a: {quota: {q: {'*/devices': {used: 1.2345}}}}}}\n",
       "at most three decimals"},
      {"  - expect: {workloads: {a: {gang: {mni: 1}}}}\n", "did you mean 'min'?"},
      {"  - expect: {workloads: {a: {preemption: {prio: 1}}}}\n", "not a key of 'expect preempt"},
  };
  for (const auto& [steps, expected] : kCases) {
    EXPECT_THAT(message_of(steps), HasSubstr(expected)) << steps;
    EXPECT_THAT(message_of(steps), StartsWith("t.yaml:")) << steps;
  }
}

TEST(ScriptGangs, MayBeExpectedToBeRefused) {
  const auto submit =
      deed_of<Submit>("  - submit: {uid: a, members: 2, min: 3, refused: min is 3}\n");
  EXPECT_THAT(submit.refused_as, HasSubstr("min is 3 but there are only 2 members"));
}

TEST(ScriptQueues, ChangeInTheMiddle) {
  const auto change = deed_of<ChangeQueues>(
      "  - {queues: [{name: a, dims: {L4/devices: {deserved: 1.5}}}], expect: {actions: 0}}\n");
  ASSERT_EQ(change.queues.size(), 1U);
  EXPECT_EQ(change.queues[0].dimensions.at(0).deserved, 1500);
  const auto stop = deed_of<StopQueues>("  - drain_queue: [a, b]\n");
  EXPECT_EQ(stop.stop, core::QueueStop::hold_and_drain);
  EXPECT_EQ(stop.queues.size(), 2U);
}

TEST(ScriptQueues, MaySpeakOfModelsThatJoinLater) {
  EXPECT_TRUE(scripts_of("  - queues: [{name: a, dims: {H100/devices: {deserved: 1}}}]\n"
                         "  - add_node: {name: n1, devices: [{memory: 80GiB, model: H100}]}\n")
                  .ok());
}

TEST(ScriptQueues, SubmitTogetherKeepsAllOfThemInOneDeed) {
  EXPECT_EQ(deed_of<SubmitTogether>("  - submit_together: [{uid: a, whole: 1}, {uid: b-1..2, "
                                    "members: 2, whole: 1}]\n")
                .submits.size(),
            2U);
}

TEST(ScriptQueues, ExpectationsKnowEveryPartOfAVerdict) {
  const auto expect = deed_of<Expect>(R"(  - expect:
      workloads:
        job:
          gang: {min: 4, exist: 3, placeable: 2}
          quota: {a: {"*/devices": {used: 1.5, limit: unlimited}, L4/memory: {need: 16GiB}}}
          topology: {level: rack, best: r1, fits: 2, need: 4}
          preemption: {considered: 5, minRuntime: 2}
          search_complete: false
      domains: [{level: rack, of: job/worker-0..1, are: [r2, r1]}, {level: zone, of: job, count: 1}]
      evictions:
        a-1..2: fairShare for job
        b: consolidation for job to n0
        c: {rule: stale, says: below its minimum}
)");
  const ExpectWorkload& job = expect.workloads.at(0);
  EXPECT_EQ(job.gang->figures.at(2).number, 2);
  ASSERT_EQ(job.quota.size(), 2U);
  EXPECT_EQ(job.quota[0].figures.figures.at(0).number, 1500);
  EXPECT_EQ(job.quota[0].figures.figures.at(1).number, core::kUnlimited);
  EXPECT_EQ(job.quota[1].figures.figures.at(0).number, 16'384);
  EXPECT_EQ(job.topology->figures.at(1).word, "r1");
  EXPECT_EQ(job.preemption->figures.at(1).name, "minRuntime");
  EXPECT_EQ(job.search_complete, false);
  EXPECT_THAT(*expect.domains.at(0).are, ElementsAre("r1", "r2"));
  EXPECT_EQ(expect.domains.at(1).count, 1);
  ASSERT_EQ(expect.evictions->evictions.size(), 4U);
  EXPECT_EQ(expect.evictions->evictions[1].uid.text, "a-2");
  EXPECT_EQ(expect.evictions->evictions[1].rule, core::Evicted::Rule::fair_share);
  EXPECT_EQ(expect.evictions->evictions[1].moves_to, "");
  EXPECT_EQ(expect.evictions->evictions[2].moves_to, "n0");
  EXPECT_EQ(expect.evictions->evictions[3].moves_to, std::nullopt);
  EXPECT_TRUE(deed_of<Expect>("  - expect: {evictions: none}\n").evictions->evictions.empty());
}

TEST(ScriptFleet, DescribesSeveralNodesAlike) {
  const auto scripts = parse_scripts(
      "about: x\nfleet: {nodes: [{name: a-1..3, labels: {rack: r1}, devices: [{memory: 1GiB}]}]}\n"
      "topologies: [{name: racks, levels: [rack]}]\neviction_grace: 30s\nsteps: []\n",
      "t.yaml");
  ASSERT_TRUE(scripts.ok()) << scripts.error().message();
  ASSERT_EQ(scripts->front().fleet.size(), 3U);
  EXPECT_EQ(scripts->front().fleet[2].name, "a-3");
  EXPECT_NE(scripts->front().fleet[1].devices[0].uuid, scripts->front().fleet[2].devices[0].uuid);
  EXPECT_EQ(scripts->front().topologies.at(0).levels.at(0), "rack");
  EXPECT_EQ(scripts->front().eviction_grace, Duration{30'000});
}

}  // namespace
}  // namespace berth::scenario
