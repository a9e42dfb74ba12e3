// The table of all verbs, in the order in which the help lists them.
#pragma once

#include "cli/parser.h"

namespace berth::cli {

[[nodiscard]] CommandTable all_commands();

}  // namespace berth::cli
