#include "kube/objects/grant.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/wide.h"
#include "json/text.h"
#include "json/value.h"

namespace berth::kube {

using core::ContainerKind;
using core::SharingMode;
using json::Value;

namespace {

constexpr std::array<std::pair<ContainerKind, std::string_view>, 3> kKinds{
    {{ContainerKind::app, "app"},
     {ContainerKind::init, "init"},
     {ContainerKind::sidecar, "sidecar"}}};
constexpr std::array<std::pair<SharingMode, std::string_view>, 2> kModes{
    {{SharingMode::time_slicing, "time-slicing"}, {SharingMode::sm_sharing, "sm-sharing"}}};

template <typename Table, typename T>
std::string_view name_in(const Table& table, T value) {
  for (const auto& [known, name] : table) {
    if (known == value) {
      return name;
    }
  }
  return "";
}

// What an sm-sharing share counts as compute: declared, else in proportion to its memory, at least
// one thousandth (annotations.md 4.1, L6).
int compute_of(const core::DeviceAsk& ask, std::int64_t request_mib, std::int64_t usable_mib) {
  if (ask.mode != SharingMode::sm_sharing || ask.is_exclusive()) {
    return 0;
  }
  if (ask.compute_milli > 0) {
    return ask.compute_milli;
  }
  if (usable_mib <= 0) {
    return 1;
  }
  const Int128 milli = Int128{1000} * request_mib / usable_mib;
  return static_cast<int>(std::clamp<Int128>(milli, 1, 1000));
}

// Reads the annotation member by member; the first fault ends the record, not the reading, since
// devices that it names are in use whatever else is wrong with it.
class GrantReader {
 public:
  GrantReading run(std::string_view text) {
    const auto root = json::parse(text);
    if (!root.ok() || !root->is_object()) {
      fault(root.ok() ? "it is no object" : root.error().message());
      return std::move(reading_);
    }
    const Value* version = root->find("v");
    if (version == nullptr || !version->is_integer()) {
      fault("v is missing");
    } else if (version->as_integer() != 1) {
      fault(fmt::format("v is {}, and this Berth reads 1", version->as_integer()));
    }
    record_.id = text_of(*root, "id");
    record_.node = text_of(*root, "node");
    read_containers(*root);
    if (reading_.problem.empty()) {
      reading_.record = std::move(record_);
      return std::move(reading_);
    }
    reading_.node = std::move(record_.node);
    for (GrantedContainer& container : record_.containers) {
      std::ranges::move(container.devices, std::back_inserter(reading_.foreign));
    }
    return std::move(reading_);
  }

 private:
  void fault(std::string_view what) {
    if (reading_.problem.empty()) {
      reading_.problem =
          fmt::format("the annotation {} cannot be read: {}", kGrantAnnotation, printable(what));
    }
  }

  std::string text_of(const Value& from, std::string_view name) {
    const std::string_view text = from.text(name);
    if (text.empty()) {
      fault(fmt::format("{} is no text", name));
    }
    return std::string(text);
  }

  std::int64_t mib_of(const Value& from, std::string_view name) {
    const Value* found = from.find(name);
    if (found == nullptr || !found->is_integer() || found->as_integer() < 0 ||
        found->as_integer() > core::kMaxAskMib) {
      fault(fmt::format("{} is no size in MiB", name));
      return 0;
    }
    return found->as_integer();
  }

  template <typename Table>
  auto one_of(const Table& table, const Value& from, std::string_view name) {
    const std::string_view text = from.text(name);
    for (const auto& [value, known] : table) {
      if (text == known) {
        return value;
      }
    }
    fault(fmt::format("{} is {}", name, shortened(text, 40)));
    return table.front().first;
  }

  void read_containers(const Value& root) {
    const Value* containers = root.find("containers");
    if (containers == nullptr || !containers->is_array() || containers->as_array().empty()) {
      return fault("containers is no list");
    }
    for (const Value& from : containers->as_array()) {
      read_container(from);
    }
  }

