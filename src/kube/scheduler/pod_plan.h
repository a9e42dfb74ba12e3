// PodPlan: what a pod that waits asks for, once its words are read: the part for the engine, the
// part for the rules of this room, and what its binding will have to say.
//
// Pods made from one template have equal plans, kept once (PlanShop). Source: annotations.md 1, 2;
// kubernetes-api.md 12, 13. Thread-safety: values; PlanShop none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/model/request.h"
#include "core/model/workload.h"
#include "kube/objects/objects.h"
#include "kube/scheduler/census.h"
#include "request/pod.h"

namespace berth::kube {

struct PodPlan {
  core::Request request = {};  // without the nodes that rules of this room leave
  core::WorkloadOptions options = {};
  RulesRef rules = {};
  Footprint takes = {};
  // Of a pod with a GPU: containers and annotations, for the annotations of its binding.
  request::PodWords words = {};

  // Why it can never be placed as it is: the reason of its condition, and the sentence.
  struct Refusal {
    std::string reason = {};
    std::string message = {};
  };
  std::optional<Refusal> refusal = {};
};

struct PlanRules {
  request::PodRules grammar = {};
  bool must_be_admitted = true;  // shares need the environment that the webhook injects …
  bool assigns_whole = false;    // … and so do whole devices, where we say which they are
};

// Reads a pod. Never fails: what is wrong is the plan's refusal.
PodPlan make_plan(const Pod& pod, const PlanRules& rules);

// Equal plans, kept once while somebody has them.
class PlanShop {
 public:
  std::shared_ptr<const PodPlan> get(const Pod& pod, const PlanRules& rules);

 private:
  std::unordered_map<std::string, std::weak_ptr<const PodPlan>> plans_;
  std::size_t sweep_at_ = 1024;
};

std::string queue_of(const Pod& pod);  // label berth.dev/queue; `default` where there is none
bool is_preemptible(const Pod& pod);   // annotation berth.dev/preemptible

// What a pod takes of its node besides devices, with what the kubelet has given it while it is
// resized. Errors: a quantity that is none, with container and resource.
Result<Footprint> footprint_of(const Pod& pod);

}  // namespace berth::kube
