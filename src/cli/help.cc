#include "cli/help.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace berth::cli {

namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

// Two columns; a left cell that is too wide for its column gets a line of its own.
std::string columns(const Rows& rows) {
  constexpr std::size_t kWidest = 26;
  std::size_t width = 0;
  for (const auto& [left, right] : rows) {
    if (left.size() <= kWidest) width = std::max(width, left.size());
  }
  std::string text;
  for (const auto& [left, right] : rows) {
    text += "  " + left;
    if (left.size() > width) {
      text += "\n" + std::string(width + 4, ' ');
    } else {
      text += std::string(width - left.size() + 2, ' ');
    }
    text += right + "\n";
  }
  return text;
}

std::string left_cell(const Option& option) {
  std::string text = option.letter == '\0' ? "    " : std::string("-") + option.letter + ", ";
  text += option.name;
  if (!option.value.empty()) text += " " + std::string(option.value);
  if (option.repeats) text += "...";
  return text;
}

std::string right_cell(const Option& option) {
  std::string text(option.help);
  if (!option.fallback.empty()) text += " (default: " + std::string(option.fallback) + ")";
  return text;
}

std::string examples_text(std::span<const Example> examples) {
  std::string text;
  for (const Example& example : examples) {
    text += "  # " + std::string(example.explanation) + "\n";
    text += "  " + std::string(example.command) + "\n";
  }
  return text;
}

}  // namespace

std::string usage_line(const Command& command) {
  std::string text = "berth " + std::string(command.name);
  if (!command.options.empty()) text += " [OPTIONS]";
  if (const Operand& operand = command.operand; !operand.name.empty()) {
    std::string word = std::string(operand.name) + (operand.repeats ? "..." : "");
    if (operand.is_command) word = "-- " + word;
    text += operand.required ? " " + word : " [" + word + "]";
  }
  return text;
}

std::string program_help(CommandTable commands) {
  Rows verbs;
  std::string examples;
  for (const Command* command : commands) {
    verbs.emplace_back(command->name, command->summary);
    if (!command->examples.empty()) examples += examples_text(command->examples.first(1));
  }
  return "Berth packs work onto GPUs by memory, keeps the books exactly, and explains every "
         "answer.\n"
         "\n"
         "Usage: berth VERB [OPTIONS]\n"
         "\n"
         "Verbs:\n" +
         columns(verbs) +
         "\n"
         "Examples:\n" +
         examples +
         "\n"
         "`berth VERB --help` explains a verb. Exit status: 0 done, 1 failed, 2 wrong usage or "
         "input.\n";
}

std::string group_help(CommandTable commands, std::string_view group) {
  Rows verbs;
  std::string examples;
  for (const Command* command : commands) {
    if (first_word(*command) != group) continue;
    verbs.emplace_back(command->name, command->summary);
    if (!command->examples.empty()) examples += examples_text(command->examples.first(1));
  }
  const std::string name(group);
  return "Usage: berth " + name + " VERB [OPTIONS]\n\nVerbs:\n" + columns(verbs) +
         (examples.empty() ? "" : "\nExamples:\n" + examples) + "\n`berth " + name +
         " VERB --help` explains one.\n";
}

std::string command_help(const Command& command) {
  std::string text = "berth " + std::string(command.name) + ": " + std::string(command.summary) +
                     "\n\nUsage: " + usage_line(command) + "\n";
  if (!command.description.empty()) text += "\n" + std::string(command.description) + "\n";
  if (!command.operand.help.empty()) {
    text +=
        "\n" + columns({{std::string(command.operand.name), std::string(command.operand.help)}});
  }
  Rows options;
  for (const auto& list : {command.options, common_options()}) {
    for (const Option& option : list)
      options.emplace_back(left_cell(option), right_cell(option));
  }
  text += "\nOptions:\n" + columns(options);
  if (!command.examples.empty()) text += "\nExamples:\n" + examples_text(command.examples);
  return text;
}

}  // namespace berth::cli
