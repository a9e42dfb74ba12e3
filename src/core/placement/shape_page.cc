#include "core/placement/shape_page.h"

#include <algorithm>

#include "base/assert.h"

namespace berth::core {

void ShapePage::reset(std::size_t positions, std::span<const Span> domains) {
  *this = ShapePage();
  positions_ = positions;
  domains_ = domains;
  built_ = bulk_ = true;
  base_[0].assign(positions, kNoCost);
  group_[0].assign(positions, kNoGroup);
  opens_.assign(positions, 0);
}

void ShapePage::finish_bulk() {
  bulk_ = false;
  for (GroupMinima& minima : minima_) {
    minima.clear();
  }
  for (std::size_t plane = 0; plane < 2; ++plane) {
    for (std::size_t position = 0; position < group_[plane].size(); ++position) {
      const std::uint16_t group = group_[plane][position];
      if ((group & kRefused) == 0) {
        minima_[std::size_t{2} * group + plane].gather(position, base_[plane][position]);
      }
    }
  }
  for (GroupMinima& minima : minima_) {
    minima.close();
  }
}

void ShapePage::uncount(std::uint16_t group) {
  if ((group & kRefused) == 0) {
    --feasible_;
  } else if (group != kNoGroup && group != kGuarded) {
    --refusals_[static_cast<std::size_t>(group - kRefused)];
  }
}

void ShapePage::put(std::size_t position, std::uint16_t domain, Standing standing,
                    const NodeAnswer& answer) {
  uncount(group_[0][position]);
  if (standing == Standing::open && answer.cause == Cause::none) {
    ++feasible_;
    set_plane(0, position, answer.candidates.at[0], domain);
    if (answer.candidates.count > 1) {
      set_plane(1, position, answer.candidates.at[1], domain);
    } else {
      clear_plane(1, position);
    }
    return;
  }
  clear_plane(0, position);
  clear_plane(1, position);
  if (standing == Standing::open) {
    group_[0][position] =
        static_cast<std::uint16_t>(kRefused | static_cast<std::uint16_t>(answer.cause));
    ++refusals_[static_cast<std::size_t>(answer.cause)];
  } else {
    group_[0][position] = standing == Standing::guarded ? kGuarded : kNoGroup;
  }
}

std::uint16_t ShapePage::group_for(GroupKey key) {
  if (last_group_ < keys_.size() && keys_[last_group_] == key) {
    return last_group_;
  }
  const auto found = std::ranges::find(keys_, key);
  last_group_ = static_cast<std::uint16_t>(found - keys_.begin());
  if (found == keys_.end()) {
    ASSERT(last_group_ < kRefused, last_group_);
    keys_.push_back(key);
    minima_.emplace_back(domains_[key.domain], last_group_);
    minima_.emplace_back(domains_[key.domain], last_group_);
  }
  return last_group_;
}

void ShapePage::clear_plane(std::size_t plane, std::size_t position) {
  if (group_[plane].empty()) {
    return;
  }
  const std::uint16_t group = group_[plane][position];
  if ((group & kRefused) != 0) {
    return;
  }
  const std::int64_t before = base_[plane][position];
  base_[plane][position] = kNoCost;
  group_[plane][position] = kNoGroup;
  if (!bulk_) {
    minima_[std::size_t{2} * group + plane].raised({base_[plane], group_[plane]}, position, before);
  }
}

void ShapePage::set_plane(std::size_t plane, std::size_t position, const Candidate& candidate,
                          std::uint16_t domain) {
  if (group_[plane].empty()) {
    base_[plane].assign(positions_, kNoCost);
    group_[plane].assign(positions_, kNoGroup);
  }
  const std::uint16_t group = group_for({.domain = domain, .lost = candidate.lost});
  const std::uint16_t old_group = group_[plane][position];
  const std::int64_t before = base_[plane][position];
  const auto bit = static_cast<std::uint8_t>(1U << plane);
  opens_[position] = static_cast<std::uint8_t>(candidate.opens_idle ? opens_[position] | bit
                                                                    : opens_[position] & ~bit);
  base_[plane][position] = candidate.base;
  group_[plane][position] = group;
  if (bulk_ || (old_group == group && before == candidate.base)) {
    return;
  }
  const Leaves leaves{base_[plane], group_[plane]};
  if ((old_group & kRefused) == 0 && (old_group != group || candidate.base > before)) {
    minima_[std::size_t{2} * old_group + plane].raised(leaves, position, before);
  }
  if (old_group != group || candidate.base < before) {
    minima_[std::size_t{2} * group + plane].lowered(position, candidate.base);
  }
}

std::int64_t ShapePage::least_cost(std::span<const std::int64_t> offsets,
                                   std::int64_t grain) const {
  std::int64_t least = kNoCost;
  for (std::size_t i = 0; i < minima_.size(); ++i) {
    if (minima_[i].least() != kNoCost) {
      least = std::min(least, minima_[i].least() + offsets[i / 2]);
    }
  }
  return least == kNoCost ? kNoCost : round_cost(least, grain);
}

int ShapePage::way_at(std::size_t position, std::span<const std::int64_t> offsets) const {
  if (group_[1].empty() || (group_[1][position] & kRefused) != 0) {
    return 0;
  }
  const std::int64_t first = base_[0][position] + offsets[group_[0][position]];
  const std::int64_t second = base_[1][position] + offsets[group_[1][position]];
  return second < first ? 1 : 0;
}

}  // namespace berth::core
