#include "api/exposition.h"

#include <fmt/format.h>

namespace berth::api {

void Exposition::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void Exposition::head(Labels labels) {
  text_ += name_;
  char before = '{';
  for (const auto& [name, value] : labels) {
    text_ += before;
    text_ += name;
    text_ += "=\"";
    for (const char c : value) {
      if (c == '\\' || c == '"') {
        text_ += '\\';
        text_ += c;
      } else if (c == '\n') {
        text_ += "\\n";
      } else {
        text_ += c;
      }
    }
    text_ += '"';
    before = ',';
  }
  if (before == ',') {
    text_ += '}';
  }
  text_ += ' ';
}

void Exposition::sample(Labels labels, std::int64_t value) {
  head(labels);
  text_ += fmt::format("{}\n", value);
}

void Exposition::sample_seconds(Labels labels, std::int64_t ms) {
  head(labels);
  text_ += fmt::format("{}.{:03}\n", ms / 1000, ms % 1000);
}

}  // namespace berth::api
