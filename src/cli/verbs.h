// The verbs, each defined in its own `verb_NAME.cc`. A new one is declared here and listed in
// `commands.cc`.
#pragma once

#include "cli/command.h"

namespace berth::cli {

extern const Command kCompletionCommand;
extern const Command kPoliciesCommand;
extern const Command kReplayCommand;
extern const Command kSimulateCommand;
extern const Command kVersionCommand;

}  // namespace berth::cli
