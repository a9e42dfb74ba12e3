#include "scenario/report.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"

namespace berth::scenario {

namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20U) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string indented(std::string_view text, std::string_view by) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += fmt::format("{}{}\n", by, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

bool case_passed(const CaseReport& report) { return !report.checks.empty() && report.unmet() == 0; }

std::string json_case(const ScenarioReport& file, const CaseReport& report) {
  std::string out = fmt::format(
      "{{\"file\":{},\"line\":{},\"about\":{},\"passed\":{},\"expectations\":{},\"unmet\":[",
      quoted(file.file), report.place.line, quoted(report.about), case_passed(report),
      report.checks.size());
  bool first = true;
  for (const Check& check : report.checks) {
    if (check.met) continue;
    out += fmt::format(
        "{}{{\"line\":{},\"column\":{},\"subject\":{},\"expected\":{},\"found\":{},\"detail\":{}}}",
        std::exchange(first, false) ? "" : ",", check.place.line, check.place.column,
        quoted(check.subject), quoted(check.wanted), quoted(check.found), quoted(check.detail));
  }
  out += "],\"transcript\":[";
  first = true;
  for (const TranscriptLine& line : report.transcript) {
    out += fmt::format("{}{{\"at_ms\":{},\"kind\":\"{}\",\"text\":{}{}{}}}",
                       std::exchange(first, false) ? "" : ",", line.time.ms(),
                       line.is_event ? "event" : "answer", quoted(line.text),
                       line.verdict.empty() ? "" : ",\"verdict\":", line.verdict);
  }
  return out + "]}";
}

std::string yaml_case(const ScenarioReport& file, const CaseReport& report) {
  std::string out = fmt::format(
      "  - file: {}\n    line: {}\n    about: {}\n    passed: {}\n    expectations: {}\n",
      quoted(file.file), report.place.line, quoted(report.about), case_passed(report),
      report.checks.size());
  out += report.unmet() == 0 ? "    unmet: []\n" : "    unmet:\n";
  for (const Check& check : report.checks) {
    if (check.met) continue;
    out += fmt::format(
        "      - line: {}\n        column: {}\n        subject: {}\n        expected: {}\n"
        "        found: {}\n        detail: {}\n",
        check.place.line, check.place.column, quoted(check.subject), quoted(check.wanted),
        quoted(check.found), quoted(check.detail));
  }
  out += report.transcript.empty() ? "    transcript: []\n" : "    transcript:\n";
  for (const TranscriptLine& line : report.transcript) {
    out += fmt::format("      - at_ms: {}\n        kind: {}\n        text: {}\n", line.time.ms(),
                       line.is_event ? "event" : "answer", quoted(line.text));
    // JSON is YAML, and one line of it reads well enough.
    out += line.verdict.empty() ? "" : fmt::format("        verdict: {}\n", line.verdict);
  }
  return out;
}

}  // namespace

std::size_t CaseReport::unmet() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(checks, [](const Check& check) { return !check.met; }));
}

std::size_t ScenarioReport::expectations() const {
  std::size_t count = 0;
  for (const CaseReport& report : cases)
    count += report.checks.size();
  return count;
}

std::size_t ScenarioReport::unmet() const {
  std::size_t count = 0;
  for (const CaseReport& report : cases)
    count += report.unmet();
  return count;
}

bool ScenarioReport::passed() const {
  return !cases.empty() && std::ranges::all_of(cases, case_passed);
}

std::string time_text(Time time) {
  constexpr std::array<std::pair<std::int64_t, std::string_view>, 4> kUnits = {
      {{86'400'000, "d"}, {3'600'000, "h"}, {60'000, "min"}, {1000, "s"}}};
  for (const auto& [ms, name] : kUnits) {
    if (time.ms() != 0 && time.ms() % ms == 0) return fmt::format("{}{}", time.ms() / ms, name);
  }
  return time.ms() == 0 ? "0s" : fmt::format("{}ms", time.ms());
}

std::string memory_text(Memory memory) {
  constexpr std::int64_t kGib = Memory::kBytesPerMib * 1024;
  if (memory.in_bytes() % Memory::kBytesPerMib != 0) return fmt::format("{}B", memory.in_bytes());
  if (memory.in_bytes() == 0 || memory.in_bytes() % kGib != 0) {
    return fmt::format("{}MiB", memory.floor_mib());
  }
  return fmt::format("{}GiB", memory.in_bytes() / kGib);
}

std::string failure_text(std::string_view file, const Check& check) {
  return printable_lines(fmt::format("{}:{}:{}: {}: expected {}, found {}\n{}", printable(file),
                                     check.place.line, check.place.column, printable(check.subject),
                                     printable(check.wanted), printable(check.found),
                                     indented(check.detail, "    ")));
}

std::string failures_text(const ScenarioReport& report) {
  std::string out;
  for (const CaseReport& one : report.cases) {
    if (one.checks.empty()) {
      out += fmt::format("{}:{}:{}: '{}' expects nothing: add an expect to a step\n",
                         printable(report.file), one.place.line, one.place.column,
                         printable(one.about));
    }
    for (const Check& check : one.checks) {
      if (!check.met) out += failure_text(report.file, check);
    }
  }
  return out;
}

std::string table_text(const ScenarioReport& report) {
  std::string out;
  for (const CaseReport& one : report.cases) {
    out += fmt::format("{}:{}  {}\n", printable(report.file), one.place.line, printable(one.about));
    std::string shown;
    for (const TranscriptLine& line : one.transcript) {
      std::string time = time_text(line.time);
      out += fmt::format("  {:>8}  {}{}\n", time == shown ? "" : time, line.is_event ? "" : "  ",
                         printable(line.text));
      shown = std::move(time);
    }
    out += fmt::format("  {} of {} expectations met\n\n", one.checks.size() - one.unmet(),
                       one.checks.size());
  }
  return out;
}

std::string json_text(const std::vector<ScenarioReport>& reports) {
  std::string out = "{\"version\":\"v1\",\"scenarios\":[";
  bool first = true;
  for (const ScenarioReport& report : reports) {
    for (const CaseReport& one : report.cases) {
      out += fmt::format("{}{}", std::exchange(first, false) ? "" : ",", json_case(report, one));
    }
  }
  return out + "]}\n";
}

std::string yaml_text(const std::vector<ScenarioReport>& reports) {
  std::string out = "version: v1\nscenarios:\n";
  for (const ScenarioReport& report : reports) {
    for (const CaseReport& one : report.cases)
      out += yaml_case(report, one);
  }
  return out;
}

}  // namespace berth::scenario
