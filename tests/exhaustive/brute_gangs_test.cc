#include "brute_gangs_test.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace berth::brute {

namespace {

constexpr int kNowhere = -1;

// One that has to be placed: which member of which leaf, and the groups above it, itself included.
struct Needed {
  const BruteGroup* leaf = nullptr;
  int index = 0;
  std::vector<const BruteGroup*> path;
};

struct Standing {
  Needed who;
  BrutePlace where;
};

int domain_of(const BruteWorld& world, int node, int level) {
  return world.nodes[static_cast<std::size_t>(node)].domains[static_cast<std::size_t>(level)];
}

bool together(const BruteWorld& world, int node, int other, int level) {
  const int domain = domain_of(world, node, level);
  return domain != kNowhere && domain == domain_of(world, other, level);
}

// Whether the rules let the member stand on the node, beside the others.
bool may_stand(const BruteWorld& world, const std::vector<Standing>& others, const Needed& who,
               int node) {
  for (const BruteGroup* group : who.path) {
    const int level = group->rule.required;
    if (level == kAnyLevel) {
      continue;
    }
    if (domain_of(world, node, level) == kNowhere) {
      return false;
    }
    for (const Standing& other : others) {
      if (std::ranges::find(other.who.path, group) != other.who.path.end() &&
          !together(world, node, other.where.node, level)) {
        return false;
      }
    }
  }
  const BruteRule& rule = who.leaf->rule;
  if (rule.segment_level == kAnyLevel) {
    return true;
  }
  if (domain_of(world, node, rule.segment_level) == kNowhere) {
    return false;
  }
  return std::ranges::none_of(others, [&](const Standing& other) {
    return other.who.leaf == who.leaf &&
           other.who.index / rule.segment_size == who.index / rule.segment_size &&
           !together(world, node, other.where.node, rule.segment_level);
  });
}

std::int64_t taken_of(const BruteDevice& device, const BruteMember& member) {
  return member.whole ? device.size : member.mib;
}

void give_back(BruteWorld& world, const BruteMember& member, const BrutePlace& place) {
  std::vector<BruteDevice>& devices = world.nodes[static_cast<std::size_t>(place.node)].devices;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if ((place.devices >> i & 1U) != 0) {
      devices[i].free += taken_of(devices[i], member);
    }
  }
}

std::vector<BrutePlace> places_of(const BruteWorld& world, const BruteMember& member) {
  std::vector<BrutePlace> places;
  for (std::size_t node = 0; node < world.nodes.size(); ++node) {
    const std::size_t many = world.nodes[node].devices.size();
    for (unsigned mask = 1; mask < (1U << many); ++mask) {
      if (std::popcount(mask) == member.devices) {
        places.push_back({.node = static_cast<int>(node), .devices = mask});
      }
    }
  }
  return places;
}

using Accept = std::function<bool(const std::vector<Standing>&)>;

// Every way to place those from `next` on.
bool place_from(BruteWorld& world, const std::vector<Needed>& needed, std::size_t next,
                std::vector<Standing>& standing, const Accept& accept) {
  if (next == needed.size()) {
    return accept(standing);
  }
  const Needed& who = needed[next];
  const BruteMember& asks = who.leaf->members[static_cast<std::size_t>(who.index)];
  for (const BrutePlace& place : places_of(world, asks)) {
    if (!may_stand(world, standing, who, place.node)) {
      continue;
    }
    if (!take(world, asks, place)) {
      continue;
    }
    standing.push_back({who, place});
    const bool found = place_from(world, needed, next + 1, standing, accept);
    standing.pop_back();
    give_back(world, asks, place);
    if (found) {
      return true;
    }
  }
  return false;
}

bool can_place(
    const BruteWorld& world, const std::vector<Needed>& needed, std::vector<Standing> standing = {},
    const Accept& accept = [](const auto&) { return true; }) {
  BruteWorld copy = world;
  return place_from(copy, needed, 0, standing, accept);
}

using Chosen = std::vector<Needed>;
using Visit = std::function<bool(const Chosen&)>;

