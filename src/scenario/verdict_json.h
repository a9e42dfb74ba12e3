// Verdict v1 as JSON, the format of queues-gangs-topology.md 9.1 as far as its fields apply.
//
// Every harbour says verdicts in this form; the ones that come move this file to a room of its own.
// Times are engine time, written as if its origin were 1970-01-01T00:00:00Z.
// Thread-safety: a pure function.
#pragma once

#include <string>

#include "core/model/verdict.h"

namespace berth::scenario {

// One line, keys in the order of the contract; fields that do not apply are left out.
std::string verdict_json(const core::Verdict& verdict);

}  // namespace berth::scenario
