#include "cli/fleet_words.h"

#include "scenario/fleet_spec.h"
#include "scenario/script.h"
#include "sim/files.h"

namespace berth::cli {

namespace {

bool is_yaml_path(const std::string& text) {
  return text.ends_with(".yaml") || text.ends_with(".yml");
}

}  // namespace

Result<std::vector<core::Node>> fleet_from(const std::string& text, std::string_view option) {
  if (!is_yaml_path(text)) {
    auto spec = scenario::fleet_from_spec(text);
    if (spec.ok()) return spec;
    if (!sim::read_input_file(text).ok()) {
      return invalid_argument(std::string(option) + " '" + text + "' is neither SPEC (" +
                              spec.error().message() + ") nor a file that can be read");
    }
  }
  TRY(const std::string file, sim::read_input_file(text));
  return scenario::parse_fleet(file, text);
}

}  // namespace berth::cli
