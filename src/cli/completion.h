// Shell completion scripts, derived from the table of verbs.
//
// A script is complete in itself: it does not call `berth` while the user types, so it stays fast
// and works before the program is on the PATH of the completing shell. Regenerate it after an
// update.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/parser.h"

namespace berth::cli {

// The shells for which there is a script: bash, zsh, fish.
[[nodiscard]] std::vector<std::string> completion_shells();

// Requires: `shell` is one of `completion_shells()`.
[[nodiscard]] std::string completion_script(std::string_view shell, CommandTable commands);

}  // namespace berth::cli
