// What Berth reads of Kubernetes objects: values with the fields it uses and no others.
//
//   TRY(Pod pod, read_pod(element));
//   request::PodOutcome outcome = request::read_pod(pod.words, rules);
//
// Quantities stay as the words people wrote until a function with a unit in its name reads them.
// A value lives as long as one event is looked at; whoever keeps something keeps less (the
// scheduler's books do). Source: kubernetes-api.md 2, 12, 13, 15. Thread-safety: values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/model/device.h"
#include "core/model/request.h"
#include "request/pod.h"

namespace berth::kube {

using Labels = std::map<std::string, std::string>;

struct Meta {
  std::string namespace_name = {};  // empty for cluster-scoped objects
  std::string name = {};
  std::string uid = {};
  std::string resource_version = {};
  Labels labels = {};
  Labels annotations = {};
  std::int64_t created_ms = 0;  // since 1970
  std::int64_t generation = 0;
  bool deleting = false;        // `deletionTimestamp` is set
  std::string owner_kind = {};  // of the controlling owner; empty = nobody makes it again
  std::string owner_uid = {};
};

// A label selector, or one term of a node selector.
struct Selector {
  std::vector<core::LabelRule> rules = {};   // all of; `matchLabels` are rules of one value
  std::vector<core::LabelRule> fields = {};  // `matchFields`: only metadata.name exists
  bool matches_nothing = false;  // absent where absence means so, or a term without a rule
  std::string unknown = {};      // an operator or field nobody here can read; matches nothing then
};

struct PodAffinityTerm {
  Selector selector = {};
  std::vector<std::string> namespaces = {};
  std::optional<Selector> namespace_selector = {};  // empty selector = every namespace
  std::string topology_key = {};
  std::vector<std::string> match_label_keys = {};
  std::vector<std::string> mismatch_label_keys = {};
};

struct SpreadConstraint {
  std::int64_t max_skew = 1;
  std::int64_t min_domains = 1;
  std::string topology_key = {};
  bool hard = true;  // whenUnsatisfiable: DoNotSchedule
  Selector selector = {};
  bool honor_node_affinity = true;  // nodeAffinityPolicy
  bool honor_node_taints = false;   // nodeTaintsPolicy
  std::vector<std::string> match_label_keys = {};
};

struct HostPort {
  std::string protocol = "TCP";
  std::string ip = "0.0.0.0";
  std::int64_t port = 0;
};

// A volume that can bind a pod to nodes. Others are of no interest.
struct PodVolume {
  std::string name = {};
  std::string claim = {};  // name of the PersistentVolumeClaim
  bool ephemeral = false;  // the claim is `<pod>-<volume>` and must be owned by the pod
  bool read_only = false;
};

// What the kubelet has given a container whose resources change in place.
struct GivenResources {
  Labels requests = {};   // containerStatuses[].resources.requests
  Labels allocated = {};  // containerStatuses[].allocatedResources
};

struct Condition {
  std::string type = {};
  std::string status = {};  // "True", "False", "Unknown"
  std::string reason = {};
  std::string message = {};
  std::int64_t transition_ms = 0;
};

struct Pod {
  Meta meta = {};
  // Names, containers with limits, requests and env, annotations, tolerations, node selector and
  // the node name. `words.node_affinity` stays empty: the terms below are alternatives.
  request::PodWords words = {};
  std::string scheduler_name = {};
  std::string phase = {};  // "Pending", "Running", …
  std::int64_t priority = 0;
  bool never_preempts = false;                 // preemptionPolicy: Never
  bool gated = false;                          // schedulingGates are left
  std::vector<Selector> node_terms = {};       // required node affinity: any of; empty = no rule
  std::vector<PodAffinityTerm> affinity = {};  // required
  std::vector<PodAffinityTerm> anti_affinity = {};  // required
  std::vector<SpreadConstraint> spread = {};
  std::vector<HostPort> host_ports = {};
  std::vector<PodVolume> volumes = {};
  std::vector<std::string> resource_claims = {};  // names of `spec.resourceClaims`
  std::string scheduling_group = {};              // spec.schedulingGroup.podGroupName
  Labels overhead = {};                           // resource -> quantity
  Labels pod_requests = {};                       // spec.resources.requests
  std::string runtime_class = {};
  std::string nominated_node = {};
  std::vector<Condition> conditions = {};
  std::map<std::string, GivenResources> given = {};  // by container; resizing in place
  bool resize_infeasible = false;
  std::vector<std::string> required_features = {};  // that the node must declare
  // Fields with hard rules of the pod that nobody here can evaluate, as "spec.volumes[x].iscsi".
  std::vector<std::string> unsupported = {};

  bool assigned() const { return !words.preset_node.empty(); }
  bool ended() const { return phase == "Succeeded" || phase == "Failed"; }
};

struct Node {
  Meta meta = {};
  bool unschedulable = false;
  std::vector<core::Taint> taints = {};
  Labels allocatable = {};  // resource -> quantity
  std::vector<Condition> conditions = {};
  std::vector<std::string> declared_features = {};
};

struct Namespace {
  Meta meta = {};
};

struct VolumeClaim {
  Meta meta = {};
  std::string volume = {};  // spec.volumeName
  std::string storage_class = {};
  std::vector<std::string> access_modes = {};
  std::string phase = {};
  std::string request = {};      // quantity of storage
  std::string volume_mode = {};  // "Filesystem" or "Block"
  Selector selector = {};
  bool bind_completed = false;     // annotation pv.kubernetes.io/bind-completed
  std::string selected_node = {};  // annotation volume.kubernetes.io/selected-node
};

struct Volume {
  Meta meta = {};
  std::vector<Selector> node_terms = {};  // nodeAffinity.required: any of; empty = any node
  std::string storage_class = {};
  std::vector<std::string> access_modes = {};
  std::string capacity = {};
  std::string volume_mode = {};
  std::string phase = {};
  std::string claim_namespace = {};
  std::string claim_name = {};
  std::string claim_uid = {};
  std::string csi_driver = {};
};

struct StorageClass {
  Meta meta = {};
  std::string provisioner = {};
  bool waits_for_consumer = false;
  std::vector<Selector> allowed_topologies = {};  // any of
};

struct CsiNode {
  Meta meta = {};
  std::map<std::string, std::int64_t> limits = {};  // driver -> most volumes
};

struct CsiDriver {
  Meta meta = {};
  bool storage_capacity = false;
};

struct CsiCapacity {
  Meta meta = {};
  std::string storage_class = {};
  Selector node_topology = {};  // absent: reachable from no node
  std::string capacity = {};
  std::string maximum_volume_size = {};
};

}  // namespace berth::kube
