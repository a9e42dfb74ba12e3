// Hard rules that the engine has no word for, as answers about nodes.
//
//   PlaceRules rules(census, pod, wants);
//   if (!rules.waits().empty()) …                      // nothing helps but a change: why
//   for (NodeIndex n …) if (rules.refusal(n).empty()) …   // the engine may use it
//
// Each rule is one row of a table: a word that people see, when it applies, and how it is made
// ready for one pod. A rule that does not apply costs nothing. The pod itself is never counted
// among the pods that it is asked against. Source: kubernetes-api.md 13, rows 3, 4, 7, 11 to 15
// and 17, and section 15. Thread-safety: pure functions of the census; answers are good until it
// changes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kube/scheduler/census.h"

namespace berth::kube {

// One rule, made ready for one pod.
class PlaceRule {
 public:
  virtual ~PlaceRule() = default;
  virtual bool passes(NodeIndex node) const = 0;
};

// What a rule made of a pod.
struct ReadyRule {
  std::unique_ptr<PlaceRule> rule = {};  // null: it does not apply
  std::string waits = {};                // one sentence; not empty: no node would do
};

struct PlaceRuleKind {
  std::string_view word;     // of the count of nodes: "PodAntiAffinity"
  std::string_view summary;  // for documentation
  Ground ground;             // what an answer depends on, besides nodes
  ReadyRule (*ready)(const Census& census, const PodFacts& pod);
};

// In the order in which they are asked; the first that refuses is told.
std::span<const PlaceRuleKind> place_rule_kinds();

class PlaceRules {
 public:
  PlaceRules(const Census& census, const PodFacts& pod);

  bool apply() const { return !rules_.empty() || !waits_.empty(); }
  // The word of the rule that refuses the node, or empty.
  std::string_view refusal(NodeIndex node) const;
  const std::string& waits() const { return waits_; }
  // Bits of Ground: what the answers depend on.
  std::uint32_t grounds() const { return grounds_; }

 private:
  struct Applied {
    std::string_view word;
    std::unique_ptr<PlaceRule> rule;
  };

  std::vector<Applied> rules_;
  std::string waits_;
  std::uint32_t grounds_ = 0;
};

constexpr std::uint32_t bit(Ground ground) { return 1U << static_cast<unsigned>(ground); }

// The rules that need a file of their own.
ReadyRule ready_affinity(const Census& census, const PodFacts& pod);
ReadyRule ready_anti_affinity(const Census& census, const PodFacts& pod);
ReadyRule ready_others_anti_affinity(const Census& census, const PodFacts& pod);
ReadyRule ready_spread(const Census& census, const PodFacts& pod);
ReadyRule ready_volumes(const Census& census, const PodFacts& pod);
ReadyRule ready_single_writer(const Census& census, const PodFacts& pod);
ReadyRule ready_volume_limits(const Census& census, const PodFacts& pod);

}  // namespace berth::kube
