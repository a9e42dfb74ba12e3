// The configuration file of `berth scheduler`: one table of keys, read with every complaint.
//
//   TRY(SchedulerSettings settings, read_scheduler_file(text, "scheduler.yaml"));
//
// Thread-safety: pure functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "config/section.h"

namespace berth::config {

struct SchedulerSettings {
  std::string scheduler_name = "berth-scheduler";
  std::string policy = "pack";
  std::vector<std::string> queues_files = {};
  std::vector<std::string> listen = {};
  std::int64_t limit_overcommit_percent = 200;
  std::optional<Memory> reserve = {};
  std::int64_t gpumem_factor_mib = 1;
  bool sharing = true;
  bool allow_privileged_shares = false;
  bool allow_advisory = false;
  bool whole_devices_by_berth = false;
  bool require_admission = true;
  std::string lease_namespace = "berth-system";
  std::string lease_name = "berth-scheduler";
  Duration lease_duration{15'000};
  Duration lease_fence{10'000};
  Duration lease_retry{2'000};
};

// Errors: invalid_argument with all that is wrong, a line each.
Result<SchedulerSettings> read_scheduler_file(std::string_view text, std::string_view file_name);

// Its keys, for the reference in docs.
SectionDoc scheduler_file_doc();

}  // namespace berth::config
