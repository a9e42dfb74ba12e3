// Claims, volumes, classes and drivers (kubernetes-api.md 15).
#include <utility>

#include "kube/objects/fields.h"
#include "kube/objects/read.h"

namespace berth::kube {

using json::Element;

namespace {

template <typename T>
Result<T> finished(T value, const Fields& fields) {
  if (fields.failed()) {
    return fields.error();
  }
  return value;
}

std::string annotation(const Meta& meta, const std::string& key) {
  const auto found = meta.annotations.find(key);
  return found == meta.annotations.end() ? "" : found->second;
}

// The annotation is how classes were named before there was a field; it still wins.
std::string class_of(Element spec, const Meta& meta, Fields& fields) {
  std::string old = annotation(meta, "volume.beta.kubernetes.io/storage-class");
  return old.empty() ? fields.text(spec["storageClassName"], "spec.storageClassName") : old;
}

std::string mode_of(Element spec, Fields& fields) {
  std::string mode = fields.text(spec["volumeMode"], "spec.volumeMode");
  return mode.empty() ? "Filesystem" : mode;
}

// `allowedTopologies`: any of, each a list of key and values.
std::vector<Selector> read_topologies(Element list, Fields& fields) {
  const std::string_view path = "allowedTopologies";
  std::vector<Selector> any;
  for (const Element term : fields.list(list, path).items()) {
    Selector selector;
    for (const Element rule : fields.list(term["matchLabelExpressions"], path).items()) {
      selector.rules.push_back({.key = fields.text(rule["key"], path),
                                .op = core::LabelRule::Op::in,
                                .values = fields.texts(rule["values"], path)});
    }
    selector.matches_nothing = selector.rules.empty();
    any.push_back(std::move(selector));
  }
  return any;
}

}  // namespace

Result<VolumeClaim> read_volume_claim(Element object) {
  Fields fields("PersistentVolumeClaim");
  VolumeClaim claim;
  claim.meta = read_meta_fields(object, fields);
  const Element spec = fields.object(object["spec"], "spec");
  claim.volume = fields.text(spec["volumeName"], "spec.volumeName");
  claim.storage_class = class_of(spec, claim.meta, fields);
  claim.access_modes = fields.texts(spec["accessModes"], "spec.accessModes");
  claim.request =
      fields.quantity(spec["resources"]["requests"]["storage"], "spec.resources.requests.storage");
  claim.volume_mode = mode_of(spec, fields);
  claim.selector = read_label_selector(spec["selector"], "spec.selector", false, fields);
  claim.phase = fields.text(object["status"]["phase"], "status.phase");
  claim.bind_completed = claim.meta.annotations.contains("pv.kubernetes.io/bind-completed");
  claim.selected_node = annotation(claim.meta, "volume.kubernetes.io/selected-node");
  return finished(std::move(claim), fields);
}

Result<Volume> read_volume(Element object) {
  Fields fields("PersistentVolume");
  Volume volume;
  volume.meta = read_meta_fields(object, fields);
  const Element spec = fields.object(object["spec"], "spec");
  volume.node_terms = read_node_terms(spec["nodeAffinity"]["required"]["nodeSelectorTerms"],
                                      "spec.nodeAffinity.required", fields);
  volume.storage_class = class_of(spec, volume.meta, fields);
  volume.access_modes = fields.texts(spec["accessModes"], "spec.accessModes");
  volume.capacity = fields.quantity(spec["capacity"]["storage"], "spec.capacity.storage");
  volume.volume_mode = mode_of(spec, fields);
  volume.phase = fields.text(object["status"]["phase"], "status.phase");
  const Element claim = fields.object(spec["claimRef"], "spec.claimRef");
  volume.claim_namespace = fields.text(claim["namespace"], "spec.claimRef.namespace");
  volume.claim_name = fields.text(claim["name"], "spec.claimRef.name");
  volume.claim_uid = fields.text(claim["uid"], "spec.claimRef.uid");
  volume.csi_driver = fields.text(spec["csi"]["driver"], "spec.csi.driver");
  return finished(std::move(volume), fields);
}

Result<StorageClass> read_storage_class(Element object) {
  Fields fields("StorageClass");
  StorageClass value;
  value.meta = read_meta_fields(object, fields);
  value.provisioner = fields.text(object["provisioner"], "provisioner");
  value.waits_for_consumer =
      fields.text(object["volumeBindingMode"], "volumeBindingMode") == "WaitForFirstConsumer";
  value.allowed_topologies = read_topologies(object["allowedTopologies"], fields);
  return finished(std::move(value), fields);
}

Result<CsiNode> read_csi_node(Element object) {
  Fields fields("CSINode");
  CsiNode node;
  node.meta = read_meta_fields(object, fields);
  for (const Element driver : fields.list(object["spec"]["drivers"], "spec.drivers").items()) {
    const Element count = driver["allocatable"]["count"];
    if (count.exists()) {
      node.limits.insert_or_assign(fields.text(driver["name"], "spec.drivers[].name"),
                                   fields.integer(count, "spec.drivers[].allocatable.count"));
    }
  }
  return finished(std::move(node), fields);
}

Result<CsiDriver> read_csi_driver(Element object) {
  Fields fields("CSIDriver");
  CsiDriver driver;
  driver.meta = read_meta_fields(object, fields);
  driver.storage_capacity = fields.flag(object["spec"]["storageCapacity"], "spec.storageCapacity");
  return finished(std::move(driver), fields);
}

Result<CsiCapacity> read_csi_capacity(Element object) {
  Fields fields("CSIStorageCapacity");
  CsiCapacity value;
  value.meta = read_meta_fields(object, fields);
  value.storage_class = fields.text(object["storageClassName"], "storageClassName");
  value.node_topology = read_label_selector(object["nodeTopology"], "nodeTopology", true, fields);
  value.capacity = fields.quantity(object["capacity"], "capacity");
  value.maximum_volume_size = fields.quantity(object["maximumVolumeSize"], "maximumVolumeSize");
  return finished(std::move(value), fields);
}

}  // namespace berth::kube
