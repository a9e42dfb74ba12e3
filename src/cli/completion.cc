#include "cli/completion.h"

#include <algorithm>
#include <span>

#include "base/assert.h"

namespace berth::cli {

namespace {

struct Generator {
  std::string_view shell;
  std::string (*script)(CommandTable commands);
};

// Text inside single quotes, for a shell that ends them by a quote and knows '\'' (bash, zsh).
std::string escaped(std::string_view text, std::string_view special) {
  std::string result;
  for (const char character : text) {
    if (character == '\'') {
      result += "'\\''";
      continue;
    }
    if (special.contains(character)) result += '\\';
    result += character;
  }
  return result;
}

std::string words(Choices choices) {
  std::string text;
  if (choices == nullptr) return text;
  for (const std::string& word : choices())
    text += (text.empty() ? "" : " ") + word;
  return text;
}

// The words that verbs begin with, each once, in the order of the table.
std::vector<std::string_view> first_words(CommandTable commands) {
  std::vector<std::string_view> words;
  for (const Command* command : commands) {
    if (std::ranges::find(words, first_word(*command)) == words.end()) {
      words.push_back(first_word(*command));
    }
  }
  return words;
}

// The verb that is this word alone; null if there is none.
const Command* alone(CommandTable commands, std::string_view first) {
  const auto found = std::ranges::find(commands, first, &Command::name);
  return found == commands.end() ? nullptr : *found;
}

// The verbs of two words that begin with this one.
std::vector<const Command*> group_of(CommandTable commands, std::string_view first) {
  std::vector<const Command*> group;
  for (const Command* command : commands) {
    if (first_word(*command) == first && !second_word(*command).empty()) group.push_back(command);
  }
  return group;
}

// What the verb does, or all of a group together.
std::string summary_of(CommandTable commands, std::string_view first) {
  std::string text;
  for (const Command* command : commands) {
    if (first_word(*command) != first) continue;
    if (second_word(*command).empty()) return std::string(command->summary);
    text += (text.empty() ? "" : ", ") + std::string(second_word(*command));
  }
  return text;
}

std::string second_words(const std::vector<const Command*>& group) {
  std::string text;
  for (const Command* command : group)
    text += (text.empty() ? "" : " ") + std::string(second_word(*command));
  return text;
}

std::string verb_words(CommandTable commands) {
  std::string text;
  for (const std::string_view word : first_words(commands))
    text += std::string(word) + " ";
  return text + "help --help --version";
}

// The name of a verb as a pattern of `case` in bash.
std::string bash_name(const Command& command) {
  std::string name(first_word(command));
  if (!second_word(command).empty()) name += "\\ " + std::string(second_word(command));
  return name;
}

std::vector<Option> options_of(const Command& command) {
  std::vector<Option> options(command.options.begin(), command.options.end());
  options.insert(options.end(), common_options().begin(), common_options().end());
  return options;
}

// The command that fills COMPREPLY for a value of this kind.
std::string bash_value(ValueKind kind, Choices choices) {
  switch (kind) {
    case ValueKind::file: return "_berth_paths -f";
    case ValueKind::directory: return "_berth_paths -d";
    case ValueKind::choice: return "_berth_words '" + words(choices) + "'";
    case ValueKind::list: return "_berth_list '" + words(choices) + "'";
    case ValueKind::none:
    case ValueKind::text: return ":";
  }
  return {};  // every kind is above
}

std::string bash_value_cases(const Command& command) {
  std::string text;
  for (const Option& option : command.options) {
    if (option.kind == ValueKind::none) continue;
    // The second part tells how many words ago the option stood.
    const std::string distance = option.repeats ? ":*" : ":1";
    const std::string start = bash_name(command) + ":";
    std::string pattern = start + std::string(option.name) + distance;
    if (option.letter != '\0') pattern += " | " + start + "-" + option.letter + distance;
    text += "    " + pattern + ")\n      " + bash_value(option.kind, option.choices) +
            "\n      return\n      ;;\n";
  }
  return text;
}

std::string bash_word_cases(const Command& command) {
  std::string options;
  for (const Option& option : options_of(command)) {
    options += (options.empty() ? "" : " ") + std::string(option.name);
    if (option.letter != '\0') options += std::string(" -") + option.letter;
  }
  const Operand& operand = command.operand;
  return "    " + bash_name(command) +
         ")\n      if [[ $cur == -* ]]; then\n        _berth_words '" + options +
         "'\n      else\n        " +
         (operand.name.empty() ? "_berth_words '" + options + "'"
                               : bash_value(operand.kind, operand.choices)) +
         "\n      fi\n      ;;\n";
}

// The long names of all options, with blanks between them.
std::string option_words(const Command* command) {
  if (command == nullptr) return "--help";
  std::string text;
  for (const Option& option : options_of(*command))
    text += (text.empty() ? "" : " ") + std::string(option.name);
  return text;
}

// Verbs of two words: the second is completed, then both are the verb.
std::string bash_groups(CommandTable commands) {
  std::string text;
  for (const std::string_view first : first_words(commands)) {
    const auto group = group_of(commands, first);
    if (group.empty()) continue;
    std::string pattern = second_words(group);
    for (std::size_t at = pattern.find(' '); at != std::string::npos;
         at = pattern.find(' ', at + 3))
      pattern.replace(at, 1, " | ");
    text += "    " + std::string(first) + ")\n      if ((COMP_CWORD == 2)); then\n" +
            "        _berth_words '" + second_words(group) + " " +
            option_words(alone(commands, first)) + "'\n        return\n      fi\n" +
            "      case ${COMP_WORDS[2]} in\n        " + pattern +
            ") verb=\"$verb ${COMP_WORDS[2]}\" ;;\n        *) ;;\n      esac\n      ;;\n";
  }
  return text.empty() ? "" : "  case $verb in\n" + text + "    *) ;;\n  esac\n";
}

std::string bash_script(CommandTable commands) {
  std::string value_cases;
  std::string word_cases;
  for (const Command* command : commands) {
    value_cases += bash_value_cases(*command);
    word_cases += bash_word_cases(*command);
  }
  return R"(# bash completion for berth. Load it with
#   source <(berth completion bash)
_berth_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }
_berth_paths() {
  mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
  compopt -o filenames 2>/dev/null
}
# Completes the last word of a list with commas.
_berth_list() {
  local before=
  [[ $cur == *,* ]] && before=${cur%,*},
  mapfile -t COMPREPLY < <(compgen -P "$before" -W "$1" -- "${cur##*,}")
  compopt -o nospace 2>/dev/null
}
_berth() {
  local cur=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} end=$COMP_CWORD i
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _berth_words ')" +
         verb_words(commands) + R"('
    return
  fi
)" + bash_groups(commands) +
         R"(  # bash splits --option=value into three words
  if [[ $cur == = ]]; then
    cur=
  elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
    end=$((COMP_CWORD - 1))
  fi
  # the last option before the word, and how far away it is
  for ((i = end - 1; i > 1; i--)); do
    [[ ${COMP_WORDS[i]} == -* ]] && break
  done
  [[ $cur == -* ]] || case $verb:${COMP_WORDS[i]}:$((end - i)) in
)" + value_cases +
         R"(    *) ;;
  esac
  case $verb in
    help)
      _berth_words ')" +
         verb_words(commands) + R"('
      ;;
)" + word_cases +
         R"(    *) ;;
  esac
}
complete -F _berth berth
)";
}

