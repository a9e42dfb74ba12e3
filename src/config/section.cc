#include "config/section.h"

#include <fmt/format.h>

#include "request/reason.h"

namespace berth::config {

std::string section_table(const SectionDoc& doc) {
  std::string out = fmt::format(
      "\n## {}\n\n{}\n\n| key | type | meaning | example |\n| --- | --- | --- | --- |\n", doc.name,
      doc.summary);
  for (const KeyDoc& key : doc.keys) {
    out += fmt::format("| `{}`{} | {} | {} | `{}: {}` |\n", key.name,
                       key.required ? " (required)" : "", key.type, table_cell(key.summary),
                       key.name, table_cell(key.example));
  }
  return out;
}

Error not_a_section(std::string_view section, const Value& value) {
  return value.error(fmt::format("the keys of '{}' are expected here: key: value", section));
}

Error missing_key(const KeyDoc& key, const Value& value) {
  const Place place = value.place();
  return yaml::error_at(value.file(), place.line, place.column,
                        fmt::format("{}: '{}' is missing: {}; for example {}: {}", value.field(),
                                    key.name, key.summary, key.name, key.example));
}

Error unknown_key(std::string_view section, const yaml::Entry& entry, std::string_view file,
                  std::span<const std::string_view> known) {
  return yaml::error_at(
      file, entry.line, entry.column,
      fmt::format("{}: '{}' is not a key of '{}'; {}", entry.key, request::printable(entry.key),
                  section, suggestion(entry.key, known)));
}

}  // namespace berth::config
