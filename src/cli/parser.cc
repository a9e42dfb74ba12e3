#include "cli/parser.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "base/suggest.h"

namespace berth::cli {

namespace {

std::string in_quotes(std::string_view word) { return "'" + std::string(word) + "'"; }

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string did_you_mean(std::string_view typed, std::span<const std::string> known) {
  const std::string word = nearest(typed, known);
  return word.empty() ? "" : "; did you mean " + in_quotes(word) + "?";
}

std::vector<std::string> names(CommandTable commands) {
  std::vector<std::string> result;
  for (const Command* command : commands)
    result.emplace_back(command->name);
  return result;
}

std::vector<std::string> option_names(const Command& command) {
  std::vector<std::string> result;
  for (const Option& option : command.options)
    result.emplace_back(option.name);
  for (const Option& option : common_options())
    result.emplace_back(option.name);
  return result;
}

// CLI11's notation for the names of one option: "-o,--output".
std::string spelling(const Option& option) {
  const std::string name(option.name);
  return option.letter == '\0' ? name : std::string("-") + option.letter + "," + name;
}

// The words of one verb, sorted by CLI11 into options, operands and what it does not know.
class VerbParser {
 public:
  explicit VerbParser(const Command& command)
      : command_(command), app_("", std::string(command.name)) {
    app_.set_help_flag();
    app_.allow_extras();
    for (const Option& option : common_options())
      add(option);
    for (const Option& option : command.options)
      add(option);
    if (!command.operand.name.empty() && !command.operand.is_command) {
      operand_ = app_.add_option(std::string(command.operand.name));
      operand_->expected(1, -1)->allow_extra_args();
    }
  }

  Parsed parse(std::span<const std::string> words) {
    if (command_.operand.is_command) words = cut_off_program(words);
    try {
      // CLI11 takes the words from the back.
      app_.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::ParseError& error) {
      return problem(in_our_words(error.what()));
    }
    if (!help_.empty() && help_.front()->count() > 0) return HelpWanted{&command_};
    if (const auto extras = app_.remaining(); !extras.empty()) return unknown(extras);
    return collected();
  }

