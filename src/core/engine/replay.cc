#include "core/engine/replay.h"

#include <iterator>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "core/engine/decision_log.h"
#include "core/engine/describe.h"
#include "core/engine/engine.h"

namespace berth::core {

namespace {

std::vector<std::string> words(const std::vector<LoggedAction>& actions, const Engine& engine) {
  std::vector<std::string> lines;
  for (const LoggedAction& action : actions) {
    lines.push_back(describe(action, engine));
  }
  return lines;
}

Result<ReplayDifference> difference(const LogRecord& record, std::string_view found,
                                    const Engine& engine) {
  TRY(const std::vector<LoggedAction> expected, decode_actions(record.actions, record.offset));
  TRY(const std::vector<LoggedAction> answered, decode_actions(found));
  return ReplayDifference{.record = 0,
                          .offset = record.offset,
                          .event = describe(record.event),
                          .expected = words(expected, engine),
                          .found = words(answered, engine)};
}

void list(std::string& text, std::string_view title, const std::vector<std::string>& lines) {
  fmt::format_to(std::back_inserter(text), "  {}:{}\n", title, lines.empty() ? " nothing" : "");
  for (const std::string& line : lines) {
    fmt::format_to(std::back_inserter(text), "    {}\n", line);
  }
}

}  // namespace

Result<ReplayReport> replay(std::string_view log) {
  TRY(LogReader reader, LogReader::open(log));
  TRY(const std::unique_ptr<Engine> engine, Engine::create(reader.config()));
  ReplayReport report;
  std::string found;
  for (;;) {
    TRY(const std::optional<LogRecord> record, reader.next());
    if (!record.has_value()) {
      report.whole = reader.ended();
      return report;
    }
    ++report.records;
    found.clear();
    append_actions(found, engine->apply(record->event), *engine);
    if (found != record->actions) {
      TRY(report.difference, difference(*record, found, *engine));
      report.difference->record = report.records;
      return report;
    }
  }
}

std::string describe(const ReplayDifference& difference) {
  std::string text = fmt::format("record {} (byte {}): {}\n", difference.record, difference.offset,
                                 difference.event);
  list(text, "recorded", difference.expected);
  list(text, "now", difference.found);
  return text;
}

}  // namespace berth::core
