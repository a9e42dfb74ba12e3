#include "cli/commands.h"

#include "cli/verbs.h"

namespace berth::cli {

namespace {

constexpr const Command* kCommands[] = {
    &kRunCommand,          &kSubmitCommand,   &kLogsCommand,        &kPsCommand,
    &kGpusCommand,         &kWhyCommand,      &kWaitCommand,        &kCancelCommand,
    &kQueuesCommand,       &kDrainCommand,    &kUndrainCommand,     &kServeCommand,
    &kSimulateCommand,     &kReplayCommand,   &kQueuesCheckCommand, &kQueuesFieldsCommand,
    &kQueuesImportCommand, &kDoctorCommand,   &kPoliciesCommand,    &kConfigCheckCommand,
    &kConfigFieldsCommand, &kTokenNewCommand, &kTokenListCommand,   &kCompletionCommand,
    &kSchedulerCommand,    &kWebhookCommand,  &kVersionCommand,
};

}  // namespace

CommandTable all_commands() { return kCommands; }

}  // namespace berth::cli
