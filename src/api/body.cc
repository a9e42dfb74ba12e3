#include "api/body.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/suggest.h"

namespace berth::api {

using json::Value;
using lease::Outcome;
using lease::Refusal;

std::string shown(const Value& value) {
  std::string text = value.is_string() ? value.as_string() : json::dump(value);
  constexpr std::size_t kMost = 80;
  if (text.size() > kMost) {
    text.resize(kMost);
    text += "…";
  }
  return printable(text);
}

Refusal bad_field(std::string_view field, const Value& value, std::string message,
                  std::string hint) {
  return {.status = 400,
          .code = "invalid-field",
          .field = std::string(field),
          .value = shown(value),
          .message = std::move(message),
          .hint = std::move(hint)};
}

Outcome<Value> read_body(std::string_view text) {
  if (text.empty()) {
    return json::object();
  }
  Result<Value> body = json::parse(text);
  if (!body || !body->is_object()) {
    return std::unexpected(Refusal{
        .status = 400,
        .code = "bad-json",
        .message = body ? fmt::format("the body is {}, not an object", json::kind_name(*body))
                        : body.error().message(),
        .hint = "send one JSON object in UTF-8; /v1/openapi.json describes every call"});
  }
  return std::move(*body);
}

Outcome<void> check_fields(const Value& body, std::span<const std::string_view> known) {
  for (const auto& [name, value] : body.as_object()) {
    bool found = false;
    for (const std::string_view one : known) {
      found = found || one == name;
    }
    if (!found) {
      const std::vector<std::string> names(known.begin(), known.end());
      const std::string hint = names.empty()
                                   ? std::string("this call takes no fields")
                                   : fmt::format("did you mean {}? Known are {}",
                                                 nearest(name, names), fmt::join(known, ", "));
      return std::unexpected(
          Refusal{.status = 400,
                  .code = "unknown-field",
                  .field = printable(name.substr(0, 80)),
                  .value = shown(value),
                  .message = fmt::format("no field is called {}", printable(name.substr(0, 80))),
                  .hint = hint});
    }
  }
  return {};
}

}  // namespace berth::api
