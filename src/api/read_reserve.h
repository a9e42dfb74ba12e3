// The body of POST /v1/leases (leases.md 3.2, interfaces.md 4), read into an Ask.
//
// Every error names field, value, rule and fix, in the form of leases.md 3.5. After this nobody
// parses the request again. Thread-safety: functions of their arguments.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "api/body.h"
#include "json/value.h"
#include "lease/service.h"

namespace berth::api {

struct Reserve {
  lease::Ask ask;
  std::string supersedes;
};

// Where the request is read.
struct Ground {
  std::string_view node;  // this machine's, which a plain process on it means without saying so
};

lease::Outcome<Reserve> read_reserve(const json::Value& body, const lease::Party& party,
                                     const Ground& ground);

// The names that the body may have, and those of `executor_config` in it.
std::span<const std::string_view> reserve_fields();
std::span<const std::string_view> executor_config_fields();

}  // namespace berth::api
