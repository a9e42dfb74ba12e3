// Rules between pods: affinity, anti-affinity both ways, spread.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "core/placement/rules.h"
#include "kube/scheduler/place_rules.h"
#include "kube/scheduler/selectors.h"

namespace berth::kube {

namespace {

// The label that says in which domain a node is; null where it is in none.
const std::string* domain_of(const NodeFacts& node, const std::string& key) {
  const auto found = node.labels.find(key);
  return found == node.labels.end() ? nullptr : &found->second;
}

// The namespaces that a term of a pod in `home` is about.
bool concerns(const Census& census, const PodAffinityTerm& term, std::string_view home,
              const std::string& other) {
  if (term.namespaces.empty() && !term.namespace_selector.has_value()) {
    return home == other;
  }
  if (std::ranges::find(term.namespaces, other) != term.namespaces.end()) {
    return true;
  }
  if (!term.namespace_selector.has_value()) {
    return false;
  }
  const auto labels = census.namespaces.find(other);
  static const Labels kNone;
  return matches(*term.namespace_selector,
                 labels == census.namespaces.end() ? kNone : labels->second);
}

// `owner`: labels of the pod whose term it is. The API server folds the keys into the selector by
// itself since 1.33; doing it twice changes nothing.
bool selects(const PodAffinityTerm& term, const Labels& owner, const Labels& labels) {
  const auto same = [&](const std::string& key) {
    const auto mine = owner.find(key);
    const auto other = labels.find(key);
    return mine == owner.end() || (other != labels.end() && other->second == mine->second);
  };
  const auto differs = [&](const std::string& key) {
    const auto mine = owner.find(key);
    const auto other = labels.find(key);
    return mine == owner.end() || other == labels.end() || other->second != mine->second;
  };
  return matches(term.selector, labels) && std::ranges::all_of(term.match_label_keys, same) &&
         std::ranges::all_of(term.mismatch_label_keys, differs);
}

bool meets(const Census& census, const PodAffinityTerm& term, std::string_view home,
           const Labels& owner, const std::string& namespace_name, const Labels& labels) {
  return concerns(census, term, home, namespace_name) && selects(term, owner, labels);
}

// Pods of the group on the node, without the pod itself.
std::int64_t others_on(const PodGroup& group, NodeIndex node, std::int64_t count,
                       const PodFacts& pod) {
  return count - (pod.group == &group && pod.node == node ? 1 : 0);
}

// Nodes in none of the closed domains.
class Away : public PlaceRule {
 public:
  Away(const Census& census, std::map<std::string, std::set<std::string>> closed)
      : census_(census), closed_(std::move(closed)) {}

  bool passes(NodeIndex index) const override {
    const NodeFacts& node = census_.node(index);
    return std::ranges::none_of(closed_, [&](const auto& entry) {
      const std::string* value = domain_of(node, entry.first);
      return value != nullptr && entry.second.contains(*value);
    });
  }

 private:
  const Census& census_;
  std::map<std::string, std::set<std::string>> closed_;
};

using Closed = std::map<std::string, std::set<std::string>>;

ReadyRule away(const Census& census, Closed closed) {
  return {.rule = std::make_unique<Away>(census, std::move(closed))};
}

class Near : public PlaceRule {
 public:
  Near(const Census& census, const PodRules& rules, std::vector<std::set<std::string>> open,
       bool first)
      : census_(census), rules_(rules), open_(std::move(open)), first_(first) {}

  bool passes(NodeIndex index) const override {
    const NodeFacts& node = census_.node(index);
    for (std::size_t i = 0; i < rules_.affinity.size(); ++i) {
      const std::string* value = domain_of(node, rules_.affinity[i].topology_key);
      if (value == nullptr || (!first_ && !open_[i].contains(*value))) {
        return false;
      }
    }
    return true;
  }