 private:
  void add(const Option& option) {
    const bool is_switch = option.kind == ValueKind::none;
    CLI::Option* added = is_switch ? app_.add_flag(spelling(option))->disable_flag_override()
                                   : app_.add_option(spelling(option));
    if (!is_switch) {
      // One use of a repeating option takes words up to the next option; that a plain one is used
      // once is checked below.
      added->expected(1, option.repeats ? -1 : 1)->allow_extra_args(option.repeats);
      added->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
    if (option.name == "--help") {
      help_.push_back(added);
    } else {
      options_.emplace_back(&option, added);
    }
  }

  // Takes the words of the program to run from the end; what is left are the verb's.
  std::span<const std::string> cut_off_program(std::span<const std::string> words) {
    std::size_t at = 0;
    while (at < words.size() && words[at] != "--" && words[at].starts_with('-'))
      at += takes_next_word(words[at]) ? 2U : 1U;
    at = std::min(at, words.size());
    const std::size_t begin = at < words.size() && words[at] == "--" ? at + 1 : at;
    program_.assign(words.begin() + static_cast<std::ptrdiff_t>(begin), words.end());
    return words.first(at);
  }

  bool takes_next_word(const std::string& word) const {
    for (const auto& list : {command_.options, common_options()}) {
      for (const Option& option : list) {
        const bool named = word == option.name ||
                           (word.size() == 2 && option.letter != '\0' && word[1] == option.letter);
        if (named) return option.kind != ValueKind::none;
      }
    }
    return false;
  }

  // CLI11 says "--output: 1 required missing" or "check was given a disallowed flag override"; both
  // begin with the option.
  std::string in_our_words(const std::string& message) const {
    for (const auto& list : {command_.options, common_options()}) {
      for (const Option& option : list) {
        const std::string name(option.name);
        if (message.starts_with(name + ":")) return name + " needs a " + std::string(option.value);
        if (message.starts_with(name.substr(2) + " ")) return name + " takes no value";
      }
    }
    return message;
  }

  Parsed collected() const {
    std::vector<Arguments::Given> given;
    for (const auto& [option, parsed] : options_) {
      if (parsed->count() == 0) continue;
      const bool is_switch = option->kind == ValueKind::none;
      auto values = is_switch ? std::vector<std::string>{} : parsed->results();
      if (!option->repeats && values.size() > 1) {
        return problem(std::string(option->name) + " was given " + std::to_string(values.size()) +
                       " times; it takes one " + std::string(option->value));
      }
      if (option->kind == ValueKind::choice) {
        const auto known = option->choices();
        for (const std::string& value : values) {
          if (auto message = not_a_choice(option->name, value, known)) return problem(*message);
        }
      }
      given.push_back({option, std::move(values)});
    }
    auto operands = operand_ == nullptr ? program_ : operand_->results();
    if (auto message = operands_problem(operands)) return problem(*message);
    return Invocation{&command_,
                      Arguments(command_.options, std::move(given), std::move(operands))};
  }

  std::optional<std::string> operands_problem(const std::vector<std::string>& operands) const {
    const Operand& operand = command_.operand;
    const std::string name(operand.name);
    if (operand.required && operands.empty()) {
      const std::string known =
          operand.choices == nullptr ? "" : "; known are " + joined(operand.choices());
      return name + " is missing" + known;
    }
    if (!operand.repeats && operands.size() > 1) {
      return "unexpected " + in_quotes(operands[1]) + " after " + name + " " +
             in_quotes(operands[0]);
    }
    if (operand.kind == ValueKind::choice) {
      const auto known = operand.choices();
      for (const std::string& value : operands) {
        if (auto message = not_a_choice(operand.name, value, known)) return message;
      }
    }
    return std::nullopt;
  }

  static std::optional<std::string> not_a_choice(std::string_view what, const std::string& value,
                                                 const std::vector<std::string>& known) {
    if (std::ranges::find(known, value) != known.end()) return std::nullopt;
    return std::string(what) + " cannot be " + in_quotes(value) + did_you_mean(value, known) +
           " Known are " + joined(known) + ".";
  }

  // A mistyped option explains the words after it too, so it is named first wherever it stands.
  Parsed unknown(const std::vector<std::string>& extras) const {
    const auto option = std::ranges::find_if(
        extras, [](const std::string& word) { return word.size() > 1 && word.starts_with('-'); });
    if (option == extras.end()) {
      return problem("unexpected " + in_quotes(extras.front()) + "; `berth " +
                     std::string(command_.name) + "` takes options only");
    }
    const std::string name = option->substr(0, option->find('='));
    return problem("unknown option " + in_quotes(name) +
                   did_you_mean(name, option_names(command_)));
  }

  Parsed problem(std::string message) const { return UsageProblem{&command_, std::move(message)}; }

  const Command& command_;
  CLI::App app_;
  std::vector<CLI::Option*> help_;
  std::vector<std::pair<const Option*, CLI::Option*>> options_;
  CLI::Option* operand_ = nullptr;
  std::vector<std::string> program_;
};

// The verb that the words begin with, and how many of them are its name.
struct Verb {
  const Command* command = nullptr;
  std::string group = {};  // where the first word begins verbs of two
  std::size_t words = 1;
};

Verb find(CommandTable commands, std::span<const std::string> words) {
  Verb verb;
  for (const Command* command : commands) {
    if (first_word(*command) != words[0]) continue;
    if (second_word(*command).empty()) {
      verb.command = command;
    } else {
      verb.group = words[0];
      if (words.size() > 1 && second_word(*command) == words[1]) return {command, words[0], 2};
    }
  }
  return verb;
}

Parsed unknown_verb(CommandTable commands, const std::string& word) {
  return UsageProblem{nullptr,
                      "unknown verb " + in_quotes(word) + did_you_mean(word, names(commands))};
}

// "queues", and no verb of that alone.
Parsed unfinished(CommandTable commands, const std::string& group,
                  std::span<const std::string> rest) {
  if (!rest.empty() && (rest.front() == "--help" || rest.front() == "-h")) {
    return HelpWanted{nullptr, group};
  }
  std::vector<std::string> known;
  for (const Command* command : commands) {
    if (first_word(*command) == group) known.emplace_back(second_word(*command));
  }
  const bool word = !rest.empty() && !rest.front().starts_with('-');
  const std::string meant = word ? did_you_mean(rest.front(), known) : "";
  return UsageProblem{nullptr,
                      word ? "unknown verb " + in_quotes(group + " " + rest.front()) +
                                 (meant.empty() ? "; known are " : meant + " Known are ") +
                                 joined(known)
                           : group + " needs one more word; known are " + joined(known),
                      group};
}

}  // namespace

Parsed parse(CommandTable commands, std::span<const std::string> words) {
  if (words.empty()) {
    return UsageProblem{nullptr, "a verb is missing; known are " + joined(names(commands))};
  }
  const std::string& first = words.front();
  const auto rest = words.subspan(1);
  if (first == "--help" || first == "-h") return HelpWanted{};
  if (first == "help") {
    if (rest.empty()) return HelpWanted{};
    const Verb verb = find(commands, rest);
    if (verb.command == nullptr && verb.group.empty()) return unknown_verb(commands, rest.front());
    return HelpWanted{verb.command, verb.group};
  }
  // The habit of most programs.
  const std::vector<std::string> version{"version"};
  const Verb verb = find(commands, first == "--version" ? std::span(version) : words);
  // A word after a verb that takes none was meant for its group: "queues chekc".
  if (verb.command != nullptr && verb.words == 1 && !verb.group.empty() &&
      verb.command->operand.name.empty() && !rest.empty() && !rest.front().starts_with('-')) {
    return unfinished(commands, verb.group, rest);
  }
  if (verb.command != nullptr) return VerbParser(*verb.command).parse(words.subspan(verb.words));
  if (!verb.group.empty()) return unfinished(commands, verb.group, rest);
  if (first.starts_with('-')) {
    const std::vector<std::string> known{"--help", "--version"};
    return UsageProblem{nullptr, "unknown option " + in_quotes(first) + did_you_mean(first, known) +
                                     " Options of a verb follow it: berth VERB --option."};
  }
  return unknown_verb(commands, first);
}

}  // namespace berth::cli
