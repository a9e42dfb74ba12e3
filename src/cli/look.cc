#include "cli/look.h"

#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

namespace berth::cli {

namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

bool has_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = variable(name);
    if (!value.empty()) {  // the first that is set decides
      return value.contains("UTF-8") || value.contains("utf8") || value.contains("UTF8");
    }
  }
  return false;
}

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

}  // namespace

Look look_of(const Console& console) {
  Look look;
  look.terminal = console.out_is_terminal;
  look.utf8 = has_utf8();
  if (!look.terminal) {
    return look;
  }
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    look.columns = size.ws_col;
    look.rows = size.ws_row;
  }
  if (const char* columns = std::getenv("COLUMNS"); look.columns == 0 && columns != nullptr) {
    look.columns = std::strtoul(columns, nullptr, 10);
  }
  look.colour = variable("NO_COLOR").empty() && variable("TERM") != "dumb";
  return look;
}

std::string toned(std::string_view text, Tone tone, const Look& look) {
  std::string_view code;
  switch (tone) {
    case Tone::plain: break;
    case Tone::good: code = "32"; break;
    case Tone::busy: code = "33"; break;
    case Tone::bad: code = "31"; break;
    case Tone::faint: code = "2"; break;
    case Tone::strong: code = "1"; break;
  }
  if (!look.colour || code.empty() || text.empty()) {
    return std::string(text);
  }
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

std::size_t text_width(std::string_view text) {
  std::size_t width = 0;
  for (const char byte : text) {
    width += continues(byte) ? 0U : 1U;
  }
  return width;
}

std::string cut_to(std::string_view text, std::size_t most, bool utf8) {
  if (text_width(text) <= most) {
    return std::string(text);
  }
  if (most == 0) {
    return {};
  }
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end) {
    if (!continues(text[end]) && ++seen == most) {
      break;
    }
  }
  return std::string(text.substr(0, end)) + (utf8 ? "…" : ".");
}

std::string wrapped(std::string_view text, const Wrap& wrap) {
  if (wrap.width == 0) {
    return std::string(text);
  }
  std::string out;
  std::size_t used = wrap.used;
  bool begins = true;  // a line that has no word yet
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t wide = text_width(word);
    if (!begins && used + 1 + wide > wrap.width) {
      out += "\n" + std::string(wrap.indent, ' ');
      used = wrap.indent;
    } else if (!begins) {
      out += ' ';
      ++used;
    }
    out += word;
    used += wide;
    begins = false;
  }
  return out;
}

}  // namespace berth::cli
