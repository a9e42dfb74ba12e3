// GroupMinima: a tree of minima over a range of positions, for the members of one group.
//
// The leaves live outside (cost and group of every position); a block of 16 positions has its
// minimum here, 16 blocks have theirs above it, and so on. Looking for the first position whose
// cost is at most a bound costs one descent. Requires: the caller calls raised()/lowered() after
// each change of a leaf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace berth::core {

struct Span {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

// The costs and groups of all positions of one plane.
struct Leaves {
  const std::vector<std::int64_t>& base;
  const std::vector<std::uint16_t>& group;
};

class GroupMinima {
 public:
  GroupMinima() = default;
  GroupMinima(Span range, std::uint16_t group);

  std::int64_t least() const { return levels_.empty() ? kNone : levels_.back().front(); }

  // Building from nothing: clear(), gather() every member, close().
  void clear();
  void gather(std::size_t position, std::int64_t cost) {
    std::int64_t& least = levels_.front()[(position - range_.first) >> kShift];
    least = cost < least ? cost : least;
  }
  void close();
  // A member came in at this position or became cheaper.
  void lowered(std::size_t position, std::int64_t cost);
  // A member whose cost was `before` left this position or became dearer.
  void raised(const Leaves& leaves, std::size_t position, std::int64_t before);
  // The lowest position of a member whose cost is at most `bound`. Requires least() <= bound.
  std::size_t first_at_most(const Leaves& leaves, std::int64_t bound) const;

  static constexpr std::int64_t kNone = INT64_MAX;

 private:
  static constexpr std::size_t kShift = 4;
  static constexpr std::size_t kWidth = std::size_t{1} << kShift;

  std::int64_t block_minimum(const Leaves& leaves, std::size_t block) const;

  Span range_;
  std::uint16_t group_ = 0;
  std::vector<std::vector<std::int64_t>> levels_;  // [0] = blocks of leaves
};

}  // namespace berth::core
