#include "kube/scenarios/story.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "kube/scenarios/objects.h"
#include "scenario/figures.h"
#include "scenario/words.h"
#include "scenario/world.h"
#include "yaml/tree.h"

namespace berth::kube {

namespace {

using json::object;
using json::Value;
using scenario::Script;
using scenario::WantedState;

// The settings that `berth scheduler` has under another name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kSettings{
    {{"policy", "policy"}, {"limit_overcommit_percent", "limitOvercommitPercent"}}};

// Everything as text: whoever reads it again reads YAML.
Value tree_value(const yaml::Node& node) {
  if (node.is_list()) {
    json::Array list;
    for (const yaml::Node& item : node.items) {
      list.push_back(tree_value(item));
    }
    return list;
  }
  if (node.is_map()) {
    Value map = object();
    for (const yaml::Entry& entry : node.entries) {
      map.add(entry.key, tree_value(entry.value));
    }
    return map;
  }
  return node.is_null() ? Value() : Value(node.text);
}

Value text_map(const std::map<std::string, std::string>& map) {
  Value value = object();
  for (const auto& [key, text] : map) {
    value.add(key, text);
  }
  return value;
}

class Teller {
 public:
  explicit Teller(const Script& script) : script_(script) {
    for (const core::Node& node : script.fleet) {
      world_.describe(node);
    }
  }

  Value tell(const yaml::Node& document) {
    Value names = object();
    json::Array nodes;
    for (const core::Node& node : script_.fleet) {
      const auto way = script_.ways.find(node.name);
      nodes.push_back(
          node_object(node, way == script_.ways.end() ? scenario::NodeWay{} : way->second));
      for (const core::Device& device : node.devices) {
        const std::string name = world_.short_name(device.uuid);
        names.add(device.uuid, name.substr(name.rfind('/') + 1));
      }
    }
    std::string skip = not_for_pods(script_);
    Value configuration = object();
    if (const yaml::Node* config = document.find("config"); config != nullptr) {
      for (const yaml::Entry& entry : config->entries) {
        const auto* known = std::ranges::find(
            kSettings, entry.key, &std::pair<std::string_view, std::string_view>::first);
        if (known == kSettings.end()) {
          skip = "the scheduler has no setting like config." + entry.key;
        } else {
          configuration.add(known->second, tree_value(entry.value));
        }
      }
    }
    Value queues;
    if (const yaml::Node* tree = document.find("queues"); tree != nullptr) {
      queues = object({{"queues", tree_value(*tree)}});
      if (const yaml::Node* rule = document.find("priorityRule"); rule != nullptr) {
        queues.add("priorityRule", tree_value(*rule));
      }
    }
    if (skip.empty()) {
      for (const scenario::Step& step : script_.steps) {
        for (const scenario::Deed& deed : step.deeds) {
          line_ = step.place.line;
          std::visit([this](const auto& one) { add(one); }, deed);
        }
      }
    }
    return object({{"file", script_.file},
                   {"line", script_.place.line},
                   {"about", script_.about},
                   {"skip", skip},
                   {"configuration", std::move(configuration)},
                   {"queues", std::move(queues)},
                   {"names", std::move(names)},
                   {"nodes", std::move(nodes)},
                   {"deeds", std::move(deeds_)}});
  }

 private:
  void add_deed(std::string_view what, Value deed) {
    deed.add("do", what).add("line", line_);
    deeds_.push_back(std::move(deed));
  }

  void add(const scenario::Submit& submit) {
    for (const scenario::Named& uid : submit.uids) {
      add_deed("submit",
               object({{"pod", pod_object(uid.text, submit)},
                       {"refused", submit.refusal ? Value(submit.refusal->text) : Value()}}));
    }
  }

  void add(const scenario::Adopt& adopt) {
    BoundPod bound = bound_pod(adopt, script_, world_);
    add_deed("adopt", object({{"pod", std::move(bound.object)},
                              {"node", bound.node},
                              {"foreign", adopt.options.foreign},
                              {"annotations", text_map(bound.annotations)}}));
  }

  void add(const scenario::WorkloadDeed& deed) {
    for (const scenario::Named& uid : deed.uids) {
      const std::string_view what = deed.verb == scenario::WorkloadVerb::releasing ? "releasing"
                                    : deed.verb == scenario::WorkloadVerb::initialized
                                        ? "initialized"
                                        : "end";
      add_deed(what, object({{"name", uid.text}}));
    }
  }

  void add(const scenario::Edit& edit) {
    add_deed("edit", object({{"name", edit.uid},
                             {"annotations", text_map(edit.annotations)},
                             {"refused", edit.refusal ? Value(edit.refusal->text) : Value()}}));
  }

  void add(const scenario::Restart&) { add_deed("restart", object()); }

