#include "api/api.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "api/watch.h"

namespace berth::api {

using lease::Lease;
using lease::Refusal;

struct Api::RouteRow {
  std::string_view method;
  std::string_view path;  // "{}" stands for one segment
  Call call;
};

lease::Party party_of(const net::Caller& caller) {
  return {.name = caller.name,
          .admin = caller.admin,
          .local = caller.local,
          .uid = caller.uid,
          .gid = caller.gid};
}

Api::Api(lease::Service& service, ApiOptions options)
    : service_(service), options_(std::move(options)) {}

Api::~Api() = default;

void Api::add_route(Route route) { routes_.push_back(std::move(route)); }

std::span<const Api::RouteRow> Api::table() {
  static constexpr auto kRoutes = std::to_array<RouteRow>({
      {"POST", "/v1/leases", &Api::post_lease},
      {"GET", "/v1/leases", &Api::list_leases},
      {"GET", "/v1/leases/{}", &Api::get_lease},
      {"DELETE", "/v1/leases/{}", &Api::release},
      {"GET", "/v1/leases/{}/events", &Api::lease_events},
      {"POST", "/v1/leases/{}/confirm", &Api::confirm},
      {"POST", "/v1/leases/{}/renew", &Api::renew},
      {"POST", "/v1/leases/{}/release", &Api::release},
      {"GET", "/v1/leases/{}/explain", &Api::explain},
      {"POST", "/v1/release", &Api::release_key},
      {"GET", "/v1/devices", &Api::devices},
      {"PATCH", "/v1/devices/{}", &Api::patch_device},
      {"GET", "/v1/queues", &Api::queues},
      {"GET", "/v1/openapi.json", &Api::openapi},
      {"GET", "/healthz", &Api::healthz},
      {"GET", "/readyz", &Api::readyz},
      {"GET", "/metrics", &Api::metrics},
  });
  return kRoutes;
}

std::vector<RoutePath> Api::routes() {
  std::vector<RoutePath> paths;
  for (const RouteRow& row : table()) {
    paths.push_back({row.method, row.path});
  }
  return paths;
}

void Api::handle(const net::Request& request, net::Reply reply, const Moment& moment) {
  for (const Route& route : routes_) {
    if (route(request, reply, moment)) {
      return;
    }
  }
  std::vector<std::string> allowed;
  for (const RouteRow& row : table()) {
    if (path_matches(row.path, request.segments)) {
      if (row.method == request.method) {
        (this->*row.call)(request, reply, moment);
        return;
      }
      allowed.emplace_back(row.method);
    }
  }
  not_found(request, reply, allowed);
}

void Api::not_found(const net::Request& request, net::Reply& reply,
                    const std::vector<std::string>& allowed) {
  if (allowed.empty()) {
    refuse(reply, {.status = 404,
                   .code = "unknown-call",
                   .field = "path",
                   .value = request.path.substr(0, 80),
                   .message = fmt::format("there is nothing at {}", request.path.substr(0, 80)),
                   .hint = "/v1/openapi.json describes every call"});
    return;
  }
  answer(std::move(reply), wrong_method(request, allowed));
}

// --- answers --------------------------------------------------------------------------------

void Api::answer(net::Reply reply, net::Response response) {
  outbox_.push_back({std::move(reply), std::move(response), true});
}

void Api::refuse(net::Reply& reply, const Refusal& refusal) {
  outbox_.push_back({std::move(reply), refusal_response(refusal), false});
}

void Api::answer_lease(net::Reply& reply, int status, const Lease& lease, const Moment& moment) {
  answer(std::move(reply),
         json_response(status, lease_value(service_, lease, moment.now, options_.guards)));
}

void Api::settled(const lease::Batch& batch, const Moment& moment) {
  for (Waiting& waiting : std::exchange(outbox_, {})) {
    waiting.reply.send(std::move(waiting.response));
  }
  for (const std::uint64_t number : std::exchange(fresh_, {})) {
    const auto found = watches_.find(number);
    if (found == watches_.end()) {
      continue;
    }
    const Lease* lease = service_.find(found->second.lease);
    if (lease != nullptr) {
      tell(found->second, *lease, moment);
    }
    // Of what has ended nothing more will be told, also to a client that knows of the end.
    if (lease == nullptr || !lease::is_live(lease->state)) {
      close_watch(number, moment);
    }
  }
  count(batch);
  for (const std::string& id : batch.changed) {
    const auto of = watches_of_.find(id);
    const Lease* lease = service_.find(id);
    if (of == watches_of_.end() || lease == nullptr) {
      continue;
    }
    const std::set<std::uint64_t> numbers = of->second;
    for (const std::uint64_t number : numbers) {
      tell(watches_.at(number), *lease, moment);
    }
    for (const std::uint64_t number : numbers) {
      const auto found = watches_.find(number);
      const bool over =
          found != watches_.end() &&
          (found->second.stream ? !found->second.stream->open() : !found->second.reply.has_value());
      if (over) {
        close_watch(number, moment);
      }
    }
  }
}

void Api::failed(const Moment& moment) {
  const Refusal refusal{.status = 503,
                        .code = "ledger-unwritable",
                        .message = "the journal cannot be written: nothing was granted",
                        .hint =
                            "repeat with the same key; the administrator looks at the disk of "
                            "the state directory (`berth doctor`)",
                        .retry_after_s = 2};
  for (Waiting& waiting : std::exchange(outbox_, {})) {
    waiting.reply.send(waiting.durable ? refusal_response(refusal) : std::move(waiting.response));
  }
  for (const std::uint64_t number : std::exchange(fresh_, {})) {
    close_watch(number, moment);
  }
}

}  // namespace berth::api
