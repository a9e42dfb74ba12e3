// Command-line words -> a verb and its arguments, or a message that helps.
//
// Requires nothing of the words; whatever they are, the answer is a value. CLI11 stays inside
// `parser.cc`.
#pragma once

#include <span>
#include <string>
#include <variant>

#include "cli/command.h"

namespace berth::cli {

using CommandTable = std::span<const Command* const>;

// Help was asked for: of one verb, or of the program if `command` is null.
struct HelpWanted {
  const Command* command = nullptr;
};

struct Invocation {
  const Command* command = nullptr;
  Arguments arguments;
};

// The words break a rule. `command` tells whose help would show it; null: the program's.
struct UsageProblem {
  const Command* command = nullptr;
  std::string message;
};

using Parsed = std::variant<Invocation, HelpWanted, UsageProblem>;

// `words` are the program's arguments without its name.
[[nodiscard]] Parsed parse(CommandTable commands, std::span<const std::string> words);

}  // namespace berth::cli
