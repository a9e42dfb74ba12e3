// The `fleet:` section: SPEC or described nodes and devices.
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "scenario/fleet_spec.h"
#include "scenario/sections.h"

namespace berth::scenario {

namespace {

constexpr std::array kDeviceKeys = {
    Key<DeviceDraft>{{"memory", "memory",
                      "what the driver reports as total; `unknown` where it does "
                      "not say",
                      "80GiB"},
                     [](const Value& value, DeviceDraft& draft) -> Result<void> {
                       draft.has_memory = true;
                       if (value.node().text == "unknown") return success();
                       TRY(draft.device.total, value.memory());
                       return success();
                     }},
    Key<DeviceDraft>{{"count", "number", "so many devices of this description", "8"},
                     [](const Value& value, DeviceDraft& draft) -> Result<void> {
                       TRY(draft.count, value.number(1, core::kMaxDevicesPerNode));
                       return success();
                     }},
    Key<DeviceDraft>{{"reserve", "memory",
                      "kept back for the driver and as a margin; without it the "
                      "fleet's `reserve`, else the larger of 256 MiB and 3 % of the total",
                      "512MiB"},
                     [](const Value& value, DeviceDraft& draft) -> Result<void> {
                       draft.has_reserve = true;
                       TRY(draft.device.reserve, value.memory());
                       return success();
                     }},
    Key<DeviceDraft>{{"model", "name", "what the driver calls it", "NVIDIA-A100-80GB"},
                     [](const Value& value, DeviceDraft& draft) -> Result<void> {
                       TRY(draft.device.model, value.word());
                       return success();
                     }},
    Key<DeviceDraft>{{"uuid", "name",
                      "its identity; without it one is derived from node, index and "
                      "size. Only with count 1",
                      "GPU-1a2b"},
                     [](const Value& value, DeviceDraft& draft) -> Result<void> {
                       TRY(draft.uuid, value.word());
                       return success();
                     }},
    Key<DeviceDraft>{{"numa", "number", "the NUMA node it hangs on", "1"},
                     [](const Value& value, DeviceDraft& draft) -> Result<void> {
                       TRY(const std::int64_t numa, value.number(0, 1023));
                       draft.device.numa = static_cast<int>(numa);
                       return success();
                     }},
    Key<DeviceDraft>{{"link_set", "number",
                      "all devices of its node with the same number are joined by NVSwitch", "0"},
                     [](const Value& value, DeviceDraft& draft) -> Result<void> {
                       TRY(const std::int64_t set, value.number(0, 1023));
                       draft.device.link_set = static_cast<int>(set);
                       return success();
                     }},
    Key<DeviceDraft>{{"mig", "name",
                      "the profile of a MIG instance; `enabled` for a GPU that is cut "
                      "into instances and not offered itself",
                      "1g.5gb"},
                     [](const Value& value, DeviceDraft& draft) -> Result<void> {
                       TRY(std::string profile, value.word());
                       draft.device.mig_enabled = profile == "enabled";
                       if (profile != "enabled") draft.device.mig_profile = std::move(profile);
                       return success();
                     }},
    Key<DeviceDraft>{
        {"owned", "true or false", "`false`: another allocator hands it out too", "false"},
        [](const Value& value, DeviceDraft& draft) -> Result<void> {
          TRY(draft.device.owned, value.truth());
          return success();
        }},
    Key<DeviceDraft>{{"sm_sharing", "true or false", "whether an MPS daemon can serve it", "false"},
                     [](const Value& value, DeviceDraft& draft) -> Result<void> {
                       TRY(draft.device.sm_sharing, value.truth());
                       return success();
                     }},
    Key<DeviceDraft>{{"cordoned", "true or false", "`true`: no new grants", "true"},
                     [](const Value& value, DeviceDraft& draft) -> Result<void> {
                       TRY(draft.device.cordoned, value.truth());
                       return success();
                     }},
};

Result<void> read_devices(const Value& value, std::vector<DeviceDraft>& drafts) {
  TRY(std::vector<Value> items, value.items());
  for (const Value& item : items) {
    DeviceDraft draft{.place = item.place()};
    draft.device.model = kPlainModel;
    TRY_VOID(read_section(device_section(), item, draft));
    if (!draft.has_memory) return item.error("'memory' is missing, for example memory: 80GiB");
    if (draft.count > 1 && !draft.uuid.empty()) {
      return item.error("a uuid names one device: leave out count, or leave out uuid");
    }
    drafts.push_back(std::move(draft));
  }
  return success();
}

Result<void> read_labels(const Value& value, NodeDraft& draft) {
  TRY(draft.node.labels, read_words_by_name(value));
  return success();
}

Result<void> read_backend(const Value& value, NodeDraft& draft) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kBackends = {
      {{"none", "none"}, {"guard", "guard"}, {"fractiond", "fractiond"}}};
  TRY(const std::string_view backend,
      value.choice(std::span<const std::pair<std::string_view, std::string_view>>(kBackends)));
  draft.way.backend = backend;
  draft.node.sizes_by_name = backend == "fractiond";
  return success();
}

Result<void> read_sharing_ready(const Value& value, NodeDraft& draft) {
  draft.way.says_ready = value.node().text != "unknown";
  draft.node.sharing_ready = false;
  if (!draft.way.says_ready) return success();
  TRY(draft.node.sharing_ready, value.truth());
  return success();
}

// "[0, 1, 200]": two places among the node's devices, and the pair's score.
Result<void> read_links(const Value& value, NodeDraft& draft) {
  TRY(std::vector<Value> items, value.items());
  for (const Value& item : items) {
    TRY(std::vector<Value> parts, item.items());
    if (parts.size() != 3) {
      return item.error("a link is [device, device, score], e.g. [0, 1, 200]");
    }
    TRY(const std::int64_t a, parts[0].number(0, core::kMaxDevicesPerNode - 1));
    TRY(const std::int64_t b, parts[1].number(0, core::kMaxDevicesPerNode - 1));
    TRY(const std::int64_t score, parts[2].number(0, core::kMostPairScore));
    draft.node.links.push_back(
        {.a = static_cast<int>(a), .b = static_cast<int>(b), .score = score});
  }
  return success();
}

// "key=value:NoSchedule", "key:NoSchedule".
Result<void> read_taints(const Value& value, NodeDraft& draft) {
  TRY(std::vector<Value> items, value.items());
  for (const Value& item : items) {
    TRY(const std::string text, item.word());
    const std::size_t colon = text.rfind(':');
    const std::size_t equals = text.find('=');
    const std::string effect = colon == std::string::npos ? "" : text.substr(colon + 1);
    if (effect != "NoSchedule" && effect != "NoExecute" && effect != "PreferNoSchedule") {
      return item.error("a taint is key=value:NoSchedule (or :NoExecute, :PreferNoSchedule)");
    }
    core::Taint taint;
    taint.key = text.substr(0, std::min(equals, colon));
    if (equals < colon) taint.value = text.substr(equals + 1, colon - equals - 1);
    taint.effect = effect;
    draft.node.taints.push_back(std::move(taint));
  }
  return success();
}

constexpr std::array kNodeKeys = {
    Key<NodeDraft>{{"name", "name", "its identity; `n-0..3` describes four alike", "n0", true},
                   [](const Value& value, NodeDraft& draft) -> Result<void> {
                     TRY(draft.node.name, value.word());
                     if (draft.node.name.find('/') != std::string::npos) {
                       return value.error("a node's name has no '/', which stands before a device");
                     }
                     return success();
                   }},
    Key<NodeDraft>{{"cpu", "cores", "allocatable cores; 64 when not said", "16"},
                   [](const Value& value, NodeDraft& draft) -> Result<void> {
                     TRY(draft.node.cpu, value.cores());
                     return success();
                   }},
    Key<NodeDraft>{
        {"ram", "memory", "allocatable memory of the host; 256GiB when not said", "64GiB"},
        [](const Value& value, NodeDraft& draft) -> Result<void> {
          TRY(draft.node.ram, value.memory());
          return success();
        }},
    Key<NodeDraft>{
        {"pods", "number", "how many workloads it can carry at once; 110 when not said", "110"},
        [](const Value& value, NodeDraft& draft) -> Result<void> {
          TRY(draft.node.pod_slots, value.number(0, 1'000'000));
          return success();
        }},
    Key<NodeDraft>{{"labels", "map of text", "its labels", "{zone: a}"}, read_labels},
    Key<NodeDraft>{
        {"taints", "list of text", "its taints, `key=value:Effect`", "[gpu=only:NoSchedule]"},
        read_taints},
    Key<NodeDraft>{{"links", "list of list of number",
                    "how well pairs of its devices are joined, `[device, device, score]`: 100 for "
                    "each NVLink between them, plus 10 to 60 for the PCIe path; devices count from "
                    "0",
                    "[[0, 1, 200]]"},
                   read_links},
    Key<NodeDraft>{{"replicas", "number", "parts per device for `nvidia.com/gpu.shared`", "4"},
                   [](const Value& value, NodeDraft& draft) -> Result<void> {
                     TRY(const std::int64_t replicas, value.number(0, 1000));
                     draft.node.gpu_replicas = static_cast<int>(replicas);
                     return success();
                   }},
    Key<NodeDraft>{{"sharing_ready", "true or false",
                    "`false`: what enforces shares on it does not work, `unknown`: nobody says so; "
                    "whole devices are unaffected",
                    "false"},
                   read_sharing_ready},
    Key<NodeDraft>{{"backend", "name",
                    "what holds a share to its size there: `none`, `guard` or `fractiond`, which "
                    "takes container names of at most 34 characters; `none` when not said",
                    "fractiond"},
                   read_backend},
    Key<NodeDraft>{
        {"cdi", "true or false",
         "of pods: whether devices are named in the CDI way; false when not said", "true"},
        [](const Value& value, NodeDraft& draft) -> Result<void> {
          TRY(draft.way.cdi, value.truth());
          return success();
        }},
    Key<NodeDraft>{{"cordoned", "true or false", "`true`: no new grants", "true"},
                   [](const Value& value, NodeDraft& draft) -> Result<void> {
                     TRY(draft.node.cordoned, value.truth());
                     return success();
                   }},
    Key<NodeDraft>{{"devices", "list of device",
                    "its devices, in the driver's order; a node without "
                    "has no GPU",
                    "[{memory: 80GiB, count: 8}]"},
                   [](const Value& value, NodeDraft& draft) -> Result<void> {
                     return read_devices(value, draft.devices);
                   }},
};

Result<void> read_nodes(const Value& value, FleetDraft& fleet) {
  TRY(std::vector<Value> items, value.items());
  for (const Value& item : items) {
    NodeDraft draft{.place = item.place(), .node = plain_node("")};
    TRY_VOID(read_section(node_section(), item, draft));
    auto names = expand_names(draft.node.name);
    if (!names.ok()) return item.error(names.error().message());
    for (std::string& name : *names) {
      draft.node.name = std::move(name);
      fleet.nodes.push_back(draft);
    }
  }
  return success();
}

Result<void> read_spec(const Value& value, FleetDraft& fleet) {
  TRY(const std::string spec, value.word());
  auto nodes = fleet_from_spec(spec);
  if (!nodes.ok()) return value.error(nodes.error().message());
  fleet.from_spec = *std::move(nodes);
  return success();
}

constexpr std::array kFleetKeys = {
    Key<FleetDraft>{{"spec", "text",
                     "nodes and devices in one word, `NODE=COUNTxSIZE:MODEL`, several "
                     "by comma",
                     "n1=2x16GiB,n2=8x80GiB:H100"},
                    read_spec},
    Key<FleetDraft>{{"reserve", "memory",
                     "kept back on every device that states no reserve of its own", "0MiB"},
                    [](const Value& value, FleetDraft& fleet) -> Result<void> {
                      TRY(fleet.reserve, value.memory());
                      return success();
                    }},
    Key<FleetDraft>{{"nodes", "list of node", "nodes described one by one",
                     "[{name: n0, devices: [{memory: 80GiB}]}]"},
                    read_nodes},
};

constexpr Section<DeviceDraft> kDevice{"device", "One device, or several alike, of a node.",
                                       kDeviceKeys};
constexpr Section<NodeDraft> kNode{"node", "One node of the fleet.", kNodeKeys};
constexpr Section<FleetDraft> kFleet{
    "fleet", "The machines. Instead of these keys `fleet:` may hold a SPEC alone.", kFleetKeys};

}  // namespace

