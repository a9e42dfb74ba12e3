#include "request/admission.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "request/pod_keys.h"
#include "request/slot.h"

namespace berth::request {

namespace {

constexpr std::string_view kNvPrefix = "nvidia.com/container.";

// The writer of a protected key; empty if everybody may write it.
std::optional<Writer> writer_of(std::string_view key) {
  if (key == "berth.dev/isolation") return Writer::agent;
  if (key == "received-resource-type" || key == "berth.dev/grant") return Writer::scheduler;
  if (key.starts_with(kNvPrefix) &&
      (key.ends_with(".gpus.devices") || key.ends_with(".gpu-compute.portion"))) {
    return Writer::scheduler;
  }
  if (key.starts_with("berth.dev/") &&
      (key.ends_with(".devices") || key.ends_with(".memory-request-mib") ||
       key.ends_with(".memory-limit-mib"))) {
    return Writer::scheduler;
  }
  return std::nullopt;
}

// Sizes that the Binding adds where they are missing (annotations.md 3.2).
bool is_added_by_binding(std::string_view key) {
  return key.starts_with(kNvPrefix) &&
         (key.ends_with(".gpu-memory.request") || key.ends_with(".gpu-memory.limit") ||
          key.ends_with(".gpu-compute.mode"));
}

constexpr std::array<std::string_view, 15> kSizingKeys{"gpu-fraction",
                                                       "gpu-fraction.limit",
                                                       "gpu-fraction-num-devices",
                                                       "gpu-fraction-container-name",
                                                       "gpu-memory",
                                                       "gpu-memory.limit",
                                                       "mps",
                                                       "nvidia.com/use-gputype",
                                                       "nvidia.com/nouse-gputype",
                                                       "nvidia.com/use-gpuuuid",
                                                       "nvidia.com/nouse-gpuuuid",
                                                       "nvidia.com/numa-bind",
                                                       "nvidia.com/vgpu-mode",
                                                       "hami.io/node-scheduler-policy",
                                                       "hami.io/gpu-scheduler-policy"};

std::string_view writer_name(Writer writer) {
  return writer == Writer::agent ? "the node agent" : "the scheduler, in the Binding";
}

void check_protected(std::string_view key, std::string_view value, Writer writer,
                     Findings& findings) {
  const auto owner = writer_of(key);
  if (!owner || *owner == writer) return;
  findings.error(ReasonCode::protected_key, key, value,
                 fmt::format("left as it is: only {} writes it", writer_name(*owner)));
}

// Environment that Berth sets on containers with a share (annotations.md 3.3).
bool is_protected_env(std::string_view name) {
  return name.starts_with("NVIDIA_GPU_MEMORY_") || name.starts_with("BERTH_") ||
         name == "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" || name == "CUDA_MPS_PIPE_DIRECTORY";
}

// What our own webhook injects: a reference to the container's own annotation, which only the
// scheduler writes. That of another container, or to any other key, would give more than was asked.
bool is_own_reference(const EnvWord& env, std::string_view container) {
  return std::ranges::any_of(kInjectedEnv, [&](const InjectedEnv& own) {
    return env.name == own.name && env.field_path == slot_reference(container, own.field);
  });
}

void check_env(const ContainerWords& container, bool has_share, Findings& findings) {
  for (const EnvWord& env : container.env) {
    if (is_own_reference(env, container.name)) continue;
    const std::string value = env.field_path.empty() ? env.value : env.field_path;
    if (env.name == "NVIDIA_VISIBLE_DEVICES") {
      const bool hides = env.field_path.empty() && (env.value == "void" || env.value == "none");
      if (hides) continue;
      findings.error(ReasonCode::protected_env, env.name, value,
                     "void, none or not set: the scheduler says which devices are visible",
                     container.name);
    } else if (has_share && is_protected_env(env.name)) {
      findings.error(ReasonCode::protected_env, env.name, value,
                     "not set: Berth sets it on a container with a share", container.name);
    }
  }
}

}  // namespace

bool is_protected_key(std::string_view key) { return writer_of(key).has_value(); }

bool is_sizing_key(std::string_view key) {
  if (is_protected_key(key)) return false;
  return std::find(kSizingKeys.begin(), kSizingKeys.end(), key) != kSizingKeys.end() ||
         key.starts_with(kNvPrefix) || key.starts_with("kai.scheduler/container.");
}

PodOutcome admit_create(const PodWords& pod, const PodRules& rules, Writer writer) {
  PodOutcome outcome = read_pod(pod, rules);
  const std::set<std::string> shares(outcome.share_containers.begin(),
                                     outcome.share_containers.end());
  Findings findings;
  for (const auto& [key, value] : pod.annotations)
    check_protected(key, value, writer, findings);
  if (!pod.preset_node.empty() && !shares.empty()) {
    findings.error(ReasonCode::node_name_preset, "spec.nodeName", pod.preset_node,
                   "not set: a share needs the scheduler; to choose the node use a node selector");
  }
  for (const ContainerWords& container : pod.containers) {
    const bool has_share = shares.contains(container.name);
    if (has_share && container.privileged && !rules.allow_privileged_shares) {
      findings.error(ReasonCode::privileged_share, "securityContext.privileged", "true",
                     "false: a privileged container sees every device whatever its share",
                     container.name);
    }
    check_env(container, has_share, findings);
  }
  if (!findings.errors.empty()) {
    outcome.request.reset();
    outcome.errors.insert(outcome.errors.end(), findings.errors.begin(), findings.errors.end());
    sort_findings(outcome.errors);
  }
  return outcome;
}

std::vector<Finding> check_update(const Annotations& before, const Annotations& after,
                                  Writer writer) {
  std::set<std::string> keys;
  for (const auto& [key, value] : before)
    keys.insert(key);
  for (const auto& [key, value] : after)
    keys.insert(key);
  Findings findings;
  for (const std::string& key : keys) {
    const auto old = before.find(key);
    const auto now = after.find(key);
    const bool had = old != before.end();
    const bool has = now != after.end();
    if (had && has && old->second == now->second) continue;  // A45
    const std::string& value = has ? now->second : old->second;
    check_protected(key, value, writer, findings);
    if (!is_sizing_key(key)) continue;
    if (!had && writer == Writer::scheduler && is_added_by_binding(key)) continue;
    findings.error(ReasonCode::immutable_key, key, value,
                   "as it was when the pod was created; to change it create the pod anew");
  }
  sort_findings(findings.errors);
  return findings.errors;
}

}  // namespace berth::request
