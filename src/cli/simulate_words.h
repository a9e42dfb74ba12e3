// Words of the command line that the simulating verbs share, checked: each answers a bad one with
// the option, the value, the rule and the next step. Thread-safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "sim/files.h"
#include "sim/scene.h"

namespace berth::cli {

// Every registered policy, for completion and suggestions.
std::vector<std::string> policy_names();

// The policies of "pack,fgd". Errors: an unknown one (with the nearest known), one named twice.
Result<std::vector<std::string>> policies_from(std::string_view text);

struct TracePaths {
  std::string nodes;
  std::string pods;
};

// Errors: one of --nodes, --pods is missing, with where an example lies.
Result<TracePaths> trace_paths(const Arguments& arguments);

// A path of the command line, with the option that gave it.
struct NamedPath {
  std::string_view option;
  std::string path;
};

// Writing over an input, or two outputs over each other, loses somebody's file. Errors: a report or
// a record that is one of `inputs`, or both the same file.
Result<void> check_outputs_differ(std::vector<NamedPath> inputs,
                                  const std::optional<std::string>& report,
                                  const std::optional<std::string>& record);

// An output that was asked for, opened before the work so that a bad path is known at once.
Result<std::optional<sim::OutputFile>> open_output(const std::optional<std::string>& path);

void print_warnings(const sim::Scene& scene, Console& console);

// Prints the error and tells the exit code that belongs to it: bad input is usage.
ExitCode report_error(Console& console, std::string_view verb, const Error& error);

}  // namespace berth::cli
