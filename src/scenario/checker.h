// Checker: compares what a scenario expects with what the engine says.
#pragma once

#include <string>
#include <vector>

#include "scenario/report.h"
#include "scenario/script.h"
#include "scenario/session.h"

namespace berth::scenario {

// Every expectation as one Check, in the order written. Errors: an expectation about a device or
// node that was never described.
Result<std::vector<Check>> check_expectations(const Expect& expect, const Session& session,
                                              std::string_view file);

}  // namespace berth::scenario
