#include "kube/scenarios/objects.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/model/request.h"
#include "kube/objects/grant.h"
#include "request/units.h"

namespace berth::kube {

namespace {

using json::object;
using json::Value;

Value map_of(const Labels& labels) {
  Value map = object();
  for (const auto& [key, value] : labels) {
    map.add(key, value);
  }
  return map;
}

Value device_list(const core::Node& node) {
  json::Array devices;
  for (const core::Device& device : node.devices) {
    Value mig;
    if (device.mig_enabled) {
      mig = object({{"enabled", true}});
    } else if (device.is_mig()) {
      mig = object({{"profile", device.mig_profile}, {"parent", device.mig_parent}});
    }
    devices.push_back(
        object({{"uuid", device.uuid},
                {"index", device.index},
                {"model", device.model},
                {"totalMiB", device.total ? Value(device.total->floor_mib()) : Value()},
                {"reserveMiB", device.reserve.ceil_mib()},
                {"numa", device.numa},
                {"mig", std::move(mig)}}));
  }
  return devices;
}

// What somebody writes on a pod to ask for this: annotations of the pod, limits of the container.
void write_ask(const core::ContainerAsk& container, Labels& annotations, Labels& limits) {
  const core::DeviceAsk& ask = container.gpu;
  const std::string prefix = "nvidia.com/container." + container.name;
  const auto mib = [](std::int64_t n) { return std::to_string(n) + "Mi"; };
  for (const std::string& uuid : ask.filter.use_uuids) {
    std::string& list = annotations["nvidia.com/use-gpuuuid"];
    list += (list.empty() ? "" : ",") + uuid;
  }
  switch (ask.kind) {
    case core::AskKind::none: return;
    case core::AskKind::memory:
      // A name that is too long for a key of its own is the target of the pod's keys.
      if (ask.count > 1 || ask.long_name) {
        annotations["gpu-memory"] = std::to_string(ask.mib);
        annotations["gpu-fraction-container-name"] = container.name;
        if (ask.count > 1) annotations["gpu-fraction-num-devices"] = std::to_string(ask.count);
        return;
      }
      annotations[prefix + ".gpu-memory.request"] = mib(ask.mib);
      if (ask.limit_mib.has_value()) {
        annotations[prefix + ".gpu-memory.limit"] = mib(*ask.limit_mib);
      }
      break;
    case core::AskKind::fraction:
      annotations["gpu-fraction"] = request::fraction_text(Nano{ask.nano});
      annotations["gpu-fraction-container-name"] = container.name;
      if (ask.count > 1) annotations["gpu-fraction-num-devices"] = std::to_string(ask.count);
      break;
    case core::AskKind::replica: limits["nvidia.com/gpu.shared"] = "1"; return;
    case core::AskKind::whole: limits["nvidia.com/gpu"] = std::to_string(ask.count); return;
    case core::AskKind::mig:
      limits["nvidia.com/mig-" + ask.mig_profile] = std::to_string(ask.count);
      return;
  }
  if (ask.mode == core::SharingMode::sm_sharing) {
    annotations[prefix + ".gpu-compute.mode"] = "sm-sharing";
  }
}

std::string_view operator_name(core::LabelRule::Op op) {
  switch (op) {
    case core::LabelRule::Op::in: return "In";
    case core::LabelRule::Op::not_in: return "NotIn";
    case core::LabelRule::Op::exists: return "Exists";
    case core::LabelRule::Op::does_not_exist: return "DoesNotExist";
    case core::LabelRule::Op::greater: return "Gt";
    case core::LabelRule::Op::less: return "Lt";
  }
  return "";
}

Value list_of(const std::vector<std::string>& texts) {
  json::Array list;
  for (const std::string& text : texts) {
    list.emplace_back(text);
  }
  return list;
}

Value affinity_of(const core::NodeConstraints& nodes) {
  json::Array labels;
  for (const core::LabelRule& rule : nodes.labels) {
    labels.push_back(object({{"key", rule.key},
                             {"operator", operator_name(rule.op)},
                             {"values", list_of(rule.values)}}));
  }
  Value term = object({{"matchExpressions", std::move(labels)}});
  if (!nodes.names.empty()) {
    term.add(
        "matchFields",
        json::array({object(
            {{"key", "metadata.name"}, {"operator", "In"}, {"values", list_of(nodes.names)}})}));
  }
  return object({{"nodeAffinity",
                  object({{"requiredDuringSchedulingIgnoredDuringExecution",
                           object({{"nodeSelectorTerms", json::array({std::move(term)})}})}})}});
}

// The spec of a request; `words`: annotations stand there already, as they were written.
Value spec_of(const core::Request& request, const core::WorkloadOptions& options, bool words,
              Labels& annotations) {
  json::Array init;
  json::Array apps;
  std::vector<core::ContainerAsk> containers = request.containers();
  if (std::ranges::none_of(containers, [](const core::ContainerAsk& one) {
        return one.kind == core::ContainerKind::app;
      })) {
    containers.push_back({.name = "main", .kind = core::ContainerKind::app, .gpu = {}});
  }
  for (const core::ContainerAsk& container : containers) {
    Labels written;
    Labels limits;
    write_ask(container, written, limits);
    if (!words) annotations.merge(written);
    Labels requests = limits;
    if (&container == &containers.back()) {
      requests["cpu"] = fmt::format("{}m", request.cpu().count());
      requests["memory"] = std::to_string(request.ram().in_bytes());
    }
    Value one = object(
        {{"name", container.name},
         {"image", "localhost/busybox:1"},
         {"imagePullPolicy", "Never"},
         {"resources", object({{"limits", map_of(limits)}, {"requests", map_of(requests)}})}});
    if (container.kind == core::ContainerKind::sidecar) one.add("restartPolicy", "Always");
    (container.kind == core::ContainerKind::app ? apps : init).push_back(std::move(one));
  }
  Value spec = object({{"terminationGracePeriodSeconds", 0},
                       {"enableServiceLinks", false},
                       {"schedulerName", "berth-scheduler"},
                       {"priority", options.priority},
                       {"initContainers", std::move(init)},
                       {"containers", std::move(apps)}});
  if (!request.nodes().names.empty() || !request.nodes().labels.empty()) {
    spec.add("affinity", affinity_of(request.nodes()));
  }
  json::Array tolerations;
  for (const core::Toleration& one : request.nodes().tolerations) {
    Value toleration = object({{"operator", one.exists ? "Exists" : "Equal"}});
    if (!one.key.empty()) toleration.add("key", one.key);
    if (!one.exists) toleration.add("value", one.value);
    if (!one.effect.empty()) toleration.add("effect", one.effect);
    tolerations.push_back(std::move(toleration));
  }
  spec.add("tolerations", std::move(tolerations));
  return spec;
}

Value pod_of(const std::string& name, const core::Request& request,
             const core::WorkloadOptions& options, Labels annotations) {
  const bool words = !annotations.empty();
  Value spec = spec_of(request, options, words, annotations);
  if (options.preemptible) annotations["berth.dev/preemptible"] = "true";
  return object({{"apiVersion", "v1"},
                 {"kind", "Pod"},
                 {"metadata", object({{"name", name},
                                      {"namespace", "default"},
                                      {"labels", object({{"berth.dev/queue", options.queue}})},
                                      {"annotations", map_of(annotations)}})},
                 {"spec", std::move(spec)}});
}

const core::Device* find_device(const scenario::Script& script, std::string_view uuid,
                                std::string& node_name) {
  for (const core::Node& node : script.fleet) {
    for (const core::Device& device : node.devices) {
      if (device.uuid == uuid) {
        node_name = node.name;
        return &device;
      }
    }
  }
  return nullptr;
}

GrantRecord record_of(const scenario::Adopt& adopt, const scenario::Script& script,
                      const scenario::World& world) {
  GrantRecord record{.id = "g-00000001"};
  for (const core::ContainerAsk& container : adopt.request.containers()) {
    GrantedContainer granted{.name = container.name,
                             .kind = container.kind,
                             .exclusive = container.gpu.is_exclusive(),
                             .mode = container.gpu.mode,
                             .nano = container.gpu.nano};
    for (const scenario::Named& named : adopt.devices) {
      const std::string uuid = world.uuid_of(named.text).value();
      const std::int64_t usable = find_device(script, uuid, record.node)->usable_mib();
      const bool whole = granted.exclusive;
      granted.devices.push_back(
          {.uuid = uuid,
           .request_mib = whole ? usable : core::request_mib_on(container.gpu, usable, 0),
           .limit_mib = whole ? usable : core::limit_mib_on(container.gpu, usable, 0)});
    }
    record.containers.push_back(std::move(granted));
  }
  return record;
}

void set_scheduler(Value& pod, std::string_view scheduler, std::string_view place) {
  for (json::Member& member : pod.object()) {
    if (member.first == "metadata") member.second.set("namespace", place);
    if (member.first == "spec") member.second.set("schedulerName", scheduler);
  }
}

}  // namespace

json::Value node_object(const core::Node& node, const scenario::NodeWay& way) {
  bool owned = true;
  for (const core::Device& device : node.devices) {
    owned = owned && device.owned;
  }
  Labels labels = node.labels;
  labels.try_emplace("kubernetes.io/hostname", node.name);
  if (node.gpu_replicas > 1) {
    labels["nvidia.com/gpu.replicas"] = std::to_string(node.gpu_replicas);
  }
  const Value devices = object({{"v", 1},
                                {"backend", way.backend},
                                {"cdi", way.cdi},
                                {"owned", owned},
                                {"ready", node.sharing_ready},
                                {"devices", device_list(node)}});
  const Value room = object({{"cpu", fmt::format("{}m", node.cpu.count())},
                             {"memory", std::to_string(node.ram.in_bytes())},
                             {"pods", std::to_string(node.pod_slots)},
                             {"nvidia.com/gpu", std::to_string(node.devices.size())}});
  json::Array taints;
  for (const core::Taint& taint : node.taints) {
    taints.push_back(
        object({{"key", taint.key}, {"value", taint.value}, {"effect", taint.effect}}));
  }
  const auto condition = [](std::string_view type, bool holds) {
    return object({{"type", type},
                   {"status", holds ? "True" : "False"},
                   {"reason", "Scenario"},
                   {"message", "as the scenario says"}});
  };
  json::Array conditions = {condition("Ready", node.ready)};
  if (way.backend == "fractiond" && way.says_ready) {
    conditions.push_back(condition("gpu-fractioning.nvidia.com/Ready", node.sharing_ready));
  }
  return object(
      {{"apiVersion", "v1"},
       {"kind", "Node"},
       {"metadata",
        object({{"name", node.name},
                {"labels", map_of(labels)},
                {"annotations", object({{"berth.dev/devices", json::dump(devices)}})}})},
       {"spec", object({{"unschedulable", node.cordoned}, {"taints", std::move(taints)}})},
       {"status",
        object(
            {{"capacity", room}, {"allocatable", room}, {"conditions", std::move(conditions)}})}});
}

json::Value pod_object(const std::string& name, const scenario::Submit& submit) {
  return pod_of(name, submit.request, submit.options, submit.annotations);
}

BoundPod bound_pod(const scenario::Adopt& adopt, const scenario::Script& script,
                   const scenario::World& world) {
  const GrantRecord record = record_of(adopt, script, world);
  BoundPod bound{.object = pod_of(adopt.uid, adopt.request, adopt.options, {}),
                 .node = record.node,
                 .annotations = binding_annotations(record, {}, {})};
  const GrantedContainer& first = record.containers.at(0);
  if (adopt.options.foreign && !first.exclusive) {
    const std::string key = "nvidia.com/container." + first.name;
    set_scheduler(bound.object, "kai-scheduler", "default");
    bound.annotations = {
        {key + ".gpus.devices", first.devices[0].uuid},
        {key + ".gpu-memory.request", fmt::format("{}Mi", first.devices[0].request_mib)}};
  } else if (adopt.options.foreign) {
    set_scheduler(bound.object, "kai-scheduler", "kai-resource-reservation");
    bound.annotations = {{"run.ai/reserve_for_gpu_index", first.devices[0].uuid}};
  }
  return bound;
}

}  // namespace berth::kube
