#include "cli/simulate_words.h"

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <system_error>
#include <utility>

#include "base/printable.h"
#include "base/suggest.h"
#include "core/placement/class_counts.h"
#include "core/placement/registry.h"
#include "sim/words.h"

namespace berth::cli {

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const core::PolicyInfo& policy : core::registered_policies()) {
    names.emplace_back(policy.name);
  }
  return names;
}

Result<std::vector<std::string>> policies_from(std::string_view text) {
  TRY(std::vector<std::string> policies, sim::parse_policies(text));
  const std::vector<std::string> known = policy_names();
  for (const std::string& policy : policies) {
    if (std::ranges::count(known, policy) > 0) continue;
    if (policy.find('=') == std::string::npos) {
      std::string names;
      for (const std::string& name : known)
        names += (names.empty() ? "" : ", ") + name;
      return invalid_argument("--policy: '" + policy + "' is unknown; did you mean '" +
                              nearest(policy, known) + "'? Known are " + names +
                              " (`berth policies` says what each does)");
    }
    if (const auto made = core::make_policy(policy, core::ClassCounts()); !made.ok()) {
      return made.error();
    }
  }
  return policies;
}

namespace {

struct MissingPath {
  std::string_view option;
  std::string_view what;
  std::string_view example;
};

Result<std::string> path_of(const Arguments& arguments, const MissingPath& missing) {
  if (auto path = arguments.value(missing.option); path && !path->empty()) return *path;
  return invalid_argument(std::string(missing.option) + " is missing: name the " +
                          std::string(missing.what) + " (CSV), for instance bench/data/openb/" +
                          std::string(missing.example) + ", a published trace");
}

}  // namespace

Result<TracePaths> trace_paths(const Arguments& arguments) {
  TracePaths paths;
  if (!arguments.has("--nodes") && !arguments.has("--pods") && !arguments.has("--generate")) {
    return invalid_argument(
        "what is to be played is missing: --nodes FILE --pods FILE for a trace of work (CSV; "
        "bench/data/openb has a published one), --fleet FLEET --load FILE for a shared cluster, or "
        "--scenario FILE; `berth simulate --help` has an example of each");
  }
  TRY(paths.nodes, path_of(arguments, {.option = "--nodes",
                                       .what = "node list",
                                       .example = "openb_node_list_gpu_node.csv"}));
  TRY(paths.pods,
      path_of(arguments,
              {.option = "--pods", .what = "pod list", .example = "openb_pod_list_default.csv"}));
  return paths;
}

Result<void> check_outputs_differ(std::vector<NamedPath> inputs,
                                  const std::optional<std::string>& report,
                                  const std::optional<std::string>& record) {
  std::vector<NamedPath>& others = inputs;
  for (const auto& [option, output] :
       {std::pair{"--report", &report}, std::pair{"--record", &record}}) {
    if (!output->has_value()) continue;
    for (const NamedPath& other : others) {
      std::error_code ignored;
      if (**output == other.path || std::filesystem::equivalent(**output, other.path, ignored)) {
        return invalid_argument(std::string(option) + " and " + std::string(other.option) +
                                " name the same file, " + **output + "; give each its own");
      }
    }
    others.push_back({option, **output});
  }
  return success();
}

Result<std::optional<sim::OutputFile>> open_output(const std::optional<std::string>& path) {
  if (!path) return std::optional<sim::OutputFile>();
  TRY(sim::OutputFile file, sim::OutputFile::create(*path));
  return std::optional<sim::OutputFile>(std::move(file));
}

void print_warnings(const sim::Scene& scene, Console& console) {
  for (const std::string& warning : scene.warnings) {
    console.err << "berth simulate: warning: " << printable(warning) << "\n";
  }
}

ExitCode report_error(Console& console, std::string_view verb, const Error& error) {
  if (error.code() == ErrorCode::exhausted) {
    console.err << "berth " << verb << ": " << printable_lines(error.message())
                << "; nothing was written\n";
    return ExitCode::failed;
  }
  console.err << "berth " << verb << ": " << printable_lines(error.to_string()) << "\n";
  const bool bad_input = error.code() == ErrorCode::invalid_argument;
  return bad_input ? ExitCode::usage : ExitCode::failed;
}

}  // namespace berth::cli
