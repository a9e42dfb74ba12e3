// The whole of `berth` except the process around it: words in, exit code out. Tests call it as
// `main` does.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/parser.h"

namespace berth::cli {

// Parses `words` (without the program's name) and runs the verb. A write to `console.out` that
// fails (full disk, closed pipe) is a failure of the verb, also if the verb did not notice. No
// exception leaves it.
[[nodiscard]] ExitCode run_program(CommandTable commands, std::span<const std::string> words,
                                   Console& console);

// The words that are meant when the program was started as `program`: as a plug-in of kubectl
// (a link called kubectl-berth) the reading verbs ask the cluster.
[[nodiscard]] std::vector<std::string> words_for(std::string_view program,
                                                 std::vector<std::string> words,
                                                 CommandTable commands);

}  // namespace berth::cli
