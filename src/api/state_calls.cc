// Devices, queues, and how the daemon is.
#include <array>
#include <utility>

#include "api/api.h"
#include "api/body.h"
#include "api/openapi.h"

namespace berth::api {

using json::Value;
using lease::Outcome;

void Api::devices(const net::Request& request, net::Reply& reply, const Moment& moment) {
  static_cast<void>(request);
  json::Array rows;
  for (const lease::Device& device : service_.devices(moment.now)) {
    rows.push_back(device_value(device));
  }
  answer(std::move(reply), json_response(200, json::object({{"devices", std::move(rows)}})));
}

void Api::patch_device(const net::Request& request, net::Reply& reply, const Moment& moment) {
  static constexpr auto kKnown = std::to_array<std::string_view>({"drained"});
  const Outcome<Value> body = read_body(request.body);
  if (!body) {
    return refuse(reply, body.error());
  }
  if (auto known = check_fields(*body, kKnown); !known) {
    return refuse(reply, known.error());
  }
  const Value* drained = body->find("drained");
  if (drained == nullptr || !drained->is_bool()) {
    return refuse(reply,
                  bad_field("drained", drained == nullptr ? Value() : *drained,
                            "drained is true or false, and required", "send {\"drained\": true}"));
  }
  const std::string& uuid = request.segments[2];
  if (auto done = service_.drain(party_of(request.caller), uuid, drained->as_bool(), moment.now);
      !done) {
    return refuse(reply, done.error());
  }
  for (const lease::Device& device : service_.devices(moment.now)) {
    if (device.uuid == uuid) {
      return answer(std::move(reply), json_response(200, device_value(device)));
    }
  }
  answer(std::move(reply), json_response(200, json::object({{"uuid", uuid}})));
}

void Api::queues(const net::Request& request, net::Reply& reply, const Moment& moment) {
  static_cast<void>(request);
  static_cast<void>(moment);
  answer(std::move(reply), json_response(200, queues_value(service_)));
}

void Api::healthz(const net::Request& request, net::Reply& reply, const Moment& moment) {
  static_cast<void>(request);
  static_cast<void>(moment);
  outbox_.push_back(
      {std::move(reply),
       json_response(200, json::object({{"status", "ok"}, {"version", options_.version}})), false});
}

void Api::readyz(const net::Request& request, net::Reply& reply, const Moment& moment) {
  static_cast<void>(request);
  static_cast<void>(moment);
  std::string why;
  if (!service_.writable()) {
    why = "ledger-unwritable";
  } else if (!service_.reconciled()) {
    why = "reconciling";
  } else if (options_.not_ready) {
    why = options_.not_ready();
  }
  net::Response response =
      why.empty() ? json_response(200, json::object({{"status", "ready"}}))
                  : json_response(503, json::object({{"status", "not-ready"},
                                                     {"reason", why},
                                                     {"message", service_.held_because()}}));
  if (!why.empty()) {
    response.headers.emplace_back("Retry-After", "1");
  }
  outbox_.push_back({std::move(reply), std::move(response), false});
}

void Api::metrics(const net::Request& request, net::Reply& reply, const Moment& moment) {
  static_cast<void>(request);
  net::Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_text(moment);
  outbox_.push_back({std::move(reply), std::move(response), false});
}

void Api::openapi(const net::Request& request, net::Reply& reply, const Moment& moment) {
  static_cast<void>(request);
  static_cast<void>(moment);
  net::Response response;
  response.body = kOpenapiDocument;
  outbox_.push_back({std::move(reply), std::move(response), false});
}

void Api::count(const lease::Batch& batch) {
  for (const lease::Event& event : batch.events) {
    ++events_[std::string(event.kind)];
  }
}

}  // namespace berth::api
