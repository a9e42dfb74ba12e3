// The `config:`, `queues:` and top-level sections.
#include <array>
#include <utility>

#include <fmt/format.h>

#include "config/queue_file.h"
#include "scenario/sections.h"

namespace berth::scenario {

namespace {

using core::EngineConfig;

constexpr std::array kAgingKeys = {
    Key<EngineConfig>{
        {"step", "duration", "one point of priority more for each step of waiting", "10min", true},
        [](const Value& value, EngineConfig& config) -> Result<void> {
          TRY(config.aging_step, value.duration());
          if (config.aging_step.count() == 0) return value.error("must be above zero");
          return success();
        }},
    Key<EngineConfig>{{"max", "number", "at most so many points; 0 = no aging", "10", true},
                      [](const Value& value, EngineConfig& config) -> Result<void> {
                        TRY(config.aging_max, value.number(0, 1'000'000));
                        return success();
                      }},
};

constexpr std::array kConfigKeys = {
    Key<EngineConfig>{{"policy", "text",
                       "how places are chosen: a name of `berth policies`, or "
                       "`nodes=X,devices=Y` with X and Y of pack, spread; `pack` when not said",
                       "spread"},
                      [](const Value& value, EngineConfig& config) -> Result<void> {
                        TRY(config.policy, value.word());
                        return success();
                      }},
    Key<EngineConfig>{{"policy_seed", "number", "for the policy `random`", "42"},
                      [](const Value& value, EngineConfig& config) -> Result<void> {
                        TRY(const std::int64_t seed, value.number(0, 1'000'000'000'000));
                        config.policy_seed = static_cast<std::uint64_t>(seed);
                        return success();
                      }},
    Key<EngineConfig>{{"max_sample_age", "duration",
                       "nothing new is granted on a device whose last "
                       "observation is older; when not said, no observation is needed",
                       "30s"},
                      [](const Value& value, EngineConfig& config) -> Result<void> {
                        TRY(config.max_sample_age, value.duration());
                        return success();
                      }},
    Key<EngineConfig>{{"limit_overcommit_percent", "percent",
                       "the limits on a device sum to at most "
                       "this part of its usable memory; 200 when not said",
                       "150"},
                      [](const Value& value, EngineConfig& config) -> Result<void> {
                        TRY(config.limit_overcommit_percent, value.number(100, 100'000));
                        return success();
                      }},
    Key<EngineConfig>{{"device_cap", "number", "at most so many grants on one shared device", "1"},
                      [](const Value& value, EngineConfig& config) -> Result<void> {
                        TRY(const std::int64_t cap, value.number(1, 1'000'000));
                        config.device_cap = static_cast<int>(cap);
                        return success();
                      }},
    Key<EngineConfig>{{"reservations", "true or false",
                       "whether the first that waits keeps a place that "
                       "others may only use until it is due; true when not said",
                       "false"},
                      [](const Value& value, EngineConfig& config) -> Result<void> {
                        TRY(config.reservations, value.truth());
                        return success();
                      }},
    Key<EngineConfig>{{"aging", "map",
                       "how waiting raises priority; one point each 10min, at most 10, "
                       "when not said",
                       "{step: 10min, max: 10}"},
                      [](const Value& value, EngineConfig& config) -> Result<void> {
                        return read_section(aging_section(), value, config);
                      }},
    Key<EngineConfig>{{"releasing_horizon", "duration",
                       "how long the room of a task that is being "
                       "deleted is promised to others; 2min when not said",
                       "2min"},
                      [](const Value& value, EngineConfig& config) -> Result<void> {
                        TRY(config.releasing_horizon, value.duration());
                        return success();
                      }},
    Key<EngineConfig>{{"whole_foreign_max", "memory",
                       "a whole device may carry so much foreign use; "
                       "the larger of 512 MiB and 2 % of the total when not said",
                       "1GiB"},
                      [](const Value& value, EngineConfig& config) -> Result<void> {
                        TRY(config.whole_foreign_max, value.memory());
                        return success();
                      }},
};

// Every model that some device of the scenario has, now or later: the classes of dimensions.
std::vector<std::string> classes_of(const Script& script) {
  std::vector<core::Node> nodes = script.fleet;
  for (const Step& step : script.steps) {
    for (const Deed& deed : step.deeds) {
      if (const auto* add = std::get_if<AddNode>(&deed)) nodes.push_back(add->node);
      if (const auto* add = std::get_if<AddDevice>(&deed)) {
        nodes.emplace_back().devices = add->devices;
      }
    }
  }
  return device_classes(nodes);
}

Result<core::QueueConfig> read_tree(const Value& document,
                                    const std::vector<std::string>& classes) {
  config::QueueReader reader;
  reader.add_document(document);
  config::QueueFile file = std::move(reader).finish(classes);
  if (file.refused()) return file.refusals();
  return std::move(file.config);
}

// The trees of all steps; read once everything else is known.
Result<void> read_later_queues(const Value& document, const std::vector<std::string>& classes,
                               Script& script) {
  const yaml::Node* steps = document.node().find("steps");
  if (steps == nullptr) return success();
  TRY(const std::vector<Value> items, document.inner(*steps, "steps").items());
  for (std::size_t i = 0; i < script.steps.size() && i < items.size(); ++i) {
    for (Deed& deed : script.steps[i].deeds) {
      auto* change = std::get_if<ChangeQueues>(&deed);
      if (change == nullptr) continue;
      // A step has the key once, and none other that the reader of queues knows.
      TRY(core::QueueConfig config, read_tree(items[i], classes));
      change->queues = std::move(config.queues);
    }
  }
  return success();
}

Result<void> read_queues(const Value& document, Script& script) {
  const std::vector<std::string> classes = classes_of(script);
  TRY_VOID(read_later_queues(document, classes, script));
  if (document.node().find(config::kQueuesKey.name) == nullptr) {
    const yaml::Node* rule = document.node().find(config::kPriorityRuleKey.name);
    if (rule == nullptr) return success();
    return document.inner(*rule, config::kPriorityRuleKey.name)
        .error("it says nothing without `queues`: list them, or leave it out");
  }
  TRY(script.queues, read_tree(document, classes));
  return success();
}

Result<void> read_later(const Value& /*value*/, Script& /*script*/) { return success(); }

constexpr std::array kScriptKeys = {
    Key<Script>{{"about", "text", "what the scenario shows, in a sentence",
                 "two tasks share a device", true},
                [](const Value& value, Script& script) -> Result<void> {
                  TRY(script.about, value.word());
                  return success();
                }},
    Key<Script>{{"fleet", "text or fleet", "the machines", "n0=2x16GiB", true},
                [](const Value& value, Script& script) -> Result<void> {
                  return read_fleet(value, script);
                }},
    Key<Script>{{"config", "map", "how the engine is set", "{policy: spread}"},
                [](const Value& value, Script& script) -> Result<void> {
                  return read_config(value, script.config);
                }},
    Key<Script>{config::kQueuesKey, read_later},
    Key<Script>{config::kPriorityRuleKey, read_later},
    Key<Script>{{"topologies", "list of topology",
                 "how labels of nodes divide the fleet; gangs name their levels",
                 "[{name: racks, levels: [zone, rack]}]"},
                [](const Value& value, Script& script) -> Result<void> {
                  TRY(script.topologies, read_topologies(value));
                  return success();
                }},
    Key<Script>{{"eviction_grace", "duration",
                 "how long work that is told to leave is still there; 0s when not said: it is gone "
                 "before anything else happens. After that what is restartable waits again, the "
                 "rest has ended",
                 "30s"},
                [](const Value& value, Script& script) -> Result<void> {
                  TRY(script.eviction_grace, value.duration());
                  return success();
                }},
    Key<Script>{
        {"load", "map",
         "generated work, for `berth simulate --load` alone: beside `steps` it is refused", "{}"},
        [](const Value& value, Script& /*script*/) -> Result<void> {
          if (value.node().is_map() && value.node().entries.empty()) return success();
          return value.error(
              "a load is played by `berth simulate --fleet FILE --load FILE`, not by a "
              "scenario; write submit steps here, with uid: job-1..9 for several of the "
              "same");
        }},
    Key<Script>{{"steps", "list of step", "what happens and what is expected, in time order",
                 "[{submit: {uid: a, gpu_memory: 4GiB}}]", true},
                [](const Value& value, Script& script) -> Result<void> {
                  TRY(std::vector<Value> items, value.items());
                  for (const Value& item : items) {
                    Step step{.place = item.place()};
                    TRY_VOID(read_section(step_section(), item, step));
                    script.steps.push_back(std::move(step));
                  }
                  return success();
                }},
};

constexpr Section<EngineConfig> kAging{"aging", "How waiting raises priority.", kAgingKeys};
constexpr Section<EngineConfig> kConfig{"config", "How the engine is set.", kConfigKeys};
constexpr Section<Script> kScript{"scenario", "The whole file, or one document of it.",
                                  kScriptKeys};

}  // namespace

const Section<EngineConfig>& aging_section() { return kAging; }

const Section<EngineConfig>& config_section() { return kConfig; }

const Section<Script>& script_section() { return kScript; }

Result<void> read_config(const Value& value, EngineConfig& config) {
  TRY_VOID(read_section(config_section(), value, config));
  const auto engine = core::Engine::create(config);
  if (engine.ok()) return success();
  // Each figure was checked by its own reader; what is left to be wrong is the policy.
  const yaml::Node* policy = value.node().find("policy");
  return (policy == nullptr ? value : value.inner(*policy, "policy"))
      .error(engine.error().message());
}

Result<std::vector<Script>> parse_scripts(std::string_view text, std::string_view file_name) {
  TRY(const std::vector<yaml::Node> documents, yaml::parse(text, file_name));
  if (documents.empty()) {
    return yaml::error_at(file_name, 1, 1,
                          "the file is empty: a scenario has about, fleet and steps");
  }
  std::vector<Script> scripts;
  for (const yaml::Node& document : documents) {
    Script script{.file = std::string(file_name), .place = {document.line, document.column}};
    const Value value(document, "scenario", file_name);
    TRY_VOID(read_section(script_section(), value, script));
    TRY_VOID(read_queues(value, script));
    scripts.push_back(std::move(script));
  }
  return scripts;
}

}  // namespace berth::scenario
