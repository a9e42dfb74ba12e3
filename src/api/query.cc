#include "api/query.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace berth::api {

using lease::Outcome;
using lease::Refusal;

std::optional<std::int64_t> number_of(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

Refusal bad_query(std::string_view name, std::string_view value, std::string_view rule) {
  return {.status = 400,
          .code = "invalid-field",
          .field = std::string(name),
          .value = std::string(value.substr(0, 80)),
          .message = fmt::format("{} {}", name, rule),
          .hint = "/v1/openapi.json describes every call"};
}

// A whole number in a query parameter.
Outcome<std::optional<std::int64_t>> query_number(const net::Request& request,
                                                  std::string_view name, std::int64_t least,
                                                  std::int64_t most) {
  const std::string* text = request.query_value(name);
  if (text == nullptr) {
    return std::optional<std::int64_t>();
  }
  const auto value = number_of(*text);
  if (!value.has_value() || *value < least || *value > most) {
    return std::unexpected(
        bad_query(name, *text, fmt::format("is a whole number from {} to {}", least, most)));
  }
  return value;
}

Outcome<bool> query_flag(const net::Request& request, std::string_view name) {
  const std::string* text = request.query_value(name);
  if (text == nullptr || *text == "0" || *text == "false") {
    return false;
  }
  if (*text == "1" || *text == "true") {
    return true;
  }
  return std::unexpected(bad_query(name, *text, "is 0, 1, false or true"));
}

Outcome<void> check_query(const net::Request& request,
                          std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : request.query) {
    if (std::ranges::find(known, name) == known.end()) {
      Refusal refusal = bad_query(name, value, "is no parameter of this call");
      refusal.code = "unknown-field";
      refusal.hint = fmt::format("known are {}", fmt::join(known, ", "));
      return std::unexpected(std::move(refusal));
    }
  }
  return {};
}

}  // namespace berth::api