 private:
  const Census& census_;
  const PodRules& rules_;
  std::vector<std::set<std::string>> open_;  // by term: domains in which one is
  bool first_;                               // of a group that wants its own kind near
};

}  // namespace

// A pod counts for all terms or for none; the first of a group that wants its own kind is free.
ReadyRule ready_affinity(const Census& census, const PodFacts& pod) {
  if (pod.rules == nullptr || pod.rules->affinity.empty()) {
    return {};
  }
  const PodRules& rules = *pod.rules;
  const auto wanted = [&](const std::string& namespace_name, const Labels& labels) {
    return std::ranges::all_of(rules.affinity, [&](const PodAffinityTerm& term) {
      return meets(census, term, pod.namespace_name(), *pod.labels, namespace_name, labels);
    });
  };
  std::vector<std::set<std::string>> open(rules.affinity.size());
  bool any = false;
  for (const auto& [key, group] : census.groups()) {
    if (!wanted(group.namespace_name, *group.labels)) {
      continue;
    }
    for (const auto& [node, count] : group.on) {
      if (others_on(group, node, count.all, pod) <= 0) {
        continue;
      }
      for (std::size_t i = 0; i < rules.affinity.size(); ++i) {
        const std::string* value = domain_of(census.node(node), rules.affinity[i].topology_key);
        if (value != nullptr) {
          open[i].insert(*value);
          any = true;
        }
      }
    }
  }
  const bool first = !any && wanted(std::string(pod.namespace_name()), *pod.labels);
  return {.rule = std::make_unique<Near>(census, rules, std::move(open), first)};
}

ReadyRule ready_anti_affinity(const Census& census, const PodFacts& pod) {
  if (pod.rules == nullptr || pod.rules->anti_affinity.empty()) {
    return {};
  }
  Closed closed;
  for (const auto& [key, group] : census.groups()) {
    for (const PodAffinityTerm& term : pod.rules->anti_affinity) {
      if (!meets(census, term, pod.namespace_name(), *pod.labels, group.namespace_name,
                 *group.labels)) {
        continue;
      }
      for (const auto& [node, count] : group.on) {
        const std::string* value = domain_of(census.node(node), term.topology_key);
        if (value != nullptr && others_on(group, node, count.all, pod) > 0) {
          closed[term.topology_key].insert(*value);
        }
      }
    }
  }
  return away(census, std::move(closed));
}

ReadyRule ready_others_anti_affinity(const Census& census, const PodFacts& pod) {
  Closed closed;
  bool met = false;
  const std::string home(pod.namespace_name());
  for (const PodFacts* other : census.guarded()) {
    if (other == &pod) {
      continue;
    }
    for (const PodAffinityTerm& term : other->rules->anti_affinity) {
      if (!meets(census, term, other->namespace_name(), *other->labels, home, *pod.labels)) {
        continue;
      }
      met = true;
      if (const std::string* value = domain_of(census.node(other->node), term.topology_key)) {
        closed[term.topology_key].insert(*value);
      }
    }
  }
  return met ? away(census, std::move(closed)) : ReadyRule();
}

namespace {

bool selects(const SpreadConstraint& rule, const Labels& owner, const Labels& labels) {
  return matches(rule.selector, labels) &&
         std::ranges::all_of(rule.match_label_keys, [&](const std::string& key) {
           const auto mine = owner.find(key);
           const auto other = labels.find(key);
           return mine == owner.end() || (other != labels.end() && other->second == mine->second);
         });
}

// Whether a node counts for a constraint at all.
bool counts(const NodeFacts& node, const PodRules& rules, const SpreadConstraint& rule) {
  if (!node.present || std::ranges::any_of(rules.spread, [&](const SpreadConstraint& any) {
        return any.hard && domain_of(node, any.topology_key) == nullptr;
      })) {
    return false;
  }
  if (rule.honor_node_affinity) {
    const bool selected = std::ranges::all_of(rules.node_selector, [&](const auto& label) {
      const auto found = node.labels.find(label.first);
      return found != node.labels.end() && found->second == label.second;
    });
    if (!selected || !matches_any(rules.node_terms, node.labels, node.name)) {
      return false;
    }
  }
  if (rule.honor_node_taints) {
    core::Node tainted;
    tainted.taints = node.taints;
    core::NodeConstraints tolerant;
    tolerant.tolerations = rules.tolerations;
    return core::constraint_refusal(tolerant, tainted) == core::Cause::none;
  }
  return true;
}

class Spread : public PlaceRule {
 public:
  struct Part {
    const SpreadConstraint* rule = nullptr;
    std::map<std::string, std::int64_t> count = {};  // by domain
    std::int64_t least = 0;
    std::int64_t self = 0;
  };

  Spread(const Census& census, std::vector<Part> parts)
      : census_(census), parts_(std::move(parts)) {}

  bool passes(NodeIndex index) const override {
    return std::ranges::all_of(parts_, [&](const Part& part) {
      const std::string* value = domain_of(census_.node(index), part.rule->topology_key);
      if (value == nullptr) {
        return false;
      }
      const auto found = part.count.find(*value);
      const std::int64_t there = found == part.count.end() ? 0 : found->second;
      return there + part.self - part.least <= part.rule->max_skew;
    });
  }

 private:
  const Census& census_;
  std::vector<Part> parts_;
};

Spread::Part spread_part(const Census& census, const PodFacts& pod, const SpreadConstraint& rule) {
  Spread::Part part{.rule = &rule};
  part.self = selects(rule, *pod.labels, *pod.labels) ? 1 : 0;
  std::vector<bool> eligible(census.node_slots());
  for (NodeIndex i = 0; i < census.node_slots(); ++i) {
    eligible[i] = counts(census.node(i), *pod.rules, rule);
    if (eligible[i]) {
      part.count.try_emplace(*domain_of(census.node(i), rule.topology_key), 0);
    }
  }
  for (const auto& [key, group] : census.groups()) {
    if (group.namespace_name != pod.namespace_name() ||
        !selects(rule, *pod.labels, *group.labels)) {
      continue;
    }
    for (const auto& [node, count] : group.on) {
      if (eligible[node]) {
        part.count[*domain_of(census.node(node), rule.topology_key)] +=
            others_on(group, node, count.all - count.deleting, pod);
      }
    }
  }
  if (std::ssize(part.count) >= rule.min_domains && !part.count.empty()) {
    part.least = std::ranges::min_element(part.count, {}, [](const auto& domain) {
                   return domain.second;
                 })->second;
  }
  return part;
}

}  // namespace

ReadyRule ready_spread(const Census& census, const PodFacts& pod) {
  if (pod.rules == nullptr) {
    return {};
  }
  std::vector<Spread::Part> parts;
  for (const SpreadConstraint& rule : pod.rules->spread) {
    if (rule.hard) {
      parts.push_back(spread_part(census, pod, rule));
    }
  }
  if (parts.empty()) {
    return {};
  }
  return {.rule = std::make_unique<Spread>(census, std::move(parts))};
}

}  // namespace berth::kube
