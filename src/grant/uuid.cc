#include "grant/uuid.h"

#include <cstddef>

#include <fmt/format.h>

#include "guard/text.h"

namespace berth::grant {

namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<Uuid> parse_uuid(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with("GPU-") || rest.starts_with("MIG-")) rest.remove_prefix(4);
  const auto wrong = [&] {
    return invalid_argument(
        fmt::format("device '{}' is no UUID; write it as nvidia-smi -L shows it, for example "
                    "GPU-8f6d0b9e-0a6f-4b52-9f0e-3a1f9c1d2e4b",
                    text));
  };
  if (rest.size() != 36) return wrong();
  Uuid uuid;
  std::size_t nibble = 0;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (rest[i] != '-') return wrong();
      continue;
    }
    const int digit = digit_of(rest[i]);
    if (digit < 0) return wrong();
    std::uint8_t& byte = uuid.bytes[nibble / 2];
    byte = static_cast<std::uint8_t>(byte * 16 + digit);
    ++nibble;
  }
  return uuid;
}

std::string uuid_text(const Uuid& uuid) {
  guard::Text<48> text;
  text.add("GPU-").uuid(uuid.bytes.data());
  return text.c_str();
}

}  // namespace berth::grant
