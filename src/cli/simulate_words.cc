#include "cli/simulate_words.h"

#include <algorithm>
#include <ostream>

#include "cli/suggest.h"
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

ExitCode report_error(Console& console, std::string_view verb, const Error& error) {
  console.err << "berth " << verb << ": " << error.to_string() << "\n";
  const bool bad_input = error.code() == ErrorCode::invalid_argument;
  return bad_input ? ExitCode::usage : ExitCode::failed;
}

}  // namespace berth::cli
