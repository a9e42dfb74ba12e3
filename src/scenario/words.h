// Verdicts, actions and deeds as sentences of the scenario language.
#pragma once

#include <string>
#include <string_view>

#include "core/engine/actions.h"
#include "core/model/verdict.h"
#include "scenario/script.h"
#include "scenario/world.h"

namespace berth::scenario {

// "free 10MiB on n0/g1"; "wait for job-7 until 80s".
std::string unblock_text(const core::Unblock& unblock, const World& world);
// Everything a verdict says, a line each; devices in short form.
std::string verdict_text(const core::Verdict& verdict, const World& world);
// Its sentence and the counts of nodes; devices in short form.
std::string message_text(const core::Verdict& verdict, const World& world);

std::string_view notice_name(core::Notice::Kind kind);  // "overuse"
std::string_view state_name(WantedState state);         // "granted"
std::string_view verb_name(WorkloadVerb verb);          // "end"
std::string_view verb_name(NodeVerb verb);
std::string_view verb_name(DeviceVerb verb);
std::string_view stop_name(core::QueueStop stop);      // "hold"
std::string_view rule_name(core::Evicted::Rule rule);  // "fairShare"

}  // namespace berth::scenario
