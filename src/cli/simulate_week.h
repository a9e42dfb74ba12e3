// `berth simulate --load FILE`: a shared cluster under generated work, queue by queue.
#pragma once

#include "cli/command.h"

namespace berth::cli {

ExitCode simulate_week(const Arguments& arguments, Console& console);

}  // namespace berth::cli
