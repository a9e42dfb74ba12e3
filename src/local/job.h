// Jobs of this machine, as the daemon sees them: started, looked at, ended, found again.
//
//   const Jobs jobs({.supervisor = "/usr/libexec/berth/berth-supervise"});
//   TRY(JobStatus started, jobs.start("/var/lib/berth/jobs/j-17", spec));
//   … kill -9 of the daemon, and a new one …
//   JobStatus status = jobs.status("/var/lib/berth/jobs/j-17");
//   if (status.phase == JobPhase::running && !status.supervised) jobs.adopt(…);
//
// All state is in the job's directory; a `Jobs` has none. `status` never blocks; `start` and
// `adopt` wait until the program runs or is known not to (milliseconds, at most 10 s).
// Thread-safety: calls for different directories may run at the same time.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "local/job_files.h"

namespace berth::local {

enum class JobPhase : std::uint8_t {
  absent,   // no program was ever started for this directory: it may be started (again)
  running,  // its main process lives
  ended,    // see state.end, also lost; as long as it is supervised, what it left is being ended
};

struct JobStatus {
  JobPhase phase = JobPhase::absent;
  bool supervised = false;  // a supervisor lives
  JobState state;           // of phases running and ended
};

// "exit status 3", "killed by signal 9 (KILL)", "not started: …", "unknown: …"; of one that runs
// "running".
std::string outcome_text(const JobStatus& status);

struct JobsOptions {
  std::string supervisor;  // path of the program berth-supervise; empty: beside our own program
};

class Jobs {
 public:
  explicit Jobs(JobsOptions options);

  // Makes `directory` (its parent must exist) and starts the job. A program that cannot be run is
  // no error: the job has ended then as `not_started`. After a crash between "will be started" and
  // "was started", a second call with the same directory starts it or tells that it was started.
  // Errors: invalid_argument; already_exists (a job was started there); unavailable (disk, no
  // supervisor program, no process left): nothing runs.
  Result<JobStatus> start(const std::string& directory, const JobSpec& spec) const;

  JobStatus status(const std::string& directory) const;

  // TERM to all of the job's processes, KILL after the grace time; returns at once. May be called
  // again with less grace. `reason` is what state.stopped_by says afterwards. A job that has ended
  // stays as it is. If its supervisor was killed a new one does it.
  // Errors: not_found (absent), unavailable.
  Result<void> terminate(const std::string& directory, Duration grace,
                         const std::string& reason) const;

  // After a restart of the daemon: what has become of it, with a supervisor if it still runs.
  // Errors: unavailable.
  Result<JobStatus> adopt(const std::string& directory) const;

 private:
  Result<void> launch(const std::string& directory, const char* mode) const;

  std::string supervisor_;
};

}  // namespace berth::local
