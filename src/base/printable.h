// Text from outside, safe to show on one line of a terminal or of a log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace berth {

// Control characters (also DEL and the C1 controls of UTF-8) as \n, \t or \xNN; bytes that are no
// UTF-8 as \xNN. Everything else stays as it is, so what is already printable comes back unchanged.
[[nodiscard]] std::string printable(std::string_view text);

// The same line by line: newlines stay.
[[nodiscard]] std::string printable_lines(std::string_view text);

// At most `most` bytes: what is longer loses its end to "...", never half a character. Requires
// most >= 3.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most);

}  // namespace berth
