// The `steps:` section: when, and everything that can happen. Expectations are in read_expect.cc.
#include <array>
#include <utility>

#include <fmt/format.h>

#include "scenario/fleet_spec.h"
#include "scenario/sections.h"

namespace berth::scenario {

namespace {

// --- observe ---

constexpr std::array kObserveKeys = {
    Key<Observe>{{"device", "device", "what was looked at", "n0/g0", true},
                 [](const Value& value, Observe& observe) -> Result<void> {
                   TRY(std::string name, value.word());
                   observe.device = {std::move(name), value.place()};
                   return success();
                 }},
    Key<Observe>{{"used", "memory",
                  "everything in use on it, the driver's reserve not included; "
                  "`unknown` when the source gave no number",
                  "6GiB", true},
                 [](const Value& value, Observe& observe) -> Result<void> {
                   if (value.node().text == "unknown") return success();
                   TRY(observe.used, value.memory());
                   return success();
                 }},
    Key<Observe>{
        {"age", "duration", "how old the sample is when it arrives; 0s when not said", "5s"},
        [](const Value& value, Observe& observe) -> Result<void> {
          TRY(observe.age, value.duration());
          return success();
        }},
    Key<Observe>{{"ahead", "duration", "the sample's stamp lies so far in the future", "5s"},
                 [](const Value& value, Observe& observe) -> Result<void> {
                   TRY(const Duration ahead, value.duration());
                   observe.age = Duration{-ahead.count()};
                   return success();
                 }},
    Key<Observe>{{"by", "map of memory",
                  "how much of it each task uses; what they do not explain is "
                  "foreign, and so is a name that is no task with a grant there: verdicts name it. "
                  "Without this key only the total is known",
                  "{train: 3GiB}"},
                 [](const Value& value, Observe& observe) -> Result<void> {
                   TRY(auto entries, value.entries());
                   observe.uses.emplace();
                   for (const auto& [name, used] : entries) {
                     TRY(const Memory memory, used.memory());
                     observe.uses->emplace_back(name, memory);
                   }
                   return success();
                 }},
    Key<Observe>{
        {"health", "name", "`ok` or `unhealthy`; unchanged when not said", "unhealthy"},
        [](const Value& value, Observe& observe) -> Result<void> {
          using core::DeviceHealth;
          constexpr std::array<std::pair<std::string_view, DeviceHealth>, 2> kWords = {
              {{"ok", DeviceHealth::ok}, {"unhealthy", DeviceHealth::unhealthy}}};
          TRY(observe.health,
              value.choice(std::span<const std::pair<std::string_view, DeviceHealth>>(kWords)));
          return success();
        }},
};

Result<void> read_observe(const Value& value, Step& step) {
  TRY(std::vector<Value> items, value.items());
  for (const Value& item : items) {
    Observe observe{.place = item.place()};
    TRY_VOID(read_section(observe_section(), item, observe));
    step.deeds.emplace_back(std::move(observe));
  }
  return success();
}

// --- fleet changes ---

constexpr std::array kAddDeviceKeys = {
    Key<AddDevice>{{"node", "name", "where", "n0", true},
                   [](const Value& value, AddDevice& add) -> Result<void> {
                     TRY(add.node, value.word());
                     return success();
                   }},
    Key<AddDevice>{{"device", "device", "its description", "{memory: 80GiB, uuid: GPU-new}", true},
                   [](const Value& value, AddDevice& add) -> Result<void> {
                     DeviceDraft draft{.place = value.place()};
                     draft.device.model = kPlainModel;
                     TRY_VOID(read_section(device_section(), value, draft));
                     if (draft.uuid.empty() || draft.count != 1) {
                       return value.error("a device that is added is one and has a `uuid`");
                     }
                     TRY(add.devices, finish_devices({draft}, core::Node{}, {}, value.file()));
                     return success();
                   }},
};

constexpr std::array kRenumberKeys = {
    Key<Renumber>{{"node", "name", "whose devices the driver numbers anew", "n0", true},
                  [](const Value& value, Renumber& renumber) -> Result<void> {
                    TRY(renumber.node, value.word());
                    return success();
                  }},
    Key<Renumber>{
        {"indices", "list of number", "the new index of n/g0, of n/g1, …", "[1, 0]", true},
        [](const Value& value, Renumber& renumber) -> Result<void> {
          TRY(std::vector<Value> items, value.items());
          for (const Value& item : items) {
            TRY(const std::int64_t index, item.number(0, 1023));
            renumber.indices.push_back(index);
          }
          return success();
        }},
};

// --- edit ---

constexpr std::array kEditKeys = {
    Key<Edit>{{"uid", "name", "the task whose pod is meant", "train", true},
              [](const Value& value, Edit& edit) -> Result<void> {
                TRY(edit.uid, value.word());
                return success();
              }},
    Key<Edit>{{"annotations", "map of text", "what is written, as on a pod",
               "{gpu-memory: \"8192\"}", true},
              [](const Value& value, Edit& edit) -> Result<void> {
                TRY(edit.annotations, read_words_by_name(value));
                return success();
              }},
    Key<Edit>{{"refused", "text",
               "expects that it is refused, with this reason code; without it nothing may be",
               "ImmutableKey"},
              [](const Value& value, Edit& edit) -> Result<void> {
                TRY(std::string code, value.word());
                edit.refusal = Named{std::move(code), value.place()};
                return success();
              }},
};

// --- steps ---

template <WorkloadVerb kVerb>
Result<void> read_workloads(const Value& value, Step& step) {
  WorkloadDeed deed{.verb = kVerb, .uids = {}};
  TRY(deed.uids, value.names());
  step.deeds.emplace_back(std::move(deed));
  return success();
}

template <NodeVerb kVerb>
Result<void> read_node_names(const Value& value, Step& step) {
  NodeDeed deed{.verb = kVerb, .nodes = {}};
  TRY(deed.nodes, value.names());
  step.deeds.emplace_back(std::move(deed));
  return success();
}

template <DeviceVerb kVerb>
Result<void> read_device_names(const Value& value, Step& step) {
  DeviceDeed deed{.verb = kVerb, .devices = {}};
  TRY(deed.devices, value.names());
  step.deeds.emplace_back(std::move(deed));
  return success();
}

template <core::QueueStop kStop>
Result<void> read_queue_names(const Value& value, Step& step) {
  StopQueues deed{.stop = kStop, .queues = {}};
  TRY(deed.queues, value.names());
  step.deeds.emplace_back(std::move(deed));
  return success();
}

template <typename T, const Section<T>& (*kSection)()>
Result<void> read_deed(const Value& value, Step& step) {
  TRY(std::vector<Value> items, value.items());
  for (const Value& item : items) {
    T deed{};
    deed.place = item.place();
    TRY_VOID(read_section(kSection(), item, deed));
    step.deeds.emplace_back(std::move(deed));
  }
  return success();
}

Result<void> read_add_node(const Value& value, Step& step) {
  NodeDraft draft{.place = value.place(), .node = plain_node("")};
  TRY_VOID(read_section(node_section(), value, draft));
  AddNode add{.place = value.place(), .node = {}};
  TRY(add.node, finish_node(draft, {}, value.file()));
  step.deeds.emplace_back(std::move(add));
  return success();
}

Result<void> read_at(const Value& value, Step& step) {
  if (!step.deeds.empty() || step.advance) {
    return value.error("the time comes first in a step, as `at` or as `advance`");
  }
  TRY(const Duration at, value.duration());
  step.at = Time{at.count()};
  return success();
}

Result<void> read_advance(const Value& value, Step& step) {
  if (!step.deeds.empty() || step.at) {
    return value.error("the time comes first in a step, as `at` or as `advance`");
  }
  TRY(step.advance, value.duration());
  return success();
}

constexpr std::array kStepKeys = {
    Key<Step>{{"at", "duration", "the step happens at this time; 0s is the beginning", "10s"},
              read_at},
    Key<Step>{{"advance", "duration", "the step happens so long after the one before", "30s"},
              read_advance},
    Key<Step>{{"submit", "list of submit", "tasks arrive", "{uid: train, gpu_memory: 4GiB}"},
              read_submit},
    Key<Step>{{"submit_together", "list of submit",
               "tasks arrive, all of them before any is decided: their queues are held meanwhile",
               "[{uid: a, gpu_memory: 4GiB}, {uid: b, gpu_memory: 4GiB}]"},
              read_submit_together},
    Key<Step>{{"join", "list of join", "more members of gangs exist",
               "{uid: job, members: {name: late, gpu_memory: 4GiB}}"},
              read_join},
    Key<Step>{{"end", "list of name", "tasks are over: their claims end", "train"},
              read_workloads<WorkloadVerb::end>},
    Key<Step>{
        {"cancel", "list of name", "tasks leave the queue, or give their grants back", "train"},
        read_workloads<WorkloadVerb::cancel>},
    Key<Step>{{"confirm", "list of name", "the owners of grants say that they started", "train"},
              read_workloads<WorkloadVerb::confirm>},
    Key<Step>{{"initialized", "list of name", "the init containers of tasks are done", "train"},
              read_workloads<WorkloadVerb::initialized>},
    Key<Step>{{"releasing", "list of name",
               "tasks are being deleted: they still hold what they hold", "train"},
              read_workloads<WorkloadVerb::releasing>},
    Key<Step>{{"lost", "list of name", "what ran is gone without a word", "train"},
              read_workloads<WorkloadVerb::lost>},
    Key<Step>{
        {"requeue", "list of name", "what ran is gone and waits again with its old age", "train"},
        read_workloads<WorkloadVerb::requeue>},
    Key<Step>{{"adopt", "list of adopt", "tasks are found that run already",
               "{uid: old, gpu_memory: 4GiB, on: n0/g1}"},
              read_adopt},
    Key<Step>{{"observe", "list of observe", "samples arrive", "{device: n0/g0, used: 6GiB}"},
              read_observe},
    Key<Step>{
        {"node_down", "list of name", "nodes are not ready: nothing new, what runs runs on", "n0"},
        read_node_names<NodeVerb::down>},
    Key<Step>{{"node_up", "list of name", "nodes are ready again", "n0"},
              read_node_names<NodeVerb::up>},
    Key<Step>{{"cordon_node", "list of name", "the operator wants nothing new on nodes", "n0"},
              read_node_names<NodeVerb::cordon>},
    Key<Step>{{"uncordon_node", "list of name", "and allows it again", "n0"},
              read_node_names<NodeVerb::uncordon>},
    Key<Step>{{"add_node", "node", "a node joins, or is described anew",
               "{name: n7, devices: [{memory: 80GiB}]}"},
              read_add_node},
    Key<Step>{{"remove_node", "list of name", "nodes are gone with all that ran on them", "n0"},
              read_node_names<NodeVerb::remove>},
    Key<Step>{{"cordon", "list of device", "the operator wants nothing new on devices", "n0/g1"},
              read_device_names<DeviceVerb::cordon>},
    Key<Step>{{"uncordon", "list of device", "and allows it again", "n0/g1"},
              read_device_names<DeviceVerb::uncordon>},
    Key<Step>{{"remove_device", "list of device", "devices vanish from their nodes", "n0/g1"},
              read_device_names<DeviceVerb::remove>},
    Key<Step>{{"restore_device", "list of device", "vanished devices come back with the same UUID",
               "n0/g1"},
              read_device_names<DeviceVerb::restore>},
    Key<Step>{{"add_device", "list of add_device", "a device that was never seen appears",
               "{node: n0, device: {memory: 80GiB, uuid: GPU-new}}"},
              read_deed<AddDevice, add_device_section>},
    Key<Step>{{"renumber", "list of renumber", "the driver numbers devices anew; UUIDs stay",
               "{node: n0, indices: [1, 0]}"},
              read_deed<Renumber, renumber_section>},
    Key<Step>{{"edit", "list of edit", "somebody writes annotations on pods that exist",
               "{uid: train, annotations: {gpu-memory: \"8192\"}, refused: ImmutableKey}"},
              read_deed<Edit, edit_section>},
    Key<Step>{{"restart", "true",
               "whoever decides starts anew: it is told the nodes, what runs and "
               "what waits, and makes its books from that alone",
               "true"},
              [](const Value& value, Step& step) -> Result<void> {
                TRY(const bool said, value.truth());
                if (!said) return value.error("true, or left out");
                step.deeds.emplace_back(Restart{value.place()});
                return success();
              }},
    Key<Step>{{"policy", "text", "another placement policy from now on", "spread"},
              [](const Value& value, Step& step) -> Result<void> {
                ChangePolicy change{.place = value.place(), .spec = {}};
                TRY(change.spec, value.word());
                step.deeds.emplace_back(std::move(change));
                return success();
              }},
    Key<Step>{
        {"queues", "list of queue",
         "another quota tree from now on, whole, by the same priorityRule", "[{name: default}]"},
        // The queues are read once every model of the scenario is known.
        [](const Value& value, Step& step) -> Result<void> {
          step.deeds.emplace_back(ChangeQueues{.place = value.place(), .queues = {}});
          return success();
        }},
    Key<Step>{{"hold_queue", "list of name", "nothing starts in queues and below them", "default"},
              read_queue_names<core::QueueStop::hold>},
    Key<Step>{
        {"drain_queue", "list of name", "nothing starts there and what runs is ended", "default"},
        read_queue_names<core::QueueStop::hold_and_drain>},
    Key<Step>{{"release_queue", "list of name", "queues work again", "default"},
              read_queue_names<core::QueueStop::none>},
    Key<Step>{{"hold_granting", "true or false",
               "nothing is granted, promised or told to leave from now on, as while a service "
               "starts or cannot write its books; `false`: it goes on",
               "true"},
              [](const Value& value, Step& step) -> Result<void> {
                TRY(const bool held, value.truth());
                step.deeds.emplace_back(HoldGranting{held});
                return success();
              }},
    Key<Step>{{"topologies", "list of topology", "other topologies from now on; `[]`: none",
               "[{name: racks, levels: [rack]}]"},
              [](const Value& value, Step& step) -> Result<void> {
                ChangeTopologies change{.place = value.place(), .topologies = {}};
                TRY(change.topologies, read_topologies(value));
                step.deeds.emplace_back(std::move(change));
                return success();
              }},
    Key<Step>{
        {"expect", "expect", "what must be true now", "{workloads: {train: granted on n0/g1}}"},
        read_expect},
};

constexpr Section<Observe> kObserve{"observe", "A sample of one device.", kObserveKeys};
constexpr Section<AddDevice> kAddDevice{"add_device", "A new device.", kAddDeviceKeys};
constexpr Section<Renumber> kRenumber{"renumber", "New indices for known devices.", kRenumberKeys};
constexpr Section<Edit> kEdit{
    "edit",
    "Annotations that somebody who is no part of Berth writes on a pod that exists. The engine "
    "knows "
    "no annotations: played on it alone, only the rules of admission are asked.",
    kEditKeys};
constexpr Section<Step> kStep{
    "step", "One point in time; its keys are obeyed in the order in which they are written.",
    kStepKeys};

}  // namespace

const Section<Observe>& observe_section() { return kObserve; }

const Section<AddDevice>& add_device_section() { return kAddDevice; }

const Section<Renumber>& renumber_section() { return kRenumber; }

const Section<Edit>& edit_section() { return kEdit; }

const Section<Step>& step_section() { return kStep; }

}  // namespace berth::scenario
