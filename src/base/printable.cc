#include "base/printable.h"

#include <fmt/format.h>

#include "base/assert.h"

namespace berth {

namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

bool continues(std::string_view text, std::size_t at) {
  return at < text.size() && (byte_at(text, at) & 0xC0U) == 0x80U;
}

// Bytes of the UTF-8 character at `at`; 0 = none begins here.
std::size_t character_length(std::string_view text, std::size_t at) {
  const unsigned char first = byte_at(text, at);
  const std::size_t length = first < 0x80U                     ? 1
                             : first >= 0xC2U && first < 0xE0U ? 2
                             : first >= 0xE0U && first < 0xF0U ? 3
                             : first >= 0xF0U && first < 0xF5U ? 4
                                                               : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(text, at + i)) return 0;
  }
  return length;
}

// Of two bytes: the other half of the control characters. Of three: what ends a line or turns the
// order of what follows (U+2028 to U+202E, U+2066 to U+2069), so that a line reads as another one.
bool is_control(std::string_view text, std::size_t at, std::size_t length) {
  const unsigned char first = byte_at(text, at);
  if (length == 3 && first == 0xE2U) {
    const unsigned char second = byte_at(text, at + 1);
    const unsigned char third = byte_at(text, at + 2);
    return (second == 0x80U && third >= 0xA8U && third <= 0xAEU) ||
           (second == 0x81U && third >= 0xA6U && third <= 0xA9U);
  }
  return first < 0x20U || first == 0x7FU ||
         (length == 2 && first == 0xC2U && byte_at(text, at + 1) < 0xA0U);
}

std::string escaped(std::string_view text, bool keep_newlines) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    const bool shown =
        length > 0 && (!is_control(text, at, length) || (keep_newlines && text[at] == '\n'));
    if (shown) {
      out += text.substr(at, length);
      at += length;
      continue;
    }
    for (std::size_t i = 0; i < (length == 0 ? 1 : length); ++i, ++at) {
      if (text[at] == '\n') {
        out += "\\n";
      } else if (text[at] == '\t') {
        out += "\\t";
      } else {
        out += fmt::format("\\x{:02x}", byte_at(text, at));
      }
    }
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, false); }

std::string printable_lines(std::string_view text) { return escaped(text, true); }

std::string shortened(std::string_view text, std::size_t most) {
  ASSERT(most >= 3, most);
  if (text.size() <= most) return std::string(text);
  std::size_t end = most - 3;
  while (end > 0 && continues(text, end))
    --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace berth
