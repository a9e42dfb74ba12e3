// One row of the journal, and its check sum.
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace berth::store {

// The texts belong to somebody else, who must outlive the row.
struct Row {
  std::int64_t seq = 0;    // rows are numbered from 1 in the order they were written
  std::int64_t place = 0;  // the seq of the row with which its record first appeared
  std::string_view kind{};
  std::string_view id{};
  std::optional<std::string_view> body{};  // none: erased
  std::uint64_t sum = 0;                   // sum_of(row)
};

// A 64-bit sum over everything but `sum` itself. Two rows that differ in one field only, by any
// change within eight bytes, never have the same sum; others with a chance of 2^-64. It guards
// against accidents, not against people.
std::uint64_t sum_of(const Row& row);

}  // namespace berth::store
