// Every placement of a tiny gang, one after the other: what the engine's answers about gangs and
// topology are held against. Shares nothing with the engine but the words of
// queues-gangs-topology.md 6 and 8.
//
//   BruteWorld world{.nodes = {{.domains = {0, 0}, .devices = {{.size = 4, .free = 4}}}}};
//   BruteGroup gang{.min = 2, .members = {{.mib = 2}, {.mib = 2}}, .rule = {.required = 1}};
//   can_start(world, gang);                   // true: both on the one device
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace berth::brute {

struct BruteDevice {
  std::int64_t size = 0;  // MiB
  std::int64_t free = 0;
};

struct BruteNode {
  std::vector<int> domains;  // by level, widest first; -1: its labels name none
  std::vector<BruteDevice> devices;
};

struct BruteWorld {
  std::vector<BruteNode> nodes;
};

struct BruteMember {
  int devices = 1;       // distinct ones of one node
  std::int64_t mib = 0;  // of each; ignored for whole ones
  bool whole = false;
  bool operator==(const BruteMember&) const = default;
};

inline constexpr int kAnyLevel = -1;

struct BruteRule {
  int required = kAnyLevel;
  int preferred = kAnyLevel;
  int segment_level = kAnyLevel;
  int segment_size = 0;
};

struct BruteGroup {
  int min = 0;                       // members of a leaf, groups of an inner group
  std::vector<BruteMember> members;  // of a leaf, in the order of their index
  std::vector<BruteGroup> groups;
  BruteRule rule;
};

struct BrutePlace {
  int node = 0;
  unsigned devices = 0;  // mask
};

// Whether the minimum of every group that is needed fits, all together.
bool can_start(const BruteWorld& world, const BruteGroup& gang);
// Whether the first `count` members of a leaf fit, as its rule says.
bool can_hold(const BruteWorld& world, const BruteGroup& leaf, int count);
// The same, all of them in one domain of the level.
bool can_hold_in(const BruteWorld& world, const BruteGroup& leaf, int count, int level);
// Whether one more member fits where the others stand. `standing`: by member, those of node -1 do
// not run.
bool can_join(const BruteWorld& world, const BruteGroup& leaf,
              const std::vector<BrutePlace>& standing, std::size_t member);

// Takes the place in the world; false: it is not free.
bool take(BruteWorld& world, const BruteMember& member, const BrutePlace& place);

// The first rule that a placement breaks, in words. `places`: by leaf, in the order of a walk
// through the tree, by member; node -1: it does not run.
std::string broken_rule(const BruteWorld& world, const BruteGroup& gang,
                        const std::vector<std::vector<BrutePlace>>& places);

}  // namespace berth::brute
