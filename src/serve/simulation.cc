#include "serve/simulation.h"

#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>

#include "api/body.h"

namespace berth::serve {

using api::bad_field;
using json::Value;
using lease::Outcome;
using lease::Refusal;

namespace {

constexpr std::int64_t kMaxAdvance = std::int64_t{366} * 24 * 3600 * 1000;

Refusal refusal_of(const Error& error, std::string_view field, std::string_view value) {
  return {.status = error.code() == ErrorCode::not_found ? 404 : 400,
          .code = "invalid-field",
          .field = std::string(field),
          .value = std::string(value),
          .message = error.message()};
}

// A number or the text that stands in its place; anything else as its JSON, which is garbage too.
gpu::Raw raw(const Value& value) {
  if (value.is_string()) {
    return value.as_string();
  }
  return json::dump(value);
}

gpu::RawProcesses processes_of(const Value& value) {
  if (!value.is_array()) {
    return raw(value).text();
  }
  std::vector<gpu::SimulatedProcess> processes;
  for (const Value& item : value.as_array()) {
    gpu::SimulatedProcess process;
    if (const Value* pid = item.find("pid")) {
      process.pid = raw(*pid);
    }
    if (const Value* used = item.find("used_mib")) {
      process.used_mib = raw(*used);
    }
    process.name = item.text("name");
    processes.push_back(std::move(process));
  }
  return processes;
}

}  // namespace

// A call below /v1/simulated.
struct Simulation::Row {
  std::string_view name;
  std::size_t segments;
  std::span<const std::string_view> methods;
  Outcome<Value> (Simulation::*call)(const net::Request& request);
};

namespace {

constexpr auto kDeviceMethods = std::to_array<std::string_view>({"PATCH", "PUT", "DELETE"});
constexpr auto kSourceMethods = std::to_array<std::string_view>({"PATCH"});
constexpr auto kClockMethods = std::to_array<std::string_view>({"POST"});

}  // namespace

Simulation::Simulation(gpu::SimulatedSource& source, Hands hands)
    : source_(source), hands_(std::move(hands)) {}

bool Simulation::handle(const net::Request& request, net::Reply& reply, api::Api& api) {
  const std::vector<std::string>& segments = request.segments;
  if (segments.size() < 3 || segments[0] != "v1" || segments[1] != "simulated") {
    return false;
  }
  static constexpr auto kRows = std::to_array<Row>({
      {"devices", 4, kDeviceMethods, &Simulation::device},
      {"source", 3, kSourceMethods, &Simulation::source},
      {"clock", 3, kClockMethods, &Simulation::clock},
  });
  const Row* row = nullptr;
  for (const Row& candidate : kRows) {
    if (segments[2] == candidate.name && segments.size() == candidate.segments) {
      row = &candidate;
    }
  }
  if (row == nullptr) {
    return false;
  }
  const std::vector<std::string> methods(row->methods.begin(), row->methods.end());
  if (std::ranges::find(methods, request.method) == methods.end()) {
    api.answer(std::move(reply), api::wrong_method(request, methods));
    return true;
  }
  Outcome<Value> outcome =
      std::unexpected(Refusal{.status = 403,
                              .code = "forbidden",
                              .message = "the simulation is steered by administrators",
                              .hint = "use the daemon's own user, root, or an admin token"});
  if (request.caller.admin) {
    outcome = (this->*row->call)(request);
  }
  api.answer(std::move(reply),
             outcome ? api::json_response(200, *outcome) : api::refusal_response(outcome.error()));
  return true;
}

Outcome<Value> Simulation::device(const net::Request& request) {
  static constexpr auto kPatch = std::to_array<std::string_view>(
      {"used_mib", "processes", "health", "xid", "index", "sample_age_ms"});
  static constexpr auto kPut =
      std::to_array<std::string_view>({"node", "model", "total_mib", "mig_parent", "mig_profile"});
  const std::string& uuid = request.segments[3];
  const Outcome<Value> body = api::read_body(request.body);
  if (!body) {
    return std::unexpected(body.error());
  }
  Result<void> done;
  if (request.method == "PATCH") {
    if (auto known = api::check_fields(*body, kPatch); !known) {
      return std::unexpected(known.error());
    }
    gpu::DevicePatch patch;
    const auto take = [&](std::string_view name, std::optional<gpu::Raw>& into) {
      if (const Value* value = body->find(name)) {
        into = raw(*value);
      }
    };
    take("used_mib", patch.used_mib);
    take("xid", patch.xid);
    take("index", patch.index);
    take("sample_age_ms", patch.sample_age_ms);
    if (const Value* value = body->find("processes")) {
      patch.processes = processes_of(*value);
    }
    if (const Value* value = body->find("health")) {
      patch.health = raw(*value).text();
    }
    done = source_.patch(uuid, patch);
  } else if (request.method == "PUT") {
    if (auto known = api::check_fields(*body, kPut); !known) {
      return std::unexpected(known.error());
    }
    gpu::NewDevice device;
    device.node = body->text("node");
    device.model = body->text("model", "GPU");
    if (const Value* total = body->find("total_mib")) {
      device.total_mib = raw(*total);
    }
    device.mig_parent = body->text("mig_parent");
    device.mig_profile = body->text("mig_profile");
    done = source_.put(uuid, device);
  } else {
    done = source_.remove(uuid);
  }
  if (!done) {
    return std::unexpected(refusal_of(done.error(), "uuid", uuid));
  }
  hands_.sample();
  return json::object({{"uuid", uuid}});
}

Outcome<Value> Simulation::source(const net::Request& request) {
  static constexpr auto kKnown = std::to_array<std::string_view>({"up", "attribution"});
  const Outcome<Value> body = api::read_body(request.body);
  if (!body) {
    return std::unexpected(body.error());
  }
  if (auto known = api::check_fields(*body, kKnown); !known) {
    return std::unexpected(known.error());
  }
  for (const std::string_view name : kKnown) {
    if (const Value* flag = body->find(name)) {
      if (!flag->is_bool()) {
        return std::unexpected(
            bad_field(name, *flag, fmt::format("{} is true or false", name), ""));
      }
      name == "up" ? source_.set_up(flag->as_bool()) : source_.set_attribution(flag->as_bool());
    }
  }
  hands_.sample();
  return json::object({{"up", source_.up()}, {"attribution", source_.attribution()}});
}

// NOLINTNEXTLINE(readability-make-member-function-const): the table holds one type of call
Outcome<Value> Simulation::clock(const net::Request& request) {
  static constexpr auto kKnown = std::to_array<std::string_view>({"advance_ms"});
  const Outcome<Value> body = api::read_body(request.body);
  if (!body) {
    return std::unexpected(body.error());
  }
  if (auto known = api::check_fields(*body, kKnown); !known) {
    return std::unexpected(known.error());
  }
  if (!hands_.advance) {
    return std::unexpected(Refusal{.status = 409,
                                   .code = "invalid-field",
                                   .field = "advance_ms",
                                   .message = "the clock of this daemon runs by itself",
                                   .hint = "start it with --simulate-clock manual"});
  }
  const Value* advance = body->find("advance_ms");
  if (advance == nullptr || !advance->is_integer() || advance->as_integer() < 0 ||
      advance->as_integer() > kMaxAdvance) {
    return std::unexpected(bad_field("advance_ms", advance == nullptr ? Value() : *advance,
                                     "advance_ms is a whole number of ms, at most a year",
                                     "send {\"advance_ms\": 1000}"));
  }
  hands_.advance(advance->as_integer());
  return json::object({{"time_ms", hands_.time_ms()}});
}

}  // namespace berth::serve
