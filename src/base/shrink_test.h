// Shrinking for our own random tests: the shortest failing sequence that leaving out steps can
// reach.
//
//   const auto shortest = shrink(ops, [](std::span<const Op> ops) { return fails(ops); });
//
// Requires: any subsequence can be run (operations name things so that they stay meaningful, or are
// skipped). Deterministic, no randomness; tries long stretches first.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <vector>

namespace berth {

template <class Op, std::predicate<const std::vector<Op>&> Fails>
std::vector<Op> shrink(std::vector<Op> ops, Fails fails) {
  for (std::size_t length = ops.size() / 2; length > 0;) {
    bool shorter = false;
    for (std::size_t from = 0; from < ops.size();) {
      std::vector<Op> without = ops;
      const auto first = without.begin() + static_cast<std::ptrdiff_t>(from);
      without.erase(first,
                    first + static_cast<std::ptrdiff_t>(std::min(length, ops.size() - from)));
      if (fails(without)) {
        ops = std::move(without);
        shorter = true;
      } else {
        from += length;
      }
    }
    if (!shorter) {
      length /= 2;
    }
  }
  return ops;
}

}  // namespace berth
