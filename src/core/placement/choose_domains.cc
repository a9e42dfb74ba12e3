#include "core/placement/choose_domains.h"

#include <algorithm>
#include <tuple>

#include "base/assert.h"
#include "core/placement/domain_rooms.h"

namespace berth::core {

namespace {

enum class Order : std::uint8_t { best_fit, least_free };

// What one part gets of the load of all.
struct Given {
  std::size_t part = 0;
  Load load;
};

bool holds(const Part& part, const Load& load) {
  return part.room.units[load.beside] >= load.units && part.room.units[load.beside] != kNoRoom;
}

// The tightest of the parts that can hold the load alone: fewest whole units, then members, then
// the smallest hole, so that larger ones stay elsewhere, then the order of ties. parts.size():
// none.
std::size_t tightest(const DomainRooms& rooms, const std::vector<Part>& parts, const Load& load,
                     const std::vector<bool>& taken) {
  const auto size = [&](std::size_t i) {
    return std::pair(parts[i].room.units[kNothing], parts[i].members);
  };
  std::size_t best = parts.size();
  std::int64_t best_hole = -1;  // asked for only among equals
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (taken[i] || !holds(parts[i], load)) {
      continue;
    }
    if (best == parts.size() || size(i) < size(best)) {
      best = i;
      best_hole = -1;
    } else if (size(i) == size(best)) {
      best_hole = best_hole < 0 ? rooms.hole(parts[best]) : best_hole;
      const std::int64_t hole = rooms.hole(parts[i]);
      if (hole < best_hole) {
        best = i;
        best_hole = hole;
      }
    }
  }
  return best;
}

// Which parts take what stands beside the units, so that the most units fit.
class Sharing {
 public:
  Sharing(const std::vector<Part>& parts, unsigned beside) : parts_(parts) {
    if (beside == (kLeader | kRest)) {
      const Two leader = least_loss(kLeader);
      const Two rest = least_loss(kRest);
      try_pair(least_loss(beside)[0], beside, parts.size(), kNothing);
      for (const std::size_t a : leader) {
        for (const std::size_t b : rest) {
          if (a != b) {
            try_pair(a, kLeader, b, kRest);
          }
        }
      }
    } else if (beside != kNothing) {
      try_pair(least_loss(beside)[0], beside, parts.size(), kNothing);
    }
  }

  // In the order in which they are served. Parts not named take nothing beside.
  const std::vector<std::pair<std::size_t, unsigned>>& best() const { return best_; }

 private:
  using Two = std::array<std::size_t, 2>;

  std::int64_t loss(std::size_t part, unsigned beside) const {
    return parts_[part].room.units[kNothing] - parts_[part].room.units[beside];
  }

  // The two parts that lose least; parts_.size(): there is none.
  Two least_loss(unsigned beside) const {
    Two two{parts_.size(), parts_.size()};
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].room.units[beside] == kNoRoom) {
        continue;
      }
      if (two[0] == parts_.size() || loss(i, beside) < loss(two[0], beside)) {
        two = {i, two[0]};
      } else if (two[1] == parts_.size() || loss(i, beside) < loss(two[1], beside)) {
        two[1] = i;
      }
    }
    return two;
  }

  void try_pair(std::size_t a, unsigned beside_a, std::size_t b, unsigned beside_b) {
    if (a == parts_.size() || (beside_b != kNothing && b == parts_.size())) {
      return;
    }
    const std::int64_t lost = loss(a, beside_a) + (beside_b == kNothing ? 0 : loss(b, beside_b));
    if (best_.empty() || lost < least_) {
      least_ = lost;
      best_ = {{a, beside_a}};
      if (beside_b != kNothing) {
        best_.emplace_back(b, beside_b);
      }
    }
  }

  const std::vector<Part>& parts_;
  std::int64_t least_ = 0;
  std::vector<std::pair<std::size_t, unsigned>> best_;
};