const Section<DeviceDraft>& device_section() { return kDevice; }

const Section<NodeDraft>& node_section() { return kNode; }

const Section<FleetDraft>& fleet_section() { return kFleet; }

Result<std::vector<core::Device>> finish_devices(const std::vector<DeviceDraft>& drafts,
                                                 const core::Node& node,
                                                 std::optional<Memory> reserve,
                                                 std::string_view file) {
  std::vector<core::Device> devices;
  for (const DeviceDraft& draft : drafts) {
    if (node.devices.size() + devices.size() + static_cast<std::size_t>(draft.count) >
        core::kMaxDevicesPerNode) {
      return yaml::error_at(
          file, draft.place.line, draft.place.column,
          fmt::format("devices of {}: a node has at most {}", node.name, core::kMaxDevicesPerNode));
    }
    for (std::int64_t i = 0; i < draft.count; ++i) {
      core::Device device = draft.device;
      device.index = static_cast<int>(node.devices.size() + devices.size());
      device.pci_bus_id = derived_bus_id(device.index);
      if (!draft.has_reserve) {
        device.reserve = reserve.value_or(core::default_reserve(device.total.value_or(Memory{})));
      }
      device.uuid = draft.uuid.empty() ? derived_uuid(node.name, device.index, device_spec(device),
                                                      device.is_mig())
                                       : draft.uuid;
      devices.push_back(std::move(device));
    }
  }
  return devices;
}

