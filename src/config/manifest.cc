#include "config/manifest.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/wide.h"
#include "core/queue/queue_config.h"
#include "request/reason.h"

namespace berth::config {

namespace {

bool is_leaf(const yaml::Node& node) { return node.items.empty() && node.entries.empty(); }

std::size_t count_values(const yaml::Node& node) {
  if (is_leaf(node)) return 1;
  std::size_t count = 0;
  for (const yaml::Node& item : node.items)
    count += count_values(item);
  for (const yaml::Entry& entry : node.entries)
    count += count_values(entry.value);
  return count;
}

std::string shown(const yaml::Node& node) {
  switch (node.kind) {
    case yaml::NodeKind::null: return "null";
    case yaml::NodeKind::list: return "[]";
    case yaml::NodeKind::map: return "{}";
    case yaml::NodeKind::scalar: break;
  }
  return fmt::format("'{}'", request::printable(node.text));
}

class Walk {
 public:
  Walk(const std::set<const yaml::Node*>& used, std::span<const NoEqual> reasons)
      : used_(used), reasons_(reasons) {}

  struct Found {
    const yaml::Node* node;
    std::string text;
  };

  // `path` with list indices for people, `plain` without for the table.
  void visit(const yaml::Node& node, const std::string& path, const std::string& plain) {
    if (used_.contains(&node)) return;
    const NoEqual* reason = reason_of(plain);
    if (reason != nullptr && reason->as_one && reason->path == plain && !is_leaf(node)) {
      found.push_back(
          {&node, fmt::format("{} ({} values): {}", path, count_values(node), reason->why)});
      return;
    }
    if (is_leaf(node)) {
      const std::string_view why =
          reason == nullptr ? std::string_view("has no equal in a queue file") : reason->why;
      found.push_back({&node, fmt::format("{} {}: {}", path, shown(node), why)});
      return;
    }
    for (std::size_t i = 0; i < node.items.size(); ++i)
      visit(node.items[i], fmt::format("{}[{}]", path, label_of(node.items[i], i)), plain);
    for (const yaml::Entry& entry : node.entries) {
      const std::string_view dot = path.empty() ? "" : ".";
      visit(entry.value, fmt::format("{}{}{}", path, dot, request::printable(entry.key)),
            fmt::format("{}{}{}", plain, dot, entry.key));
    }
  }

  std::vector<Found> found;

 private:
  // An item of a list is known by its name, if it has one.
  static std::string label_of(const yaml::Node& item, std::size_t index) {
    const yaml::Node* name = item.find("name");
    return name != nullptr && name->is_scalar() ? request::printable(name->text)
                                                : std::to_string(index);
  }

  const NoEqual* reason_of(std::string_view path) const {
    const NoEqual* best = nullptr;
    for (const NoEqual& reason : reasons_) {
      const bool fits =
          path == reason.path || (path.starts_with(reason.path) && path[reason.path.size()] == '.');
      if (fits && (best == nullptr || reason.path.size() > best->path.size())) best = &reason;
    }
    return best;
  }

  const std::set<const yaml::Node*>& used_;
  std::span<const NoEqual> reasons_;
};

}  // namespace

Manifest::Manifest(const yaml::Node& node, std::string_view file) : node_(&node), file_(file) {}

Result<void> Manifest::identify() {
  const Value whole(*node_, "object", file_);
  if (!node_->is_map()) return whole.error("an object of Kubernetes is expected: apiVersion, kind");
  const auto word = [&](const yaml::Node* map, std::string_view key,
                        bool required) -> Result<std::string> {
    const auto value = take(map, key);
    if (value && !value->node().is_null()) return value->word();
    if (!required) return std::string();
    return yaml::error_at(file_, node_->line, node_->column,
                          fmt::format("'{}' is missing: is this a manifest of Kubernetes?", key));
  };
  TRY(const std::string api, word(node_, "apiVersion", true));
  const std::size_t slash = api.find('/');
  group_ = slash == std::string::npos ? "" : api.substr(0, slash);
  version_ = slash == std::string::npos ? api : api.substr(slash + 1);
  TRY(kind_, word(node_, "kind", true));
  const yaml::Node* metadata = inside(node_, "metadata");
  const bool is_list = kind_.ends_with("List") && inside(node_, "items") != nullptr;
  TRY(name_, word(metadata, "name", !is_list));
  TRY(space_, word(metadata, "namespace", false));
  return success();
}

std::string Manifest::title() const {
  return fmt::format("{}{}{}{}{}", request::printable(kind_), name_.empty() ? "" : " ",
                     request::printable(space_), space_.empty() ? "" : "/",
                     request::printable(name_));
}

const yaml::Node* Manifest::inside(const yaml::Node* map, std::string_view key) {
  return map == nullptr ? nullptr : map->find(key);
}

std::optional<Value> Manifest::take(const yaml::Node* map, std::string_view key) {
  const yaml::Node* found = inside(map, key);
  if (found == nullptr) return std::nullopt;
  use(*found);
  return Value(*found, key, file_);
}

std::string Manifest::remark(const Value& value, std::string_view text) const {
  return fmt::format("{}:{}:{}: {}: {} {}: {}", file_, value.place().line, value.place().column,
                     title(), value.field(), shown(value.node()), text);
}

std::string Manifest::remark(std::string_view text) const {
  return fmt::format("{}:{}:{}: {}: {}", file_, node_->line, node_->column, title(), text);
}

std::vector<std::string> Manifest::leftovers(std::span<const NoEqual> reasons) const {
  Walk walk(used_, reasons);
  walk.visit(*node_, "", "");
  std::vector<std::string> remarks;
  for (const Walk::Found& found : walk.found) {
    remarks.push_back(fmt::format("{}:{}:{}: {}: {}", file_, found.node->line, found.node->column,
                                  title(), found.text));
  }
  return remarks;
}

std::size_t Manifest::values() const { return count_values(*node_); }

namespace {

struct Suffix {
  std::string_view name;
  int tens = 0;     // power of ten
  int doubles = 0;  // power of two
};

constexpr std::array kSuffixes = {
    Suffix{"n", -9},     Suffix{"u", -6},     Suffix{"m", -3},     Suffix{"", 0},
    Suffix{"k", 3},      Suffix{"M", 6},      Suffix{"G", 9},      Suffix{"T", 12},
    Suffix{"P", 15},     Suffix{"E", 18},     Suffix{"Ki", 0, 10}, Suffix{"Mi", 0, 20},
    Suffix{"Gi", 0, 30}, Suffix{"Ti", 0, 40}, Suffix{"Pi", 0, 50}, Suffix{"Ei", 0, 60},
};

// Digits with at most one point: their number without the point, and how many stand behind it.
struct Mantissa {
  Int128 count = 0;
  int places = 0;
  std::string_view rest;
};

std::optional<Mantissa> mantissa_of(std::string_view text) {
  constexpr std::size_t kMostDigits = 20;
  Mantissa read;
  std::size_t digits = 0;
  bool point = false;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !point) {
      point = true;
    } else if (c >= '0' && c <= '9') {
      if (++digits > kMostDigits) return std::nullopt;
      read.count = read.count * 10 + (c - '0');
      if (point) ++read.places;
    } else {
      break;
    }
  }
  if (digits == 0) return std::nullopt;
  read.rest = text.substr(at);
  return read;
}

