// Signals to processes that may have ended meanwhile. Thread-safety: functions.
#pragma once

#include "local/processes.h"

namespace berth::local {

// Sends `signal` to exactly this process; false: it has ended (its pid may belong to another one),
// or we may not.
bool signal_process(const ProcessKey& process, int signal);

}  // namespace berth::local
