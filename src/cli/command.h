// What a verb of `berth` says about itself, and what it gets when it runs.
//
// One `Command` is the only place where a verb's name, options, help and examples are written.
// Parsing, `--help`, suggestions for mistyped words and the completion scripts are all derived from
// it:
//
//     constexpr Option kOptions[] = {
//         {.name = "--nodes", .kind = ValueKind::file, .value = "FILE", .help = "node list (CSV)"},
//         {.name = "--check", .help = "verify every derived number after every event"},
//     };
//     const Command kSimulateCommand{.name = "simulate", .options = kOptions, .run = simulate,
//     ...};
//
// A verb is one file `verb_NAME.cc` and one line in `commands.cc`.
//
// Thread-safety: these are constant values; a verb runs on the main thread.
#pragma once

#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::cli {

// The exit status of every verb. `berth run` may pass a child's status through by a cast.
enum class ExitCode : int { done = 0, failed = 1, usage = 2 };

// Where a verb writes: data to `out`, everything else (messages, progress) to `err`.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;
  bool out_is_terminal = false;
};

enum class ValueKind {
  none,       // a switch without value
  text,       // anything
  file,       // a path; completed as such, not checked
  directory,  // likewise
  choice,     // one of `choices`; the parser refuses anything else
  list,       // comma-separated words; `choices` are offered by completion, the verb checks them
};

// Asked for when needed, so that the names can come from a registry of another folder.
using Choices = std::vector<std::string> (*)();

struct Option {
  std::string_view name;  // with dashes: "--seeds"
  char letter = '\0';     // 'o' for -o
  ValueKind kind = ValueKind::none;
  std::string_view value = {};  // what the help calls the value: "FILE"
  std::string_view help;
  std::string_view fallback = {};  // the value when the option is absent; empty: none
  bool repeats = false;            // may be given often, and takes several words: --scenario A B
  Choices choices = nullptr;
};

// A word that is no option. A verb has at most one kind of them.
struct Operand {
  std::string_view name = {};  // what the help calls it: "SHELL"; empty: the verb takes none
  std::string_view help = {};
  ValueKind kind = ValueKind::text;
  bool required = false;
  bool repeats = false;
  Choices choices = nullptr;
  bool is_command = false;  // a program and its words: from the first word that is no option of the
                            // verb, or after `--`, all is taken as it stands
};

struct Example {
  std::string_view command;
  std::string_view explanation;
};

// The words of one call after parsing. Values are as typed; `choice` values are already checked.
class Arguments {
 public:
  struct Given {
    const Option* option;
    std::vector<std::string> values;  // empty for a switch
  };

  Arguments() = default;
  Arguments(std::span<const Option> known, std::vector<Given> given,
            std::vector<std::string> operands);

  // `name` must be an option of the verb's table; anything else is a bug of the verb and ends the
  // program.
  [[nodiscard]] bool has(std::string_view name) const;

  // The value, else the option's fallback, else nothing.
  [[nodiscard]] std::optional<std::string> value(std::string_view name) const;

  // All values of a repeating option in the order typed; empty if absent.
  [[nodiscard]] std::vector<std::string> values(std::string_view name) const;

  [[nodiscard]] const std::vector<std::string>& operands() const { return operands_; }

 private:
  [[nodiscard]] const Option& known(std::string_view name) const;
  [[nodiscard]] const Given* find(std::string_view name) const;

  std::span<const Option> known_;
  std::vector<Given> given_;
  std::vector<std::string> operands_;
};

struct Command {
  std::string_view name;              // "simulate"; or of two words, "queues check"
  std::string_view summary;           // one line, no full stop
  std::string_view description = {};  // paragraphs for `berth VERB --help`
  std::span<const Option> options = {};
  Operand operand = {};
  std::span<const Example> examples = {};
  ExitCode (*run)(const Arguments& arguments, Console& console);
};

// "queues" of "queues check"; the whole name of a verb of one word.
[[nodiscard]] std::string_view first_word(const Command& command);
// "check" of "queues check"; empty for a verb of one word.
[[nodiscard]] std::string_view second_word(const Command& command);

// Options that every verb has; the program answers them itself.
[[nodiscard]] std::span<const Option> common_options();

}  // namespace berth::cli
