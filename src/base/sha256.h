// SHA-256 (FIPS 180-4), for names that have to be short and the same everywhere: no secrets.
// Thread-safety: a function of its argument.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace berth {

std::array<std::uint8_t, 32> sha256(std::string_view text);

// The first `digits` hex digits of it, lower case. Requires digits <= 64.
std::string sha256_hex(std::string_view text, std::size_t digits = 64);

}  // namespace berth
