// The scenarios of annotations.md 6 once more, through pods: the same files that drive the engine
// drive the harbour, as nodes with annotations, pods with the words that people write, bindings and
// a watch that shows them.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "core/engine/engine.h"
#include "kube/objects/grant.h"
#include "kube/scheduler/harbour_test_support.h"
#include "request/units.h"
#include "scenario/script.h"
#include "scenario/world.h"

namespace berth::kube {
namespace {

namespace fs = std::filesystem;
using scenario::Script;

// --- values of the language as objects of a cluster -----------------------------------------

Node node_object(const core::Node& node) {
  Node object;
  object.meta.name = node.name;
  object.meta.uid = "node-" + node.name;
  object.meta.labels = node.labels;
  object.taints = node.taints;
  object.unschedulable = node.cordoned;
  object.allocatable = {{"cpu", std::to_string(node.cpu.count()) + "m"},
                        {"memory", std::to_string(node.ram.in_bytes())},
                        {"pods", std::to_string(node.pod_slots)}};
  object.conditions.push_back({.type = "Ready", .status = node.ready ? "True" : "False"});
  if (node.gpu_replicas > 1) {
    object.meta.labels["nvidia.com/gpu.replicas"] = std::to_string(node.gpu_replicas);
  }
  std::string devices;
  bool owned = true;
  for (const core::Device& device : node.devices) {
    owned = owned && device.owned;
    devices += fmt::format(R"({}{{"uuid":"{}","index":{},"model":"{}","totalMiB":{},)"
                           R"("reserveMiB":{},"numa":0,"mig":null}})",
                           devices.empty() ? "" : ",", device.uuid, device.index, device.model,
                           device.total.value_or(Memory()).floor_mib(), device.reserve.ceil_mib());
  }
  object.meta.annotations["berth.dev/devices"] = fmt::format(
      R"({{"v":1,"backend":"none","cdi":false,"owned":{},"devices":[{}]}})", owned, devices);
  return object;
}

void write_ask(const core::ContainerAsk& container, Labels& annotations,
               request::ContainerWords& words) {
  const core::DeviceAsk& ask = container.gpu;
  const std::string prefix = "nvidia.com/container." + container.name;
  const auto mib = [](std::int64_t n) { return std::to_string(n) + "Mi"; };
  for (const std::string& uuid : ask.filter.use_uuids) {
    std::string& list = annotations["nvidia.com/use-gpuuuid"];
    list += (list.empty() ? "" : ",") + uuid;
  }
  switch (ask.kind) {
    case core::AskKind::none: return;
    case core::AskKind::memory:
      if (ask.count > 1) {
        annotations["gpu-memory"] = std::to_string(ask.mib);
        annotations["gpu-fraction-num-devices"] = std::to_string(ask.count);
        return;
      }
      annotations[prefix + ".gpu-memory.request"] = mib(ask.mib);
      if (ask.limit_mib.has_value()) {
        annotations[prefix + ".gpu-memory.limit"] = mib(*ask.limit_mib);
      }
      break;
    case core::AskKind::fraction:
      annotations["gpu-fraction"] = request::fraction_text(Nano{ask.nano});
      annotations["gpu-fraction-container-name"] = container.name;
      if (ask.count > 1) {
        annotations["gpu-fraction-num-devices"] = std::to_string(ask.count);
      }
      break;
    case core::AskKind::replica: words.limits["nvidia.com/gpu.shared"] = "1"; return;
    case core::AskKind::whole: words.limits["nvidia.com/gpu"] = std::to_string(ask.count); return;
    case core::AskKind::mig:
      words.limits["nvidia.com/mig-" + ask.mig_profile] = std::to_string(ask.count);
      return;
  }
  if (ask.mode == core::SharingMode::sm_sharing) {
    annotations[prefix + ".gpu-compute.mode"] = "sm-sharing";
  }
}

Pod pod_object(const std::string& name, const core::Request& request,
               const core::WorkloadOptions& options) {
  Pod pod = test_pod(name);
  pod.words.containers.clear();
  pod.meta.labels["berth.dev/queue"] = options.queue;
  pod.priority = options.priority;
  Labels annotations;
  if (options.preemptible) {
    annotations["berth.dev/preemptible"] = "true";
  }
  for (const core::ContainerAsk& container : request.containers()) {
    request::ContainerWords words{.name = container.name, .kind = container.kind};
    write_ask(container, annotations, words);
    pod.words.containers.push_back(words);
  }
  if (pod.words.containers.empty()) {
    pod.words.containers.push_back({.name = "main"});
  }
  Selector term;
  term.rules = request.nodes().labels;
  if (!request.nodes().names.empty()) {
    term.fields.push_back(
        {.key = "metadata.name", .op = core::LabelRule::Op::in, .values = request.nodes().names});
  }
  if (!term.rules.empty() || !term.fields.empty()) {
    pod.node_terms.push_back(term);
  }
  pod.words.tolerations = request.nodes().tolerations;
  Labels& requests = pod.words.containers.back().requests;
  requests["cpu"] = std::to_string(request.cpu().count()) + "m";
  requests["memory"] = std::to_string(request.ram().in_bytes());
  pod.words.annotations = pod.meta.annotations = annotations;
  return pod;
}

// --- one script -----------------------------------------------------------------------------

class Player {
 public:
  explicit Player(const Script& script) : script_(script), cluster_(config_of(script)) {
    for (const core::Node& node : script.fleet) {
      cluster_.tell(node_object(world_.describe(node)));
    }
    cluster_.ready();
  }

