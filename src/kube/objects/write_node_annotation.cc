#include "kube/objects/write_node_annotation.h"

#include "json/value.h"

namespace berth::kube {

using json::Value;

namespace {

Value mig_of(const core::Device& device) {
  if (device.is_mig()) {
    return json::object({{"profile", device.mig_profile}, {"parent", device.mig_parent}});
  }
  return device.mig_enabled ? json::object({{"enabled", true}}) : Value();
}

Value written(const core::Device& device) {
  Value out =
      json::object({{"uuid", device.uuid}, {"index", device.index}, {"model", device.model}});
  if (device.total) {
    out.set("totalMiB", device.total->floor_mib());
    out.set("reserveMiB", device.reserve.ceil_mib());
  }
  out.set("numa", device.numa);
  out.set("mig", mig_of(device));
  if (!device.pci_bus_id.empty()) {
    out.set("pci", device.pci_bus_id);
  }
  if (device.health != core::DeviceHealth::ok) {
    out.set("health", "unhealthy");
  }
  return out;
}

}  // namespace

std::string write_devices_annotation(const DevicesOfNode& node) {
  json::Array devices;
  for (const core::Device& device : node.devices) {
    devices.push_back(written(device));
  }
  Value out = json::object({{"v", 1}, {"backend", backend_name(node.backend)}, {"cdi", node.cdi}});
  if (node.backend != NodeBackend::none) {
    out.set("ready", node.ready);
  }
  out.set("owned", node.owned);
  out.set("devices", std::move(devices));
  return json::dump(out);
}

}  // namespace berth::kube
