#include "cli/simulate_kinds.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace berth::cli {

namespace {

struct KindWords {
  SimulationKind kind;
  std::string_view chosen_by;  // the option; a trace is what is left
  std::string_view name;
};

constexpr KindWords kKinds[] = {
    {SimulationKind::scenario, "--scenario", "--scenario"},
    {SimulationKind::cluster, "--load", "--load"},
    {SimulationKind::generated, "--generate", "--generate"},
    {SimulationKind::trace, "", "a trace (--nodes, --pods)"},
};

constexpr unsigned bit(SimulationKind kind) { return 1U << static_cast<unsigned>(kind); }

constexpr unsigned kTrace = bit(SimulationKind::trace);
constexpr unsigned kGenerated = bit(SimulationKind::generated);
constexpr unsigned kCluster = bit(SimulationKind::cluster);

struct Belongs {
  std::string_view option;
  unsigned kinds;
};

// What is not listed goes with everything.
constexpr Belongs kBelongs[] = {
    {"--nodes", kTrace | kGenerated},
    {"--pods", kTrace | kGenerated},
    {"--policy", kTrace | kGenerated | kCluster},
    {"--seeds", kTrace | kGenerated},
    {"--arrival", kTrace},
    {"--jobs", kTrace | kCluster},
    {"--bound", kTrace},
    {"--check", kTrace | kGenerated | kCluster},
    {"--report", kTrace | kCluster},
    {"--record", kTrace | kGenerated | kCluster},
    {"--fleet", kCluster},
    {"--queues", kCluster},
    {"--seed", kCluster},
};

// The names of the kinds of `mask`: "--generate or a trace (--nodes, --pods)".
std::string names_of(unsigned mask) {
  std::string names;
  for (const KindWords& words : kKinds) {
    if ((mask & bit(words.kind)) == 0) continue;
    names += (names.empty() ? "" : " or ") + std::string(words.name);
  }
  return names;
}

Error out_of_place(const Belongs& belongs, const KindWords& chosen) {
  if (chosen.kind == SimulationKind::trace) {
    return invalid_argument(
        fmt::format("{0} belongs to {1}: give {1} FILE with it, or leave {0} "
                    "out",
                    belongs.option, names_of(belongs.kinds)));
  }
  return invalid_argument(fmt::format("{} belongs to {}; leave it out with {}", belongs.option,
                                      names_of(belongs.kinds), chosen.name));
}

}  // namespace

Result<SimulationKind> simulation_kind(const Arguments& arguments) {
  const KindWords* chosen = nullptr;
  for (const KindWords& words : kKinds) {
    if (words.chosen_by.empty() || !arguments.has(words.chosen_by)) continue;
    if (chosen != nullptr) {
      return invalid_argument(
          fmt::format("{} and {} are simulations of their own: give one of them", chosen->chosen_by,
                      words.chosen_by));
    }
    chosen = &words;
  }
  if (chosen == nullptr) chosen = &kKinds[std::size(kKinds) - 1];
  for (const Belongs& belongs : kBelongs) {
    if (!arguments.has(belongs.option) || (belongs.kinds & bit(chosen->kind)) != 0) continue;
    return out_of_place(belongs, *chosen);
  }
  return chosen->kind;
}

}  // namespace berth::cli
