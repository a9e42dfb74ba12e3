// The nearest known word to a mistyped one.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace berth {

// Edits (insert, delete, replace, swap of neighbours) that turn one word into the other. Case
// counts.
[[nodiscard]] std::size_t edit_distance(std::string_view left, std::string_view right);

// The known word with the fewest edits; among equals a word that begins with `typed`, then the
// first listed. Empty only if nothing is known.
[[nodiscard]] std::string nearest(std::string_view typed, std::span<const std::string> known);

}  // namespace berth
