// Objects as an API server of 1.36 sends them, for tests.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "json/dom.h"
#include "kube/objects/read.h"

namespace berth::kube {

// The result of a reader on a text; the parser lives as long as it is needed.
template <typename Reader>
auto read_text(Reader reader, std::string_view text) {
  json::DomParser parser;
  const auto root = parser.parse(text);
  EXPECT_TRUE(root.ok()) << text;
  return reader(root.ok() ? *root : json::Element());
}

// A pod of about 3 KiB with most of what is read.
inline constexpr std::string_view kPodText = R"json({
"kind":"Pod","apiVersion":"v1",
"metadata":{"name":"train-0","generateName":"train-","namespace":"team-a",
 "uid":"7d3f8c1e-5a9b-4c1e-9f0e-2b8a4f6d1c33","resourceVersion":"104233","generation":2,
 "creationTimestamp":"2026-01-31T10:00:00Z",
 "labels":{"app":"train","berth.dev/queue":"research"},
 "annotations":{"gpu-fraction":"0.25","gpu-fraction.limit":"0.5"},
 "ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":"u-0"},
  {"apiVersion":"batch/v1","kind":"Job","name":"train","uid":"u-1","controller":true}],
 "managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1",
  "time":"2026-01-31T10:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{
  ".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:image":{},
  "f:resources":{".":{},"f:limits":{".":{},"f:cpu":{}}}}}}}}]},
"spec":{
 "volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"set","readOnly":true}},
  {"name":"scratch","ephemeral":{"volumeClaimTemplate":{"spec":{}}}},
  {"name":"token","projected":{"sources":[]}}],
 "initContainers":[
  {"name":"fetch","image":"fetch:1","resources":{"requests":{"cpu":"500m"}},
   "ports":[{"containerPort":9,"hostPort":9}]},
  {"name":"log","image":"log:1","restartPolicy":"Always","resources":{"requests":{"cpu":1}},
   "ports":[{"containerPort":514,"hostPort":514,"protocol":"UDP","hostIP":"10.0.0.1"}]}],
 "containers":[{"name":"main","image":"registry.example/train:3",
  "ports":[{"containerPort":8080,"protocol":"TCP"},{"containerPort":80,"hostPort":80}],
  "env":[{"name":"A","value":"1"},{"name":"NVIDIA_VISIBLE_DEVICES","valueFrom":{"fieldRef":
   {"apiVersion":"v1","fieldPath":"metadata.annotations['berth.dev/main.devices']"}}}],
  "resources":{"limits":{"cpu":"4","memory":"16Gi"},"requests":{"cpu":"4","memory":"16Gi"}},
  "securityContext":{"privileged":true}}],
 "restartPolicy":"Never","nodeName":"n1","schedulerName":"berth-scheduler","priority":50,
 "preemptionPolicy":"Never","runtimeClassName":"nvidia",
 "nodeSelector":{"pool":"gpu"},
 "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{
   "nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["a","b"]},
     {"key":"gen","operator":"Gt","values":["3"]}]},
    {"matchFields":[{"key":"metadata.name","operator":"In","values":["n7"]}]},{}]},
   "preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{}}]},
  "podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":
   {"matchLabels":{"app":"cache"},"matchExpressions":[{"key":"old","operator":"DoesNotExist"}]},
   "namespaces":["shared"],"topologyKey":"zone"}]},
  "podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{
   "namespaceSelector":{},"topologyKey":"kubernetes.io/hostname","matchLabelKeys":["rev"]}]}},
 "topologySpreadConstraints":[{"maxSkew":2,"topologyKey":"zone","whenUnsatisfiable":
   "DoNotSchedule","labelSelector":{"matchLabels":{"app":"train"}},"minDomains":3,
   "nodeAffinityPolicy":"Ignore","nodeTaintsPolicy":"Honor"},
  {"maxSkew":1,"topologyKey":"rack","whenUnsatisfiable":"ScheduleAnyway"}],
 "tolerations":[{"key":"nvidia.com/gpu","operator":"Exists","effect":"NoSchedule"},
  {"key":"team","value":"a"},{"key":"n","operator":"Gt","value":"5"}],
 "schedulingGates":[{"name":"quota"}],
 "resourceClaims":[{"name":"nic","resourceClaimName":"c"}],
 "schedulingGroup":{"podGroupName":"g1"},
 "overhead":{"cpu":"250m"},
 "resources":{"requests":{"memory":"20Gi"}}},
"status":{"phase":"Pending","nominatedNodeName":"n2",
 "conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"no",
   "lastProbeTime":null,"lastTransitionTime":"2026-01-31T10:00:05Z"},
  {"type":"PodResizePending","status":"True","reason":"Infeasible"}],
 "initContainerStatuses":[{"name":"log","resources":{"requests":{"cpu":"2"}}}],
 "containerStatuses":[{"name":"main","allocatedResources":{"cpu":"3"},
   "resources":{"requests":{"cpu":"2"}}},{"name":"other","allocatedResources":{"cpu":"1"}}]}
})json";

}  // namespace berth::kube
