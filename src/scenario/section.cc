#include "scenario/section.h"

#include <fmt/format.h>

#include "request/reason.h"
#include "scenario/sections.h"

namespace berth::scenario {

Error not_a_section(std::string_view section, const Value& value) {
  return value.error(fmt::format("the keys of '{}' are expected here: key: value", section));
}

Error missing_key(const KeyDoc& key, const Value& value) {
  return value.error(fmt::format("'{}' is missing: {}; for example {}: {}", key.name, key.summary,
                                 key.name, key.example));
}

Error unknown_key(std::string_view section, const yaml::Entry& entry, std::string_view file,
                  std::span<const std::string_view> known) {
  return yaml::error_at(
      file, entry.line, entry.column,
      fmt::format("{}: '{}' is not a key of '{}'; {}", entry.key, request::printable(entry.key),
                  section, suggestion(entry.key, known)));
}

std::vector<SectionDoc> all_sections() {
  return {section_doc(script_section()),
          section_doc(fleet_section()),
          section_doc(node_section()),
          section_doc(device_section()),
          section_doc(config_section()),
          section_doc(aging_section()),
          section_doc(queue_section()),
          section_doc(step_section()),
          section_doc(submit_section()),
          section_doc(adopt_section()),
          section_doc(observe_section()),
          section_doc(add_device_section()),
          section_doc(renumber_section()),
          section_doc(expect_section()),
          section_doc(expect_workload_section()),
          section_doc(expect_device_section()),
          section_doc(expect_node_section())};
}

}  // namespace berth::scenario
