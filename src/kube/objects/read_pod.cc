#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "kube/objects/fields.h"
#include "kube/objects/read.h"

namespace berth::kube {

using core::ContainerKind;
using json::Element;
using request::ContainerWords;

namespace {

// Volumes that only one node, or only so many of one node, can mount, without a claim. Kubernetes'
// own rules about them (VolumeRestrictions, volume limits of the migrated drivers) are not ours.
constexpr std::array<std::string_view, 7> kExclusiveVolumes{
    "gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd", "azureDisk", "cinder",
    "vsphereVolume"};

request::EnvWord read_env(Element from, Fields& fields) {
  return {.name = fields.text(from["name"], "spec.containers[].env[].name"),
          .value = fields.text(from["value"], "spec.containers[].env[].value"),
          .field_path = fields.text(from["valueFrom"]["fieldRef"]["fieldPath"],
                                    "spec.containers[].env[].valueFrom.fieldRef.fieldPath")};
}

void read_ports(Element from, Pod& pod, Fields& fields) {
  const std::string_view path = "spec.containers[].ports[]";
  for (const Element port : fields.list(from["ports"], path).items()) {
    const std::int64_t number = fields.integer(port["hostPort"], path);
    if (number <= 0) {
      continue;
    }
    HostPort& host = pod.host_ports.emplace_back();
    host.port = number;
    if (std::string protocol = fields.text(port["protocol"], path); !protocol.empty()) {
      host.protocol = std::move(protocol);
    }
    if (std::string ip = fields.text(port["hostIP"], path); !ip.empty()) {
      host.ip = std::move(ip);
    }
  }
}

void require_feature(Pod& pod, std::string_view name) {
  if (std::ranges::find(pod.required_features, name) == pod.required_features.end()) {
    pod.required_features.emplace_back(name);
  }
}

void read_container(Element from, ContainerKind kind, Pod& pod, Fields& fields) {
  ContainerWords& words = pod.words.containers.emplace_back();
  words.name = fields.text(from["name"], "spec.containers[].name");
  words.kind = kind;
  if (kind == ContainerKind::init &&
      fields.text(from["restartPolicy"], "spec.initContainers[].restartPolicy") == "Always") {
    words.kind = ContainerKind::sidecar;
  }
  const Element resources = fields.object(from["resources"], "spec.containers[].resources");
  words.limits = fields.quantities(resources["limits"], "spec.containers[].resources.limits");
  words.requests = fields.quantities(resources["requests"], "spec.containers[].resources.requests");
  for (const Element env : fields.list(from["env"], "spec.containers[].env").items()) {
    words.env.push_back(read_env(env, fields));
  }
  words.privileged = fields.flag(from["securityContext"]["privileged"],
                                 "spec.containers[].securityContext.privileged");
  if (words.kind != ContainerKind::init) {
    read_ports(from, pod, fields);
  }
  for (const Element rule :
       fields.list(from["restartPolicyRules"], "spec.containers[].restartPolicyRules").items()) {
    if (rule["action"].text() == "RestartAllContainers") {
      require_feature(pod, "RestartAllContainersOnContainerExits");
    }
  }
}

void read_containers(Element spec, Pod& pod, Fields& fields) {
  for (const Element from : fields.list(spec["initContainers"], "spec.initContainers").items()) {
    read_container(from, ContainerKind::init, pod, fields);
  }
  for (const Element from : fields.list(spec["containers"], "spec.containers").items()) {
    read_container(from, ContainerKind::app, pod, fields);
  }
}

void read_volumes(Element spec, Pod& pod, Fields& fields) {
  for (const Element from : fields.list(spec["volumes"], "spec.volumes").items()) {
    std::string name = fields.text(from["name"], "spec.volumes[].name");
    const Element claim = from["persistentVolumeClaim"];
    if (claim.exists()) {
      pod.volumes.push_back(
          {.name = std::move(name),
           .claim = fields.text(claim["claimName"], "spec.volumes[].persistentVolumeClaim"),
           .read_only = fields.flag(claim["readOnly"], "spec.volumes[].persistentVolumeClaim")});
    } else if (from["ephemeral"].exists()) {
      std::string claim_name = fmt::format("{}-{}", pod.meta.name, name);
      pod.volumes.push_back(
          {.name = std::move(name), .claim = std::move(claim_name), .ephemeral = true});
    } else {
      for (const std::string_view kind : kExclusiveVolumes) {
        if (from[kind].exists()) {
          pod.unsupported.push_back(fmt::format("spec.volumes[{}].{}", name, kind));
        }
      }
    }
  }
}

// Operators Exists and Equal; another one (Gt, Lt: alpha) tolerates nothing here, which can only
// keep the pod off nodes.
void read_tolerations(Element spec, Pod& pod, Fields& fields) {
  const std::string_view path = "spec.tolerations";
  for (const Element from : fields.list(spec["tolerations"], path).items()) {
    const std::string op = fields.text(from["operator"], path);
    if (!op.empty() && op != "Exists" && op != "Equal") {
      continue;
    }
    pod.words.tolerations.push_back({.key = fields.text(from["key"], path),
                                     .exists = op == "Exists",
                                     .value = fields.text(from["value"], path),
                                     .effect = fields.text(from["effect"], path)});
  }
}

void read_spec(Element spec, Pod& pod, Fields& fields) {
  read_containers(spec, pod, fields);
  read_volumes(spec, pod, fields);
  read_tolerations(spec, pod, fields);
  read_placement_rules(spec, pod, fields);
  pod.words.node_selector = fields.labels(spec["nodeSelector"], "spec.nodeSelector");
  pod.words.preset_node = fields.text(spec["nodeName"], "spec.nodeName");
  pod.scheduler_name = fields.text(spec["schedulerName"], "spec.schedulerName");
  pod.priority = fields.integer(spec["priority"], "spec.priority");
  pod.never_preempts = fields.text(spec["preemptionPolicy"], "spec.preemptionPolicy") == "Never";
  pod.gated = fields.list(spec["schedulingGates"], "spec.schedulingGates").size() > 0;
  for (const Element claim : fields.list(spec["resourceClaims"], "spec.resourceClaims").items()) {
    pod.resource_claims.push_back(fields.text(claim["name"], "spec.resourceClaims[].name"));
  }
  pod.scheduling_group =
      fields.text(spec["schedulingGroup"]["podGroupName"], "spec.schedulingGroup.podGroupName");
  pod.overhead = fields.quantities(spec["overhead"], "spec.overhead");
  pod.pod_requests = fields.quantities(spec["resources"]["requests"], "spec.resources.requests");
  pod.runtime_class = fields.text(spec["runtimeClassName"], "spec.runtimeClassName");
  if (fields.flag(spec["hostNetwork"], "spec.hostNetwork") &&
      !fields.flag(spec["hostUsers"], "spec.hostUsers", true)) {
    require_feature(pod, "UserNamespacesHostNetworkSupport");
  }
}

void read_given(Element statuses, std::string_view path, Pod& pod, Fields& fields) {
  for (const Element from : fields.list(statuses, path).items()) {
    if (!from["resources"].exists()) {
      continue;  // Kubernetes reads allocatedResources only beside it
    }
    GivenResources given{
        .requests = fields.quantities(from["resources"]["requests"], path),
        .allocated = fields.quantities(from["allocatedResources"], path),
    };
    pod.given.insert_or_assign(fields.text(from["name"], path), std::move(given));
  }
}

void read_status(Element status, Pod& pod, Fields& fields) {
  pod.phase = fields.text(status["phase"], "status.phase");
  pod.nominated_node = fields.text(status["nominatedNodeName"], "status.nominatedNodeName");
  pod.conditions = read_conditions(status, fields);
  read_given(status["initContainerStatuses"], "status.initContainerStatuses", pod, fields);
  read_given(status["containerStatuses"], "status.containerStatuses", pod, fields);
  pod.resize_infeasible = std::ranges::any_of(pod.conditions, [](const Condition& condition) {
    return condition.type == "PodResizePending" && condition.reason == "Infeasible";
  });
}

}  // namespace

Result<Pod> read_pod(Element object) {
  Fields fields("Pod");
  Pod pod;
  pod.meta = read_meta_fields(object, fields);
  pod.words.namespace_name = pod.meta.namespace_name;
  pod.words.name = pod.meta.name;
  pod.words.annotations = pod.meta.annotations;
  pod.words.labels = pod.meta.labels;
  read_spec(fields.object(object["spec"], "spec"), pod, fields);
  read_status(fields.object(object["status"], "status"), pod, fields);
  if (fields.failed()) {
    return fields.error();
  }
  return pod;
}

}  // namespace berth::kube
