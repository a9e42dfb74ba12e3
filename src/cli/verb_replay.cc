#include <ostream>
#include <string>
#include <vector>

#include "cli/simulate_words.h"
#include "cli/verbs.h"
#include "core/engine/replay.h"
#include "sim/files.h"

namespace berth::cli {

namespace {

constexpr Example kExamples[] = {
    {"berth simulate --nodes nodes.csv --pods pods.csv --record run.log", "record a run"},
    {"berth replay run.log", "play it again: every answer must be the same, bit for bit"},
};

Result<core::ReplayReport> replay_file(const std::string& path) {
  TRY(const std::string log, sim::read_input_file(path));
  auto report = core::replay(log);
  if (report.ok()) return report;
  return Error(ErrorCode::invalid_argument, path, report.error());
}

ExitCode replay(const Arguments& arguments, Console& console) {
  const std::string& path = arguments.operands().front();
  const Result<core::ReplayReport> report = replay_file(path);
  if (!report.ok()) return report_error(console, "replay", report.error());
  if (report->difference) {
    console.err << "berth replay: " << path << ": the answers differ\n"
                << core::describe(*report->difference);
    return ExitCode::failed;
  }
  console.out << path << ": " << report->records << " events replayed, every answer the same\n";
  if (!report->whole) {
    console.err << "berth replay: " << path
                << ": the log has no end mark: who wrote it was cut off or has not finished\n";
  }
  return ExitCode::done;
}

}  // namespace

constinit const Command kReplayCommand{
    .name = "replay",
    .summary = "play a recorded run again and compare every decision",
    .description =
        "Reads a decision log, gives its events to a fresh engine and compares the answers "
        "bit for bit. Says which event is the first to differ, and how; exit 1 then.",
    .operand = {.name = "FILE",
                .help = "decision log, as --record writes it",
                .kind = ValueKind::file,
                .required = true},
    .examples = kExamples,
    .run = replay,
};

}  // namespace berth::cli
