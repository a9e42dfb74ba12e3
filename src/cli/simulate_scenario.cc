#include "cli/simulate_scenario.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "base/result.h"
#include "scenario/reference.h"
#include "scenario/run.h"
#include "yaml/tree.h"

namespace berth::cli {

namespace {

Result<std::string> read_text(const std::string& path) {
  const auto unreadable = [&path](std::string_view why) {
    return invalid_argument(path + ": the file cannot be read: " + std::string(why));
  };
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return unreadable(std::strerror(errno));
  // One byte more than is read at all, so that what is too long is seen and an endless file ends.
  std::string text(yaml::Limits{}.max_bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) return unreadable(std::strerror(errno));
  if (stream.gcount() == 0 && errno != 0) return unreadable(std::strerror(errno));  // a directory
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

Result<scenario::ScenarioReport> run_file(const std::string& path, scenario::Verdicts verdicts) {
  TRY(const std::string text, read_text(path));
  return scenario::run_scenario(text, path, verdicts);
}

}  // namespace

ExitCode simulate_scenario(const Arguments& arguments, Console& console) {
  const std::string format = arguments.value("--output").value_or("table");
  const auto verdicts =
      format == "json" || format == "yaml" ? scenario::Verdicts::json : scenario::Verdicts::words;
  ExitCode code = ExitCode::done;
  std::vector<scenario::ScenarioReport> reports;
  for (const std::string& path : arguments.values("--scenario")) {
    Result<scenario::ScenarioReport> report = run_file(path, verdicts);
    if (!report.ok()) {
      console.err << printable_lines(report.error().to_string()) << "\n";
      code = ExitCode::usage;
      continue;
    }
    if (!report->passed() && code == ExitCode::done) code = ExitCode::failed;
    console.err << scenario::failures_text(*report);
    reports.push_back(*std::move(report));
  }
  if (format == "json") {
    console.out << scenario::json_text(reports);
  } else if (format == "yaml") {
    console.out << scenario::yaml_text(reports);
  } else {
    for (const scenario::ScenarioReport& report : reports) {
      console.out << scenario::table_text(report);
    }
  }
  return code;
}

ExitCode print_scenario_help(Console& console) {
  console.out << scenario::kReferenceMarker << "\n\n" << scenario::reference_text();
  return ExitCode::done;
}

}  // namespace berth::cli
