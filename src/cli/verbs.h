// The verbs, each defined in its own `verb_NAME.cc`. A new one is declared here and listed in
// `commands.cc`.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace berth::cli {

// -o of verbs whose table has no wider form.
inline constexpr Option kOutputOption{
    .name = "--output",
    .letter = 'o',
    .kind = ValueKind::choice,
    .value = "FORMAT",
    .help = "table, json or yaml",
    .fallback = "table",
    .choices = [] { return std::vector<std::string>{"table", "json", "yaml"}; },
};

extern const Command kCancelCommand;
extern const Command kCompletionCommand;
extern const Command kConfigCheckCommand;
extern const Command kConfigFieldsCommand;
extern const Command kDoctorCommand;
extern const Command kDrainCommand;
extern const Command kGpusCommand;
extern const Command kLogsCommand;
extern const Command kPoliciesCommand;
extern const Command kPsCommand;
extern const Command kQueuesCommand;
extern const Command kQueuesCheckCommand;
extern const Command kQueuesFieldsCommand;
extern const Command kQueuesImportCommand;
extern const Command kReplayCommand;
extern const Command kRunCommand;
extern const Command kSchedulerCommand;
extern const Command kServeCommand;
extern const Command kSimulateCommand;
extern const Command kSubmitCommand;
extern const Command kTokenListCommand;
extern const Command kTokenNewCommand;
extern const Command kUndrainCommand;
extern const Command kVersionCommand;
extern const Command kWaitCommand;
extern const Command kWebhookCommand;
extern const Command kWhyCommand;

}  // namespace berth::cli
