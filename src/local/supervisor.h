// What a job's supervisor does: the whole program `berth-supervise`.
//
//   berth-supervise start|adopt DIR          reports on descriptor 3: "ok", or why not
//
// One small process per job, no child of the daemon: it runs the job, keeps its output, ends it
// when told or when its time is over, and records how it ended. The daemon may die and come back;
// it finds all of it in DIR (job_files.h).
//
// Everything that a job starts stays below its supervisor (it is their subreaper), so that nothing
// is left when the job has ended: what remains then gets TERM, the grace time and KILL.
//
// If the supervisor itself is killed, the job runs on: its output waits in the FIFO, which the job
// holds open itself. `adopt` sets a new supervisor beside it, to which nothing but the exit status
// is unknown.
//
// Thread-safety: a process of one thread.
#pragma once

#include <string>

namespace berth::local {

enum class SuperviseMode : bool { start, adopt };

// Returns in the first process as soon as the second one exists, and in that one when the job has
// ended: the exit status of the program. `report`: descriptor for the report.
int supervise(const std::string& directory, SuperviseMode mode, int report);

}  // namespace berth::local
