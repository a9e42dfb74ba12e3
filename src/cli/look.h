// Look: what the terminal behind stdout can show, and text in its colours.
//
//   const Look look = look_of(console);
//   console.out << toned("waiting", Tone::busy, look);
//
// Where stdout is no terminal there is no colour and no limit of width. NO_COLOR (any value) and
// TERM=dumb take the colours away. Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/command.h"

namespace berth::cli {

struct Look {
  std::size_t columns = 0;  // 0: as wide as needed
  std::size_t rows = 0;     // 0: as long as needed
  bool terminal = false;
  bool colour = false;
  bool utf8 = false;  // block characters can be drawn
};

Look look_of(const Console& console);

enum class Tone : std::uint8_t { plain, good, busy, bad, faint, strong };

std::string toned(std::string_view text, Tone tone, const Look& look);

// Characters, not bytes: how wide the text is. Requires text without escape sequences.
std::size_t text_width(std::string_view text);

// At most so many characters; what is longer ends in "…" (or "." where that cannot be drawn).
std::string cut_to(std::string_view text, std::size_t most, bool utf8);

struct Wrap {
  std::size_t width = 0;   // 0: one line
  std::size_t indent = 0;  // of the lines after the first
  std::size_t used = 0;    // of the first line, before the text
};

// Lines of at most `wrap.width` characters, broken at blanks.
std::string wrapped(std::string_view text, const Wrap& wrap);

}  // namespace berth::cli
