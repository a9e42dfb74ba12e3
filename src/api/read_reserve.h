// The body of POST /v1/leases (leases.md 3.2, interfaces.md 4), read into an Ask.
//
// Every error names field, value, rule and fix, in the form of leases.md 3.5. After this nobody
// parses the request again. Thread-safety: functions of their arguments.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "json/value.h"
#include "lease/service.h"

namespace berth::api {

struct Reserve {
  lease::Ask ask;
  std::string supersedes;
};

// `node` is this machine's, which a plain process on it means without saying so.
lease::Outcome<Reserve> read_reserve(const json::Value& body, const lease::Party& party,
                                     std::string_view node);

// The names that the body may have, and those of `executor_config` in it.
std::span<const std::string_view> reserve_fields();
std::span<const std::string_view> executor_config_fields();

// An object all of whose members are in `known`, or a refusal that names the nearest one.
lease::Outcome<void> check_fields(const json::Value& body, std::span<const std::string_view> known);

// The text of a value as errors show it, at most 80 bytes.
std::string shown(const json::Value& value);

lease::Refusal bad_field(std::string_view field, const json::Value& value, std::string message,
                         std::string hint);

// The JSON object that a body must be; an empty body is {}.
lease::Outcome<json::Value> read_body(std::string_view text);

}  // namespace berth::api
