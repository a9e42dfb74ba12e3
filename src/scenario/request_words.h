// The words of a request as they stand in a scenario, handed to the one grammar (src/request).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/model/request.h"
#include "yaml/tree.h"

namespace berth::scenario {

// The keys that are words of a request.
std::vector<std::string_view> request_keys();

// Errors: every finding on a line of its own, "FILE:LINE:COLUMN: CODE: KEY=VALUE: RULE".
Result<core::Request> request_from_entries(std::span<const yaml::Entry* const> entries,
                                           std::string_view file);

}  // namespace berth::scenario