  static HarbourConfig config_of(const Script& script) {
    HarbourConfig config;
    config.engine = script.config;
    config.queues = script.queues;
    config.must_be_admitted = false;
    return config;
  }

  void run() {
    for (const scenario::Step& step : script_.steps) {
      for (const scenario::Deed& deed : step.deeds) {
        SCOPED_TRACE(script_.file + ":" + std::to_string(step.place.line) + " " + script_.about);
        std::visit([this](const auto& one) { perform(one); }, deed);
      }
    }
  }

 private:
  void settle() {
    for (auto binds = cluster_.deeds_of<Bind>(); !binds.empty();
         binds = cluster_.deeds_of<Bind>()) {
      for (const auto& [number, bind] : binds) {
        cluster_.answer(number, 201);
        Pod& pod = pods_.at(bind.pod.name);
        pod = bound_by(pod, bind);
        cluster_.tell(pod);
      }
    }
  }

  void perform(const scenario::Submit& submit) {
    if (submit.refusal.has_value()) {
      return;  // the words themselves are the business of the request's tests
    }
    ASSERT_FALSE(submit.gang.has_value());
    for (const scenario::Named& uid : submit.uids) {
      Pod pod = pod_object(uid.text, submit.request, submit.options);
      pod.meta.created_ms = 1000 + static_cast<std::int64_t>(pods_.size());
      pods_[uid.text] = pod;
      cluster_.tell(pod);
      settle();  // a scenario's tasks arrive one after the other
    }
  }

  void perform(const scenario::Adopt& adopt) {
    Pod pod = pod_object(adopt.uid, adopt.request, adopt.options);
    const core::Fleet& fleet = cluster_.harbour->engine().fleet();
    GrantRecord record{.id = "g-00000001"};
    for (const core::ContainerAsk& container : adopt.request.containers()) {
      GrantedContainer granted{.name = container.name,
                               .kind = container.kind,
                               .exclusive = container.gpu.is_exclusive(),
                               .mode = container.gpu.mode,
                               .nano = container.gpu.nano};
      for (const scenario::Named& device : adopt.devices) {
        const core::DeviceId id = fleet.find_device(world_.uuid_of(device.text).value());
        record.node = fleet.node(fleet.node_of(id)).name;
        const std::int64_t usable = fleet.device(id).usable_mib();
        const std::int64_t mib =
            container.gpu.is_exclusive() ? usable : core::request_mib_on(container.gpu, usable, 0);
        const std::int64_t limit =
            container.gpu.is_exclusive() ? usable : core::limit_mib_on(container.gpu, usable, 0);
        granted.devices.push_back({.uuid = fleet.uuid(id), .request_mib = mib, .limit_mib = limit});
      }
      record.containers.push_back(granted);
    }
    pod.words.preset_node = record.node;
    pod.phase = "Running";
    const GrantedContainer& first = record.containers[0];
    if (adopt.options.foreign && !first.exclusive) {
      pod.scheduler_name = "kai-scheduler";
      const std::string key = "nvidia.com/container." + first.name;
      pod.meta.annotations = {
          {key + ".gpus.devices", first.devices[0].uuid},
          {key + ".gpu-memory.request", std::to_string(first.devices[0].request_mib) + "Mi"}};
    } else if (adopt.options.foreign) {
      pod.scheduler_name = "kai-scheduler";
      pod.meta.namespace_name = "kai-resource-reservation";
      pod.meta.annotations = {{"run.ai/reserve_for_gpu_index", first.devices[0].uuid}};
    } else {
      pod.meta.annotations["berth.dev/grant"] = grant_text(record);
    }
    pod.words.annotations = pod.meta.annotations;
    pods_[adopt.uid] = pod;
    cluster_.tell(pod);
    settle();
  }

