#include "sim/trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include "core/model/device.h"
#include "core/model/request.h"
#include "sim/csv.h"
#include "sim/files.h"

namespace berth::sim {

namespace {

constexpr std::int64_t kMaxSeconds = 1'000'000'000'000;
constexpr std::size_t kMaxNameBytes = 253;
constexpr auto kMaxDevices = static_cast<std::int64_t>(core::kMaxDevicesPerNode);

enum class ColumnKind : std::uint8_t { name, text, number, number_or_empty };

struct Column {
  std::string_view name;
  ColumnKind kind;
  bool required;
  std::int64_t max;      // numbers: 0 … max
  std::string_view fix;  // what to write
};

constexpr std::size_t kNodeName = 0;
constexpr std::size_t kNodeCpu = 1;
constexpr std::size_t kNodeMemory = 2;
constexpr std::size_t kNodeGpu = 3;
constexpr std::size_t kNodeModel = 4;

constexpr Column kNodeColumns[] = {
    {"sn", ColumnKind::name, true, 0, "every node needs its own name"},
    {"cpu_milli", ColumnKind::number, true, core::kMaxCpuMilli, "write thousandths of a core"},
    {"memory_mib", ColumnKind::number, true, core::kMaxMemoryMib, "write MiB"},
    {"gpu", ColumnKind::number, true, kMaxDevices, "write how many devices the node has"},
    {"model", ColumnKind::text, true, 0, "write the device model, e.g. T4"},
};

constexpr std::size_t kPodName = 0;
constexpr std::size_t kPodCpu = 1;
constexpr std::size_t kPodMemory = 2;
constexpr std::size_t kPodGpus = 3;
constexpr std::size_t kPodMilli = 4;
constexpr std::size_t kPodSpec = 5;

constexpr Column kPodColumns[] = {
    {"name", ColumnKind::name, true, 0, "every pod needs its own name"},
    {"cpu_milli", ColumnKind::number, true, core::kMaxCpuMilli, "write thousandths of a core"},
    {"memory_mib", ColumnKind::number, true, core::kMaxMemoryMib, "write MiB"},
    {"num_gpu", ColumnKind::number, true, core::kMaxAskCount, "write how many devices it asks for"},
    {"gpu_milli", ColumnKind::number, true, kWholeDeviceMilli,
     "write thousandths of each device, 1000 for whole ones"},
    {"gpu_spec", ColumnKind::text, false, 0, "write the allowed models joined by |"},
    {"qos", ColumnKind::text, false, 0, ""},
    {"pod_phase", ColumnKind::text, false, 0, ""},
    {"creation_time", ColumnKind::number_or_empty, false, kMaxSeconds, "write seconds"},
    {"deletion_time", ColumnKind::number_or_empty, false, kMaxSeconds, "write seconds"},
    {"scheduled_time", ColumnKind::number_or_empty, false, kMaxSeconds, "write seconds"},
};

std::string names_of(std::span<const Column> columns) {
  std::string names;
  for (const Column& column : columns) {
    if (!names.empty()) names += ", ";
    names += column.name;
  }
  return names;
}

std::string_view number_rule_broken(std::string_view text) {
  if (text.empty()) return "is empty";
  const std::string_view digits = text.substr(text[0] == '-' || text[0] == '+' ? 1 : 0);
  const bool all_digits =
      !digits.empty() && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  if (all_digits && text[0] == '-') return "is negative";
  if (all_digits && text[0] == '+') return "has a plus sign";
  if (all_digits) return "is too large";
  const bool decimal = !digits.empty() && std::ranges::all_of(digits, [](char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == 'e' || c == 'E' || c == '-' || c == '+';
  });
  if (decimal && digits[0] >= '0' && digits[0] <= '9') return "is no whole number";
  return "is not a number";
}

// A table with a header line: maps its columns to ours and reads row by row.
class Table {
 public:
  Table(std::string_view text, const std::string& file, std::span<const Column> columns)
      : reader_(text, file), columns_(columns), places_(columns.size()) {}