// Divides a load that all parts together can hold. The part with the rest comes last: the rest is
// the segment with the highest index.
std::vector<Given> divide(const DomainRooms& rooms, const std::vector<Part>& parts,
                          const Load& load, Order order) {
  std::vector<Given> given;
  std::vector<bool> taken(parts.size());
  std::int64_t left = load.units;
  const auto give = [&](std::size_t part, unsigned beside) {
    const std::int64_t units = std::min(left, parts[part].room.units[beside]);
    given.push_back({.part = part, .load = {.units = units, .beside = beside}});
    taken[part] = true;
    left -= units;
  };
  if (order == Order::best_fit || load.units == 0) {
    if (const std::size_t one = tightest(rooms, parts, load, taken); one < parts.size()) {
      give(one, load.beside);
      return given;
    }
  }
  const Sharing sharing(parts, load.beside);
  for (const auto& [part, beside] : sharing.best()) {
    give(part, beside);
  }
  std::vector<std::size_t> sorted;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!taken[i] && parts[i].room.units[kNothing] > 0) {
      sorted.push_back(i);
    }
  }
  std::ranges::stable_sort(sorted, [&](std::size_t a, std::size_t b) {
    const std::int64_t sign = order == Order::best_fit ? -1 : 1;
    return std::pair(sign * parts[a].room.units[kNothing], parts[a].members) <
           std::pair(sign * parts[b].room.units[kNothing], parts[b].members);
  });
  for (const std::size_t i : sorted) {
    if (left == 0) {
      break;
    }
    if (order == Order::best_fit && parts[i].room.units[kNothing] >= left) {
      give(tightest(rooms, parts, {.units = left, .beside = kNothing}, taken), kNothing);
      break;
    }
    give(i, kNothing);
  }
  ASSERT(left == 0, left, load.units, load.beside);
  std::ranges::stable_partition(given, [](const Given& g) { return (g.load.beside & kRest) == 0; });
  return given;
}

class Chooser {
 public:
  Chooser(const MemberCounts& counts, const LevelRule& rule, const DomainAsk& ask)
      : domains_(counts.domains()), rule_(rule), ask_(ask), rooms_(counts, rule, ask) {}

  DomainChoice run() {
    const int start = rule_.preferred != kNoLevel ? rule_.preferred : rule_.required;
    order_ = start == kNoLevel ? Order::least_free : Order::best_fit;
    for (int level = start; level >= rule_.required; --level) {
      const std::vector<Part> parts = candidates(level);
      const std::size_t one =
          tightest(rooms_, parts, rooms_.whole(inner(level)), std::vector<bool>(parts.size()));
      if (one < parts.size()) {
        take(parts[one].domain, level);
        return std::move(choice_);
      }
    }
    choice_.shortage = shortage(rule_.required);
    return std::move(choice_);
  }

  std::vector<DomainId> fitting(int level) {
    std::vector<Part> parts = candidates(level);
    const Load load = rooms_.whole(inner(level));
    std::erase_if(parts, [&](const Part& part) { return !holds(part, load); });
    std::vector<std::pair<std::tuple<std::int64_t, std::int64_t, std::int64_t>, DomainId>> keyed;
    for (const Part& part : parts) {
      keyed.push_back({{part.room.units[kNothing], part.members, rooms_.hole(part)}, part.domain});
    }
    std::ranges::stable_sort(keyed, {}, [](const auto& entry) { return entry.first; });
    std::vector<DomainId> fitting;
    for (const auto& [key, domain] : keyed) {
      fitting.push_back(domain);
    }
    return fitting;
  }

 private:
  // Everything within a domain lies in one domain of its level and of every wider one.
  int inner(int level) const { return std::max(level, domains_.level(ask_.within)); }

  std::vector<Part> candidates(int level) {
    std::vector<Part> parts;
    if (level <= domains_.level(ask_.within)) {
      parts.push_back(rooms_.part(ask_.within));
      return parts;
    }
    for (const DomainId id : domains_.of_level(level)) {
      if (domains_.node_count(id) > 0 && domains_.is_within(id, ask_.within)) {
        parts.push_back(rooms_.part(id));
      }
    }
    return parts;
  }

