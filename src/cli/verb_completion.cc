#include <ostream>

#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/verbs.h"

namespace berth::cli {

namespace {

constexpr Example kExamples[] = {
    {"source <(berth completion bash)",
     "completion in this bash; put the line into ~/.bashrc to keep it"},
    {"berth completion zsh > ~/.zfunc/_berth", "for zsh, where ~/.zfunc is in $fpath"},
    {"berth completion fish > ~/.config/fish/completions/berth.fish", "for fish"},
};

ExitCode print_script(const Arguments& arguments, Console& console) {
  console.out << completion_script(arguments.operands().front(), all_commands());
  return ExitCode::done;
}

}  // namespace

constinit const Command kCompletionCommand{
    .name = "completion",
    .summary = "print a completion script for bash, zsh or fish",
    .operand = {.name = "SHELL",
                .help = "bash, zsh or fish",
                .kind = ValueKind::choice,
                .required = true,
                .choices = completion_shells},
    .examples = kExamples,
    .run = print_script,
};

}  // namespace berth::cli
