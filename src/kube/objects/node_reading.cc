#include "kube/objects/node_reading.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "kube/objects/amounts.h"
#include "kube/objects/node_parts.h"

namespace berth::kube {

namespace {

constexpr std::string_view kUnschedulableTaint = "node.kubernetes.io/unschedulable";
constexpr std::string_view kFractiondReady = "gpu-fractioning.nvidia.com/Ready";

const Condition* find_condition(const Node& node, std::string_view type) {
  const auto found = std::ranges::find(node.conditions, type, &Condition::type);
  return found == node.conditions.end() ? nullptr : &*found;
}

std::string annotation(const Node& node, std::string_view key) {
  const auto found = node.meta.annotations.find(std::string(key));
  return found == node.meta.annotations.end() ? "" : found->second;
}

// cpu, memory and pods; a resource that is missing is none, as for kube-scheduler.
void read_room(const Node& from, NodeReading& into) {
  const auto amount = [&](const std::string& resource, std::int64_t most) -> std::int64_t {
    const auto found = from.allocatable.find(resource);
    if (found == from.allocatable.end()) {
      return 0;
    }
    const auto value = read_amount(resource, found->second);
    if (!value.ok() || *value > most) {
      into.excluded =
          node_problem("BadNodeCapacity", fmt::format("status.allocatable[{}]", resource),
                       found->second, "a quantity that a machine can have");
      return 0;
    }
    return *value;
  };
  into.node.cpu = Milli(amount("cpu", core::kMaxCpuMilli));
  into.node.ram = Memory::bytes(amount("memory", core::kMaxMemoryMib * Memory::kBytesPerMib));
  into.node.pod_slots = amount("pods", 1'000'000);
}

// `spec.unschedulable` is a taint, which a pod may tolerate (kubernetes-api.md 13, rule 2).
void read_taints(const Node& from, NodeReading& into) {
  into.node.taints = from.taints;
  const bool told = std::ranges::any_of(
      from.taints, [](const core::Taint& taint) { return taint.key == kUnschedulableTaint; });
  if (from.unschedulable && !told) {
    into.node.taints.push_back(
        {.key = std::string(kUnschedulableTaint), .value = "", .effect = "NoSchedule"});
  }
}

bool is_ready(const Node& from) {
  const Condition* ready = find_condition(from, "Ready");
  return !from.meta.deleting && (ready == nullptr || ready->status == "True");
}

// Why nobody there can hold a container to its share; empty when somebody can.
std::string sharing_obstacle(const Node& from, const AnnotatedDevices& told,
                             const NodeRules& rules) {
  switch (told.backend) {
    case NodeBackend::none:
      return rules.allow_advisory
                 ? ""
                 : "nothing there holds a container to its share; set `allowAdvisory: true` in the "
                   "configuration to share all the same";
    case NodeBackend::guard:
      return told.ready ? "" : "the annotation berth.dev/devices does not say \"ready\": true";
    case NodeBackend::fractiond: break;
  }
  if (!told.cdi_known) {
    return "the annotation berth.dev/devices does not say whether devices are named by CDI; add "
           "\"cdi\": true or false";
  }
  const Condition* ready = find_condition(from, kFractiondReady);
  if (ready == nullptr) {
    return fmt::format("node condition {} is absent (Unknown/ConditionNotFound)", kFractiondReady);
  }
  return ready->status == "True"
             ? ""
             : fmt::format("node condition {} is {}/{}: {}", kFractiondReady, ready->status,
                           ready->reason, printable(shortened(ready->message, 200)));
}

// GFD counts whole GPUs, those in MIG mode included; an annotation of another count is stale.
void compare_counts(const Node& from, const std::vector<core::Device>& devices, NodeReading& into) {
  std::int64_t gpus = 0;
  for (const core::Device& device : devices) {
    if (device.is_mig() || device.mig_enabled) {
      return;  // what is counted then depends on the MIG strategy
    }
    ++gpus;
  }
  std::string problem;
  const auto count =
      label_number(from.meta.labels, "nvidia.com/gpu.count", core::kMaxDevicesPerNode, problem);
  if (problem.empty() && count && *count != gpus) {
    problem = node_problem("DeviceCountsDisagree", "nvidia.com/gpu.count", std::to_string(*count),
                           fmt::format("the {} devices of the annotation {}; write that anew when "
                                       "the node's devices have changed",
                                       gpus, kDevicesAnnotation));
  }
  into.excluded = std::move(problem);
}

void read_annotation(const Node& from, std::string_view text, const NodeRules& rules,
                     NodeReading& into) {
  AnnotatedDevices told = read_device_annotation(text, rules);
  into.source = DeviceSource::annotation;
  into.excluded = std::move(told.problem);
  if (!into.excluded.empty()) {
    return;
  }
  compare_counts(from, told.devices, into);
  into.backend = told.backend;
  into.node.sizes_by_name = told.backend == NodeBackend::fractiond;
  into.cdi = told.cdi;
  into.sharing_why = sharing_obstacle(from, told, rules);
  into.node.sharing_ready = into.sharing_why.empty();
  if (!told.devices.empty() && !told.devices.front().owned) {
    into.sharing_why =
        "another allocator may hand out its devices: the annotation berth.dev/devices does not say "
        "\"owned\": true";
  }
  into.node.devices = std::move(told.devices);
  std::ranges::move(told.notes, std::back_inserter(into.notes));
}

void read_labels(const Node& from, const NodeRules& rules, NodeReading& into) {
  NodeDevices told = read_device_labels(from, rules);
  into.excluded = std::move(told.problem);
  if (!told.devices.empty()) {
    into.source = DeviceSource::labels;
    into.sharing_why = fmt::format(
        "its devices are known by labels only and the vendor's plug-in hands them out; take them "
        "from it and write the annotation {}, as `berth gpus --node-annotation` prints it there",
        kDevicesAnnotation);
  }
  into.node.devices = std::move(told.devices);
  std::ranges::move(told.notes, std::back_inserter(into.notes));
}

// `hami.io/device-cordon`: UUIDs by comma.
void read_cordons(const Node& from, NodeReading& into) {
  const std::string list = annotation(from, kCordonAnnotation);
  std::string_view rest = list;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    std::string_view uuid = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    while (uuid.starts_with(' '))
      uuid.remove_prefix(1);
    while (uuid.ends_with(' '))
      uuid.remove_suffix(1);
    for (core::Device& device : into.node.devices) {
      device.cordoned = device.cordoned || device.uuid == uuid;
    }
  }
}

void read_replicas(const Node& from, NodeReading& into) {
  std::string problem;
  const auto replicas =
      label_number(from.meta.labels, "nvidia.com/gpu.replicas", 1'000'000, problem);
  into.node.gpu_replicas = static_cast<int>(replicas.value_or(0));
  if (into.excluded.empty()) {
    into.excluded = std::move(problem);
  }
}

}  // namespace

