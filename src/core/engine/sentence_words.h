// The small change of sentences: amounts, names and rules as words.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/quantity.h"
#include "core/model/request.h"

namespace berth::core {

// A name from outside: printable, and at most so long.
std::string named(std::string_view text, std::size_t most = 48);
std::int64_t mib(std::int64_t bytes);           // rounded down
std::string amount_text(const DeviceAsk& ask);  // "4096 MiB on one GPU"
std::string cores_text(std::int64_t milli);     // "2.500"
// An amount of a quota dimension in its unit: "1.5" of */devices, "4096 MiB" of H100/memory.
std::string quota_text(std::int64_t amount, std::string_view dimension);
std::string time_text(Duration duration);                      // "45 s", "22 h 54 min"
std::string plural(std::int64_t count, std::string_view one);  // "2 grants"
std::string_view mode_name(SharingMode mode);
std::string label_text(const LabelRule& rule);  // "zone in (a, b)"

}  // namespace berth::core
