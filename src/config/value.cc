#include "config/value.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "request/reason.h"
#include "request/units.h"

namespace berth::config {

namespace {

constexpr std::array kTypes = {
    TypeDoc{"name", "a word; `job-1..3` stands for job-1, job-2 and job-3", "train"},
    TypeDoc{"text", "any text on one line", "two tasks share a device"},
    TypeDoc{"true or false", "`true` or `false`", "true"},
    TypeDoc{"number", "a whole number without a unit", "3"},
    TypeDoc{"memory",
            "a whole number and its unit: `MiB`, `GiB`, `TiB` (powers of 1024); the unit is never "
            "left out",
            "16GiB"},
    TypeDoc{"duration",
            "a whole number and its unit: `ms`, `s`, `min`, `h`, `d`; the unit is never left out",
            "90s"},
    TypeDoc{"cores", "CPU cores, or thousandths of a core with `m`", "500m"},
    TypeDoc{"decimal", "a number with at most three decimals", "12.5"},
    TypeDoc{"percent", "a whole number without a sign", "200"},
    TypeDoc{"weekday", "`mon`, `tue`, `wed`, `thu`, `fri`, `sat` or `sun`", "tue"},
    TypeDoc{"amount",
            "of a quota, as in a queue file: devices (`2.5`), memory (`160GiB`), thousandths of "
            "compute (`4000`); `unlimited`",
            "2.5"},
    TypeDoc{"device",
            "`NODE/gN`, the device that stood at place N of the node, from 0, when the node was "
            "first described; or a UUID",
            "n0/g1"},
    TypeDoc{"list of …", "`[a, b]` or one `- item` a line; one item may stand without the list",
            "[a, b]"},
    TypeDoc{"map of …", "`key: value` pairs, one a line or in braces", "{a: 1}"},
};

constexpr std::int64_t kMsPerSecond = 1000;
constexpr std::int64_t kMsPerMinute = 60 * kMsPerSecond;
constexpr std::int64_t kMsPerHour = 60 * kMsPerMinute;
constexpr std::int64_t kMsPerDay = 24 * kMsPerHour;
constexpr std::int64_t kMaxDurationMs = 365'000 * kMsPerDay;  // a thousand years

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

constexpr std::array kDurationUnits = {Unit{"ms", 1}, Unit{"s", kMsPerSecond},
                                       Unit{"min", kMsPerMinute}, Unit{"h", kMsPerHour},
                                       Unit{"d", kMsPerDay}};
constexpr std::array kMemoryUnits = {Unit{"MiB", 1}, Unit{"GiB", 1024},
                                     Unit{"TiB", std::int64_t{1} << 20}};

// A whole number, then one of the units, without blanks.
std::optional<std::int64_t> parse_with_unit(std::string_view text, std::span<const Unit> units,
                                            std::int64_t most) {
  const std::size_t digits = text.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos) return std::nullopt;
  const Result<std::int64_t> count = parse_count(text.substr(0, digits), most);
  if (!count.ok()) return std::nullopt;
  for (const Unit& unit : units) {
    if (unit.name != text.substr(digits)) continue;
    if (*count > most / unit.factor) return std::nullopt;
    return *count * unit.factor;
  }
  return std::nullopt;
}

std::string shown(const yaml::Node& node) {
  if (!node.is_scalar()) return std::string(yaml::kind_name(node.kind));
  return fmt::format("'{}'", request::printable(node.text));
}

}  // namespace

std::span<const TypeDoc> all_types() { return kTypes; }

std::string table_cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string types_table(std::span<const std::string_view> names) {
  std::string out = "## How values are written\n\n| type | how | example |\n| --- | --- | --- |\n";
  for (const TypeDoc& type : all_types()) {
    if (!names.empty() && std::ranges::find(names, type.name) == names.end()) continue;
    out += fmt::format("| {} | {} | `{}` |\n", type.name, table_cell(type.how),
                       table_cell(type.example));
  }
  return out;
}

Result<std::int64_t> parse_count(std::string_view text, std::int64_t most) {
  std::int64_t count = 0;
  if (text.empty()) return invalid_argument("a whole number is missing");
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return invalid_argument("not a whole number");
    if (count > (most - (digit - '0')) / 10) {
      return invalid_argument(fmt::format("above {}", most));
    }
    count = count * 10 + (digit - '0');
  }
  return count;
}

Result<Duration> parse_duration(std::string_view text) {
  const auto ms = parse_with_unit(text, kDurationUnits, kMaxDurationMs);
  if (!ms) return invalid_argument("a duration is a whole number with ms, s, min, h or d: 90s");
  return Duration{*ms};
}