  // Reads and checks the header line.
  Result<void> begin(std::string_view what) {
    TRY(const bool any, reader_.next(row_));
    if (!any) {
      return invalid_argument(
          fmt::format("{}: the file is empty; a {} needs a header line with the columns {}",
                      reader_.position(0), what, names_of(columns_)));
    }
    for (std::size_t place = 0; place < row_.size(); ++place) {
      TRY_VOID(claim(place));
    }
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].required && !places_[i]) {
        return invalid_argument(fmt::format(
            "{}: column {} is missing from the header line; a {} has the columns {}",
            reader_.position(row_[0].offset), columns_[i].name, what, names_of(columns_)));
      }
    }
    width_ = row_.size();
    return success();
  }

  Result<bool> next() {
    TRY(const bool more, reader_.next(row_));
    if (!more) return false;
    if (row_.size() == width_) return true;
    const bool blank = row_.size() == 1 && row_[0].text.empty();
    return invalid_argument(fmt::format(
        "{}: {} where the header line names {}; {}", reader_.position(reader_.row_offset()),
        blank ? "a blank line"
              : fmt::format("{} field{}", row_.size(), row_.size() == 1 ? "" : "s"),
        width_,
        row_.size() < width_ ? "add what is missing (an empty value still needs its comma)"
                             : "remove what is too much, or quote values that contain commas"));
  }

  bool has(std::size_t column) const { return places_[column].has_value(); }

  std::string_view text(std::size_t column) const {
    return has(column) ? row_[*places_[column]].text : std::string_view{};
  }

  // "pods.csv:7:12: gpu_milli is "1200": PROBLEM"
  Error error(std::size_t column, std::string_view problem) const {
    const CsvField& field = row_[*places_[column]];
    return invalid_argument(fmt::format("{}: {} is {}: {}", reader_.position(field.offset),
                                        columns_[column].name, quoted_for_message(field.text),
                                        problem));
  }

  Result<std::int64_t> number(std::size_t column) const {
    const std::string_view text = this->text(column);
    const Column& rule = columns_[column];
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool clean = code == std::errc{} && end == text.data() + text.size() && text[0] != '-';
    if (clean && value <= rule.max) return value;
    return error(
        column, fmt::format("{}; must be a whole number from 0 to {}; {}",
                            clean ? "is too large" : number_rule_broken(text), rule.max, rule.fix));
  }

  Result<std::string> name(std::size_t column) const {
    const std::string_view text = this->text(column);
    if (text.empty())
      return error(column, fmt::format("must not be empty; {}", columns_[column].fix));
    TRY_VOID(check_printable(column));
    return std::string(text);
  }

  Result<void> check_printable(std::size_t column) const {
    const std::string_view text = this->text(column);
    if (text.size() > kMaxNameBytes) {
      return error(column,
                   fmt::format("must not be longer than {} bytes; shorten it", kMaxNameBytes));
    }
    const bool control = std::ranges::any_of(
        text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
    if (control) return error(column, "must not contain control characters; remove them");
    return success();
  }

  // Checks the columns whose values nobody uses, so that a damaged file does not pass unseen.
  Result<void> check_unused(std::size_t first) const {
    for (std::size_t i = first; i < columns_.size(); ++i) {
      if (!has(i) || text(i).empty()) continue;
      if (columns_[i].kind == ColumnKind::number_or_empty) TRY_VOID(as_void(number(i)));
      if (columns_[i].kind == ColumnKind::text) TRY_VOID(check_printable(i));
    }
    return success();
  }

 private:
  static Result<void> as_void(const Result<std::int64_t>& result) {
    if (!result.ok()) return result.error();
    return success();
  }

  Result<void> claim(std::size_t place) {
    const CsvField& field = row_[place];
    const auto column = std::ranges::find(columns_, field.text, &Column::name);
    if (column == columns_.end()) {
      return invalid_argument(fmt::format(
          "{}: column {} is not known here; remove it, or name it as one of {}",
          reader_.position(field.offset), quoted_for_message(field.text), names_of(columns_)));
    }
    std::optional<std::size_t>& taken =
        places_[static_cast<std::size_t>(column - columns_.begin())];
    if (taken) {
      return invalid_argument(fmt::format("{}: column {} is there twice; remove one of them",
                                          reader_.position(field.offset), column->name));
    }
    taken = place;
    return success();
  }

  CsvReader reader_;
  std::span<const Column> columns_;
  std::vector<std::optional<std::size_t>> places_;  // of our columns in the file
  std::vector<CsvField> row_;
  std::size_t width_ = 0;
};

