// Running scenarios: text in, a report out. Used by tests and by `berth simulate --scenario`.
//
//   TRY(ScenarioReport report, run_scenario(text, "cases.yaml"));
//   if (!report.passed()) std::cerr << failures_text(report);
//
// Every event goes to a real engine; after each of them (of each step beyond some hundred
// workloads, see Session) verify() recomputes the books, and at each `expect` five further rounds
// must change nothing. Thread-safety: pure functions of their arguments.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "scenario/report.h"
#include "scenario/script.h"

namespace berth::scenario {

// Errors: the file cannot be read as a scenario, or a step names something that was never
// described: "FILE:LINE:COLUMN: …". An expectation that is not met is no error; the report says so.
// With `Verdicts::json` each answer about a workload carries its verdict v1; that costs one look at
// the fleet per answer.
enum class Verdicts : std::uint8_t { words, json };
Result<ScenarioReport> run_scenario(std::string_view text, std::string_view file_name,
                                    Verdicts verdicts = Verdicts::words);

Result<CaseReport> run_script(const Script& script, Verdicts verdicts = Verdicts::words);

}  // namespace berth::scenario