Result<core::Node> finish_node(const NodeDraft& draft, std::optional<Memory> reserve,
                               std::string_view file) {
  core::Node node = draft.node;
  TRY(node.devices, finish_devices(draft.devices, node, reserve, file));
  if (const auto good = core::check_node(node); !good.ok()) {
    return yaml::error_at(file, draft.place.line, draft.place.column, good.error().message());
  }
  return node;
}

Result<std::map<std::string, std::string>> read_words_by_name(const Value& value) {
  TRY(auto entries, value.entries());
  std::map<std::string, std::string> words;
  for (const auto& [name, text] : entries) {
    TRY(words[name.text], text.word());
  }
  return words;
}

Result<void> read_fleet(const Value& value, Script& script) {
  FleetDraft fleet;
  if (value.node().is_scalar()) {
    TRY_VOID(read_spec(value, fleet));
  } else {
    TRY_VOID(read_section(fleet_section(), value, fleet));
  }
  std::vector<core::Node> nodes = std::move(fleet.from_spec);
  if (fleet.reserve) {
    for (core::Node& node : nodes) {
      for (core::Device& device : node.devices)
        device.reserve = *fleet.reserve;
    }
  }
  for (const NodeDraft& draft : fleet.nodes) {
    TRY(core::Node node, finish_node(draft, fleet.reserve, value.file()));
    script.ways[node.name] = draft.way;
    nodes.push_back(std::move(node));
  }
  if (nodes.empty()) return value.error("a fleet has nodes: give `spec` or `nodes`");
  std::set<std::string> names;
  std::set<std::string> uuids;
  for (const core::Node& node : nodes) {
    if (!names.insert(node.name).second) {
      return value.error(fmt::format("the node {} is given twice", node.name));
    }
    for (const core::Device& device : node.devices) {
      if (!uuids.insert(device.uuid).second) {
        return value.error(fmt::format("the device {} is given twice", device.uuid));
      }
    }
  }
  script.fleet = std::move(nodes);
  return success();
}

std::vector<std::string> device_classes(const std::vector<core::Node>& fleet) {
  std::set<std::string> models;
  for (const core::Node& node : fleet) {
    for (const core::Device& device : node.devices) {
      if (!device.mig_enabled) models.insert(device.model);
    }
  }
  return {models.begin(), models.end()};
}

Result<std::vector<core::Node>> parse_fleet(std::string_view text, std::string_view file_name) {
  TRY(const std::vector<yaml::Node> documents, yaml::parse(text, file_name));
  for (const yaml::Node& document : documents) {
    const yaml::Node* fleet = document.find("fleet");
    if (fleet == nullptr) continue;
    Script script;
    TRY_VOID(read_fleet(Value(*fleet, "fleet", file_name), script));
    return std::move(script.fleet);
  }
  return yaml::error_at(file_name, 1, 1,
                        "the file has no section `fleet:`, for example fleet: 8x80GiB:H100");
}

}  // namespace berth::scenario