// Names seen so far and the row that had them, to refuse duplicates.
class SeenNames {
 public:
  Result<void> add(const Table& table, std::size_t column, const std::string& name) {
    const std::size_t row = rows_.size() + 2;  // the header is row 1
    const auto [entry, fresh] = rows_.try_emplace(name, row);
    if (fresh) return success();
    return table.error(
        column, fmt::format("row {} has the same name; names must be unique", entry->second));
  }

 private:
  std::unordered_map<std::string, std::size_t> rows_;
};

Result<TraceNode> parse_node(const Table& table) {
  TraceNode node;
  TRY(node.name, table.name(kNodeName));
  TRY(node.cpu_milli, table.number(kNodeCpu));
  TRY(node.memory_mib, table.number(kNodeMemory));
  TRY(const std::int64_t devices, table.number(kNodeGpu));
  node.devices = static_cast<int>(devices);
  TRY_VOID(table.check_printable(kNodeModel));
  node.model = table.text(kNodeModel);
  if (node.model.empty() && node.devices > 0) {
    return table.error(kNodeModel, fmt::format("a node with {} devices must name their model; "
                                               "write it, e.g. T4",
                                               node.devices));
  }
  if (node.model.find('|') != std::string::npos) {
    return table.error(kNodeModel, "a node has devices of one model; remove the |");
  }
  return node;
}

Result<void> check_gpu_ask(const Table& table, const TracePod& pod) {
  if (pod.num_gpu == 0 && pod.gpu_milli > 0) {
    return table.error(kPodMilli,
                       "num_gpu is 0, so there is no device to take it from; write 0, or set "
                       "num_gpu to 1");
  }
  if (pod.num_gpu > 0 && pod.gpu_milli == 0) {
    return table.error(kPodMilli, fmt::format("num_gpu is {}, yet nothing of the device is asked "
                                              "for; write 1 to 1000, or set num_gpu to 0",
                                              pod.num_gpu));
  }
  if (pod.num_gpu > 1 && pod.gpu_milli < kWholeDeviceMilli) {
    return table.error(kPodMilli, fmt::format("a fraction is taken from one device, and num_gpu is "
                                              "{}; write 1000, or set num_gpu to 1",
                                              pod.num_gpu));
  }
  return success();
}

Result<void> check_spec(const Table& table, const TracePod& pod) {
  if (pod.gpu_spec.empty()) return success();
  TRY_VOID(table.check_printable(kPodSpec));
  std::string_view rest = pod.gpu_spec;
  while (true) {
    const std::size_t bar = rest.find('|');
    if (bar == 0 || rest.empty()) {
      return table.error(kPodSpec,
                         "a model name is missing beside a |; write models joined by "
                         "single |, or leave the field empty for any model");
    }
    if (bar == std::string_view::npos) return success();
    rest.remove_prefix(bar + 1);
  }
}

Result<TracePod> parse_pod(const Table& table) {
  TracePod pod;
  TRY(pod.name, table.name(kPodName));
  TRY(pod.cpu_milli, table.number(kPodCpu));
  TRY(pod.memory_mib, table.number(kPodMemory));
  TRY(const std::int64_t num_gpu, table.number(kPodGpus));
  TRY(const std::int64_t gpu_milli, table.number(kPodMilli));
  pod.num_gpu = static_cast<int>(num_gpu);
  pod.gpu_milli = static_cast<int>(gpu_milli);
  pod.gpu_spec = table.text(kPodSpec);
  TRY_VOID(check_gpu_ask(table, pod));
  TRY_VOID(check_spec(table, pod));
  TRY_VOID(table.check_unused(kPodSpec + 1));
  return pod;
}

struct ListKind {
  std::string_view what;
  std::size_t name_column;
  std::size_t max_rows;
};

template <typename Row>
Result<std::vector<Row>> parse_list(Table table, const ListKind& kind, const std::string& file,
                                    Result<Row> (*parse_row)(const Table&)) {
  TRY_VOID(table.begin(kind.what));
  std::vector<Row> rows;
  SeenNames seen;
  while (true) {
    TRY(const bool more, table.next());
    if (!more) break;
    if (rows.size() == kind.max_rows) {
      return table.error(kind.name_column, fmt::format("a {} may have {} rows at most; split it",
                                                       kind.what, kind.max_rows));
    }
    TRY(Row row, parse_row(table));
    TRY_VOID(seen.add(table, kind.name_column, row.name));
    rows.push_back(std::move(row));
  }
  if (rows.empty()) {
    return invalid_argument(fmt::format(
        "{}:2:1: the {} has a header line and no rows; add at least one", file, kind.what));
  }
  return rows;
}

}  // namespace

