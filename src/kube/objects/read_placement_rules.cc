// Required affinity, anti-affinity and spread of a pod (kubernetes-api.md 13, rules 3, 12, 13).
#include <fmt/format.h>

#include "kube/objects/fields.h"

namespace berth::kube {

using json::Element;

namespace {

constexpr std::string_view kRequired = "requiredDuringSchedulingIgnoredDuringExecution";

void read_node_affinity(Element from, Pod& pod, Fields& fields) {
  const std::string_view path = "spec.affinity.nodeAffinity";
  pod.node_terms = read_node_terms(from[kRequired]["nodeSelectorTerms"], path, fields);
  for (const Selector& term : pod.node_terms) {
    if (!term.unknown.empty()) {
      pod.unsupported.push_back(fmt::format("{} ({})", path, term.unknown));
    }
  }
}

std::vector<PodAffinityTerm> read_pod_terms(Element from, std::string_view path, Pod& pod,
                                            Fields& fields) {
  std::vector<PodAffinityTerm> terms;
  for (const Element item : fields.list(from[kRequired], path).items()) {
    PodAffinityTerm term;
    term.selector = read_label_selector(item["labelSelector"], path, true, fields);
    term.namespaces = fields.texts(item["namespaces"], path);
    if (item["namespaceSelector"].exists()) {
      term.namespace_selector = read_label_selector(item["namespaceSelector"], path, true, fields);
    }
    term.topology_key = fields.text(item["topologyKey"], path);
    term.match_label_keys = fields.texts(item["matchLabelKeys"], path);
    term.mismatch_label_keys = fields.texts(item["mismatchLabelKeys"], path);
    std::string unknown = term.selector.unknown;
    if (unknown.empty() && term.namespace_selector) {
      unknown = term.namespace_selector->unknown;
    }
    if (unknown.empty() && term.topology_key.empty()) {
      unknown = "no topologyKey";
    }
    if (!unknown.empty()) {
      pod.unsupported.push_back(fmt::format("{} ({})", path, unknown));
    }
    terms.push_back(std::move(term));
  }
  return terms;
}

// "Honor" or "Ignore"; anything else is named in `unknown`.
bool honors(Element from, bool absent, std::string_view path, std::string& unknown,
            Fields& fields) {
  const std::string policy = fields.text(from, path);
  if (!policy.empty() && policy != "Honor" && policy != "Ignore") {
    unknown = policy;
  }
  return policy.empty() ? absent : policy == "Honor";
}

void read_spread(Element list, Pod& pod, Fields& fields) {
  const std::string_view path = "spec.topologySpreadConstraints";
  for (const Element from : fields.list(list, path).items()) {
    SpreadConstraint rule;
    const std::string when = fields.text(from["whenUnsatisfiable"], path);
    rule.hard = when != "ScheduleAnyway";
    std::string unknown = when == "DoNotSchedule" || !rule.hard ? "" : when;
    rule.max_skew = fields.integer(from["maxSkew"], path, 1);
    rule.min_domains = fields.integer(from["minDomains"], path, 1);
    rule.topology_key = fields.text(from["topologyKey"], path);
    rule.selector = read_label_selector(from["labelSelector"], path, true, fields);
    rule.honor_node_affinity = honors(from["nodeAffinityPolicy"], true, path, unknown, fields);
    rule.honor_node_taints = honors(from["nodeTaintsPolicy"], false, path, unknown, fields);
    rule.match_label_keys = fields.texts(from["matchLabelKeys"], path);
    if (unknown.empty()) {
      unknown = rule.selector.unknown;
    }
    if (rule.hard && !unknown.empty()) {
      pod.unsupported.push_back(fmt::format("{} ({})", path, unknown));
    }
    pod.spread.push_back(std::move(rule));
  }
}

}  // namespace

void read_placement_rules(Element spec, Pod& pod, Fields& fields) {
  const Element affinity = fields.object(spec["affinity"], "spec.affinity");
  read_node_affinity(affinity["nodeAffinity"], pod, fields);
  pod.affinity = read_pod_terms(affinity["podAffinity"], "spec.affinity.podAffinity", pod, fields);
  pod.anti_affinity =
      read_pod_terms(affinity["podAntiAffinity"], "spec.affinity.podAntiAffinity", pod, fields);
  read_spread(spec["topologySpreadConstraints"], pod, fields);
}

}  // namespace berth::kube
