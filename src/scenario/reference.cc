#include "scenario/reference.h"

#include <string_view>

#include <fmt/format.h>

#include "request/words.h"
#include "scenario/section.h"
#include "scenario/value.h"

namespace berth::scenario {

namespace {

// A cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string types_table() {
  std::string out = "## How values are written\n\n| type | how | example |\n| --- | --- | --- |\n";
  for (const TypeDoc& type : all_types()) {
    out += fmt::format("| {} | {} | `{}` |\n", type.name, cell(type.how), cell(type.example));
  }
  return out;
}

std::string section_table(const SectionDoc& section) {
  std::string out = fmt::format(
      "\n## {}\n\n{}\n\n| key | type | meaning | example |\n| --- | --- | --- | --- |\n",
      section.name, section.summary);
  for (const KeyDoc& key : section.keys) {
    out += fmt::format("| `{}`{} | {} | {} | `{}: {}` |\n", key.name,
                       key.required ? " (required)" : "", key.type, cell(key.summary), key.name,
                       cell(key.example));
  }
  return out;
}

std::string_view scope_text(request::WordScope scope) {
  switch (scope) {
    case request::WordScope::task: return "task";
    case request::WordScope::container: return "container";
    case request::WordScope::gpu: return "task or container";
  }
  return "?";
}

std::string words_table() {
  std::string out =
      "\n## request words\n\nThey stand beside `uid` in `submit` and `adopt`, and in the entries "
      "of "
      "`containers`. A task without any asks for no GPU.\n\n| word | where | value | meaning | "
      "example "
      "|\n| --- | --- | --- | --- | --- |\n";
  for (const request::WordRule& rule : request::word_rules()) {
    out += fmt::format("| `{}` | {} | {} | {} | `{}` |\n", rule.name, scope_text(rule.scope),
                       cell(rule.form), cell(rule.summary), cell(rule.example));
  }
  return out;
}

}  // namespace

std::string reference_text() {
  std::string out = types_table();
  for (const SectionDoc& section : all_sections()) {
    out += section_table(section);
    if (section.name == "submit") out += words_table();
  }
  return out;
}

}  // namespace berth::scenario
