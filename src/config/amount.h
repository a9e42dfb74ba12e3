// Amounts of a quota dimension, in text and in its unit: MiB of memory, thousandths of a device,
// thousandths of compute.
//
//   parse_amount("2.5", DimensionKind::devices)    // 2500
//   amount_text(163840, DimensionKind::memory)     // "160GiB"
//
// Nothing is rounded. Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/queue/queue_config.h"

namespace berth::config {

// Never negative, below core::kMostQuota. Errors: the rule and an example.
Result<std::int64_t> parse_amount(std::string_view text, core::DimensionKind kind);

// Reads back to the same amount; "unlimited" for core::kUnlimited.
std::string amount_text(std::int64_t amount, core::DimensionKind kind);

// "500ms", "90s", "10min", "2h", "7d": the largest unit that is exact.
std::string duration_text(Duration duration);

}  // namespace berth::config
