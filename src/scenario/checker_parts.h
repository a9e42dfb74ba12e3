// The checker's rows about queues, gangs, domains and evictions. Inside the room only.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/model/verdict.h"
#include "scenario/report.h"
#include "scenario/script.h"
#include "scenario/session.h"

namespace berth::scenario {

// What the verdict says of queues, gang, topology and victims; null: there is no verdict.
void check_parts(const ExpectWorkload& expect, const core::Verdict* verdict,
                 std::vector<Check>& checks);

void check_evictions(const ExpectEvictions& expect, const Session& session,
                     std::vector<Check>& checks);

void check_domains(const ExpectDomains& expect, const Session& session, std::vector<Check>& checks);

// Errors: a queue or a dimension that there is not.
Result<void> check_queue(const ExpectQuota& expect, const Session& session, std::string_view file,
                         std::vector<Check>& checks);

}  // namespace berth::scenario
