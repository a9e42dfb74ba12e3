#include "scenario/reference.h"

#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "config/section.h"
#include "config/value.h"
#include "request/words.h"
#include "scenario/load_sections.h"
#include "scenario/sections.h"

namespace berth::scenario {

namespace {

using config::table_cell;

// Every section, in the order in which the reference shows them.
std::vector<SectionDoc> all_sections() {
  return {section_doc(script_section()),
          section_doc(fleet_section()),
          section_doc(node_section()),
          section_doc(device_section()),
          section_doc(config_section()),
          section_doc(aging_section()),
          section_doc(topology_section()),
          section_doc(step_section()),
          section_doc(submit_section()),
          section_doc(member_section()),
          section_doc(group_section()),
          section_doc(topology_rule_section()),
          section_doc(segment_section()),
          section_doc(join_section()),
          section_doc(adopt_section()),
          section_doc(observe_section()),
          section_doc(add_device_section()),
          section_doc(renumber_section()),
          section_doc(expect_section()),
          section_doc(expect_workload_section()),
          section_doc(expect_gang_section()),
          section_doc(expect_quota_section()),
          section_doc(expect_topology_section()),
          section_doc(expect_preemption_section()),
          section_doc(expect_eviction_section()),
          section_doc(expect_domains_section()),
          section_doc(expect_queue_section()),
          section_doc(expect_device_section()),
          section_doc(expect_node_section())};
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
      "\n## request words\n\nThey stand beside `uid` in `submit` and `adopt`, in the members and "
      "groups of a gang, and in the entries of `containers`. A task without any asks for no "
      "GPU.\n\n| word | where | value | meaning | "
      "example "
      "|\n| --- | --- | --- | --- | --- |\n";
  for (const request::WordRule& rule : request::word_rules()) {
    out += fmt::format("| `{}` | {} | {} | {} | `{}` |\n", rule.name, scope_text(rule.scope),
                       table_cell(rule.form), table_cell(rule.summary), table_cell(rule.example));
  }
  return out;
}

}  // namespace

std::string reference_text() {
  std::string out = config::types_table();
  for (const SectionDoc& section : all_sections()) {
    out += config::section_table(section);
    if (section.name == "submit") out += words_table();
  }
  for (const SectionDoc& section : load_sections())
    out += config::section_table(section);
  return out;
}

}  // namespace berth::scenario
