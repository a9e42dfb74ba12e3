#include <ostream>
#include <string>
#include <vector>

#include "cli/verbs.h"
#include "core/placement/registry.h"
#include "sim/document.h"
#include "sim/table.h"

namespace berth::cli {

namespace {

constexpr Option kOptions[] = {kOutputOption};

constexpr Example kExamples[] = {
    {"berth policies", "every policy with what it does"},
    {"berth policies -o json", "the same for a script"},
};

sim::Document policies_document() {
  sim::Document list = sim::Document::array();
  for (const core::PolicyInfo& policy : core::registered_policies()) {
    list.push(sim::Document::object()
                  .add("name", policy.name)
                  .add("summary", policy.summary)
                  .add("parameters", policy.parameters)
                  .add("baseline", policy.baseline));
  }
  return sim::Document::object().add("policies", std::move(list));
}

std::string policies_table() {
  using Align = sim::Table::Align;
  sim::Table table({{"POLICY", Align::left}, {"WHAT IT DOES", Align::left}});
  for (const core::PolicyInfo& policy : core::registered_policies()) {
    std::string summary(policy.summary);
    if (policy.baseline) summary += " (for comparison)";
    table.add({std::string(policy.name), summary});
    if (!policy.parameters.empty()) table.add({"", std::string(policy.parameters)});
  }
  return table.text() +
         "\nPer level: nodes=X,devices=Y with X and Y in pack, spread: one order for nodes, "
         "another "
         "for\nthe devices of the node that was chosen.\n";
}

ExitCode print_policies(const Arguments& arguments, Console& console) {
  const std::string format = arguments.value("--output").value_or("table");
  if (format == "json") {
    console.out << policies_document().json();
  } else if (format == "yaml") {
    console.out << policies_document().yaml();
  } else {
    console.out << policies_table();
  }
  return ExitCode::done;
}

}  // namespace

constinit const Command kPoliciesCommand{
    .name = "policies",
    .summary = "list the placement policies",
    .options = kOptions,
    .examples = kExamples,
    .run = print_policies,
};

}  // namespace berth::cli
