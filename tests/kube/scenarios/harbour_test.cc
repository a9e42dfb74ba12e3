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
#include "json/dom.h"
#include "json/value.h"
#include "kube/objects/read.h"
#include "kube/scenarios/objects.h"
#include "kube/scenarios/story.h"
#include "kube/scheduler/harbour_test_support.h"
#include "scenario/script.h"
#include "scenario/world.h"

namespace berth::kube {
namespace {

namespace fs = std::filesystem;
using scenario::Script;

Pod pod_from(const json::Value& object, std::size_t number) {
  json::DomParser parser;
  Pod pod = read_pod(parser.parse(json::dump(object)).value()).value();
  pod.meta.uid = fmt::format("uid-{}-{}", pod.meta.name, number);
  pod.meta.created_ms = 1000 + static_cast<std::int64_t>(number);
  pod.meta.generation = 1;
  pod.phase = "Pending";
  pod.words.namespace_name = pod.meta.namespace_name;
  return pod;
}

Node node_from_json(const json::Value& object) {
  json::DomParser parser;
  Node node = read_node(parser.parse(json::dump(object)).value()).value();
  node.meta.uid = "node-" + node.meta.name;
  return node;
}

// --- one script -----------------------------------------------------------------------------

class Player {
 public:
  explicit Player(const Script& script) : script_(script), cluster_(config_of(script)) {
    for (const core::Node& node : script.fleet) {
      world_.describe(node);
    }
    tell_nodes();
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
  void tell_nodes() {
    for (const core::Node& node : script_.fleet) {
      const auto way = script_.ways.find(node.name);
      cluster_.tell(node_from_json(
          node_object(node, way == script_.ways.end() ? scenario::NodeWay{} : way->second)));
    }
  }

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
      return;  // it never comes here: that is the business of admission
    }
    for (const scenario::Named& uid : submit.uids) {
      const Pod pod = pod_from(pod_object(uid.text, submit), ++made_);
      pods_[uid.text] = pod;
      cluster_.tell(pod);
      settle();  // a scenario's tasks arrive one after the other
    }
  }

  void perform(const scenario::Adopt& adopt) {
    const BoundPod bound = bound_pod(adopt, script_, world_);
    Pod pod = pod_from(bound.object, ++made_);
    pod.words.preset_node = bound.node;
    pod.phase = "Running";
    for (const auto& [key, value] : bound.annotations) {
      pod.meta.annotations[key] = value;
    }
    pod.words.annotations = pod.meta.annotations;
    pods_[adopt.uid] = pod;
    cluster_.tell(pod);
    settle();
  }

  // Admission's alone.
  void perform(const scenario::Edit&) {}

  void perform(const scenario::Restart&) {
    cluster_.restart();
    tell_nodes();
    for (const auto& [uid, pod] : pods_) {
      cluster_.tell(pod);
    }
    cluster_.ready();
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
              : "default/" + wanted.uid.text;
      const core::Grant* grant = engine.grant(id);
      const bool promised = grant != nullptr && grant->state == core::GrantState::promised;
      if (wanted.state == scenario::WantedState::granted) {
        EXPECT_TRUE(grant != nullptr && !promised) << id;
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
      for (const auto& [key, value] : wanted.annotations) {
        EXPECT_EQ(pods_.at(wanted.uid.text).meta.annotations[key], value) << key;
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
  std::size_t made_ = 0;
};

std::vector<std::string> files() {
  std::vector<std::string> names;
  for (const auto& entry :
       fs::directory_iterator(fs::path(BERTH_SOURCE_DIR) / "tests/scenario/annotations")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("F") || name.starts_with("B") || name.starts_with("N-")) {
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
    if (not_for_pods(script).empty()) {
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
                           std::string text = name.param.substr(0, name.param.find('.'));
                           std::erase(text, '-');
                           return text;
                         });

}  // namespace
}  // namespace berth::kube