std::string zsh_value(std::string_view name, ValueKind kind, Choices choices) {
  std::string message = ":" + escaped(name, ":[]\\") + ":";
  switch (kind) {
    case ValueKind::file: return message + "_files";
    case ValueKind::directory: return message + "_files -/";
    case ValueKind::choice: return message + "(" + words(choices) + ")";
    case ValueKind::list:
      return message + "_values -s , " + std::string(name) + " " + words(choices);
    case ValueKind::text: return message;
    case ValueKind::none: return "";
  }
  return {};  // every kind is above
}

std::string zsh_arguments(const Command& command) {
  std::string text = "      _arguments -s";
  for (const Option& option : options_of(command)) {
    const std::string name(option.name);
    const std::string letter = option.letter == '\0' ? "" : std::string("-") + option.letter;
    const std::string tail = "'[" + escaped(option.help, ":[]\\") + "]" +
                             zsh_value(option.value, option.kind, option.choices) + "'";
    text += " \\\n        ";
    if (option.repeats) {
      text += letter.empty() ? "'*'" + name + tail : "'*'{" + letter + "," + name + "}" + tail;
    } else {
      text += letter.empty()
                  ? name + tail
                  : "'(" + letter + " " + name + ")'{" + letter + "," + name + "}" + tail;
    }
  }
  if (const Operand& operand = command.operand; !operand.name.empty()) {
    text += std::string(" \\\n        '") + (operand.repeats ? "*" : "1") +
            zsh_value(operand.name, operand.kind, operand.choices) + "'";
  }
  return text + "\n";
}

std::string zsh_verb(std::string_view word, std::string_view summary) {
  return "    '" + std::string(word) + ":" + escaped(summary, ":\\") + "'\n";
}

std::string zsh_group(const std::vector<const Command*>& group, const Command* alone) {
  std::string verbs;
  std::string cases;
  for (const Command* command : group) {
    verbs += zsh_verb(second_word(*command), command->summary);
    cases += "    " + std::string(second_word(*command)) +
             ")\n      shift words\n      ((CURRENT--))\n" + zsh_arguments(*command) + "      ;;\n";
  }
  if (alone != nullptr) cases += "    *)\n" + zsh_arguments(*alone) + "      ;;\n";
  return "      verbs=(\n" + verbs +
         "      )\n      if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then\n        _describe "
         "verb verbs\n"
         "        return\n      fi\n      case $words[2] in\n" +
         cases + "      esac\n";
}

