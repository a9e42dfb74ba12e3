#include "kube/client/discovery.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "json/value.h"

namespace berth::kube {

namespace {

constexpr std::string_view kAggregated =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

// "36", or "36+" as some vendors write it.
int leading_number(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Result<json::Value> read_body(const Answer& answer, std::string_view path) {
  if (!answer.ok()) {
    return Error(ErrorCode::unavailable, fmt::format("{}: {}", path, describe(answer)));
  }
  Result<json::Value> body = json::parse(answer.body);
  if (!body.ok()) {
    return Error(ErrorCode::unavailable,
                 fmt::format("{} of the API server is no JSON; is it an API server?", path));
  }
  return body;
}

Result<void> add_version(const Answer& answer, ServerInfo& info) {
  TRY(const json::Value body, read_body(answer, "/version"));
  info.version = body.text("gitVersion");
  info.major = leading_number(body.text("major"));
  info.minor = leading_number(body.text("minor"));
  return success();
}

const json::Array& list_in(const json::Value& value, std::string_view name) {
  static const json::Array kNone;
  const json::Value* found = value.find(name);
  return found != nullptr && found->is_array() ? found->as_array() : kNone;
}

Result<void> add_groups(const Answer& answer, std::string_view path, ServerInfo& info) {
  TRY(const json::Value body, read_body(answer, path));
  if (body.text("kind") != "APIGroupDiscoveryList") {
    return Error(ErrorCode::unavailable,
                 fmt::format("the API server ({}) lists its groups one by one; Berth needs "
                             "Kubernetes 1.30 or newer",
                             info.version));
  }
  for (const json::Value& group : list_in(body, "items")) {
    const json::Value* metadata = group.find("metadata");
    const std::string name(metadata == nullptr ? "" : metadata->text("name"));
    for (const json::Value& version : list_in(group, "versions")) {
      const std::string key =
          (name.empty() ? "" : name + "/") + std::string(version.text("version"));
      std::vector<std::string>& resources = info.resources[key];
      for (const json::Value& resource : list_in(version, "resources")) {
        resources.emplace_back(resource.text("resource"));
      }
      std::ranges::sort(resources);
    }
  }
  return success();
}

struct Reading {
  ServerInfo info;
  std::optional<Error> error;
  Discovered done;
  int left = 2;

  void ended(Result<void> result) {
    if (!result.ok() && !error.has_value()) error = std::move(result).error();
    if (--left > 0) return;
    if (error.has_value()) return done(std::move(*error));
    done(std::move(info));
  }
};

Call read_of(std::string path) {
  return {.path = std::move(path), .accept = std::string(kAggregated), .retry = Retry::idempotent};
}

}  // namespace

bool ServerInfo::has(std::string_view group_version, std::string_view resource) const {
  const auto found = resources.find(std::string(group_version));
  return found != resources.end() && std::ranges::binary_search(found->second, resource);
}

std::string ServerInfo::preferred(std::string_view group,
                                  std::initializer_list<std::string_view> versions,
                                  std::string_view resource) const {
  for (const std::string_view candidate : versions) {
    if (has(fmt::format("{}/{}", group, candidate), resource)) return std::string(candidate);
  }
  return {};
}

void discover(Caller& caller, Discovered done) {
  auto reading = std::make_shared<Reading>();
  reading->done = std::move(done);
  Call ask{.path = "/version", .retry = Retry::idempotent};
  caller.call(std::move(ask), [&caller, reading](const Answer& answer) {
    if (Result<void> added = add_version(answer, reading->info); !added.ok()) {
      return reading->done(std::move(added).error());
    }
    for (const char* path : {"/api", "/apis"}) {
      caller.call(read_of(path), [reading, path](const Answer& groups) {
        reading->ended(add_groups(groups, path, reading->info));
      });
    }
  });
}

}  // namespace berth::kube
