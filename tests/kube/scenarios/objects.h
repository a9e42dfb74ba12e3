// Nodes and tasks of the scenario language as objects of Kubernetes, in the words that people
// write. Functions of their arguments.
#pragma once

#include <string>

#include "core/model/device.h"
#include "json/value.h"
#include "kube/objects/objects.h"
#include "scenario/script.h"
#include "scenario/world.h"

namespace berth::kube {

// With the annotation berth.dev/devices.
json::Value node_object(const core::Node& node, const scenario::NodeWay& way);

// `submit` is of a task, or of what is refused. In the namespace "default".
json::Value pod_object(const std::string& name, const scenario::Submit& submit);

// A pod that was bound before anybody looked, by us or by KAI.
struct BoundPod {
  json::Value object;  // as it was created
  std::string node;
  Labels annotations;  // of its binding
};

BoundPod bound_pod(const scenario::Adopt& adopt, const scenario::Script& script,
                   const scenario::World& world);

}  // namespace berth::kube