  void read_container(const Value& from) {
    GrantedContainer& container = record_.containers.emplace_back();
    container.name = text_of(from, "name");
    container.kind = one_of(kKinds, from, "kind");
    container.mode = one_of(kModes, from, "mode");
    const Value* exclusive = from.find("exclusive");
    if (exclusive == nullptr || !exclusive->is_bool()) {
      fault("exclusive is not true or false");
    }
    container.exclusive = from.flag("exclusive");
    if (const Value* nano = from.find("nano"); nano != nullptr) {
      container.nano = from.integer("nano");
      if (container.nano < 1 || container.nano > kWholeNano.count()) {
        fault("nano is no share of a device");
      }
    }
    const Value* devices = from.find("devices");
    if (devices == nullptr || !devices->is_array() || devices->as_array().empty()) {
      return fault("devices is no list");
    }
    for (const Value& device : devices->as_array()) {
      read_device(device, container);
    }
    container.mig = container.exclusive && container.devices.front().uuid.starts_with("MIG-");
  }

  void read_device(const Value& from, GrantedContainer& container) {
    GrantedDevice device{.uuid = text_of(from, "uuid"),
                         .request_mib = mib_of(from, "requestMiB"),
                         .limit_mib = mib_of(from, "limitMiB")};
    if (device.limit_mib < device.request_mib) {
      fault("limitMiB is below requestMiB");
    }
    const bool twice = std::ranges::any_of(
        container.devices, [&](const GrantedDevice& d) { return d.uuid == device.uuid; });
    if (twice) {
      fault(fmt::format("device {} stands twice in one container", device.uuid));
    }
    container.devices.push_back(std::move(device));
  }

  GrantRecord record_;
  GrantReading reading_;
};

}  // namespace

GrantRecord record_of(const core::Grant& grant, const core::Request& request,
                      const core::Fleet& fleet) {
  GrantRecord record{.id = fmt::format("g-{:08x}", grant.number),
                     .node = fleet.node(grant.node).name};
  for (const core::ContainerGrant& granted : grant.containers) {
    if (granted.shares.empty()) {
      continue;
    }
    const core::ContainerAsk& ask = request.containers()[granted.container];
    GrantedContainer container{.name = ask.name,
                               .kind = ask.kind,
                               .exclusive = ask.gpu.is_exclusive(),
                               .mode = ask.gpu.mode,
                               .nano = ask.gpu.nano,
                               .mig = ask.gpu.kind == core::AskKind::mig};
    for (const core::DeviceShare& share : granted.shares) {
      container.devices.push_back({.uuid = fleet.uuid(share.device),
                                   .request_mib = share.request_mib,
                                   .limit_mib = std::max(share.limit_mib, share.request_mib)});
      if (container.compute_milli == 0 && fleet.present(share.device)) {
        container.compute_milli =
            compute_of(ask.gpu, share.request_mib, fleet.device(share.device).usable_mib());
      }
    }
    record.containers.push_back(std::move(container));
  }
  return record;
}

std::string grant_text(const GrantRecord& record) {
  json::Text text(128 + 192 * record.containers.size());
  text.open_object().key("containers").open_list();
  for (const GrantedContainer& container : record.containers) {
    text.open_object().key("devices").open_list();
    for (const GrantedDevice& device : container.devices) {
      text.open_object().key("limitMiB").put(device.limit_mib);
      text.key("requestMiB").put(device.request_mib);
      text.key("uuid").put(device.uuid).close_object();
    }
    text.close_list().key("exclusive").put(container.exclusive);
    text.key("kind").put(name_in(kKinds, container.kind));
    text.key("mode").put(name_in(kModes, container.mode));
    text.key("name").put(container.name);
    if (container.nano > 0) {
      text.key("nano").put(container.nano);
    }
    text.close_object();
  }
  text.close_list().key("id").put(record.id).key("node").put(record.node).key("v").put(1);
  return text.close_object().take();
}

GrantReading read_grant(std::string_view text) { return GrantReader().run(text); }

}  // namespace berth::kube
