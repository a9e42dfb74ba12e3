// Volumes of a pod: which nodes they allow, and what has to be written before it can be bound.
// Source: kubernetes-api.md 15. Thread-safety: pure functions of the census.
#pragma once

#include <string>
#include <vector>

#include "kube/scheduler/census.h"

namespace berth::kube {

// A claim that nobody has a volume for yet, and what is to be done on the chosen node.
struct ClaimStep {
  std::string claim = {};   // "namespace/name"
  std::string volume = {};  // one that exists and fits; empty: it is made on demand
  bool operator==(const ClaimStep&) const = default;
};

// What has to happen so that the pod's claims are bound on the node; empty: they are. Requires that
// the volume rules let the pod onto the node.
std::vector<ClaimStep> steps_to_bind(const Census& census, const PodFacts& pod, NodeIndex node);
// Whether every claim of the pod has its volume.
bool all_bound(const Census& census, const PodFacts& pod);

}  // namespace berth::kube
