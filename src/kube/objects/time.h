// Points in time as Kubernetes writes them. Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::kube {

// "2026-01-31T10:00:00Z" with any fraction and offset, as milliseconds since 1970, rounded down.
// Empty when it is none or outside the years 1970 to 9999.
std::optional<std::int64_t> parse_time_ms(std::string_view text);

// metav1.Time: "2026-01-31T10:00:00Z", seconds rounded down. Both require a time between the years
// 1970 and 9999; what is outside is moved to the nearer end.
std::string time_text(std::int64_t unix_ms);
// metav1.MicroTime: "2026-01-31T10:00:00.123456Z".
std::string micro_time_text(std::int64_t unix_us);

}  // namespace berth::kube
