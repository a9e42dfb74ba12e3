// A job as JSON in the journal, `"v":1`. What is read back is checked. Thread-safety: functions.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "jobs/job.h"

namespace berth::jobs {

std::string job_record(const Job& job);
// Errors: invalid_argument naming what is missing.
Result<Job> read_job(std::string_view body);

}  // namespace berth::jobs
