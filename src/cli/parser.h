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

// Help was asked for: of one verb, of all that begin with a word, or of the program.
struct HelpWanted {
  const Command* command = nullptr;
  std::string group = {};  // where `command` is null: "queues"; empty: the program
};

struct Invocation {
  const Command* command = nullptr;
  Arguments arguments;
};

// The words break a rule. `command` tells whose help would show it; null: the program's.
struct UsageProblem {
  const Command* command = nullptr;
  std::string message;
  std::string group = {};  // as in HelpWanted
};

using Parsed = std::variant<Invocation, HelpWanted, UsageProblem>;

// `words` are the program's arguments without its name.
[[nodiscard]] Parsed parse(CommandTable commands, std::span<const std::string> words);

}  // namespace berth::cli
