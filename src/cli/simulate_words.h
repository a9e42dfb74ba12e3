// Words of the command line that the simulating verbs share, checked: each answers a bad one with
// the option, the value, the rule and the next step. Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "core/engine/engine.h"

namespace berth::cli {

// Every registered policy, for completion and suggestions.
std::vector<std::string> policy_names();

// The policies of "pack,fgd". Errors: an unknown one (with the nearest known), one named twice.
Result<std::vector<std::string>> policies_from(std::string_view text);

// Prints the error and tells the exit code that belongs to it: bad input is usage.
ExitCode report_error(Console& console, std::string_view verb, const Error& error);

}  // namespace berth::cli
