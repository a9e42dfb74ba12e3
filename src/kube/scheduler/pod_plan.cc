#include "kube/scheduler/pod_plan.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kube/scheduler/others.h"

namespace berth::kube {

namespace {

constexpr std::string_view kQueueLabel = "berth.dev/queue";
constexpr std::string_view kPreemptible = "berth.dev/preemptible";
constexpr std::string_view kVisibleDevices = "NVIDIA_VISIBLE_DEVICES";

PodPlan::Refusal refusal(std::string message) {
  return {.reason = "SchedulerError", .message = std::move(message)};
}

// A hard rule that nobody evaluates here; empty: there is none.
std::string unsupported(const Pod& pod) {
  std::vector<std::string> fields = pod.unsupported;
  if (!pod.resource_claims.empty()) {
    fields.emplace_back("spec.resourceClaims");
  }
  if (!pod.scheduling_group.empty()) {
    fields.emplace_back("spec.schedulingGroup");
  }
  std::string text;
  for (const std::string& field : fields) {
    text += (text.empty() ? "" : ", ") + field;
  }
  return text.empty() ? text : "unsupported constraint: " + text;
}

// The container whose environment does not say where its device's name comes from, or empty. It
// would see whatever its image says: often every device of the node.
std::string not_admitted(const Pod& pod, const core::Request& request, bool assigns_whole) {
  const auto is_told_its_device = [&](std::string_view name) {
    const auto ask = std::ranges::find(request.containers(), name, &core::ContainerAsk::name);
    return ask != request.containers().end() &&
           (ask->gpu.is_share() || (assigns_whole && ask->gpu.is_exclusive()));
  };
  for (const request::ContainerWords& container : pod.words.containers) {
    const bool injected = std::ranges::any_of(container.env, [](const request::EnvWord& env) {
      return env.name == kVisibleDevices && !env.field_path.empty();
    });
    if (!injected && is_told_its_device(container.name)) {
      return container.name;
    }
  }
  return {};
}

// Names that a term leaves by `metadata.name In […]`; false: it says something else of fields.
bool names_of(const Selector& term, std::vector<std::string>& names) {
  for (const core::LabelRule& rule : term.fields) {
    if (rule.key != "metadata.name" || rule.op != core::LabelRule::Op::in || !names.empty()) {
      return false;
    }
    names = rule.values;
  }
  return true;
}

// A node affinity of one plain term is the engine's own business.
bool give_to_engine(const Pod& pod, core::NodeConstraints& nodes) {
  if (pod.node_terms.size() != 1) {
    return false;
  }
  const Selector& term = pod.node_terms.front();
  std::vector<std::string> names;
  if ((term.rules.empty() && term.fields.empty()) || term.matches_nothing ||
      !names_of(term, names)) {
    return false;
  }
  if (!term.fields.empty()) {
    if (names.empty() || !nodes.names.empty()) {
      return false;
    }
    nodes.names = std::move(names);
  }
  nodes.labels.insert(nodes.labels.end(), term.rules.begin(), term.rules.end());
  return true;
}

RulesRef rules_of(const Pod& pod, bool terms_in_engine) {
  PodRules rules;
  const bool spreads = std::ranges::any_of(pod.spread, &SpreadConstraint::hard);
  rules.terms_apply = !terms_in_engine && !pod.node_terms.empty();
  if (rules.terms_apply || spreads) {
    rules.node_terms = pod.node_terms;
  }
  if (spreads) {
    rules.node_selector = pod.words.node_selector;
    rules.tolerations = pod.words.tolerations;
    rules.spread = pod.spread;
  }
  rules.affinity = pod.affinity;
  rules.anti_affinity = pod.anti_affinity;
  rules.ports = pod.host_ports;
  rules.volumes = pod.volumes;
  rules.features = pod.required_features;
  const bool none = !rules.terms_apply && !spreads && rules.affinity.empty() &&
                    rules.anti_affinity.empty() && rules.ports.empty() && rules.volumes.empty() &&
                    rules.features.empty();
  return none ? nullptr : std::make_shared<const PodRules>(std::move(rules));
}

void read_request(const Pod& pod, const PlanRules& rules, PodPlan& plan) {
  request::PodOutcome outcome = request::read_pod(pod.words, rules.grammar);
  if (!outcome.ok()) {
    std::string text;
    for (const request::Finding& error : outcome.errors) {
      text += (text.empty() ? "" : "; ") + error.text();
    }
    plan.refusal = refusal(std::move(text));
    return;
  }
  if (rules.must_be_admitted) {
    const std::string name = not_admitted(pod, *outcome.request, rules.assigns_whole);
    if (!name.empty()) {
      plan.refusal = refusal(
          fmt::format("NotAdmitted: container {} has no environment that names its device, which "
                      "Berth's webhook adds; see that the webhook runs{}, then delete the pod and "
                      "make it again",
                      name, rules.assigns_whole ? " with the scheduler's own configuration" : ""));
      return;
    }
  }
  core::RequestSpec spec = outcome.request->spec();
  spec.cpu = Milli{plan.takes.cpu_milli};
  spec.ram = Memory::bytes(plan.takes.ram_bytes);
  plan.rules = rules_of(pod, give_to_engine(pod, spec.nodes));
  auto request = core::Request::create(std::move(spec));
  if (!request.ok()) {
    plan.refusal = refusal(request.error().message());
    return;
  }
  plan.request = *std::move(request);
  if (plan.request.wants_gpu()) {
    plan.words = pod.words;
  }
}

}  // namespace

std::string queue_of(const Pod& pod) {
  const auto label = pod.meta.labels.find(std::string(kQueueLabel));
  return label == pod.meta.labels.end() ? "default" : label->second;
}

bool is_preemptible(const Pod& pod) {
  const auto said = pod.meta.annotations.find(std::string(kPreemptible));
  return said != pod.meta.annotations.end() && said->second == "true";
}

PodPlan make_plan(const Pod& pod, const PlanRules& rules) {
  PodPlan plan;
  plan.options.queue = queue_of(pod);
  plan.options.priority = pod.priority;
  plan.options.preemptible = is_preemptible(pod);
  plan.options.restartable = !pod.meta.owner_kind.empty();
  if (std::string text = unsupported(pod); !text.empty()) {
    plan.refusal = refusal(std::move(text));
    return plan;
  }
  auto takes = footprint_of(pod);
  if (!takes.ok()) {
    plan.refusal = refusal(takes.error().message());
    return plan;
  }
  plan.takes = *std::move(takes);
  read_request(pod, rules, plan);
  return plan;
}

// --- equal plans once -----------------------------------------------------------------------

namespace {

// Everything that a plan is made of, as one text: equal texts are equal plans.
class Print {
 public:
  std::string of(const Pod& pod) {
    pair("q", queue_of(pod));
    number(pod.priority);
    number(is_preemptible(pod) ? 1 : 0);
    number(pod.meta.owner_kind.empty() ? 0 : 1);
    map(pod.words.annotations);
    for (const request::ContainerWords& container : pod.words.containers) {
      text(container.name);
      number(static_cast<std::int64_t>(container.kind));
      number(container.privileged ? 1 : 0);
      map(container.limits);
      map(container.requests);
      for (const request::EnvWord& env : container.env) {
        pair(env.name, env.field_path);
      }
      mark();
    }
    map(pod.words.node_selector);
    for (const core::Toleration& toleration : pod.words.tolerations) {
      pair(toleration.key, toleration.value);
      pair(toleration.effect, toleration.exists ? "+" : "-");
    }
    map(pod.overhead);
    map(pod.pod_requests);
    list(pod.required_features);
    list(pod.unsupported);
    list(pod.resource_claims);
    text(pod.scheduling_group);
    rules(pod);
    return std::move(out_);
  }

