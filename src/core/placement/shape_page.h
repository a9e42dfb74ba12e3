// ShapePage: every node's last answer to one shape, arranged so that the cheapest is found at once.
//
// Positions are nodes in (domain, tie rank, name) order. An open node that fits is a member of one
// or two groups (a group = domain and lost hosts): plane 0 holds its first way, plane 1 its second
// if it has one. A minimum tree per group and plane finds the first position at or below a bound.
// Many answers at once are cheaper between start_bulk() and finish_bulk(), which makes the trees
// anew. Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/model/verdict.h"
#include "core/placement/group_minima.h"
#include "core/placement/policy.h"

namespace berth::core {

// How many present nodes refuse a shape, by reason; index = Cause.
using RefusalCounts = std::array<std::int64_t, kCauseCount>;

struct NodeAnswer {
  Cause cause = Cause::none;  // none: it fits, in the ways that the candidates name
  Candidates candidates;
};

enum class Standing : std::uint8_t {
  open,
  guarded,  // part of it is reserved: judged one by one outside the page
  absent,
};

class ShapePage {
 public:
  bool built() const { return built_; }
  std::uint64_t seen = 0;  // change log position up to which the answers are fresh
  std::uint64_t used = 0;  // when it was asked for last, in questions

  // Forgets everything; bulk is on.
  void reset(std::size_t positions, std::span<const Span> domains);
  void start_bulk() { bulk_ = true; }
  void finish_bulk();
  void put(std::size_t position, std::uint16_t domain, Standing standing, const NodeAnswer& answer);

  bool takes(std::size_t position) const { return (group_[0][position] & kRefused) == 0; }
  std::int64_t feasible() const { return feasible_; }
  const RefusalCounts& refusals() const { return refusals_; }
  std::span<const GroupKey> groups() const { return keys_; }

  // Offsets are by group. The least rounded cost, kNoCost when nothing fits.
  std::int64_t least_cost(std::span<const std::int64_t> offsets, std::int64_t grain) const;
  // Calls visit(position) with each group's first position whose cost is at most `bound`.
  template <typename Visit>
  void for_each_first(std::span<const std::int64_t> offsets, std::int64_t bound,
                      const Visit& visit) const {
    for (std::size_t i = 0; i < minima_.size(); ++i) {
      const std::int64_t least = minima_[i].least();
      if (least != kNoCost && least <= bound - offsets[i / 2]) {
        const std::size_t plane = i % 2;
        visit(minima_[i].first_at_most({base_[plane], group_[plane]}, bound - offsets[i / 2]));
      }
    }
  }
  // Which of a position's ways is the cheaper one: the first on equality (placement.md 5.5).
  int way_at(std::size_t position, std::span<const std::int64_t> offsets) const;
  bool opens_idle(std::size_t position, int way) const {
    return ((unsigned{opens_[position]} >> static_cast<unsigned>(way)) & 1U) != 0;
  }

 private:
  static constexpr std::uint16_t kRefused = 0x8000;  // plane 0: the low bits are the cause
  static constexpr std::uint16_t kNoGroup = 0xFFFF;
  static constexpr std::uint16_t kGuarded = 0xC000;

  void uncount(std::uint16_t group);
  void clear_plane(std::size_t plane, std::size_t position);
  void set_plane(std::size_t plane, std::size_t position, const Candidate& candidate,
                 std::uint16_t domain);
  std::uint16_t group_for(GroupKey key);

  std::size_t positions_ = 0;
  std::span<const Span> domains_;
  bool built_ = false;
  bool bulk_ = false;
  std::array<std::vector<std::int64_t>, 2> base_;    // by plane, by position
  std::array<std::vector<std::uint16_t>, 2> group_;  // plane 1 is empty until somebody needs it
  std::vector<std::uint8_t> opens_;                  // bit per plane
  std::vector<GroupKey> keys_;                       // by group
  std::vector<GroupMinima> minima_;                  // 2 x group + plane
  std::uint16_t last_group_ = 0;
  RefusalCounts refusals_{};
  std::int64_t feasible_ = 0;
};

}  // namespace berth::core
