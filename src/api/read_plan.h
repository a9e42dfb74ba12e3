// The body of POST /v1/jobs, every field with its rule.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <span>
#include <string_view>

#include "jobs/book.h"
#include "json/value.h"
#include "lease/service.h"

namespace berth::api {

// `node`: this machine's name in the fleet, where the job will run. Refusals name the field.
lease::Outcome<jobs::Plan> read_plan(const json::Value& body, const lease::Party& party,
                                     std::string_view node);

// The fields that are known, for the OpenAPI document's test.
std::span<const std::string_view> plan_fields();

}  // namespace berth::api
