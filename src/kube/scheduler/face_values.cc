#include "kube/scheduler/face_values.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "api/write.h"
#include "core/ledger/ledger.h"
#include "kube/objects/time.h"
#include "scenario/verdict_json.h"

namespace berth::kube {

namespace {

using json::Value;

constexpr std::array<std::string_view, 10> kPhaseNames{"refused",   "gated",   "kept", "waiting",
                                                       "preparing", "granted", "sent", "bound",
                                                       "confirmed", "foreign"};
// Of a cluster's devices only those are listed with a pod that waits.
constexpr std::size_t kMostDevices = 16;

Value devices_of(const Harbour& harbour, const Harbour::View& pod) {
  json::Array devices;
  if (pod.holds == nullptr) {
    return devices;
  }
  const core::Fleet& fleet = harbour.engine().fleet();
  for (const core::GrantAdopted::Share& share : pod.holds->shares) {
    const core::DeviceId id = fleet.find_device(share.uuid);
    const bool present = !id.is_none() && fleet.present(id);
    devices.push_back(json::object({{"uuid", share.uuid},
                                    {"node", pod.node},
                                    {"index", present ? fleet.device(id).index : 0},
                                    {"model", present ? fleet.device(id).model : std::string()},
                                    {"mig", present && fleet.device(id).is_mig()},
                                    {"memory_mib", share.request_mib},
                                    {"limit_mib", share.limit_mib}}));
  }
  return devices;
}

// What a pod that waits asks for, of its first container with a GPU.
std::optional<core::DeviceAsk> ask_of(const Harbour& harbour, const std::string& id) {
  const std::optional<core::Workload> workload = harbour.engine().workload(id);
  if (workload.has_value()) {
    for (const core::ContainerAsk& container : workload->request().containers()) {
      if (container.gpu.wants_gpu()) {
        return container.gpu;
      }
    }
  }
  return std::nullopt;
}

struct Sizes {
  std::int64_t request_mib = 0;
  std::int64_t limit_mib = 0;
};

Sizes sizes_of(const Harbour& harbour, const std::string& id, const Value& devices) {
  Sizes sizes;
  for (const Value& device : devices.as_array()) {
    sizes.request_mib = std::max(sizes.request_mib, device.integer("memory_mib"));
    sizes.limit_mib = std::max(sizes.limit_mib, device.integer("limit_mib"));
  }
  if (const auto ask = ask_of(harbour, id);
      devices.as_array().empty() && ask.has_value() && ask->kind == core::AskKind::memory) {
    sizes = {.request_mib = ask->mib, .limit_mib = ask->limit_mib.value_or(ask->mib)};
  }
  return sizes;
}

Value nearest_devices(const core::Engine& engine, const std::optional<core::DeviceAsk>& ask) {
  struct Near {
    core::NodeId node;
    core::DeviceId device;
    std::int64_t headroom = 0;
  };
  std::vector<Near> all;
  for (std::size_t i = 0; i < engine.fleet().node_slots(); ++i) {
    const core::NodeId node(i);
    if (engine.fleet().present(node)) {
      for (const core::DeviceId id : engine.fleet().devices_of(node)) {
        all.push_back(
            {node, id, engine.ledger().faces(node)[engine.fleet().place_of(id)].headroom});
      }
    }
  }
  std::ranges::stable_sort(all, std::greater{}, &Near::headroom);
  all.resize(std::min(all.size(), kMostDevices));
  json::Array rows;
  for (const Near& near : all) {
    Value row = device_value(engine, near.node, near.device);
    const core::Device& device = engine.fleet().device(near.device);
    const std::int64_t claim =
        !ask.has_value() ? 0
                         : core::request_mib_on(*ask, device.usable_mib(),
                                                engine.fleet().node(near.node).gpu_replicas);
    const std::int64_t missing = std::max<std::int64_t>(claim - row.integer("headroom_mib"), 0);
    row.set("shortfall_mib", missing);
    if (row.find("reason")->is_null() && missing > 0) {
      row.set("reason", "no-room");
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Value own_devices(const core::Engine& engine, const Value& held) {
  json::Array rows;
  for (const Value& device : held.as_array()) {
    const core::DeviceId id = engine.fleet().find_device(device.text("uuid"));
    if (!id.is_none() && engine.fleet().present(id)) {
      rows.push_back(device_value(engine, engine.fleet().node_of(id), id));
    }
  }
  return rows;
}

std::string_view mode_of(const core::DeviceFace& face) {
  switch (face.use) {
    case core::DeviceUse::free: return "free";
    case core::DeviceUse::whole: return "exclusive";
    case core::DeviceUse::shared: break;
  }
  return face.mode == core::SharingMode::sm_sharing ? "sm-sharing" : "time-slicing";
}

}  // namespace

json::Value device_value(const core::Engine& engine, core::NodeId node, core::DeviceId id) {
  const core::Device& device = engine.fleet().device(id);
  const core::DeviceBook& book = engine.ledger().book(id);
  const core::DeviceFace& face = engine.ledger().faces(node)[engine.fleet().place_of(id)];
  const auto mib = [](std::int64_t bytes) { return Memory::bytes(bytes).ceil_mib(); };
  json::Array leases;
  std::int64_t foreign = 0;
  for (const core::Holding& holding : book.holdings) {
    leases.emplace_back(std::string(engine.uid(holding.workload)));
    foreign += holding.foreign ? holding.request : 0;
  }
  const core::Cause node_blocked = engine.ledger().node(node).blocked;
  const core::Cause blocked = node_blocked != core::Cause::none ? node_blocked : face.blocked;
  const bool open = blocked == core::Cause::none;
  return json::object(
      {{"uuid", device.uuid},
       {"node", engine.fleet().node(node).name},
       {"index", device.index},
       {"model", device.model},
       {"mig", device.is_mig()},
       {"mig_parent", device.mig_parent.empty() ? Value() : Value(device.mig_parent)},
       {"eligible", open},
       {"reason", open ? Value() : Value(core::cause_name(blocked))},
       {"health", device.health == core::DeviceHealth::ok ? "ok" : "unhealthy"},
       {"drained", device.cordoned},
       {"mode", mode_of(face)},
       {"isolation", device.is_mig() ? "hardware" : "advisory"},
       {"total_mib", device.total.has_value() ? Value(device.total->floor_mib()) : Value()},
       {"reserve_mib", device.reserve.ceil_mib()},
       {"margin_mib", 0},
       {"used_mib", Value()},
       {"foreign_mib", mib(foreign)},
       {"promised_mib", mib(book.requests - foreign)},
       {"committed_mib", mib(book.committed())},
       {"headroom_mib", Memory::bytes(face.headroom).floor_mib()},
       {"leases", std::move(leases)}});
}

std::string_view lease_state(const Harbour::View& pod) {
  if (pod.deleting && pod.phase == PodPhase::confirmed) {
    return "ending";
  }
  switch (pod.phase) {
    case PodPhase::refused: return "never";
    case PodPhase::gated:
    case PodPhase::kept:
    case PodPhase::waiting: return "waiting";
    case PodPhase::preparing:
    case PodPhase::granted:
    case PodPhase::sent:
    case PodPhase::bound: return "granted";
    case PodPhase::confirmed:
    case PodPhase::foreign: break;
  }
  return "active";
}

PlacesInQueue::PlacesInQueue(const Harbour& harbour) {
  for (const core::WaitingItem& item : harbour.engine().waiting()) {
    const std::string id(item.uid);
    const auto pod = harbour.view(id);
    if (pod.has_value()) {
      places_.emplace(id, std::pair(++waiting_[pod->queue], pod->queue));
      order_.push_back(id);
    }
  }
  for (const std::string& id : harbour.ours()) {
    if (!places_.contains(id)) {
      order_.push_back(id);
    }
  }
}

PlacesInQueue::Place PlacesInQueue::of(const std::string& id) const {
  const auto found = places_.find(id);
  return found == places_.end()
             ? Place{}
             : Place{.index = found->second.first, .of = waiting_.at(found->second.second)};
}

void LeaseFilter::set(std::string_view name, const std::string& value) {
  if (name == "owner") {
    owner_ = value;
  } else if (name == "queue") {
    queue_ = value;
  } else if (name == "device") {
    device_ = value;
  } else if (name == "state") {
    for (std::size_t from = 0; from < value.size();) {
      const std::size_t comma = std::min(value.find(',', from), value.size());
      states_.insert(value.substr(from, comma - from));
      from = comma + 1;
    }
    if (states_.erase(std::string("live")) > 0) {
      states_.insert({"waiting", "granted", "active", "ending", "never"});
    }
  }
}

bool LeaseFilter::takes(const Value& lease) const {
  const auto on_device = [&] {
    const json::Array& devices = lease.find("devices")->as_array();
    return std::ranges::any_of(devices,
                               [&](const Value& device) { return device.text("uuid") == device_; });
  };
  return (states_.empty() || states_.contains(lease.text("state"))) &&
         (owner_.empty() || lease.text("owner") == owner_) &&
         (queue_.empty() || lease.find("queue")->text("name") == queue_) &&
         (device_.empty() || on_device());
}

Value lease_value(const Harbour& harbour, const std::string& id, const PlacesInQueue& places,
                  Time now) {
  const Harbour::View pod = harbour.view(id).value();
  const std::string_view state = lease_state(pod);
  const bool waits = state == "waiting" || state == "never";
  const auto words = waits ? harbour.words(id) : std::nullopt;
  Value devices = devices_of(harbour, pod);
  const Sizes sizes = sizes_of(harbour, id, devices);
  Value queue = json::object({{"name", pod.queue}});
  if (const PlacesInQueue::Place place = places.of(id); place.index > 0) {
    queue.set("position", place.index);
    queue.set("of", place.of);
  }
  Value value = json::object_of(18)
                    .add("id", id)
                    .add("owner", id.substr(0, id.find('/')))
                    .add("key", id)
                    .add("state", state)
                    .add("verdict", waits ? state : "granted")
                    .add("reason", words.has_value() ? Value(words->reason) : Value())
                    .add("message", words.has_value() ? Value(words->message) : Value())
                    .add("memory_mib", sizes.request_mib)
                    .add("limit_mib", sizes.limit_mib)
                    .add("devices", std::move(devices))
                    .add("node", pod.node.empty() ? Value() : Value(pod.node))
                    .add("queued_at", time_text(pod.created_ms))
                    .add("queue", std::move(queue))
                    .add("phase", kPhaseNames[static_cast<std::size_t>(pod.phase)]);
  if (waits) {
    value.add("waited_seconds", std::max<std::int64_t>(now.ms() - pod.created_ms, 0) / 1000);
  } else {
    value.add("isolation", "advisory");
  }
  return value;
}

Value explained_lease(const Harbour& harbour, const std::string& id, const PlacesInQueue& places,
                      Time now) {
  Value value = lease_value(harbour, id, places, now);
  const core::Engine& engine = harbour.engine();
  const bool waits = value.text("state") == "waiting";
  const PlacesInQueue::Place place = places.of(id);
  value.set("position", place.index);
  value.set("of", place.of);
  value.set("devices", waits ? nearest_devices(engine, ask_of(harbour, id))
                             : own_devices(engine, *value.find("devices")));
  const auto verdict = engine.explain(id);
  if (!verdict.ok()) {
    return value;
  }
  // The sentence alone: the nodes by reason are in the condition, and in `detail`.
  if (waits && value.text("phase") == "waiting" && !verdict->summary.empty()) {
    value.set("message", verdict->summary);
  }
  json::Array helps;
  for (const core::Unblock& help : verdict->unblock) {
    helps.emplace_back(api::help_text(help));
  }
  value.set("alternatives", std::move(helps));
  if (auto detail = json::parse(scenario::verdict_json(*verdict)); detail.ok()) {
    value.set("detail", std::move(*detail));
  }
  value.set("attempts", verdict->attempts);
  return value;
}

}  // namespace berth::kube