std::string_view backend_name(NodeBackend backend) {
  switch (backend) {
    case NodeBackend::none: return "none";
    case NodeBackend::guard: return "guard";
    case NodeBackend::fractiond: return "fractiond";
  }
  return "";
}

std::string node_problem(std::string_view code, std::string_view key, std::string_view value,
                         std::string_view rule) {
  return fmt::format("{}: {}={}: {}", code, printable(key), printable(shortened(value, 80)), rule);
}

NodeReading node_from(const Node& node, const NodeRules& rules) {
  NodeReading into;
  into.node.name = node.meta.name;
  into.node.labels = node.meta.labels;
  into.node.ready = is_ready(node);
  read_taints(node, into);
  const auto told = node.meta.annotations.find(std::string(kDevicesAnnotation));
  if (told != node.meta.annotations.end()) {
    read_annotation(node, told->second, rules, into);
  } else {
    read_labels(node, rules, into);
  }
  read_replicas(node, into);
  if (into.excluded.empty()) {
    read_room(node, into);
  }
  if (into.excluded.empty()) {
    if (const auto checked = core::check_node(into.node); !checked.ok()) {
      into.excluded = fmt::format("BadNode: {}", checked.error().message());
    }
  }
  if (!into.excluded.empty()) {
    into.node.devices.clear();
    into.node.ready = false;
  }
  read_cordons(node, into);
  return into;
}

}  // namespace berth::kube
