// A table of two verbs that uses every kind of option, for the tests of parser, help and
// completion.
#pragma once

#include <array>
#include <ostream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/parser.h"

namespace berth::cli {

inline constexpr Option kExampleOptions[] = {
    {.name = "--nodes", .kind = ValueKind::file, .value = "FILE", .help = "node list"},
    {.name = "--workdir", .kind = ValueKind::directory, .value = "DIR", .help = "where to write"},
    {.name = "--policy",
     .kind = ValueKind::list,
     .value = "NAME,...",
     .help = "policies to compare, for instance the operator's [favourite]",
     .choices = [] { return std::vector<std::string>{"pack", "fgd", "best-fit"}; }},
    {.name = "--seeds", .kind = ValueKind::text, .value = "A-B", .help = "seeds", .fallback = "42"},
    {.name = "--scenario",
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "scenario files",
     .repeats = true},
    {.name = "--output",
     .letter = 'o',
     .kind = ValueKind::choice,
     .value = "FORMAT",
     .help = "table or json",
     .fallback = "table",
     .choices = [] { return std::vector<std::string>{"table", "json"}; }},
    {.name = "--check", .help = "verify after each event: slow"},
};

inline constexpr Example kExampleExamples[] = {{"berth simulate --nodes n.csv", "one run"}};

inline constexpr Command kExampleSimulate{
    .name = "simulate",
    .summary = "run a trace, the planner's way",
    .description = "Runs events through the engine in virtual time.",
    .options = kExampleOptions,
    .examples = kExampleExamples,
    .run =
        [](const Arguments& arguments, Console& console) {
          console.out << arguments.value("--seeds").value_or("none") << "\n";
          return ExitCode::done;
        },
};

inline constexpr Command kExampleShow{
    .name = "show",
    .summary = "print colours",
    .operand = {.name = "COLOUR",
                .help = "red or green",
                .kind = ValueKind::choice,
                .required = true,
                .repeats = true,
                .choices = [] { return std::vector<std::string>{"red", "green"}; }},
    .run = [](const Arguments&, Console&) { return ExitCode::failed; },
};

// Verbs of two words.
inline constexpr Option kExampleCutOptions[] = {
    {.name = "--depth",
     .letter = 'o',
     .kind = ValueKind::choice,
     .value = "DEPTH",
     .help = "how deep",
     .choices = [] { return std::vector<std::string>{"deep", "flat"}; }},
};

inline constexpr Command kExampleTreeCut{
    .name = "tree cut",
    .summary = "cut a tree",
    .options = kExampleCutOptions,
    .operand = {.name = "FILE", .help = "the tree", .kind = ValueKind::file, .required = true},
    .examples = kExampleExamples,
    .run =
        [](const Arguments& arguments, Console& console) {
          console.out << "cut " << arguments.operands().front() << "\n";
          return ExitCode::done;
        },
};

inline constexpr Command kExampleTreeGrow{
    .name = "tree grow",
    .summary = "grow a tree",
    .run = [](const Arguments&, Console&) { return ExitCode::done; },
};

// A verb of one word that is also the first of another.
inline constexpr Option kExampleBushOptions[] = {
    {.name = "--tall", .help = "tall ones only"},
};

inline constexpr Command kExampleBush{
    .name = "bush",
    .summary = "list bushes",
    .options = kExampleBushOptions,
    .run =
        [](const Arguments&, Console& console) {
          console.out << "bushes\n";
          return ExitCode::done;
        },
};

inline constexpr Command kExampleBushTrim{
    .name = "bush trim",
    .summary = "trim a bush",
    .options = kExampleCutOptions,
    .run = [](const Arguments&, Console&) { return ExitCode::done; },
};

inline constexpr std::array<const Command*, 6> kExampleCommands{
    &kExampleSimulate, &kExampleShow, &kExampleTreeCut,
    &kExampleTreeGrow, &kExampleBush, &kExampleBushTrim};

}  // namespace berth::cli
