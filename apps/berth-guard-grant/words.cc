#include "words.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include "request/units.h"

namespace berth::guard_grant {

std::string Words::value(std::string_view option, std::string_view otherwise) const {
  const auto after = options.upper_bound(option);
  if (!has(option)) return std::string(otherwise);
  return std::prev(after)->second;
}

Result<Words> split_words(std::span<const std::string> words, std::span<const Option> options,
                          std::string_view plain) {
  Words result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string name = words[i];
    if (!name.starts_with('-') || name == "-") {
      result.plain.push_back(name);
      continue;
    }
    std::string value;
    const std::size_t equals = name.find('=');
    if (equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    const auto known = std::ranges::find(options, name, &Option::name);
    if (known == options.end()) {
      return invalid_argument(fmt::format("{} is unknown here; --help shows what is known", name));
    }
    if (!known->has_value && equals != std::string::npos) {
      return invalid_argument(fmt::format("{} takes no value", name));
    }
    if (known->has_value && equals == std::string::npos) {
      if (i + 1 == words.size()) return invalid_argument(fmt::format("{} lacks its value", name));
      value = words[++i];
    }
    result.options.emplace(name, value);
  }
  const auto wanted = static_cast<std::size_t>(std::ranges::count(plain, ' ')) + 1;
  if (result.plain.size() != wanted) {
    return invalid_argument(fmt::format(
        "{} {} wanted here, and {} given; --help shows how", plain, wanted == 1 ? "is" : "are",
        result.plain.empty() ? "nothing is"
                             : fmt::format("'{}' {}", fmt::join(result.plain, " "),
                                           result.plain.size() == 1 ? "is" : "are")));
  }
  return result;
}

Result<Memory> parse_size(std::string_view text) {
  const auto size = request::parse_lease_size(text);
  if (!size) return invalid_argument(fmt::format("size '{}': {}", text, size.error().rule));
  return *size;
}

Result<std::int64_t> parse_integer(std::string_view what, std::string_view text, Range range) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < range.min ||
      value > range.max) {
    return invalid_argument(fmt::format("{} '{}': a whole number from {} to {} is wanted", what,
                                        text, range.min, range.max));
  }
  return value;
}

namespace {

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t colon = text.find(':');
    parts.push_back(text.substr(0, colon));
    if (colon == std::string_view::npos) return parts;
    text.remove_prefix(colon + 1);
  }
}

}  // namespace

Result<grant::ReportedUse> parse_reported(std::string_view text) {
  const std::vector<std::string_view> parts = parts_of(text);
  if (parts.size() != 3) {
    return invalid_argument(fmt::format("--reported {}: write UUID:PID:SIZE", text));
  }
  grant::ReportedUse use;
  TRY(use.device, grant::parse_uuid(parts[0]));
  TRY(const std::int64_t pid, parse_integer("pid", parts[1], {.min = 1, .max = 1 << 22}));
  use.pid = static_cast<std::uint32_t>(pid);
  TRY(use.used, parse_size(parts[2]));
  return use;
}

Result<grant::DeviceShare> parse_device(std::string_view text) {
  const std::vector<std::string_view> parts = parts_of(text);
  if (parts.size() < 3 || parts.size() > 4) {
    return invalid_argument(
        fmt::format("--device {}: write UUID:REQUEST:LIMIT or UUID:REQUEST:LIMIT:CAP", text));
  }
  grant::DeviceShare share;
  TRY(share.uuid, grant::parse_uuid(parts[0]));
  TRY(share.request, parse_size(parts[1]));
  TRY(share.limit, parse_size(parts[2]));
  share.cap = share.limit;
  if (parts.size() == 4) {
    TRY(share.cap, parse_size(parts[3]));
  }
  return share;
}

Result<grant::GrantSpec> parse_spec(const Words& words) {
  grant::GrantSpec spec;
  spec.id = words.value("--grant", "");
  if (spec.id.empty()) return invalid_argument("--grant ID is missing");
  Memory context;
  if (words.has("--context-bytes")) {
    const std::string text = words.value("--context-bytes", "");
    // The option's name says bytes, so a bare number is bytes; a unit is taken as elsewhere.
    if (request::is_digits(text)) {
      TRY(const std::int64_t bytes,
          parse_integer("--context-bytes", text, {.min = 0, .max = std::int64_t{1} << 44}));
      context = Memory::bytes(bytes);
    } else {
      TRY(context, parse_size(text));
    }
  }
  const auto [begin, end] = words.options.equal_range("--device");
  for (auto option = begin; option != end; ++option) {
    TRY(grant::DeviceShare device, parse_device(option->second));
    device.context_bytes = context;
    spec.devices.push_back(device);
  }
  if (spec.devices.empty()) {
    return invalid_argument("--device UUID:REQUEST:LIMIT is missing; a grant has at least one");
  }
  spec.closed = words.has("--closed");
  spec.filter_processes = words.has("--filter-processes");
  spec.private_table = words.has("--private-table");
  spec.managed_uncounted = words.has("--managed-uncounted");
  spec.show_share_utilisation = words.has("--share-utilisation");
  if (words.has("--share")) {
    TRY(const std::int64_t share,
        parse_integer("--share", words.value("--share", ""), {.min = 1, .max = 1000}));
    spec.share = Milli(share);
  }
  if (words.has("--slots")) {
    TRY(const std::int64_t slots,
        parse_integer("--slots", words.value("--slots", ""), {.min = 1, .max = 1023}));
    spec.slots = static_cast<int>(slots);
  }
  return spec;
}

}  // namespace berth::guard_grant
