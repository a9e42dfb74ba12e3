// Bodies of requests: one JSON object with known members, and the refusals that name what is wrong
// (leases.md 3.5). Thread-safety: functions of their arguments.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "json/value.h"
#include "lease/service.h"

namespace berth::api {

// An object all of whose members are in `known`, or a refusal that names the nearest one.
lease::Outcome<void> check_fields(const json::Value& body, std::span<const std::string_view> known);

// The text of a value as errors show it, at most 80 bytes.
std::string shown(const json::Value& value);

lease::Refusal bad_field(std::string_view field, const json::Value& value, std::string message,
                         std::string hint);

// The JSON object that a body must be; an empty body is {}.
lease::Outcome<json::Value> read_body(std::string_view text);

}  // namespace berth::api
