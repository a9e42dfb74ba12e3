#include "core/model/gang.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace berth::core {

std::int64_t Group::exist() const {
  std::int64_t sum = 0;
  for (const MemberSet& set : members) {
    sum += set.count;
  }
  return sum;
}

std::int64_t Group::declared() const { return std::max(count, exist()); }

std::int64_t Group::minimum() const { return min > 0 ? min : declared(); }

std::string member_name(const MemberSet& set, std::int64_t index) {
  return set.count == 1 ? set.name : fmt::format("{}-{}", set.name, index);
}

namespace {

constexpr std::size_t kMostSegments = 3;

struct Seen {
  std::set<std::string> groups;
  std::set<std::string> members;
  std::int64_t count = 0;
};

std::string called(const Group& group) {
  return group.name.empty() ? "the gang" : fmt::format("group {}", group.name);
}

Result<void> check_segments(const Group& group) {
  const std::vector<SegmentRule>& segments = group.topology.segments;
  if (segments.size() > kMostSegments) {
    return invalid_argument(fmt::format("{}: {} layers of segments; there may be at most {}",
                                        called(group), segments.size(), kMostSegments));
  }
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].level.empty() || segments[i].size < 1) {
      return invalid_argument(
          fmt::format("{}: segment {} has level \"{}\" and size {}; it needs a level and a size of "
                      "at least 1",
                      called(group), i + 1, segments[i].level, segments[i].size));
    }
    if (i > 0 && (segments[i - 1].size % segments[i].size != 0 ||
                  segments[i - 1].size == segments[i].size)) {
      return invalid_argument(
          fmt::format("{}: a segment of {} members cannot be cut into segments of {}; each layer "
                      "must divide the one around it",
                      called(group), segments[i - 1].size, segments[i].size));
    }
  }
  return success();
}

Result<void> check_members(const Group& group, Seen& seen) {
  for (const MemberSet& set : group.members) {
    if (set.name.empty()) {
      return invalid_argument(
          fmt::format("{}: a member without a name; every member needs one", called(group)));
    }
    if (set.count < 1 || set.count > kMostMembers) {
      return invalid_argument(fmt::format("{}: {} has count {}; it must lie between 1 and {}",
                                          called(group), set.name, set.count, kMostMembers));
    }
    seen.count += set.count;
    if (seen.count > kMostMembers) {
      return invalid_argument(fmt::format("a gang has at most {} members", kMostMembers));
    }
    for (std::int64_t i = 0; i < set.count; ++i) {
      const std::string name = member_name(set, i);
      if (!seen.members.insert(name).second) {
        return invalid_argument(fmt::format(
            "{}: two members are called {}; names must differ within a gang", called(group), name));
      }
    }
  }
  if (group.min < 0 || group.count < 0 || group.count > kMostMembers) {
    return invalid_argument(fmt::format("{}: min is {} and count {}; they lie between 0 and {}",
                                        called(group), group.min, group.count, kMostMembers));
  }
  if (group.declared() == 0) {
    return invalid_argument(fmt::format(
        "{} has no members and declares none; give it members or a count", called(group)));
  }
  if (group.minimum() > group.declared()) {
    return invalid_argument(
        fmt::format("{}: min is {} but there are only {} members; lower min or add members",
                    called(group), group.min, group.declared()));
  }
  return success();
}

Result<void> check(const Group& group, Seen& seen, std::size_t depth) {
  if (depth > kMostGroupDepth) {
    return invalid_argument(
        fmt::format("{}: groups are nested deeper than {}", called(group), kMostGroupDepth));
  }
  if (depth > 1 && group.name.empty()) {
    return invalid_argument("a group without a name; every group below the root needs one");
  }
  if (!group.name.empty() && !seen.groups.insert(group.name).second) {
    return invalid_argument(fmt::format(
        "two groups are called {}; a group cannot be its own subgroup, and names must differ",
        group.name));
  }
  TRY_VOID(check_segments(group));
  if (group.is_leaf()) {
    if (group.min_groups != 0) {
      return invalid_argument(fmt::format("{}: min_groups is {} but it has no groups; use min",
                                          called(group), group.min_groups));
    }
    return check_members(group, seen);
  }
  if (!group.members.empty() || group.min != 0 || group.count != 0) {
    return invalid_argument(fmt::format(
        "{} has both groups and members of its own; put the members into a group", called(group)));
  }
  if (group.min_groups < 0 || group.min_groups > static_cast<std::int64_t>(group.groups.size())) {
    return invalid_argument(
        fmt::format("{}: min_groups is {} but it has {} groups; lower min_groups or add groups",
                    called(group), group.min_groups, group.groups.size()));
  }
  for (const Group& inner : group.groups) {
    TRY_VOID(check(inner, seen, depth + 1));
  }
  return success();
}

}  // namespace

Result<void> check_group(const Group& root) {
  Seen seen;
  return check(root, seen, 1);
}

}  // namespace berth::core
