// Small readers and writers of texts that this room needs: base64, instants, files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace berth::kube {

// RFC 4648 with padding; white space between is skipped. Empty optional: it is none.
std::optional<std::string> from_base64(std::string_view text);
std::string to_base64(std::string_view bytes);

// RFC 3339, as Kubernetes writes it, with 'Z' or an offset -> microseconds since 1970.
std::optional<std::int64_t> parse_instant(std::string_view text);
// "2026-01-01T00:00:00.000000Z" (MicroTime).
std::string micro_time(std::int64_t us);
// "2026-01-01 00:00 UTC", for people.
std::string day_and_minute(std::int64_t us);

// A whole small file (at most 4 MiB). Errors: not_found, unavailable; the message names the file
// and never shows its content.
Result<std::string> read_small_file(const std::string& path);

// Without white space at both ends.
std::string_view trimmed(std::string_view text);

// A path segment or a query value, percent-encoded.
std::string url_encoded(std::string_view text);

}  // namespace berth::kube