  void perform(const scenario::WorkloadDeed& deed) {
    for (const scenario::Named& uid : deed.uids) {
      Pod pod = pods_.at(uid.text);
      switch (deed.verb) {
        case scenario::WorkloadVerb::cancel:
        case scenario::WorkloadVerb::end:
          cluster_.gone(pod);
          pods_.erase(uid.text);
          break;
        case scenario::WorkloadVerb::releasing: pod.meta.deleting = true; break;
        case scenario::WorkloadVerb::initialized:
          pod.conditions.push_back({.type = "Initialized", .status = "True"});
          break;
        default: FAIL() << "no pod can do this";
      }
      if (pods_.contains(uid.text)) {
        pods_[uid.text] = pod;
        cluster_.tell(pod);
      }
      settle();
    }
  }

  void perform(const scenario::Expect& expect) {
    cluster_.pass(1'000);
    settle();
    const core::Engine& engine = cluster_.harbour->engine();
    for (const scenario::ExpectWorkload& wanted : expect.workloads) {
      SCOPED_TRACE(wanted.uid.text);
      const std::string id =
          pods_.contains(wanted.uid.text)
              ? pods_.at(wanted.uid.text).meta.namespace_name + "/" + wanted.uid.text
              : "ns/" + wanted.uid.text;
      const core::Grant* grant = engine.grant(id);
      const bool promised = grant != nullptr && grant->state == core::GrantState::promised;
      if (wanted.state == scenario::WantedState::granted) {
        EXPECT_TRUE(grant != nullptr && !promised) << cluster_.message(wanted.uid.text);
      } else if (wanted.state == scenario::WantedState::promised) {
        EXPECT_TRUE(promised);
      } else if (wanted.state == scenario::WantedState::waiting) {
        EXPECT_TRUE(grant == nullptr && engine.outcome(id) == core::Outcome::waiting);
      } else if (wanted.state == scenario::WantedState::never) {
        EXPECT_EQ(engine.outcome(id), core::Outcome::never);
      }
      if (wanted.cause.has_value() && grant == nullptr) {
        EXPECT_EQ(core::cause_name(engine.cause(id)), *wanted.cause);
      }
      if (wanted.on.has_value() && grant != nullptr) {
        expect_devices(*wanted.on, *grant);
      }
    }
  }

  void expect_devices(const std::vector<std::string>& wanted, const core::Grant& grant) {
    std::vector<std::string> found;
    for (const core::ContainerGrant& container : grant.containers) {
      for (const core::DeviceShare& share : container.shares) {
        found.push_back(world_.short_name(cluster_.harbour->engine().fleet().uuid(share.device)));
      }
    }
    EXPECT_EQ(found, wanted);
  }

  template <typename Other>
  void perform(const Other&) {
    FAIL() << "this step has no meaning for pods";
  }

  const Script& script_;
  scenario::World world_;
  Cluster cluster_;
  std::map<std::string, Pod> pods_;
};

bool is_for_pods(const Script& script) {
  return std::ranges::all_of(script.steps, [](const scenario::Step& step) {
    return !step.advance.has_value() && !step.at.has_value() &&
           std::ranges::all_of(step.deeds, [](const scenario::Deed& deed) {
             if (const auto* submit = std::get_if<scenario::Submit>(&deed)) {
               return !submit->gang.has_value();
             }
             return std::holds_alternative<scenario::Adopt>(deed) ||
                    std::holds_alternative<scenario::WorkloadDeed>(deed) ||
                    std::holds_alternative<scenario::Expect>(deed);
           });
  });
}

std::vector<std::string> files() {
  std::vector<std::string> names;
  for (const auto& entry :
       fs::directory_iterator(fs::path(BERTH_SOURCE_DIR) / "tests/scenario/annotations")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("F") || name.starts_with("B")) {
      names.push_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

class ScenariosThroughPods : public ::testing::TestWithParam<std::string> {};

TEST_P(ScenariosThroughPods, ComeToTheSame) {
  std::ifstream stream(fs::path(BERTH_SOURCE_DIR) / "tests/scenario/annotations" / GetParam());
  std::ostringstream text;
  text << stream.rdbuf();
  const auto scripts = scenario::parse_scripts(text.str(), GetParam());
  ASSERT_TRUE(scripts.ok()) << scripts.error().message();
  int played = 0;
  for (const Script& script : *scripts) {
    if (is_for_pods(script)) {
      Player(script).run();
      ++played;
    }
  }
  if (played == 0) {
    GTEST_SKIP() << "gangs, or steps that no pod can do";
  }
}

INSTANTIATE_TEST_SUITE_P(Annotations, ScenariosThroughPods, ::testing::ValuesIn(files()),
                         [](const auto& name) {
                           return name.param.substr(0, name.param.find('.'));
                         });

}  // namespace
}  // namespace berth::kube
