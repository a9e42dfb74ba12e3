#include "gpu/simulated.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/suggest.h"
#include "gpu/mig_name.h"
#include "gpu/problems.h"
#include "gpu/reading.h"
#include "gpu/xid.h"

namespace berth::gpu {

namespace {

constexpr Range kPids{1, 1 << 22};  // what Linux gives out at most
constexpr Range kIndices{0, 1023};
constexpr Range kXids{0, 9999};
constexpr std::int64_t kMostAgeMs = std::int64_t{100} * 366 * 24 * 3600 * 1000;
constexpr Range kAges{-kMostAgeMs, kMostAgeMs};
constexpr std::string_view kTotalUnknown = "total_mib is unknown";

std::string bus_id(int index) { return fmt::format("00000000:{:02X}:00.0", index + 1); }

int free_index(const core::Node& node) {
  std::set<int> taken;
  for (const core::Device& device : node.devices) {
    if (!device.is_mig()) taken.insert(device.index);
  }
  int index = 0;
  while (taken.contains(index))
    ++index;
  return index;
}

int instances_of(const core::Node& node, std::string_view parent) {
  return static_cast<int>(std::ranges::count(
      node.devices, parent,
      [](const core::Device& device) -> std::string_view { return device.mig_parent; }));
}

}  // namespace

SimulatedSource::SimulatedSource(std::vector<core::Node> nodes) : nodes_(std::move(nodes)) {
  for (const core::Node& node : nodes_) {
    for (const core::Device& device : node.devices) {
      Sample sample;
      sample.unhealthy = device.health != core::DeviceHealth::ok;
      samples_.emplace(device.uuid, std::move(sample));
    }
  }
}

Result<std::unique_ptr<SimulatedSource>> SimulatedSource::make(std::vector<core::Node> nodes) {
  std::map<std::string, std::string> owner;
  for (const core::Node& node : nodes) {
    TRY_VOID(core::check_node(node));
    for (const core::Device& device : node.devices) {
      const auto [at, fresh] = owner.emplace(device.uuid, node.name);
      if (!fresh) {
        return invalid_argument(
            fmt::format("device {} is on the nodes {} and {}; give every device one node",
                        device.uuid, at->second, node.name));
      }
    }
  }
  return std::unique_ptr<SimulatedSource>(new SimulatedSource(std::move(nodes)));
}

core::Node* SimulatedSource::find_node(std::string_view name) {
  const auto found = std::ranges::find(nodes_, name, &core::Node::name);
  return found == nodes_.end() ? nullptr : &*found;
}

std::pair<core::Node*, core::Device*> SimulatedSource::find(std::string_view uuid) {
  for (core::Node& node : nodes_) {
    const auto found = std::ranges::find(node.devices, uuid, &core::Device::uuid);
    if (found != node.devices.end()) return {&node, &*found};
  }
  return {nullptr, nullptr};
}

Error SimulatedSource::no_device(std::string_view uuid) const {
  std::vector<std::string> known;
  for (const auto& [name, sample] : samples_)
    known.push_back(name);
  const std::string shown = shortened(printable(uuid), 80);
  if (known.empty()) {
    return {ErrorCode::not_found,
            fmt::format("uuid is \"{}\": no device is simulated; PUT one first", shown)};
  }
  return {ErrorCode::not_found, fmt::format("uuid is \"{}\": no such device; the nearest is {}",
                                            shown, nearest(uuid, known))};
}

DeviceReport SimulatedSource::report_of(const core::Node& node, const core::Device& device) const {
  const Sample& sample = samples_.find(device.uuid)->second;
  DeviceReport report{.node = node.name, .device = device};
  report.age_ms = sample.age_ms.value_or(0);
  report.restated = sample.restated;
  report.attributed = attribution_ && sample.processes_known;
  if (attribution_) report.processes = sample.processes;
  if (sample.used && sample.age_ms && device.total) {
    Memory held;
    for (const ProcessUse& process : sample.processes)
      held += process.used;
    report.used = std::max(*sample.used, held);
  }
  report.xids = sample.xids;
  report.app_xids = sample.app_xids;
  int lost_by = sample.lost_by;
  bool unhealthy = sample.unhealthy;
  if (const auto parent = samples_.find(device.mig_parent); parent != samples_.end()) {
    if (lost_by == 0) lost_by = parent->second.lost_by;
    unhealthy = unhealthy || parent->second.unhealthy;
    report.xids.insert(report.xids.end(), parent->second.xids.begin(), parent->second.xids.end());
    report.app_xids.insert(report.app_xids.end(), parent->second.app_xids.begin(),
                           parent->second.app_xids.end());
  }
  report.lost = lost_by != 0;
  unhealthy = unhealthy || report.lost;
  report.device.health = unhealthy ? core::DeviceHealth::unhealthy : core::DeviceHealth::ok;
  if (report.lost) {
    add_problem(report.problem, fmt::format("critical XID {} ({})", lost_by,
                                            xid_class_name(classify_xid(lost_by))));
  }
  for (const auto& [field, problem] : sample.problems)
    add_problem(report.problem, problem);
  if (!device.total && !sample.problems.contains("total_mib")) {
    add_problem(report.problem, kTotalUnknown);
  }
  return report;
}

Report SimulatedSource::read() {
  const std::scoped_lock lock(mutex_);
  Report report;
  if (!up_) {
    report.up = false;
    report.why_down =
        "the simulated source is switched off; PATCH /v1/simulated/source {\"up\": true}";
    return report;
  }
  for (const core::Node& node : nodes_) {
    for (const core::Device& device : node.devices)
      report.devices.push_back(report_of(node, device));
  }
  for (auto& [uuid, sample] : samples_) {
    sample.restated = false;
    sample.xids.clear();
    sample.app_xids.clear();
  }
  return report;
}

void SimulatedSource::patch_used(Sample& sample, const Raw& used) {
  sample.problems.erase("used_mib");
  sample.used.reset();
  const auto memory = read_mib("used_mib", used.text(), Round::up);
  if (memory.ok()) {
    sample.used = *memory;
  } else {
    sample.problems["used_mib"] = memory.error().message();
  }
}

void SimulatedSource::patch_processes(Sample& sample, const RawProcesses& processes) {
  sample.problems.erase("processes");
  sample.processes.clear();
  sample.processes_known = true;
  const auto complain = [&sample](const std::string& why) {
    sample.processes_known = false;
    sample.problems.try_emplace("processes", why);
  };
  if (const auto* text = std::get_if<std::string>(&processes)) {
    complain(fmt::format("processes is \"{}\": not a list", shortened(printable(*text), 40)));
    return;
  }
  for (const SimulatedProcess& given : std::get<std::vector<SimulatedProcess>>(processes)) {
    const auto pid = read_whole("processes.pid", given.pid.text(), kPids);
    const auto used = read_mib("processes.used_mib", given.used_mib.text(), Round::up);
    if (!pid.ok()) complain(pid.error().message());
    if (!used.ok()) complain(used.error().message());
    if (!pid.ok()) continue;
    sample.processes.push_back({.pid = *pid,
                                .used = used.ok() ? *used : Memory(),
                                .used_known = used.ok(),
                                .name = given.name});
  }
}

void SimulatedSource::patch_health(Sample& sample, const std::string& health) {
  sample.problems.erase("health");
  sample.unhealthy = health != "ok";
  if (health == "ok") {
    sample.lost_by = 0;
  } else if (health != "unhealthy") {
    sample.problems["health"] =
        fmt::format("health is \"{}\": neither ok nor unhealthy, so taken for unhealthy",
                    shortened(printable(health), 40));
  }
}

void SimulatedSource::patch_xid(Sample& sample, const Raw& xid) {
  sample.problems.erase("xid");
  const auto number = read_whole("xid", xid.text(), kXids);
  if (!number.ok()) {
    sample.problems["xid"] = number.error().message();
    return;
  }
  const auto code = static_cast<int>(*number);
  if (code == 0) {
    sample.lost_by = 0;
  } else if (is_critical_xid(code)) {
    sample.lost_by = code;
    sample.xids.push_back(code);
  } else {
    sample.app_xids.push_back(code);
  }
}

void SimulatedSource::patch_age(Sample& sample, const std::optional<Raw>& age) {
  sample.problems.erase("sample_age_ms");
  sample.age_ms = 0;
  if (!age) return;
  const auto given = read_whole("sample_age_ms", age->text(), kAges);
  if (given.ok()) {
    sample.age_ms = *given;
  } else {
    sample.age_ms.reset();
    sample.problems["sample_age_ms"] = given.error().message();
  }
}

Result<void> SimulatedSource::patch(std::string_view uuid, const DevicePatch& patch) {
  const std::scoped_lock lock(mutex_);
  const auto [node, device] = find(uuid);
  if (device == nullptr) return no_device(uuid);
  Sample& sample = samples_.find(uuid)->second;
  sample.restated = true;
  if (patch.used_mib) patch_used(sample, *patch.used_mib);
  if (patch.processes) patch_processes(sample, *patch.processes);
  if (patch.health) patch_health(sample, *patch.health);
  if (patch.xid) patch_xid(sample, *patch.xid);
  patch_age(sample, patch.sample_age_ms);
  if (patch.index) {
    sample.problems.erase("index");
    if (const auto index = read_whole("index", patch.index->text(), kIndices); index.ok()) {
      device->index = static_cast<int>(*index);
    } else {
      sample.problems["index"] = index.error().message();
    }
  }
  return success();
}

Result<core::Device> SimulatedSource::describe(std::string_view uuid, const NewDevice& wanted,
                                               const core::Node& node) const {
  core::Device device;
  device.uuid = uuid;
  device.model = wanted.model;
  if (const auto total = read_mib("total_mib", wanted.total_mib.text(), Round::down);
      total.ok() && *total > Memory()) {
    device.total = *total;
    device.reserve = core::default_reserve(*total);
  }
  if (wanted.mig_parent.empty()) {
    device.index = free_index(node);
    device.pci_bus_id = bus_id(device.index);
    return device;
  }
  const auto parent = std::ranges::find(node.devices, wanted.mig_parent, &core::Device::uuid);
  if (parent == node.devices.end()) {
    return Error(ErrorCode::not_found,
                 fmt::format("mig_parent is \"{}\": no device of node {}; PUT the GPU first",
                             shortened(printable(wanted.mig_parent), 80), node.name));
  }
  if (parent->is_mig() || parent->uuid == uuid) {
    return invalid_argument(fmt::format(
        "mig_parent is \"{}\": an instance is cut from a GPU; name the GPU", parent->uuid));
  }
  device.index = instances_of(node, parent->uuid);
  device.pci_bus_id = parent->pci_bus_id;
  device.numa = parent->numa;
  device.mig_parent = parent->uuid;
  device.mig_profile = wanted.mig_profile;
  if (device.mig_profile.empty()) {
    device.mig_profile = mig_profile_name(
        {.total = parent->total.value_or(Memory()), .instance = device.total.value_or(Memory())});
  }
  return device;
}

Result<void> SimulatedSource::put(std::string_view uuid, const NewDevice& wanted) {
  const std::scoped_lock lock(mutex_);
  core::Node* node = find_node(wanted.node);
  if (node == nullptr) {
    std::vector<std::string> known;
    for (const core::Node& other : nodes_)
      known.push_back(other.name);
    return Error(ErrorCode::not_found,
                 fmt::format("node is \"{}\": no such node; the nearest is {}",
                             shortened(printable(wanted.node), 80), nearest(wanted.node, known)));
  }
  if (const auto [owner, known] = find(uuid); owner != nullptr && owner != node) {
    return Error(ErrorCode::already_exists,
                 fmt::format("uuid is \"{}\": the device is on node {}; DELETE it there first",
                             known->uuid, owner->name));
  }
  TRY(core::Device device, describe(uuid, wanted, *node));
  core::Node changed = *node;
  const auto old = std::ranges::find(changed.devices, uuid, &core::Device::uuid);
  if (old == changed.devices.end()) {
    changed.devices.push_back(device);
  } else {
    if (old->mig_parent == device.mig_parent) {
      device.index = old->index;
      device.pci_bus_id = old->pci_bus_id;
    }
    device.mig_enabled = old->mig_enabled;
    *old = device;
  }
  if (!device.mig_parent.empty()) {
    std::ranges::find(changed.devices, device.mig_parent, &core::Device::uuid)->mig_enabled = true;
  }
  TRY_VOID(core::check_node(changed));
  *node = std::move(changed);
  Sample sample;
  if (!device.total) {
    const auto why = read_mib("total_mib", wanted.total_mib.text(), Round::down);
    sample.problems["total_mib"] =
        why.ok() ? "total_mib is 0: a device has memory" : why.error().message();
  }
  samples_.insert_or_assign(std::string(uuid), std::move(sample));
  return success();
}

Result<void> SimulatedSource::remove(std::string_view uuid) {
  const std::scoped_lock lock(mutex_);
  const auto [node, device] = find(uuid);
  if (device == nullptr) return no_device(uuid);
  const std::string parent = device->mig_parent;
  std::erase_if(node->devices, [&, name = std::string(uuid)](const core::Device& other) {
    const bool goes = other.uuid == name || other.mig_parent == name;
    if (goes) samples_.erase(other.uuid);
    return goes;
  });
  node->links.clear();  // they name places in the list of devices
  if (!parent.empty() && instances_of(*node, parent) == 0) {
    std::ranges::find(node->devices, parent, &core::Device::uuid)->mig_enabled = false;
  }
  return success();
}

void SimulatedSource::set_up(bool up) {
  const std::scoped_lock lock(mutex_);
  up_ = up;
}

void SimulatedSource::set_attribution(bool on) {
  const std::scoped_lock lock(mutex_);
  attribution_ = on;
}

bool SimulatedSource::up() const {
  const std::scoped_lock lock(mutex_);
  return up_;
}

bool SimulatedSource::attribution() const {
  const std::scoped_lock lock(mutex_);
  return attribution_;
}

std::vector<core::Node> SimulatedSource::nodes() const {
  const std::scoped_lock lock(mutex_);
  return nodes_;
}

}  // namespace berth::gpu
