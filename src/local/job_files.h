// The files by which a job's supervisor and the daemon know of each other.
//
//   DIR/spec        what to run; written once by the daemon, mode 0600 (environments hold secrets)
//   DIR/lock        locked (open file description lock) as long as a supervisor lives
//   DIR/state       what has become of it; replaced in one step by the supervisor
//   DIR/terminate   present: the daemon wants it to end; "GRACE_MS REASON"
//   DIR/output      FIFO: the job's stdout and stderr on their way to the log
//   DIR/log.N       the log from its Nth byte on; DIR/log: link to the latest
//
// A directory belongs to one job for ever. Nothing here needs the daemon to live: whoever comes
// later reads what there is. Thread-safety: functions of files; one supervisor writes `state`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "local/files.h"
#include "local/gated_child.h"
#include "local/processes.h"

namespace berth::local {

struct JobSpec {
  std::vector<std::string> command;      // at least one word
  std::vector<std::string> environment;  // "NAME=value", all of it; the lease's over the user's own
  std::string directory;                 // where it runs
  std::string lease;                     // by its id stray processes of the job are known
  std::optional<RunAs> user = {};        // absent: as the daemon is
  std::uint32_t umask = 0022;
  std::uint64_t open_files = 0;           // soft RLIMIT_NOFILE; 0: the supervisor's
  std::optional<Duration> max_time = {};  // then it is ended
  Duration grace{30'000};                 // between TERM and KILL
  std::int64_t log_bytes_per_file = std::int64_t{64} << 20;
  std::int64_t log_files = 4;  // the oldest is deleted when there would be more; >= 1
  std::string cgroup = {};     // make its cgroup below this directory of a cgroup v2, if permitted
};

// What was the end of a job's main process.
enum class JobEnd : std::uint8_t {
  none,         // it has not ended
  exited,       // `code` is its exit status
  signalled,    // `code` is the signal
  not_started,  // `code` is 125 … 127 and `message` says why no program ran
  lost,         // its supervisor was killed, or the machine was: nobody knows
};

struct JobState {
  ProcessKey supervisor;
  ProcessKey process;              // main process; it leads session and group
  std::string boot_id;             // of the machine while it ran
  std::string cgroup;              // made for it; empty: none
  std::int64_t started_at_ms = 0;  // since 1970
  std::int64_t ended_at_ms = 0;
  JobEnd end = JobEnd::none;
  int code = 0;
  std::string message;  // of not_started and lost
  std::string
      stopped_by;  // why it was told to end: "time", or the daemon's reason; empty: it was not
};

struct JobOrder {  // to end
  Duration grace;
  std::string reason;
};

// Paths of the files of one job.
class JobFiles {
 public:
  explicit JobFiles(std::string directory) : directory_(std::move(directory)) {}

  const std::string& directory() const { return directory_; }
  std::string path(std::string_view name) const;

  // Errors: invalid_argument (no command, a NUL in a word), already_exists, unavailable.
  Result<void> write_spec(const JobSpec& spec) const;
  // Errors: not_found, conflict (not a file of ours), unavailable.
  Result<JobSpec> read_spec() const;

  // Errors: unavailable. `durable`: survives a loss of power.
  Result<void> write_state(const JobState& state, bool durable) const;
  std::optional<JobState> read_state() const;

  // Room on the disk for the next write_state, so that a full disk cannot keep a job's end secret.
  void reserve_state() const;

  Result<void> write_order(const JobOrder& order) const;
  std::optional<JobOrder> read_order() const;

  // The lock, or conflict: a supervisor lives.
  Result<Descriptor> lock() const;
  bool is_locked() const;

 private:
  Result<void> write_whole(const std::string& name, std::string_view text, bool durable) const;

  std::string directory_;
};

// To and from text, for the files above and their tests.
std::string encode(const JobSpec& spec);
Result<JobSpec> decode_spec(std::string_view text);
std::string encode(const JobState& state);
std::optional<JobState> decode_state(std::string_view text);

}  // namespace berth::local
