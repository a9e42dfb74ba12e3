#include "cli/program.h"

#include <algorithm>
#include <exception>
#include <ostream>
#include <variant>

#include "base/printable.h"
#include "cli/books.h"
#include "cli/help.h"

namespace berth::cli {

namespace {

ExitCode explain(const UsageProblem& problem, Console& console) {
  std::string verb =
      problem.command == nullptr ? problem.group : std::string(problem.command->name);
  if (!verb.empty()) verb += ' ';
  console.err << "berth: " << printable_lines(problem.message) << "\n"
              << "Try: berth " << verb << "--help\n";
  return ExitCode::usage;
}

ExitCode dispatch(const Parsed& parsed, CommandTable commands, Console& console) {
  if (const auto* problem = std::get_if<UsageProblem>(&parsed)) return explain(*problem, console);
  if (const auto* help = std::get_if<HelpWanted>(&parsed)) {
    console.out << (help->command != nullptr ? command_help(*help->command)
                    : help->group.empty()    ? program_help(commands)
                                             : group_help(commands, help->group));
    return ExitCode::done;
  }
  const auto& invocation = std::get<Invocation>(parsed);
  return invocation.command->run(invocation.arguments, console);
}

}  // namespace

ExitCode run_program(CommandTable commands, std::span<const std::string> words, Console& console) {
  ExitCode code = ExitCode::failed;
  try {
    code = dispatch(parse(commands, words), commands, console);
  } catch (const std::exception& error) {
    // Ours throws nothing; this is memory exhausted, or a library that broke its promise.
    console.err << "berth: unexpected failure: " << error.what() << "\n";
    return ExitCode::failed;
  }
  console.out.flush();
  if (!console.out) {
    console.err << "berth: the output could not be written completely\n";
    return code == ExitCode::done ? ExitCode::failed : code;
  }
  return code;
}

std::vector<std::string> words_for(std::string_view program, std::vector<std::string> words,
                                   CommandTable commands) {
  const std::string_view name = program.substr(program.rfind('/') + 1);
  if (name != "kubectl-berth" || words.empty()) {
    return words;
  }
  for (const Command* command : commands) {
    if (command->name == words.front() &&
        std::ranges::find(command->options, kKubeOption.name, &Option::name) !=
            command->options.end()) {
      words.insert(words.begin() + 1, std::string(kKubeOption.name));
      break;
    }
  }
  return words;
}

}  // namespace berth::cli
