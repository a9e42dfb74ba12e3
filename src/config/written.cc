#include "config/written.h"

#include <algorithm>

#include <fmt/format.h>

#include "config/amount.h"

namespace berth::config {

std::string scalar(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const bool plain =
      !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, [&](char c) {
        return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' ||
               c == '/' || c == '=';
      });
  constexpr std::string_view kOtherMeanings[] = {"null", "true", "false", "yes", "no", "on", "off"};
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  if (plain && std::ranges::find(kOtherMeanings, lower) == std::end(kOtherMeanings)) {
    return std::string(text);
  }
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string written(bool value) { return value ? "true" : "false"; }

std::string written(std::int64_t value) { return std::to_string(value); }

std::string written(Duration value) { return duration_text(value); }

std::string written(Memory value) { return fmt::format("{}MiB", value.ceil_mib()); }

std::string written(const std::string& value) {
  return value.empty() ? std::string() : scalar(value);
}

std::string written(const std::vector<std::string>& value) {
  std::string text;
  for (const std::string& word : value) {
    text += text.empty() ? "[" : ", ";
    text += scalar(word);
  }
  return text.empty() ? text : text + "]";
}

}  // namespace berth::config
