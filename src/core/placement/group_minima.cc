#include "core/placement/group_minima.h"

#include <algorithm>

#include "base/assert.h"

namespace berth::core {

GroupMinima::GroupMinima(Span range, std::uint16_t group) : range_(range), group_(group) {
  std::size_t size = range.count;
  do {
    size = (size + kWidth - 1) >> kShift;
    levels_.emplace_back(std::max<std::size_t>(size, 1), kNone);
  } while (size > 1);
}

void GroupMinima::clear() {
  for (std::vector<std::int64_t>& level : levels_) {
    std::ranges::fill(level, kNone);
  }
}

void GroupMinima::close() {
  for (std::size_t depth = 0; depth + 1 < levels_.size(); ++depth) {
    for (std::size_t at = 0; at < levels_[depth].size(); ++at) {
      std::int64_t& above = levels_[depth + 1][at >> kShift];
      above = std::min(above, levels_[depth][at]);
    }
  }
}

void GroupMinima::lowered(std::size_t position, std::int64_t cost) {
  std::size_t at = position - range_.first;
  for (std::vector<std::int64_t>& level : levels_) {
    at >>= kShift;
    if (level[at] <= cost) {
      return;
    }
    level[at] = cost;
  }
}

std::int64_t GroupMinima::block_minimum(const Leaves& leaves, std::size_t block) const {
  const std::size_t first = range_.first + (block << kShift);
  const std::size_t last = std::min<std::size_t>(first + kWidth, range_.first + range_.count);
  std::int64_t least = kNone;
  for (std::size_t position = first; position < last; ++position) {
    const std::int64_t cost = leaves.group[position] == group_ ? leaves.base[position] : kNone;
    least = std::min(least, cost);
  }
  return least;
}

void GroupMinima::raised(const Leaves& leaves, std::size_t position, std::int64_t before) {
  std::size_t at = (position - range_.first) >> kShift;
  if (levels_.front()[at] != before) {
    return;
  }
  std::int64_t now = block_minimum(leaves, at);
  for (std::size_t depth = 0;; ++depth) {
    std::vector<std::int64_t>& level = levels_[depth];
    const std::int64_t old = level[at];
    if (now == old) {
      return;
    }
    level[at] = now;
    if (depth + 1 == levels_.size()) {
      return;
    }
    const std::size_t parent = at >> kShift;
    if (levels_[depth + 1][parent] != old) {
      return;
    }
    const std::size_t first = parent << kShift;
    const std::size_t last = std::min(first + kWidth, level.size());
    now = *std::min_element(level.begin() + static_cast<std::ptrdiff_t>(first),
                            level.begin() + static_cast<std::ptrdiff_t>(last));
    at = parent;
  }
}

std::size_t GroupMinima::first_at_most(const Leaves& leaves, std::int64_t bound) const {
  std::size_t at = 0;
  for (std::size_t depth = levels_.size(); depth-- > 0;) {
    const std::vector<std::int64_t>& level = levels_[depth];
    while (level[at] > bound) {
      ++at;
      ASSERT(at < level.size(), bound, at);
    }
    at <<= kShift;
  }
  std::size_t position = range_.first + at;
  while (leaves.group[position] != group_ || leaves.base[position] > bound) {
    ++position;
    ASSERT(position < range_.first + range_.count, position, bound);
  }
  return position;
}

}  // namespace berth::core
