// The 128 bits by which a device is known, and the text NVIDIA writes for them.
// Thread-safety: a value type.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace berth::grant {

struct Uuid {
  std::array<std::uint8_t, 16> bytes{};
  auto operator<=>(const Uuid&) const = default;
};

// "GPU-8f6d…", "MIG-8f6d…" or the bare form, in either case. Errors: invalid_argument.
Result<Uuid> parse_uuid(std::string_view text);

// "GPU-" and the bare form; the bytes do not say whether they name a MIG instance.
std::string uuid_text(const Uuid& uuid);

}  // namespace berth::grant
