#include "kube/scheduler/face.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "api/write.h"
#include "core/ledger/ledger.h"
#include "json/value.h"
#include "kube/objects/time.h"
#include "scenario/verdict_json.h"

namespace berth::kube {

namespace {

using json::Value;

net::Response json_response(const Value& value) { return {.body = json::dump(value)}; }

net::Response not_found(std::string_view what) {
  return net::error_response({.status = 404,
                              .code = "unknown-lease",
                              .message = fmt::format("{} is not known here", what),
                              .hint = "GET /v1/leases lists the pods of this scheduler"});
}

// The states of leases.md 3.4, as far as a pod has them.
std::string_view state_of(const Harbour::View& pod) {
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

constexpr std::array<std::string_view, 10> kPhaseNames{"refused",   "gated",   "kept", "waiting",
                                                       "preparing", "granted", "sent", "bound",
                                                       "confirmed", "foreign"};

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

Value lease_value(const Harbour& harbour, const std::string& id, const Harbour::View& pod) {
  const std::string_view state = state_of(pod);
  Value value = json::object_of(16)
                    .add("id", id)
                    .add("owner", id.substr(0, id.find('/')))
                    .add("key", id)
                    .add("state", state)
                    .add("verdict", state == "waiting" || state == "never" ? state : "granted");
  const auto words = harbour.words(id);
  const bool says = words.has_value() && (state == "waiting" || state == "never");
  value.add("reason", says ? Value(words->reason) : Value());
  value.add("message", says ? Value(words->message) : Value());
  Value devices = devices_of(harbour, pod);
  std::int64_t mib = 0;
  std::int64_t limit = 0;
  for (const Value& device : devices.as_array()) {
    mib = std::max(mib, device.integer("memory_mib"));
    limit = std::max(limit, device.integer("limit_mib"));
  }
  value.add("memory_mib", mib).add("limit_mib", limit);
  value.add("devices", std::move(devices));
  value.add("node", pod.node.empty() ? Value() : Value(pod.node));
  value.add("queued_at", time_text(pod.created_ms));
  value.add("queue", json::object({{"name", pod.queue}}));
  value.add("phase", kPhaseNames[static_cast<std::size_t>(pod.phase)]);
  return value;
}

std::string_view mode_of(const core::DeviceFace& face) {
  switch (face.use) {
    case core::DeviceUse::free: return "free";
    case core::DeviceUse::whole: return "exclusive";
    case core::DeviceUse::shared: break;
  }
  return face.mode == core::SharingMode::sm_sharing ? "sm-sharing" : "time-slicing";
}

Value device_value(const core::Engine& engine, core::NodeId node, core::DeviceId id) {
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

}  // namespace

net::Response Face::answer(const net::Request& request) const {
  if (request.method != "GET") {
    return net::error_response({.status = 405,
                                .code = "read-only",
                                .message = "nothing can be changed here",
                                .hint = "pods are made and deleted through the API server"});
  }
  if (request.path == "/readyz") {
    return readiness();
  }
  if (request.path == "/metrics") {
    return metrics();
  }
  const std::vector<std::string>& path = request.segments;
  if (path.size() < 2 || path[0] != "v1") {
    return net::error_response({.status = 404,
                                .code = "unknown-path",
                                .message = "there is nothing at this path",
                                .hint = "/livez, /readyz, /metrics, /v1/devices, /v1/leases, "
                                        "/v1/queues"});
  }
  if (facts_.harbour == nullptr) {
    return net::error_response(
        {.status = 503,
         .code = "not-ready",
         .message = facts_.leader.empty() ? "nobody leads yet"
                                          : fmt::format("{} leads; ask there", facts_.leader),
         .hint = "the service of the scheduler leads to the one that is ready"});
  }
  if (path[1] == "devices" && path.size() == 2) {
    return devices();
  }
  if (path[1] == "queues" && path.size() == 2) {
    return queues();
  }
  if (path[1] == "leases") {
    // An id is NAMESPACE/NAME: one segment when it is encoded, two when it is not.
    const bool explains = path.size() > 3 && path.back() == "explain";
    std::string id;
    for (std::size_t i = 2; i + (explains ? 1 : 0) < path.size(); ++i) {
      id += (i == 2 ? "" : "/") + path[i];
    }
    return path.size() == 2 ? leases() : explains ? explain(id) : lease(id);
  }
  return not_found(request.path);
}

net::Response Face::readiness() const {
  net::Response response{.content_type = "text/plain"};
  if (facts_.harbour == nullptr) {
    // One that waits to lead is ready for what it is there for.
    response.body = facts_.leader.empty() ? "standby: nobody leads yet\n"
                                          : fmt::format("standby: {} leads\n", facts_.leader);
    return response;
  }
  const std::vector<std::string> troubles = facts_.caches->troubles();
  response.status = facts_.harbour->ready() ? 200 : 503;
  response.body = facts_.harbour->ready() ? "ready\n" : "not ready\n";
  for (const std::string& trouble : troubles) {
    response.body += trouble + "\n";
  }
  if (const std::string credentials = facts_.client->trouble(); !credentials.empty()) {
    response.body += credentials + "\n";
  }
  return response;
}

net::Response Face::devices() const {
  const core::Engine& engine = facts_.harbour->engine();
  json::Array devices;
  std::vector<core::NodeId> nodes;
  for (std::size_t i = 0; i < engine.fleet().node_slots(); ++i) {
    if (engine.fleet().present(core::NodeId(i))) {
      nodes.emplace_back(i);
    }
  }
  std::ranges::sort(nodes, {}, [&](core::NodeId id) { return engine.fleet().node(id).name; });
  for (const core::NodeId node : nodes) {
    for (const core::DeviceId id : engine.fleet().devices_of(node)) {
      devices.push_back(device_value(engine, node, id));
    }
  }
  return json_response(json::object({{"devices", std::move(devices)}}));
}

net::Response Face::leases() const {
  json::Array leases;
  for (const std::string& id : facts_.harbour->ours()) {
    leases.push_back(lease_value(*facts_.harbour, id, *facts_.harbour->view(id)));
  }
  return json_response(json::object({{"leases", std::move(leases)}}));
}

net::Response Face::lease(const std::string& id) const {
  const auto pod = facts_.harbour->view(id);
  if (!pod.has_value() || pod->phase == PodPhase::foreign) {
    return not_found("pod " + id);
  }
  return json_response(lease_value(*facts_.harbour, id, *pod));
}

net::Response Face::explain(const std::string& id) const {
  const auto pod = facts_.harbour->view(id);
  if (!pod.has_value() || pod->phase == PodPhase::foreign) {
    return not_found("pod " + id);
  }
  Value value = lease_value(*facts_.harbour, id, *pod);
  const auto verdict = facts_.harbour->engine().explain(id);
  if (verdict.ok()) {
    const auto detail = json::parse(scenario::verdict_json(*verdict));
    if (detail.ok()) {
      value.add("detail", *detail);
    }
    value.add("attempts", verdict->attempts);
  }
  return json_response(value);
}

net::Response Face::queues() const {
  api::QueueCounts counts;
  for (const std::string& id : facts_.harbour->ours()) {
    const auto pod = facts_.harbour->view(id);
    const std::string_view state = state_of(*pod);
    counts[pod->queue].waiting += state == "waiting" ? 1 : 0;
    counts[pod->queue].running +=
        state == "granted" || state == "active" || state == "ending" ? 1 : 0;
  }
  return json_response(api::queues_value(facts_.harbour->engine().queues(), std::move(counts)));
}

}  // namespace berth::kube