 private:
  void rules(const Pod& pod) {
    for (const Selector& term : pod.node_terms) {
      selector(term);
    }
    mark();
    terms(pod.affinity);
    terms(pod.anti_affinity);
    for (const SpreadConstraint& spread : pod.spread) {
      number(spread.max_skew);
      number(spread.min_domains);
      text(spread.topology_key);
      number((spread.hard ? 1 : 0) + (spread.honor_node_affinity ? 2 : 0) +
             (spread.honor_node_taints ? 4 : 0));
      selector(spread.selector);
      list(spread.match_label_keys);
    }
    mark();
    for (const HostPort& port : pod.host_ports) {
      pair(port.protocol, port.ip);
      number(port.port);
    }
    for (const PodVolume& volume : pod.volumes) {
      pair(volume.name, volume.claim);
      number((volume.ephemeral ? 1 : 0) + (volume.read_only ? 2 : 0));
    }
  }

  void terms(const std::vector<PodAffinityTerm>& list_of_terms) {
    for (const PodAffinityTerm& term : list_of_terms) {
      selector(term.selector);
      list(term.namespaces);
      number(term.namespace_selector.has_value() ? 1 : 0);
      if (term.namespace_selector.has_value()) {
        selector(*term.namespace_selector);
      }
      text(term.topology_key);
      list(term.match_label_keys);
      list(term.mismatch_label_keys);
    }
    mark();
  }

  void selector(const Selector& one) {
    number(one.matches_nothing ? 1 : 0);
    for (const auto* list_of_rules : {&one.rules, &one.fields}) {
      for (const core::LabelRule& rule : *list_of_rules) {
        text(rule.key);
        number(static_cast<std::int64_t>(rule.op));
        list(rule.values);
      }
      mark();
    }
  }

  void list(const std::vector<std::string>& texts) {
    for (const std::string& one : texts) {
      text(one);
    }
    mark();
  }

  void map(const Labels& labels) {
    for (const auto& [key, value] : labels) {
      pair(key, value);
    }
    mark();
  }

  void pair(std::string_view a, std::string_view b) {
    text(a);
    text(b);
  }

  // With its length, so that no two lists of texts run into each other.
  void text(std::string_view one) {
    number(static_cast<std::int64_t>(one.size()));
    out_ += one;
  }

  void number(std::int64_t one) { fmt::format_to(std::back_inserter(out_), "{}:", one); }

  void mark() { out_ += ';'; }

  std::string out_;
};

}  // namespace

std::shared_ptr<const PodPlan> PlanShop::get(const Pod& pod, const PlanRules& rules) {
  std::string print = Print().of(pod);
  if (const auto found = plans_.find(print); found != plans_.end()) {
    if (std::shared_ptr<const PodPlan> known = found->second.lock()) {
      return known;
    }
  }
  if (plans_.size() >= sweep_at_) {
    std::erase_if(plans_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = std::max<std::size_t>(1024, plans_.size() * 2);
  }
  auto plan = std::make_shared<PodPlan>(make_plan(pod, rules));
  plan->words.namespace_name.clear();
  plan->words.name.clear();
  plan->words.labels.clear();
  plans_[std::move(print)] = plan;
  return plan;
}

}  // namespace berth::kube
