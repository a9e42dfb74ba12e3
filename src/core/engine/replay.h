// Replay: a decision log against a fresh engine, answer by answer.
//
//   TRY(ReplayReport report, replay(log));
//   if (report.difference.has_value()) { fmt::print("{}", describe(*report.difference)); }
//
// The log must have been recorded with the engine at hand (append_actions of decision_log.h), so
// that it says which devices were chosen. Thread-safety: pure function.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace berth::core {

// The first record whose answer is not the recorded one.
struct ReplayDifference {
  std::size_t record = 0;  // counted from 1
  std::size_t offset = 0;  // of the record in the log
  std::string event;
  std::vector<std::string> expected;  // the recorded actions, in words
  std::vector<std::string> found;     // those of this program
};

struct ReplayReport {
  std::size_t records = 0;  // that were replayed, the differing one included
  bool whole = false;       // the log has its end mark
  std::optional<ReplayDifference> difference;
};

// Stops at the first difference. Errors: the log's (with the byte offset), or a configuration that
// this program refuses.
Result<ReplayReport> replay(std::string_view log);

// Several lines, the last one ended.
std::string describe(const ReplayDifference& difference);

}  // namespace berth::core
