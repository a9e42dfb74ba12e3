#include "yaml/text_check.h"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace berth::yaml {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

bool is_continuation(std::string_view text, std::size_t at) {
  return at < text.size() && (byte_at(text, at) & 0xC0U) == 0x80U;
}

// The length of the well-formed UTF-8 character at `at` (RFC 3629: no overlong forms, no
// surrogates, nothing above U+10FFFF), or 0.
std::size_t character_length(std::string_view text, std::size_t at) {
  const std::uint8_t lead = byte_at(text, at);
  if (lead < 0x80U) return 1;
  if (lead < 0xC2U || lead > 0xF4U || !is_continuation(text, at + 1)) return 0;
  if (lead < 0xE0U) return 2;
  const std::uint8_t second = byte_at(text, at + 1);
  if (lead == 0xE0U && second < 0xA0U) return 0;
  if (lead == 0xEDU && second > 0x9FU) return 0;
  if (lead == 0xF0U && second < 0x90U) return 0;
  if (lead == 0xF4U && second > 0x8FU) return 0;
  if (!is_continuation(text, at + 2)) return 0;
  if (lead < 0xF0U) return 3;
  return is_continuation(text, at + 3) ? 4 : 0;
}

bool is_forbidden_control(std::uint8_t byte) {
  return (byte < 0x20U && byte != '\t' && byte != '\n') || byte == 0x7FU;
}

}  // namespace

Result<std::string> check_text(std::string_view text, std::string_view file_name,
                               const Limits& limits) {
  if (text.size() > limits.max_bytes) {
    return error_at(file_name, 1, 1,
                    fmt::format("the file has {} bytes; at most {} are read: split it", text.size(),
                                limits.max_bytes));
  }
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::string clean;
  clean.reserve(text.size());
  int line = 1;
  std::size_t line_start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const int column = static_cast<int>(at - line_start) + 1;
    const std::uint8_t byte = byte_at(text, at);
    if (at - line_start >= limits.max_line_bytes && byte != '\n') {
      return error_at(
          file_name, line, column,
          fmt::format("the line is longer than {} bytes: break it", limits.max_line_bytes));
    }
    if (byte == '\r' && at + 1 < text.size() && text[at + 1] == '\n') {
      ++at;
      continue;
    }
    if (is_forbidden_control(byte)) {
      return error_at(
          file_name, line, column,
          fmt::format("the byte 0x{:02X} is not text: remove it (is this a text file?)", byte));
    }
    const std::size_t length = character_length(text, at);
    if (length == 0) {
      return error_at(
          file_name, line, column,
          fmt::format("the byte 0x{:02X} is not UTF-8 here: save the file as UTF-8", byte));
    }
    clean.append(text.substr(at, length));
    at += length;
    if (byte == '\n') {
      ++line;
      line_start = at;
    }
  }
  // yaml-cpp 0.7 takes a quote that is never closed for a whole value if blank lines follow it.
  clean.erase(clean.find_last_not_of(" \t\n") + 1);
  return clean;
}

}  // namespace berth::yaml
