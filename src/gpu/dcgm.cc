#include "gpu/dcgm.h"

#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "gpu/reading.h"

namespace berth::gpu {

namespace {

constexpr std::size_t kMostProblems = 3;
constexpr std::size_t kMostShown = 60;
// 1970 to 9999 in milliseconds: beyond lies no clock that is merely wrong.
constexpr Range kStamps{0, 253'402'300'800'000};

bool is_blank(char c) { return c == ' ' || c == '\t'; }

void skip_blanks(std::string_view& rest) {
  while (!rest.empty() && is_blank(rest.front()))
    rest.remove_prefix(1);
}

// Up to a blank or one of `ends`.
std::string_view take_word(std::string_view& rest, std::string_view ends) {
  std::size_t size = 0;
  while (size < rest.size() && !is_blank(rest[size]) &&
         ends.find(rest[size]) == std::string_view::npos) {
    ++size;
  }
  const std::string_view word = rest.substr(0, size);
  rest.remove_prefix(size);
  return word;
}

bool take(std::string_view& rest, char c) {
  if (rest.empty() || rest.front() != c) return false;
  rest.remove_prefix(1);
  return true;
}

// A value in quotes, with \\, \" and \n.
std::optional<std::string> take_quoted(std::string_view& rest) {
  if (!take(rest, '"')) return std::nullopt;
  std::string value;
  while (!rest.empty()) {
    const char c = rest.front();
    rest.remove_prefix(1);
    if (c == '"') return value;
    if (c != '\\') {
      value += c;
      continue;
    }
    if (rest.empty()) return std::nullopt;
    value += rest.front() == 'n' ? '\n' : rest.front();
    rest.remove_prefix(1);
  }
  return std::nullopt;
}

// {name="value",…}; a comma may stand at the end.
bool take_labels(std::string_view& rest, ExporterLabels& labels) {
  if (!take(rest, '{')) return true;
  while (true) {
    skip_blanks(rest);
    if (take(rest, '}')) return true;
    const std::string_view name = take_word(rest, "=,}\"");
    skip_blanks(rest);
    if (name.empty() || !take(rest, '=')) return false;
    skip_blanks(rest);
    const auto value = take_quoted(rest);
    if (!value) return false;
    set_label(labels, name, *value);
    skip_blanks(rest);
    if (!take(rest, ',') && (rest.empty() || rest.front() != '}')) return false;
  }
}

// False: no line of the format. Lines of other metrics are right and give nothing.
bool parse_line(std::string_view line, std::vector<ExporterSample>& samples) {
  std::string_view rest = line;
  skip_blanks(rest);
  if (rest.empty() || rest.front() == '#') return true;
  const auto metric = exporter_metric(take_word(rest, "{"));
  if (!metric) return true;
  ExporterSample sample{.metric = *metric, .labels = {}, .value = {}, .stamp_ms = {}};
  skip_blanks(rest);
  if (!take_labels(rest, sample.labels)) return false;
  skip_blanks(rest);
  sample.value = take_word(rest, "");
  skip_blanks(rest);
  const std::string_view stamp = take_word(rest, "");
  if (!stamp.empty() && stamp.front() != '#') {  // a # begins what OpenMetrics adds
    const auto read = read_whole("time stamp", stamp, kStamps);
    if (read.ok()) {
      sample.stamp_ms = *read;
    } else {
      sample.stamp_bad = true;
    }
  }
  samples.push_back(std::move(sample));
  return true;
}

}  // namespace

DcgmText parse_dcgm(std::string_view text) {
  DcgmText parsed;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (parse_line(line, parsed.samples) || parsed.problems.size() >= kMostProblems) continue;
    parsed.problems.push_back(fmt::format("line {} is \"{}\": not a line of Prometheus text",
                                          number, shortened(printable(line), kMostShown)));
  }
  return parsed;
}

Report read_dcgm(std::string_view text, const ExporterOptions& options) {
  const DcgmText parsed = parse_dcgm(text);
  Report report = report_of(parsed.samples, options);
  report.problems.insert(report.problems.end(), parsed.problems.begin(), parsed.problems.end());
  return report;
}

}  // namespace berth::gpu
