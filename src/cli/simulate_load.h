// `berth simulate --generate SPEC`: a scaled fleet under generated load with departures.
#pragma once

#include "cli/command.h"

namespace berth::cli {

ExitCode simulate_load(const Arguments& arguments, Console& console);

}  // namespace berth::cli
