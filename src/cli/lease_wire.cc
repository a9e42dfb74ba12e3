#include "cli/lease_wire.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "net/target.h"

namespace berth::cli {

namespace {

LeaseAnswer answer_of(const net::Response& response) {
  LeaseAnswer answer;
  answer.status = response.status;
  Result<json::Value> body = json::parse(response.body);
  if (!body.ok() || !body->is_object()) {
    answer.code = "internal";
    answer.message = fmt::format("the daemon answered {} {} without saying why", response.status,
                                 net::reason_phrase(response.status));
    return answer;
  }
  if (const json::Value* error = body->find("error"); error != nullptr) {
    answer.code = error->text("code", "internal");
    answer.message = error->text("message", net::reason_phrase(response.status));
    answer.hint = error->text("hint");
    if (const json::Value* largest = error->find("largest_mib");
        largest != nullptr && largest->is_integer() && largest->as_integer() > 0 &&
        error->text("field") == "memory")
      answer.largest_mib = largest->as_integer();
    if (const std::string* after = response.header("Retry-After")) {
      std::int64_t seconds = 0;
      std::from_chars(after->data(), after->data() + after->size(), seconds);
      answer.retry_after = Duration(std::clamp<std::int64_t>(seconds, 1, 60) * 1000);
    }
    return answer;
  }
  // A release answers with whether it ended something, and the lease.
  if (const json::Value* lease = body->find("lease"); lease != nullptr) {
    answer.lease = *lease;
  } else {
    answer.lease = std::move(*body);
  }
  return answer;
}

std::string lease_target(std::string_view id, std::string_view verb = {}) {
  std::string target = "/v1/leases/" + net::percent_encoded(id);
  if (!verb.empty()) target += fmt::format("/{}", verb);
  return target;
}

}  // namespace

Result<LeaseAnswer> LeaseWire::call(const net::Call& call) {
  if (!client_) {
    TRY(client_, net::Client::connect(address_, {.interrupt_fd = interrupt_}));
  }
  Result<net::Response> response = client_->call(call);
  if (!response.ok()) {
    if (!client_->interrupted()) client_.reset();
    return std::move(response).error();
  }
  return answer_of(*response);
}

Result<LeaseAnswer> LeaseWire::reserve(const json::Value& body) {
  return call({.method = "POST", .target = "/v1/leases", .body = json::dump(body)});
}

Result<LeaseAnswer> LeaseWire::read(std::string_view id, Duration wait, std::int64_t version) {
  return call({.target = fmt::format("{}?wait={}&version={}", lease_target(id), wait.count() / 1000,
                                     version),
               .timeout = wait + Duration(30'000)});
}

Result<LeaseAnswer> LeaseWire::confirm(std::string_view id, const json::Value& proof) {
  return call({.method = "POST", .target = lease_target(id, "confirm"), .body = json::dump(proof)});
}

Result<LeaseAnswer> LeaseWire::renew(std::string_view id) {
  return call({.method = "POST", .target = lease_target(id, "renew"), .timeout = Duration(5'000)});
}

Result<LeaseAnswer> LeaseWire::release(std::string_view id, bool if_gone, std::string_view reason) {
  const json::Value body = json::object({{"if_gone", if_gone}, {"reason", reason}});
  return call({.method = "POST",
               .target = lease_target(id, "release"),
               .body = json::dump(body),
               .timeout = Duration(10'000)});
}

Result<LeaseAnswer> LeaseWire::release_key(std::string_view key, std::string_view reason) {
  const json::Value body = json::object({{"key", key}, {"reason", reason}});
  return call({.method = "POST",
               .target = "/v1/release",
               .body = json::dump(body),
               .timeout = Duration(10'000)});
}

}  // namespace berth::cli
