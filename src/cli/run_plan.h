// What `berth run` is asked to do, as values: the reservation, the limits, the environment.
// Thread-safety: functions of their arguments.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "cli/command.h"
#include "json/value.h"

namespace berth::cli {

struct RunPlan {
  std::vector<std::string> command;
  json::Value reservation;  // body of POST /v1/leases
  std::string asked;        // in words: "4096 MiB of one GPU"
  std::optional<Duration> run_time = {};
  Duration grace{30'000};  // between TERM and KILL
  bool container = false;
  bool guard = true;
};

// The options of `berth run` (verb_run.cc). `key` names the reservation and nothing else.
// Errors: invalid_argument names the option, the value, the rule and what to write.
Result<RunPlan> read_run_plan(const Arguments& arguments, const std::string& key);

// The lease's variables over the user's own, as "NAME=value" in the user's order, the lease's last.
// What the user set cannot widen what was granted (B40): every BERTH_ variable of an outer lease
// goes too. A user's own LD_PRELOAD stands behind the guard.
std::vector<std::string> run_environment(
    const std::vector<std::string>& own,
    const std::vector<std::pair<std::string, std::string>>& lease);

// The variables of a lease object.
std::vector<std::pair<std::string, std::string>> lease_variables(const json::Value& lease);

// One line about a lease that waits, the most important first: place in the queue, what is missing,
// for what, and when it may start.
std::string waiting_line(const json::Value& lease);

// Where a lease was granted: "GPU 1 (H100) of n1, 4096 MiB".
std::string granted_line(const json::Value& lease);

}  // namespace berth::cli
