// `berth simulate --nodes … --pods …`: a trace under several policies and seeds.
#pragma once

#include "cli/command.h"

namespace berth::cli {

ExitCode simulate_trace(const Arguments& arguments, Console& console);

}  // namespace berth::cli
