// Describe: events and actions as one line each, for people: transcripts, differences of a replay,
// the minimal failing sequence of a property test. Not a format: nothing parses it.
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "core/engine/actions.h"
#include "core/engine/decision_log.h"
#include "core/engine/engine.h"
#include "core/engine/events.h"

namespace berth::core {

// "4000m cpu, 16384 MiB ram; main: 2 x 4096 MiB (limit 8192 MiB)"
std::string describe(const Request& request);
// "12.500 s: submit job-7 (priority 5): main: 4096 MiB"
std::string describe(const Event& event);

// Names come from the engine, right after the apply() that gave the action; an id that it does not
// know is shown as a number.
// "granted job-7 on n1: main GPU-1 4096 MiB"
std::string describe(const Action& action, const Engine& engine);
std::string describe(const LoggedAction& action, const Engine& engine);

}  // namespace berth::core
