#include "cli/simulate_words.h"

#include <algorithm>
#include <ostream>

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
  TRY(paths.nodes, path_of(arguments, {.option = "--nodes",
                                       .what = "node list",
                                       .example = "openb_node_list_gpu_node.csv"}));
  TRY(paths.pods,
      path_of(arguments,
              {.option = "--pods", .what = "pod list", .example = "openb_pod_list_default.csv"}));
  return paths;
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
