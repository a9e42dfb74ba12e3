// Points in time as people and cluster objects write them: 2026-01-31T10:00:00Z.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/quantity.h"
#include "base/result.h"

namespace berth::config {

// RFC 3339 in UTC with at most milliseconds, years 1970 to 9999, as milliseconds since 1970.
// Errors: the rule and an example.
Result<Time> parse_instant(std::string_view text);

// Reads back to the same time. Requires a time that parse_instant can give.
std::string instant_text(Time time);

}  // namespace berth::config
