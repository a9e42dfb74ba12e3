// The registered policies: one table from which help, `berth policies` and documentation come.
//
//   TRY(std::unique_ptr<Policy> policy, make_policy("pack", history));
//
// A specification is a name, or `nodes=X,devices=Y` with X and Y in pack, spread (interfaces.md 2).
// Thread-safety: pure functions.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "core/placement/class_counts.h"
#include "core/placement/policy.h"

namespace berth::core {

struct PolicyInfo {
  std::string_view name;
  std::string_view summary;     // one line
  std::string_view parameters;  // one line; empty = none
  bool baseline = false;        // for comparison in the simulator, not for production
  std::unique_ptr<Policy> (*make)(const ClassCounts& history);
};

std::span<const PolicyInfo> registered_policies();

// Errors: unknown name (with the nearest known one) or a malformed specification.
Result<std::unique_ptr<Policy>> make_policy(std::string_view spec, const ClassCounts& history);

}  // namespace berth::core
