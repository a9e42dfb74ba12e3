// `berth simulate --scenario FILE...`: scenario files, run and reported.
#pragma once

#include "cli/command.h"

namespace berth::cli {

// Reads `--scenario` and `--output`. Done: every expectation was met; failed: one was not; usage: a
// file cannot be read as a scenario. Every file is run, whatever became of the others.
ExitCode simulate_scenario(const Arguments& arguments, Console& console);

// Prints the reference of the scenario language.
ExitCode print_scenario_help(Console& console);

}  // namespace berth::cli
