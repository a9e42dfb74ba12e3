// What running a scenario file gave: every expectation, met or not, and a transcript for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "config/value.h"

namespace berth::scenario {

using config::Place;

struct Check {
  Place place;
  bool met = false;
  std::string subject{};  // "train", "n0/g1", "step"
  std::string wanted{};   // "granted on n0/g1"
  std::string found{};
  std::string detail{};  // unmet: the whole verdict of the workload, or what the books say
};

struct TranscriptLine {
  Time time;
  bool is_event = false;  // what was done; else what the engine answered
  std::string text{};
  std::string verdict{};  // answers about a workload that is known: its verdict v1 as JSON
};

// One document of the file.
struct CaseReport {
  std::string about{};
  Place place;
  std::vector<Check> checks{};
  std::vector<TranscriptLine> transcript{};

  std::size_t unmet() const;
};

struct ScenarioReport {
  std::string file{};
  std::vector<CaseReport> cases{};

  std::size_t expectations() const;
  std::size_t unmet() const;
  // Every expectation met, and at least one in every case.
  bool passed() const;
};

// "FILE:LINE:COLUMN: SUBJECT: expected WANTED, found FOUND" and the detail, indented.
std::string failure_text(std::string_view file, const Check& check);
// All unmet expectations of a report; cases without any are failures too.
std::string failures_text(const ScenarioReport& report);

// For people: what happened, with verdicts, then the expectations.
std::string table_text(const ScenarioReport& report);
// {"version":"v1","scenarios":[{"file","line","about","passed","expectations","unmet":[…],
// "transcript":[{"at_ms","kind","text","verdict"?}]}]}, one entry per document.
std::string json_text(const std::vector<ScenarioReport>& reports);
std::string yaml_text(const std::vector<ScenarioReport>& reports);

// As the language writes them: "90s", "16GiB".
std::string time_text(Time time);
std::string memory_text(Memory memory);

}  // namespace berth::scenario
