#include "kube/scheduler/place_rules.h"

#include <algorithm>
#include <array>

#include "kube/scheduler/selectors.h"

namespace berth::kube {

namespace {

// A rule that is a function of the node.
template <typename Passes>
class Asked : public PlaceRule {
 public:
  explicit Asked(Passes passes) : passes_(std::move(passes)) {}
  bool passes(NodeIndex node) const override { return passes_(node); }

 private:
  Passes passes_;
};

template <typename Passes>
ReadyRule asked(Passes passes) {
  return {.rule = std::make_unique<Asked<Passes>>(std::move(passes))};
}

ReadyRule ready_node_affinity(const Census& census, const PodFacts& pod) {
  const PodRules* rules = pod.rules.get();
  if (rules == nullptr || !rules->terms_apply) {
    return {};
  }
  return asked([&census, rules](NodeIndex index) {
    const NodeFacts& node = census.node(index);
    return matches_any(rules->node_terms, node.labels, node.name);
  });
}

ReadyRule ready_features(const Census& census, const PodFacts& pod) {
  const PodRules* rules = pod.rules.get();
  if (rules == nullptr || rules->features.empty()) {
    return {};
  }
  return asked([&census, rules](NodeIndex index) {
    return std::ranges::all_of(rules->features, [&](const std::string& feature) {
      return std::ranges::binary_search(census.node(index).features, feature);
    });
  });
}

// The wildcard address clashes with every other.
bool clash(const HostPort& a, const HostPort& b) {
  const auto any = [](const HostPort& port) {
    return port.ip.empty() || port.ip == "0.0.0.0" || port.ip == "::";
  };
  return a.port == b.port && a.protocol == b.protocol && (any(a) || any(b) || a.ip == b.ip);
}

ReadyRule ready_ports(const Census& census, const PodFacts& pod) {
  const PodRules* rules = pod.rules.get();
  if (rules == nullptr || rules->ports.empty()) {
    return {};
  }
  return asked([&census, &pod, rules](NodeIndex index) {
    return std::ranges::none_of(census.node(index).pods, [&](const PodFacts* other) {
      return other != &pod && other->rules != nullptr &&
             std::ranges::any_of(other->rules->ports, [&](const HostPort& taken) {
               return std::ranges::any_of(
                   rules->ports, [&](const HostPort& wanted) { return clash(wanted, taken); });
             });
    });
  });
}

ReadyRule ready_others(const Census& census, const PodFacts& pod) {
  if (pod.takes.others.empty()) {
    return {};
  }
  return asked([&census, &pod](NodeIndex index) {
    const NodeFacts& node = census.node(index);
    return std::ranges::all_of(pod.takes.others, [&](const auto& wanted) {
      const auto offered = node.offered.find(wanted.first);
      const auto taken = node.taken.find(wanted.first);
      const bool counted = pod.group != nullptr && pod.node == index;  // it is among the takers
      const std::int64_t used =
          (taken == node.taken.end() ? 0 : taken->second) - (counted ? wanted.second : 0);
      return wanted.second == 0 ||
             (offered != node.offered.end() && wanted.second <= offered->second - used);
    });
  });
}

constexpr std::array<PlaceRuleKind, 11> kKinds{{
    {"NodeAffinity", "one of the terms of required node affinity matches the node", Ground::nodes,
     ready_node_affinity},
    {"MissingFeature", "the node declares what the pod needs", Ground::nodes, ready_features},
    {"InsufficientResource", "other resources: what the node offers, less what its pods take",
     Ground::others, ready_others},
    {"HostPortTaken", "host ports are free on the node", Ground::ports, ready_ports},
    {"VolumeNodeConflict", "every volume can be reached or made there", Ground::storage,
     ready_volumes},
    {"VolumeInUse", "a volume of one pod only is used by no other", Ground::storage,
     ready_single_writer},
    {"VolumeLimit", "drivers attach at most so many volumes", Ground::storage, ready_volume_limits},
    {"PodAffinity", "pods that it wants near are in the node's domain", Ground::pods,
     ready_affinity},
    {"PodAntiAffinity", "pods that it wants away are not in the node's domain", Ground::pods,
     ready_anti_affinity},
    {"OthersAntiAffinity", "no pod in the node's domain wants it away", Ground::pods,
     ready_others_anti_affinity},
    {"TopologySpread", "the domain has not too many of its kind already", Ground::pods,
     ready_spread},
}};

}  // namespace

std::span<const PlaceRuleKind> place_rule_kinds() { return kKinds; }

PlaceRules::PlaceRules(const Census& census, const PodFacts& pod) {
  for (const PlaceRuleKind& kind : kKinds) {
    ReadyRule ready = kind.ready(census, pod);
    if (!ready.waits.empty() && waits_.empty()) {
      waits_ = std::move(ready.waits);
      grounds_ |= bit(kind.ground);
    }
    if (ready.rule != nullptr) {
      rules_.push_back({.word = kind.word, .rule = std::move(ready.rule)});
      grounds_ |= bit(kind.ground) | bit(Ground::nodes);
    }
  }
}

std::string_view PlaceRules::refusal(NodeIndex node) const {
  for (const Applied& applied : rules_) {
    if (!applied.rule->passes(node)) {
      return applied.word;
    }
  }
  return {};
}

}  // namespace berth::kube
