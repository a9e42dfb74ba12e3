// The GPU grammar of a Kubernetes pod (annotations.md 1 and 2): annotations and limits in, a
// core::Request out.
//
//   PodWords pod{.name = "train", .containers = {{.name = "main"}},
//                .annotations = {{"gpu-fraction", "0.25"}}};
//   PodOutcome outcome = read_pod(pod);
//
// One reader serves webhook, scheduler, runner and simulator. It decides nothing by user or
// history: what depends on who writes and when (A44 … A50) is admission.h. All errors of a pod are
// reported at once, in key order; warnings never refuse. Thread-safety: values and functions of
// their arguments.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/model/request.h"
#include "request/reason.h"

namespace berth::request {

struct EnvWord {
  std::string name = {};
  std::string value = {};
  std::string field_path = {};  // of `valueFrom.fieldRef`; empty for a literal
};

struct ContainerWords {
  std::string name = {};
  core::ContainerKind kind = core::ContainerKind::app;
  std::map<std::string, std::string> limits = {};  // `resources.limits`
  std::map<std::string, std::string> requests =
      {};  // `resources.requests`: cpu and memory are read
  std::vector<EnvWord> env = {};
  bool privileged = false;
};

struct PodWords {
  std::string namespace_name = {};
  std::string name = {};
  std::vector<ContainerWords> containers = {};  // each kind in the order of the pod spec
  std::map<std::string, std::string> annotations = {};
  std::map<std::string, std::string> labels = {};
  std::map<std::string, std::string> node_selector = {};
  std::vector<core::LabelRule> node_affinity = {};  // required, one term; all of
  std::vector<core::Toleration> tolerations = {};
  std::vector<std::string> node_names = {};  // required affinity to names; empty = all
  std::string preset_node = {};              // `spec.nodeName`
};

// What the administrator decided about the grammar.
struct PodRules {
  bool sharing_enabled = true;
  bool allow_privileged_shares = false;
  std::int64_t gpumem_factor_mib = 1;  // HAMi's memoryFactor: what one unit of nvidia.com/gpumem is
};

struct PodOutcome {
  std::optional<core::Request> request;  // set iff there are no errors; containers in start order
  std::vector<Finding> errors = {};
  std::vector<Finding> warnings = {};
  std::vector<std::string> share_containers;  // those that ask for a share, also beside errors
  std::string shorthand_target = {};  // whom `gpu-fraction`, `gpu-memory` and the like are for
  std::map<std::string, int> task_priorities =
      {};  // container -> nvidia.com/priority: 0 high, 1 low

  bool ok() const { return request.has_value(); }
};

PodOutcome read_pod(const PodWords& pod, const PodRules& rules = {});

}  // namespace berth::request
