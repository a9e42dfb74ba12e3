// Help texts, derived from the table of verbs.
#pragma once

#include <string>
#include <string_view>

#include "cli/command.h"
#include "cli/parser.h"

namespace berth::cli {

// `berth --help`: what it is for, every verb with its summary, examples.
[[nodiscard]] std::string program_help(CommandTable commands);

// `berth queues --help`: the verbs that begin with the word.
[[nodiscard]] std::string group_help(CommandTable commands, std::string_view group);

// `berth VERB --help`.
[[nodiscard]] std::string command_help(const Command& command);

// One line: "berth completion SHELL".
[[nodiscard]] std::string usage_line(const Command& command);

}  // namespace berth::cli