  void take(DomainId domain, int level) {
    choice_.fits = true;
    choice_.level = level;
    const Load load = rooms_.whole(domains_.level(domain));
    if (order_ == Order::least_free && !ask_.leader) {
      take_flat(domain, load);
    } else {
      descend(domain, load);
    }
    if (choice_.domains.empty()) {
      choice_.domains.push_back(domain);
    }
  }

  // Least free first knows no levels: all nodes stand in one row, or all domains of the widest
  // segment level.
  void take_flat(DomainId domain, const Load& load) {
    const int level = rule_.segments.empty() ? domains_.levels() : rule_.segments.front().level;
    if (domains_.level(domain) >= level) {
      descend(domain, load);
      return;
    }
    std::vector<Part> row;
    collect(domain, level, row);
    hand_out(row, load);
  }

  void collect(DomainId domain, int level, std::vector<Part>& row) {
    for (Part& part : rooms_.parts(domain)) {
      if (!part.domain.is_none() && domains_.level(part.domain) != level) {
        collect(part.domain, level, row);
      } else {
        row.push_back(part);
      }
    }
  }

  void descend(DomainId domain, const Load& load) {
    hand_out(rooms_.parts(domain), rooms_.below(domain, load));
  }

  void hand_out(const std::vector<Part>& parts, const Load& load) {
    const std::vector<Given> given = divide(rooms_, parts, load, order_);
    if (choice_.level == kNoLevel && !named_) {
      for (const Given& g : given) {
        if (!parts[g.part].domain.is_none()) {
          choice_.domains.push_back(parts[g.part].domain);
        }
      }
    }
    named_ = true;
    for (const Given& g : given) {
      const Part& part = parts[g.part];
      if (!part.domain.is_none()) {
        descend(part.domain, g.load);
        continue;
      }
      if (g.load.units > 0) {
        choice_.nodes.push_back({.node = part.node, .members = g.load.units});
      }
      if ((g.load.beside & kLeader) != 0) {
        choice_.leader = part.node;
      }
    }
  }

  // The most members of the ask that the domain holds, in whole segments.
  std::int64_t held(const Part& part, int level) const {
    const auto& units = part.room.units;
    const unsigned leader = ask_.leader && units[kLeader] != kNoRoom ? kLeader : kNothing;
    const std::int64_t whole =
        rooms_.members_of({.units = units[leader], .beside = kNothing}, level);
    const std::int64_t with_rest =
        units[leader | kRest] == kNoRoom
            ? 0
            : rooms_.members_of({.units = units[leader | kRest], .beside = kRest}, level);
    return std::min(ask_.members, std::max(whole, with_rest));
  }

  DomainShortage shortage(int level) {
    DomainShortage shortage{.level = level,
                            .best = DomainId::none(),
                            .fits = 0,
                            .need = ask_.members,
                            .domains = 0,
                            .all_equal = true,
                            .leader_fits = !ask_.leader,
                            .outside = domains_.outside(level)};
    for (const Part& part : candidates(level)) {
      const std::int64_t fits = held(part, inner(level));
      shortage.all_equal = shortage.all_equal && (shortage.domains == 0 || fits == shortage.fits);
      if (shortage.best.is_none() || fits > shortage.fits) {
        shortage.best = part.domain;
        shortage.fits = fits;
      }
      ++shortage.domains;
      shortage.leader_fits = shortage.leader_fits || part.room.units[kLeader] != kNoRoom;
    }
    shortage.all_equal = shortage.all_equal && shortage.domains > 0;
    return shortage;
  }

  const Domains& domains_;
  const LevelRule& rule_;
  const DomainAsk& ask_;
  DomainRooms rooms_;
  Order order_ = Order::best_fit;
  bool named_ = false;
  DomainChoice choice_;
};

}  // namespace

DomainChoice choose_domains(const MemberCounts& counts, const LevelRule& rule,
                            const DomainAsk& ask) {
  return Chooser(counts, rule, ask).run();
}

std::vector<DomainId> fitting_domains(const MemberCounts& counts, const LevelRule& rule,
                                      const DomainAsk& ask, int level) {
  return Chooser(counts, rule, ask).fitting(level);
}

}  // namespace berth::core