bool TracePod::allows(std::string_view model) const {
  if (gpu_spec.empty()) return true;
  std::string_view rest = gpu_spec;
  while (true) {
    const std::size_t bar = rest.find('|');
    if (rest.substr(0, bar) == model) return true;
    if (bar == std::string_view::npos) return false;
    rest.remove_prefix(bar + 1);
  }
}

Result<std::vector<TraceNode>> parse_nodes(std::string_view text, const std::string& file) {
  return parse_list<TraceNode>(Table(text, file, kNodeColumns),
                               {"node list", kNodeName, kMaxTraceNodes}, file, parse_node);
}

Result<std::vector<TracePod>> parse_pods(std::string_view text, const std::string& file) {
  return parse_list<TracePod>(Table(text, file, kPodColumns), {"pod list", kPodName, kMaxTracePods},
                              file, parse_pod);
}

Result<std::vector<TraceNode>> read_nodes(const std::string& path) {
  TRY(const std::string text, read_input_file(path));
  return parse_nodes(text, path);
}

Result<std::vector<TracePod>> read_pods(const std::string& path) {
  TRY(const std::string text, read_input_file(path));
  return parse_pods(text, path);
}

std::string trace_name(std::string_view path) {
  std::string_view name = path.substr(path.find_last_of('/') + 1);
  constexpr std::string_view kPrefix = "openb_pod_list_";
  constexpr std::string_view kSuffix = ".csv";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
  return std::string(name);
}

std::int64_t capacity_milli(const std::vector<TraceNode>& nodes) {
  std::int64_t sum = 0;
  for (const TraceNode& node : nodes)
    sum += std::int64_t{node.devices} * kWholeDeviceMilli;
  return sum;
}

namespace {

// Why no node of the fleet can ever serve the pod; empty if one could.
std::string why_unplaceable(const std::vector<TraceNode>& nodes, const TracePod& pod) {
  const auto any = [&](auto&& predicate) { return std::ranges::any_of(nodes, predicate); };
  const auto model_fits = [&](const TraceNode& node) {
    return pod.num_gpu == 0 || (node.devices > 0 && pod.allows(node.model));
  };
  const auto devices_fit = [&](const TraceNode& node) {
    return model_fits(node) && node.devices >= pod.num_gpu;
  };
  if (!any(model_fits)) return fmt::format("no node has a device of model {}", pod.gpu_spec);
  if (!any(devices_fit)) {
    return fmt::format("no node has {} devices{}", pod.num_gpu,
                       pod.gpu_spec.empty() ? "" : " of model " + pod.gpu_spec);
  }
  const bool fits = any([&](const TraceNode& node) {
    return devices_fit(node) && node.cpu_milli >= pod.cpu_milli &&
           node.memory_mib >= pod.memory_mib;
  });
  if (fits) return {};
  return fmt::format("no node with such devices has {} millicores and {} MiB", pod.cpu_milli,
                     pod.memory_mib);
}

}  // namespace

std::vector<Unplaceable> find_unplaceable(const std::vector<TraceNode>& nodes,
                                          const std::vector<TracePod>& pods) {
  // One node per distinct shape answers for all nodes like it.
  std::map<std::tuple<std::string_view, int, std::int64_t, std::int64_t>, const TraceNode*> shapes;
  for (const TraceNode& node : nodes) {
    shapes.try_emplace({node.model, node.devices, node.cpu_milli, node.memory_mib}, &node);
  }
  std::vector<TraceNode> kinds;
  for (const auto& [shape, node] : shapes)
    kinds.push_back(*node);

  using Ask = std::tuple<std::int64_t, std::int64_t, int, int, std::string_view>;
  std::map<Ask, Unplaceable> asks;
  for (const TracePod& pod : pods) {
    const Ask ask{pod.cpu_milli, pod.memory_mib, pod.num_gpu, pod.gpu_milli, pod.gpu_spec};
    const auto [entry, fresh] = asks.try_emplace(ask);
    if (fresh) entry->second = {.example = &pod, .pods = 0, .why = why_unplaceable(kinds, pod)};
    ++entry->second.pods;
  }
  std::vector<Unplaceable> found;
  for (const auto& [ask, entry] : asks) {
    if (!entry.why.empty()) found.push_back(entry);
  }
  return found;
}

}  // namespace berth::sim