// Every choice of who runs so that the group has its minimum.
bool choose(const BruteGroup& group, std::vector<const BruteGroup*> path, const Visit& visit) {
  path.push_back(&group);
  const bool leaf = group.groups.empty();
  const std::size_t many = leaf ? group.members.size() : group.groups.size();
  for (unsigned mask = 0; mask < (1U << many); ++mask) {
    if (std::popcount(mask) != group.min) {
      continue;
    }
    // Segments are counted in the order of members: the first ones run.
    if (leaf && group.rule.segment_level != kAnyLevel && mask != (1U << group.min) - 1) {
      continue;
    }
    const std::function<bool(std::size_t, const Chosen&)> extend = [&](std::size_t from,
                                                                       const Chosen& so_far) {
      if (from == many) {
        return visit(so_far);
      }
      if ((mask >> from & 1U) == 0) {
        return extend(from + 1, so_far);
      }
      if (leaf) {
        Chosen more = so_far;
        more.push_back({.leaf = &group, .index = static_cast<int>(from), .path = path});
        return extend(from + 1, more);
      }
      return choose(group.groups[from], path, [&](const Chosen& inside) {
        Chosen more = so_far;
        more.insert(more.end(), inside.begin(), inside.end());
        return extend(from + 1, more);
      });
    };
    if (extend(0, {})) {
      return true;
    }
  }
  return false;
}

Chosen first_of(const BruteGroup& leaf, int count) {
  Chosen needed;
  for (int i = 0; i < count; ++i) {
    needed.push_back({.leaf = &leaf, .index = i, .path = {&leaf}});
  }
  return needed;
}

}  // namespace

bool take(BruteWorld& world, const BruteMember& member, const BrutePlace& place) {
  std::vector<BruteDevice>& devices = world.nodes[static_cast<std::size_t>(place.node)].devices;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if ((place.devices >> i & 1U) != 0 && devices[i].free < taken_of(devices[i], member)) {
      return false;
    }
  }
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if ((place.devices >> i & 1U) != 0) {
      devices[i].free -= taken_of(devices[i], member);
    }
  }
  return true;
}

bool can_start(const BruteWorld& world, const BruteGroup& gang) {
  return choose(gang, {}, [&](const Chosen& needed) { return can_place(world, needed); });
}

bool can_hold(const BruteWorld& world, const BruteGroup& leaf, int count) {
  return can_place(world, first_of(leaf, count));
}

bool can_hold_in(const BruteWorld& world, const BruteGroup& leaf, int count, int level) {
  return can_place(world, first_of(leaf, count), {}, [&](const std::vector<Standing>& all) {
    return std::ranges::all_of(all, [&](const Standing& one) {
      return together(world, one.where.node, all.front().where.node, level);
    });
  });
}

bool can_join(const BruteWorld& world, const BruteGroup& leaf,
              const std::vector<BrutePlace>& standing, std::size_t member) {
  std::vector<Standing> others;
  for (std::size_t i = 0; i < standing.size(); ++i) {
    if (standing[i].node != kNowhere) {
      others.push_back(
          {{.leaf = &leaf, .index = static_cast<int>(i), .path = {&leaf}}, standing[i]});
    }
  }
  return can_place(world, {{.leaf = &leaf, .index = static_cast<int>(member), .path = {&leaf}}},
                   others);
}

std::string broken_rule(const BruteWorld& world, const BruteGroup& gang,
                        const std::vector<std::vector<BrutePlace>>& places) {
  BruteWorld left = world;
  std::vector<Standing> standing;
  std::size_t leaf_number = 0;
  std::string wrong;
  const std::function<bool(const BruteGroup&, std::vector<const BruteGroup*>)> visit =
      [&](const BruteGroup& group, std::vector<const BruteGroup*> path) {
        path.push_back(&group);
        int complete = 0;
        for (const BruteGroup& inner : group.groups) {
          complete += visit(inner, path) ? 1 : 0;
        }
        if (!group.groups.empty()) {
          return complete >= group.min;
        }
        const std::vector<BrutePlace>& here = places[leaf_number++];
        for (std::size_t i = 0; i < here.size(); ++i) {
          if (here[i].node == kNowhere) {
            continue;
          }
          ++complete;
          const Needed who{.leaf = &group, .index = static_cast<int>(i), .path = path};
          if (!may_stand(left, standing, who, here[i].node)) {
            wrong = "a topology rule";
          }
          if (!take(left, group.members[i], here[i])) {
            wrong = "the memory of a device";
          }
          standing.push_back({who, here[i]});
        }
        return complete >= group.min;
      };
  const bool complete = visit(gang, {});
  return !wrong.empty() ? wrong : complete ? "" : "the minimum";
}

}  // namespace berth::brute
