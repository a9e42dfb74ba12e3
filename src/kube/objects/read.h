// Readers of Kubernetes objects: JSON in, the values of objects.h out.
//
//   json::DomParser parser;
//   TRY(json::Element frame, parser.parse(line));
//   TRY(Pod pod, read_pod(frame["object"]));
//
// Only the fields of objects.h are looked at; all others may hold anything. Of a field that is of
// another kind than Kubernetes says, the error names field and kind: nothing is guessed. A hard
// rule that nobody here can evaluate is no error: it goes to `unsupported` by name.
// Errors: invalid_argument. Thread-safety: functions of their arguments.
#pragma once

#include <string_view>

#include "base/result.h"
#include "json/dom.h"
#include "kube/objects/objects.h"

namespace berth::kube {

// `metadata` of any object.
Result<Meta> read_meta(json::Element object);

Result<Pod> read_pod(json::Element object);
Result<Node> read_node(json::Element object);
Result<Namespace> read_namespace(json::Element object);
Result<VolumeClaim> read_volume_claim(json::Element object);
Result<Volume> read_volume(json::Element object);
Result<StorageClass> read_storage_class(json::Element object);
Result<CsiNode> read_csi_node(json::Element object);
Result<CsiDriver> read_csi_driver(json::Element object);
Result<CsiCapacity> read_csi_capacity(json::Element object);

}  // namespace berth::kube
