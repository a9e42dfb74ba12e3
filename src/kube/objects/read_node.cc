#include "kube/objects/fields.h"
#include "kube/objects/read.h"

namespace berth::kube {

using json::Element;

Result<Node> read_node(Element object) {
  Fields fields("Node");
  Node node;
  node.meta = read_meta_fields(object, fields);
  const Element spec = fields.object(object["spec"], "spec");
  node.unschedulable = fields.flag(spec["unschedulable"], "spec.unschedulable");
  for (const Element from : fields.list(spec["taints"], "spec.taints").items()) {
    node.taints.push_back({.key = fields.text(from["key"], "spec.taints[].key"),
                           .value = fields.text(from["value"], "spec.taints[].value"),
                           .effect = fields.text(from["effect"], "spec.taints[].effect")});
  }
  const Element status = fields.object(object["status"], "status");
  node.allocatable = fields.quantities(status["allocatable"], "status.allocatable");
  node.conditions = read_conditions(status, fields);
  node.declared_features = fields.texts(status["declaredFeatures"], "status.declaredFeatures");
  if (fields.failed()) {
    return fields.error();
  }
  return node;
}

Result<Namespace> read_namespace(Element object) {
  Fields fields("Namespace");
  Namespace value{.meta = read_meta_fields(object, fields)};
  if (fields.failed()) {
    return fields.error();
  }
  return value;
}

}  // namespace berth::kube
