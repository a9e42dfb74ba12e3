// Gang: the tree of groups that a workload of several members consists of. Values.
//
// An inner group counts groups, a leaf counts members; the unit of decision is the whole tree
// (queues-gangs-topology.md 6). Members above a leaf's minimum are surplus: placed one by one when
// there is room, first to leave.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "core/model/request.h"

namespace berth::core {

// Segments: member index / size (rounded down) is a segment, and each lies in one domain of the
// level.
struct SegmentRule {
  std::string level = {};
  std::int64_t size = 0;
  bool operator==(const SegmentRule&) const = default;
};

// Where the members of a group may stand in relation to each other. Levels are node label keys.
struct TopologyRule {
  std::string topology = {};               // its name; empty = the only one there is
  std::string required = {};               // all members in one domain of this level
  std::string preferred = {};              // start there and climb until one domain fits
  std::vector<SegmentRule> segments = {};  // at most 3, widest first
  bool any() const { return !required.empty() || !preferred.empty() || !segments.empty(); }
  bool operator==(const TopologyRule&) const = default;
};

// Members that ask for the same. Called `name` when there is one, else `name-0`, `name-1` …
struct MemberSet {
  std::string name;
  std::int64_t count = 1;
  Request request;
  std::optional<std::int64_t> priority;  // among the members of the leaf: higher placed first
  bool operator==(const MemberSet&) const = default;
};

struct Group {
  std::string name;                // unique in the tree; the root's may be empty
  std::vector<Group> groups;       // an inner group: no members
  std::int64_t min_groups = 0;     // of `groups` that must run; 0 = all
  std::vector<MemberSet> members;  // that exist
  std::int64_t min = 0;            // members that must run; 0 = all that are declared
  std::int64_t count = 0;          // members declared; 0 = those that exist
  TopologyRule topology;
  bool is_leaf() const { return groups.empty(); }
  std::int64_t exist() const;     // members of a leaf
  std::int64_t declared() const;  // of a leaf: the larger of count and exist()
  std::int64_t minimum() const;   // of a leaf: min, or declared()
  bool operator==(const Group&) const = default;
};

struct GangOptions {
  std::optional<Duration> stale_grace;  // empty = the engine's 60 s; negative = never; 0 = at once
  std::optional<Duration> start_timeout;  // empty = the engine's 30 min
  std::optional<Duration> recovery_timeout;
  bool whole_only = false;  // disruptionMode all: surplus never goes alone
  bool operator==(const GangOptions&) const = default;
};

struct Gang {
  Group root;
  GangOptions options;
  bool operator==(const Gang&) const = default;
};

inline constexpr std::size_t kMostGroupDepth = 8;
inline constexpr std::int64_t kMostMembers = 100'000;

// The rules of a tree: names present and unique, a minimum that does not exceed its count, members
// in leaves only, at most 3 segment rules whose sizes divide each other, narrower inside wider, at
// most kMostGroupDepth levels and kMostMembers members. Error invalid_argument with field, value,
// rule.
Result<void> check_group(const Group& root);

// What the members of a set are called: `name` alone, or `name-0` … `name-(count-1)`.
std::string member_name(const MemberSet& set, std::int64_t index);

}  // namespace berth::core
