// Running scenarios: text in, a report out. Used by tests and by `berth simulate --scenario`.
//
//   TRY(ScenarioReport report, run_scenario(text, "cases.yaml"));
//   if (!report.passed()) std::cerr << failures_text(report);
//
// Every event goes to a real engine; after each of them verify() recomputes the books, and at each
// `expect` five further rounds must change nothing.
// Thread-safety: pure functions of their arguments.
#pragma once

#include <string_view>

#include "base/result.h"
#include "scenario/report.h"
#include "scenario/script.h"

namespace berth::scenario {

// Errors: the file cannot be read as a scenario, or a step names something that was never
// described: "FILE:LINE:COLUMN: …". An expectation that is not met is no error; the report says so.
Result<ScenarioReport> run_scenario(std::string_view text, std::string_view file_name);

Result<CaseReport> run_script(const Script& script);

}  // namespace berth::scenario