Result<Memory> parse_memory(std::string_view text) {
  const auto mib = parse_with_unit(text, kMemoryUnits, request::kMaxLeaseMib);
  if (!mib) return invalid_argument("a size is a whole number with MiB, GiB or TiB: 16GiB");
  return Memory::mib(*mib);
}

Result<std::vector<std::string>> expand_names(std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::vector<std::string>{std::string(text)};
  const std::size_t stem = text.substr(0, dots).find_last_not_of("0123456789") + 1;
  const auto first = parse_count(text.substr(stem, dots - stem), kMaxRange);
  const auto last = parse_count(text.substr(dots + 2), kMaxRange);
  if (!first.ok() || !last.ok()) {
    return invalid_argument(
        fmt::format("a range of names ends in two whole numbers up to {}: job-1..3", kMaxRange));
  }
  if (*first > *last) return invalid_argument("the range is backwards: write the lower end first");
  std::vector<std::string> names;
  for (std::int64_t i = *first; i <= *last; ++i) {
    names.push_back(fmt::format("{}{}", text.substr(0, stem), i));
  }
  return names;
}

std::string suggestion(std::string_view typed, std::span<const std::string_view> known) {
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  const auto near = request::nearest(typed, candidates);
  return fmt::format("{}known are {}", near ? fmt::format("did you mean '{}'? ", *near) : "",
                     fmt::join(known, ", "));
}

Error Value::error(std::string_view rule) const {
  return yaml::error_at(file_, node_->line, node_->column,
                        fmt::format("{} {}: {}", field_, shown(*node_), rule));
}

Error Value::unknown_word(std::span<const std::string_view> known) const {
  return error(fmt::format("not a word that is known here; {}", suggestion(node_->text, known)));
}

Result<std::string> Value::word() const {
  if (!node_->is_scalar()) return error("one word is expected here");
  if (node_->text.empty()) return error("must not be empty; leave the key out instead");
  return node_->text;
}

Result<bool> Value::truth() const {
  constexpr std::array<std::pair<std::string_view, bool>, 2> kWords = {
      {{"true", true}, {"false", false}}};
  return choice(std::span<const std::pair<std::string_view, bool>>(kWords));
}

Result<std::int64_t> Value::number(std::int64_t least, std::int64_t most) const {
  TRY(std::string text, word());
  const bool negative = text.starts_with('-');
  const auto count = parse_count(std::string_view(text).substr(negative ? 1 : 0), kMaxDurationMs);
  const std::int64_t number = count.ok() ? (negative ? -*count : *count) : 0;
  if (!count.ok() || number < least || number > most) {
    return error(fmt::format("a whole number from {} to {} is expected", least, most));
  }
  return number;
}

Result<Memory> Value::memory() const {
  TRY(std::string text, word());
  auto memory = parse_memory(text);
  if (!memory.ok()) return error(memory.error().message());
  return memory;
}

Result<Duration> Value::duration() const {
  TRY(std::string text, word());
  auto duration = parse_duration(text);
  if (!duration.ok()) return error(duration.error().message());
  return duration;
}

Result<Milli> Value::cores() const {
  TRY(std::string text, word());
  const auto cores = request::parse_cpu(text);
  if (!cores) return error(cores.error().rule);
  return *cores;
}

Result<std::vector<Value>> Value::items() const {
  std::vector<Value> values;
  if (node_->is_null()) return error("nothing is written here; leave the key out instead");
  if (!node_->is_list()) return std::vector<Value>{*this};
  for (const yaml::Node& item : node_->items)
    values.push_back(inner(item, field_));
  return values;
}

Result<std::vector<Named>> Value::names() const {
  TRY(std::vector<Value> values, items());
  std::vector<Named> names;
  for (const Value& value : values) {
    TRY(std::string text, value.word());
    auto expanded = expand_names(text);
    if (!expanded.ok()) return value.error(expanded.error().message());
    for (std::string& name : *expanded)
      names.push_back({std::move(name), value.place()});
  }
  return names;
}

Result<std::vector<std::pair<Named, Value>>> Value::entries() const {
  if (!node_->is_map()) return error("a map is expected here: key: value");
  std::vector<std::pair<Named, Value>> entries;
  for (const yaml::Entry& entry : node_->entries) {
    entries.emplace_back(Named{entry.key, {entry.line, entry.column}},
                         inner(entry.value, entry.key));
  }
  return entries;
}

}  // namespace berth::config
