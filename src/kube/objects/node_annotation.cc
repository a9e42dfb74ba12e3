// The annotation `berth.dev/devices`: one line of JSON (interfaces.md 7).
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "json/value.h"
#include "kube/objects/node_parts.h"

namespace berth::kube {

using json::Value;

namespace {

// Reads one member after the other and keeps the first fault.
class AnnotationReader {
 public:
  AnnotationReader(const NodeRules& rules, AnnotatedDevices& into) : rules_(rules), into_(into) {}

  void read(const Value& root) {
    if (!root.is_object()) {
      return fault("", "an object with v, backend, owned and devices");
    }
    const std::int64_t version = integer(root, "v", 1, 1, 1'000'000, true);
    if (version > 1) {
      return fault(fmt::format("v={}", version),
                   "v 1; a newer Berth wrote this, so upgrade the scheduler first");
    }
    read_backend(root);
    if (const Value* cdi = root.find("cdi")) {
      into_.cdi_known = cdi->is_bool();
    }
    into_.cdi = flag(root, "cdi", false);
    into_.ready = flag(root, "ready", false);
    const bool owned = flag(root, "owned", false);
    const Value* devices = root.find("devices");
    if (devices == nullptr || !devices->is_array()) {
      return fault("devices", "a list of devices");
    }
    if (devices->as_array().size() > core::kMaxDevicesPerNode) {
      return fault("devices", fmt::format("at most {} devices", core::kMaxDevicesPerNode));
    }
    for (const Value& item : devices->as_array()) {
      read_device(item, owned);
    }
  }

 private:
  void read_backend(const Value& root) {
    const std::string name = text(root, "backend", false);
    if (name.empty() || name == "none") {
      into_.backend = NodeBackend::none;
    } else if (name == "guard") {
      into_.backend = NodeBackend::guard;
    } else if (name == "fractiond") {
      into_.backend = NodeBackend::fractiond;
    } else {
      fault(fmt::format("backend={}", name), "none, guard or fractiond");
    }
  }

  void read_device(const Value& from, bool owned) {
    where_ = fmt::format("devices[{}].", into_.devices.size());
    core::Device device;
    if (!from.is_object()) {
      return fault("", "an object with uuid and totalMiB");
    }
    device.uuid = text(from, "uuid", true);
    device.index = static_cast<int>(
        integer(from, "index", static_cast<std::int64_t>(into_.devices.size()), 0, 1023, false));
    device.model = text(from, "model", false);
    device.numa = static_cast<int>(integer(from, "numa", -1, -1, 1023, false));
    device.pci_bus_id = text(from, "pci", false);
    device.owned = owned;
    if (const Value* total = from.find("totalMiB"); total != nullptr && !total->is_null()) {
      device.total = Memory::mib(integer(from, "totalMiB", 0, 1, kMostMib, true));
    }
    read_reserve(from, device);
    read_mig(from, device);
    if (text(from, "health", false) == "unhealthy") {
      device.health = core::DeviceHealth::unhealthy;
    }
    const bool twice = std::ranges::any_of(
        into_.devices, [&](const core::Device& d) { return d.uuid == device.uuid; });
    if (twice) {
      return fault("uuid", "a UUID of its own: this one stands twice");
    }
    into_.devices.push_back(std::move(device));
  }

  void read_reserve(const Value& from, core::Device& device) {
    if (const Value* stated = from.find("reserveMiB"); stated != nullptr && !stated->is_null()) {
      device.reserve = Memory::mib(integer(from, "reserveMiB", 0, 0, kMostMib, true));
    } else if (device.total) {
      device.reserve = rules_.reserve.value_or(core::default_reserve(*device.total));
      into_.notes.push_back(fmt::format("{}: no reserve stated, {} MiB are kept back", device.uuid,
                                        device.reserve.ceil_mib()));
    }
  }

  // null or absent: a whole GPU. {"profile","parent"}: an instance. {"enabled":true}: a GPU that is
  // cut into instances and not offered itself.
  void read_mig(const Value& from, core::Device& device) {
    const Value* mig = from.find("mig");
    if (mig == nullptr || mig->is_null()) {
      return;
    }
    if (!mig->is_object()) {
      return fault("mig", "null, or an object with profile and parent");
    }
    device.mig_enabled = flag(*mig, "enabled", false);
    device.mig_profile = text(*mig, "profile", !device.mig_enabled);
    device.mig_parent = text(*mig, "parent", false);
  }

  std::string text(const Value& from, std::string_view name, bool required) {
    const Value* found = from.find(name);
    if (found != nullptr && found->is_string() && (!required || !found->as_string().empty())) {
      return found->as_string();
    }
    if (required || (found != nullptr && !found->is_null() && !found->is_string())) {
      fault(name, "a text");
    }
    return {};
  }

  bool flag(const Value& from, std::string_view name, bool absent) {
    const Value* found = from.find(name);
    if (found == nullptr || found->is_null()) {
      return absent;
    }
    if (!found->is_bool()) {
      fault(name, "true or false");
      return absent;
    }
    return found->as_bool();
  }

  std::int64_t integer(const Value& from, std::string_view name, std::int64_t absent,
                       std::int64_t least, std::int64_t most, bool required) {
    const Value* found = from.find(name);
    if (!required && (found == nullptr || found->is_null())) {
      return absent;
    }
    const bool good = found != nullptr && found->is_integer() && found->as_integer() >= least &&
                      found->as_integer() <= most;
    if (!good) {
      fault(name, fmt::format("a whole number from {} to {}", least, most));
      return absent;
    }
    return found->as_integer();
  }

  void fault(std::string_view what, std::string_view rule) {
    if (into_.problem.empty()) {
      into_.problem = node_problem("BadNodeAnnotation", kDevicesAnnotation,
                                   fmt::format("{}{}", where_, what), rule);
    }
  }

  const NodeRules& rules_;
  AnnotatedDevices& into_;
  std::string where_;
};

}  // namespace

AnnotatedDevices read_device_annotation(std::string_view text, const NodeRules& rules) {
  AnnotatedDevices into;
  const auto root = json::parse(text);
  if (!root.ok()) {
    into.problem = node_problem("BadNodeAnnotation", kDevicesAnnotation, text,
                                fmt::format("one line of JSON ({})", root.error().message()));
    return into;
  }
  AnnotationReader(rules, into).read(*root);
  return into;
}

}  // namespace berth::kube