  void add(const scenario::Expect& expect) {
    Value workloads = object();
    for (const scenario::ExpectWorkload& one : expect.workloads) {
      workloads.add(one.uid.text, workload(one));
    }
    Value devices = object();
    for (const scenario::ExpectFigures& one : expect.devices) {
      devices.add(world_.uuid_of(one.subject.text).value_or(one.subject.text), figures(one));
    }
    Value nodes = object();
    for (const scenario::ExpectFigures& one : expect.nodes) {
      nodes.add(one.subject.text, figures(one));
    }
    add_deed("expect", object({{"workloads", std::move(workloads)},
                               {"devices", std::move(devices)},
                               {"nodes", std::move(nodes)}}));
  }

  template <typename Other>
  void add(const Other&) {}  // not_for_pods() leaves none

  // As the language writes them: memory in MiB, words as they are.
  static Value figures(const scenario::ExpectFigures& page) {
    Value value = object();
    for (const scenario::ExpectFigures::Figure& figure : page.figures) {
      const bool memory = figure.wanted.ends_with("iB");
      value.add(figure.name, figure.is_word ? Value(figure.word)
                             : memory       ? Value(Memory::bytes(figure.number).floor_mib())
                                            : Value(figure.number));
    }
    return value;
  }

  Value workload(const scenario::ExpectWorkload& one) const {
    Value value = object();
    const auto mib = [&](std::string_view name, const std::optional<Memory>& amount) {
      if (amount) value.add(name, amount->floor_mib());
    };
    const auto text = [&](std::string_view name, const std::optional<std::string>& said) {
      if (said) value.add(name, *said);
    };
    const auto uuid = [&](const std::string& name) { return world_.uuid_of(name).value_or(name); };
    if (one.state) value.add("state", scenario::state_name(*one.state));
    text("cause", one.cause);
    text("reason", one.reason);
    text("stage", one.stage);
    text("node", one.node);
    text("summary", one.summary);
    mib("request", one.request);
    mib("limit", one.limit);
    mib("need", one.need);
    mib("largest_free", one.largest_free);
    mib("free_total", one.free_total);
    if (one.largest_free_on) value.add("largest_free_on", uuid(*one.largest_free_on));
    if (one.on) {
      json::Array devices;
      for (const std::string& device : *one.on) {
        devices.emplace_back(uuid(device));
      }
      value.add("on", std::move(devices));
    }
    if (one.nodes) {
      Value counts = object();
      for (const auto& [cause, count] : *one.nodes) {
        counts.add(cause, count);
      }
      value.add("nodes", std::move(counts));
    }
    json::Array says;
    for (const std::string& part : one.says.value_or(std::vector<std::string>{})) {
      says.emplace_back(part);
    }
    value.add("says", std::move(says));
    value.add("annotations", text_map(one.annotations));
    Value env = object();
    for (const auto& [container, variables] : one.env) {
      env.add(container, text_map(variables));
    }
    value.add("env", std::move(env));
    return value;
  }

  const Script& script_;
  scenario::World world_;
  json::Array deeds_;
  int line_ = 0;
};

std::string why_not(const scenario::Deed& deed) {
  if (const auto* submit = std::get_if<scenario::Submit>(&deed)) {
    return submit->gang ? "gangs are not for pods yet" : "";
  }
  if (const auto* one = std::get_if<scenario::WorkloadDeed>(&deed)) {
    using Verb = scenario::WorkloadVerb;
    const bool possible = one->verb == Verb::cancel || one->verb == Verb::end ||
                          one->verb == Verb::releasing || one->verb == Verb::initialized;
    return possible ? "" : "a pod cannot be lost, confirmed or queued again by a scenario";
  }
  const bool played = std::holds_alternative<scenario::Adopt>(deed) ||
                      std::holds_alternative<scenario::Edit>(deed) ||
                      std::holds_alternative<scenario::Restart>(deed) ||
                      std::holds_alternative<scenario::Expect>(deed);
  return played ? "" : "a step that has no meaning for pods";
}

}  // namespace

std::string not_for_pods(const Script& script) {
  for (const scenario::Step& step : script.steps) {
    if (step.advance || step.at) return "virtual time";
    for (const scenario::Deed& deed : step.deeds) {
      if (std::string why = why_not(deed); !why.empty()) return why;
    }
  }
  return "";
}

Result<json::Value> stories_of(std::string_view text, std::string_view file_name) {
  TRY(const std::vector<Script> scripts, scenario::parse_scripts(text, file_name));
  TRY(const std::vector<yaml::Node> documents, yaml::parse(text, file_name));
  json::Array stories;
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    stories.push_back(Teller(scripts[i]).tell(documents[i]));
  }
  return Value(std::move(stories));
}

}  // namespace berth::kube
