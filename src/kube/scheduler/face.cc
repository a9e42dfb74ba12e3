#include "kube/scheduler/face.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "api/write.h"
#include "json/value.h"
#include "kube/scheduler/face_values.h"

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
    return path.size() == 2 ? leases(request) : explains ? explain(id) : lease(id);
  }
  return not_found(request.path);
}

net::Response Face::readiness() const {
  net::Response response{.content_type = "text/plain"};
  if (facts_.harbour == nullptr) {
    // One that waits to lead is ready for what it is there for once it has read the cluster.
    response.status = facts_.caches->ready() ? 200 : 503;
    response.body = facts_.leader.empty() ? "standby: nobody leads yet\n"
                                          : fmt::format("standby: {} leads\n", facts_.leader);
  } else {
    response.status = facts_.harbour->ready() ? 200 : 503;
    response.body = facts_.harbour->ready() ? "ready\n" : "not ready\n";
  }
  for (const std::string& trouble : facts_.caches->troubles()) {
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

net::Response Face::leases(const net::Request& request) const {
  LeaseFilter filter;
  for (const auto& [name, value] : request.query) {
    filter.set(name, value);
  }
  json::Array leases;
  const PlacesInQueue places(*facts_.harbour);
  for (const std::string& id : places.in_order()) {
    Value lease = lease_value(*facts_.harbour, id, places, facts_.now);
    if (filter.takes(lease)) {
      leases.push_back(std::move(lease));
    }
  }
  return json_response(json::object({{"leases", std::move(leases)}}));
}

net::Response Face::lease(const std::string& id) const {
  const auto pod = facts_.harbour->view(id);
  if (!pod.has_value() || pod->phase == PodPhase::foreign) {
    return not_found("pod " + id);
  }
  return json_response(
      lease_value(*facts_.harbour, id, PlacesInQueue(*facts_.harbour), facts_.now));
}

net::Response Face::explain(const std::string& id) const {
  const auto pod = facts_.harbour->view(id);
  if (!pod.has_value() || pod->phase == PodPhase::foreign) {
    return not_found("pod " + id);
  }
  return json_response(
      explained_lease(*facts_.harbour, id, PlacesInQueue(*facts_.harbour), facts_.now));
}

net::Response Face::queues() const {
  api::QueueCounts counts;
  for (const std::string& id : facts_.harbour->ours()) {
    const auto pod = facts_.harbour->view(id);
    const std::string_view state = lease_state(*pod);
    counts[pod->queue].waiting += state == "waiting" ? 1 : 0;
    counts[pod->queue].running +=
        state == "granted" || state == "active" || state == "ending" ? 1 : 0;
  }
  return json_response(api::queues_value(facts_.harbour->engine().queues(), std::move(counts)));
}

}  // namespace berth::kube