// The power of ten that "e3", "E-2" stand for.
std::optional<int> exponent_of(std::string_view text) {
  if (text.size() < 2 || (text[0] != 'e' && text[0] != 'E')) return std::nullopt;
  text.remove_prefix(1);
  const bool negative = text.front() == '-';
  if (negative || text.front() == '+') text.remove_prefix(1);
  const auto number = parse_count(text, 18);
  if (!number.ok()) return std::nullopt;
  return static_cast<int>(negative ? -*number : *number);
}

std::optional<Suffix> suffix_of(std::string_view text) {
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.name == text) return suffix;
  }
  if (const auto tens = exponent_of(text)) return Suffix{"", *tens, 0};
  return std::nullopt;
}

}  // namespace

Result<Thousandths> parse_thousandths(std::string_view text) {
  constexpr Int128 kMost = core::kMostQuota - 1;
  const Error bad =
      invalid_argument("a number of Kubernetes is expected, below 9007199254741: 8, 500m, 2k");
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const auto mantissa = mantissa_of(text);
  if (!mantissa) return bad;
  const auto suffix = suffix_of(mantissa->rest);
  if (!suffix) return bad;
  Int128 count = mantissa->count;
  Thousandths read;
  for (int i = 0; i < suffix->doubles && count <= kMost * (Int128{1} << 60U); ++i)
    count *= 2;
  int tens = 3 + suffix->tens - mantissa->places;
  for (; tens > 0 && count <= kMost; --tens)
    count *= 10;
  for (; tens < 0; ++tens) {
    read.exact = read.exact && count % 10 == 0;
    count /= 10;
  }
  if (count > kMost) return bad;
  read.count = static_cast<std::int64_t>(negative ? -count : count);
  return read;
}

Result<Duration> parse_go_duration(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 7> kUnits = {
      {{"ns", 1},
       {"us", 1'000},
       {"µs", 1'000},
       {"ms", 1'000'000},
       {"s", 1'000'000'000},
       {"m", 60'000'000'000},
       {"h", 3'600'000'000'000}}};
  constexpr Int128 kMostNs = Int128{365'000} * 86'400'000 * 1'000'000;
  const Error bad = invalid_argument("a duration of Go is expected: 90s, 1h30m");
  if (text == "0") return Duration{0};
  if (text.empty()) return bad;
  Int128 ns = 0;
  while (!text.empty()) {
    const auto mantissa = mantissa_of(text);
    if (!mantissa) return bad;
    const std::string_view rest = mantissa->rest;
    const std::string_view unit = rest.substr(0, rest.find_first_of("0123456789."));
    const auto* known = std::ranges::find(kUnits, unit, &decltype(kUnits)::value_type::first);
    if (known == kUnits.end()) return bad;
    Int128 part = mantissa->count * known->second;
    for (int i = 0; i < mantissa->places; ++i)
      part = (part + 9) / 10;
    ns += part;
    if (ns > kMostNs) return bad;
    text = rest.substr(unit.size());
  }
  return Duration{static_cast<std::int64_t>((ns + 999'999) / 1'000'000)};
}

}  // namespace berth::config