std::string zsh_script(CommandTable commands) {
  std::string verbs;
  std::string cases;
  for (const std::string_view first : first_words(commands)) {
    verbs += zsh_verb(first, summary_of(commands, first));
    if (const auto group = group_of(commands, first); !group.empty()) {
      cases += "    " + std::string(first) + ")\n" + zsh_group(group, alone(commands, first)) +
               "      ;;\n";
    }
  }
  for (const Command* command : commands) {
    if (!group_of(commands, first_word(*command)).empty()) continue;
    cases += "    " + std::string(command->name) + ")\n" + zsh_arguments(*command) + "      ;;\n";
  }
  return R"(#compdef berth
# zsh completion for berth. Put it as _berth into a folder of $fpath, or load it with
#   source <(berth completion zsh)
_berth() {
  local -a verbs=(
)" + verbs +
         R"(    'help:explain a verb'
  )
  if ((CURRENT == 2)); then
    _describe verb verbs
    return
  fi
  shift words
  ((CURRENT--))
  case $words[1] in
    help)
      _describe verb verbs
      ;;
)" + cases +
         R"(  esac
}
if [[ $funcstack[1] == _berth ]]; then
  _berth "$@"
else
  compdef _berth berth
fi
)";
}

std::string fish_quoted(std::string_view text) {
  std::string result = "'";
  for (const char character : text) {
    if (character == '\'' || character == '\\') result += '\\';
    result += character;
  }
  return result + "'";
}

std::string fish_value(ValueKind kind, Choices choices) {
  switch (kind) {
    case ValueKind::file: return " --require-parameter --force-files";
    case ValueKind::directory: return " --exclusive --arguments '(__fish_complete_directories)'";
    case ValueKind::choice: return " --exclusive --arguments '" + words(choices) + "'";
    case ValueKind::list:
      return " --exclusive --arguments '(__fish_append , " + words(choices) + ")'";
    case ValueKind::text: return " --exclusive";
    case ValueKind::none: return "";
  }
  return {};  // every kind is above
}

std::string fish_operand(const Operand& operand) {
  switch (operand.kind) {
    case ValueKind::file: return " --force-files";
    case ValueKind::directory: return " --arguments '(__fish_complete_directories)'";
    case ValueKind::choice:
    case ValueKind::list: return " --arguments '" + words(operand.choices) + "'";
    case ValueKind::text:
    case ValueKind::none: return "";
  }
  return {};  // every kind is above
}

// The second words of a group, offered while none of them is there.
std::string fish_group(std::string_view first, const std::vector<const Command*>& group) {
  std::string text;
  for (const Command* command : group) {
    text += "complete --command berth --condition '__fish_seen_subcommand_from " +
            std::string(first) + "; and not __fish_seen_subcommand_from " + second_words(group) +
            "' --arguments " + std::string(second_word(*command)) + " --description " +
            fish_quoted(command->summary) + "\n";
  }
  return text;
}

std::string fish_script(CommandTable commands) {
  std::string text =
      "# fish completion for berth. Load it with\n"
      "#   berth completion fish | source\n"
      "complete --command berth --no-files\n"
      "complete --command berth --condition __fish_use_subcommand --arguments help --description "
      "'explain a verb'\n";
  std::string verbs;
  for (const std::string_view first : first_words(commands)) {
    verbs += " " + std::string(first);
    text += "complete --command berth --condition __fish_use_subcommand --arguments " +
            std::string(first) + " --description " + fish_quoted(summary_of(commands, first)) +
            "\n";
    text += fish_group(first, group_of(commands, first));
  }
  text += "complete --command berth --condition '__fish_seen_subcommand_from help' --arguments '" +
          verbs.substr(std::min<std::size_t>(1, verbs.size())) + "'\n";
  for (const Command* command : commands) {
    std::string start = "complete --command berth --condition '__fish_seen_subcommand_from " +
                        std::string(first_word(*command));
    if (!second_word(*command).empty()) {
      start += "; and __fish_seen_subcommand_from " + std::string(second_word(*command));
    } else if (const auto group = group_of(commands, command->name); !group.empty()) {
      start += "; and not __fish_seen_subcommand_from " + second_words(group);
    }
    start += "'";
    for (const Option& option : options_of(*command)) {
      text += start + " --long-option " + std::string(option.name.substr(2));
      if (option.letter != '\0') text += std::string(" --short-option ") + option.letter;
      text += fish_value(option.kind, option.choices) + " --description " +
              fish_quoted(option.help) + "\n";
    }
    if (const std::string values = fish_operand(command->operand); !values.empty()) {
      text += start + values + "\n";
    }
  }
  return text;
}

constexpr Generator kGenerators[] = {
    {"bash", bash_script},
    {"zsh", zsh_script},
    {"fish", fish_script},
};

}  // namespace

std::vector<std::string> completion_shells() {
  std::vector<std::string> shells;
  for (const Generator& generator : kGenerators)
    shells.emplace_back(generator.shell);
  return shells;
}

std::string completion_script(std::string_view shell, CommandTable commands) {
  const auto* generator = std::ranges::find(kGenerators, shell, &Generator::shell);
  ASSERT(generator != std::end(kGenerators), shell);
  return generator->script(commands);
}

}  // namespace berth::cli
