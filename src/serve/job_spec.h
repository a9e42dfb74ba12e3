// From a job and its lease to what a supervisor runs. Thread-safety: functions.
#pragma once

#include <cstdint>

#include "jobs/job.h"
#include "json/value.h"
#include "local/job_files.h"

namespace berth::serve {

// Whether this process may start programs as that user: root may for everybody.
bool may_run_as(std::uint32_t uid);

// `lease_environment` (leases.md 3.6) wins over the job's own variables; an LD_PRELOAD of the job's
// own stays behind the guard's.
local::JobSpec job_spec(const jobs::Job& job, const json::Value& lease_environment);

}  // namespace berth::serve
