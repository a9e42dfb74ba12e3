// The keys that a gang has at its root and in every group. Inside the room only.
#pragma once

#include "scenario/sections.h"

namespace berth::scenario {

inline constexpr KeyDoc kMembersKey{
    .name = "members",
    .type = "number or list of member",
    .summary =
        "those that start together: so many alike (`worker-0`, `worker-1` …; in a group "
        "`GROUP-0` …; without a number where it is one), or described one by one. They are "
        "tasks named `GANG/MEMBER`",
    .example = "4"};
inline constexpr KeyDoc kMinKey{.name = "min",
                                .type = "number",
                                .summary =
                                    "members that must run; all when not said. Those above "
                                    "it are placed where there is room, and leave first",
                                .example = "3"};
inline constexpr KeyDoc kCountKey{
    .name = "count",
    .type = "number",
    .summary = "members that there will be, where some join later; those given when not said",
    .example = "4"};
inline constexpr KeyDoc kGroupsKey{.name = "groups",
                                   .type = "list of group",
                                   .summary = "parts that start together, instead of `members`",
                                   .example = "[{name: left, members: 2, gpu_memory: 4GiB}]"};
inline constexpr KeyDoc kMinGroupsKey{.name = "min_groups",
                                      .type = "number",
                                      .summary = "groups that must run; all when not said",
                                      .example = "1"};
inline constexpr KeyDoc kTopologyKey{.name = "topology",
                                     .type = "group topology",
                                     .summary = "where its members stand to each other",
                                     .example = "{required: rack}"};

Result<void> read_member_list(const Value& value, GroupDraft& draft);
Result<void> read_group_list(const Value& value, GroupDraft& draft);

inline GroupDraft& group_of(GroupDraft& draft) { return draft; }

inline GroupDraft& group_of(SubmitDraft& draft) {
  draft.is_gang = true;
  return draft.root;
}

template <typename T>
Result<void> read_members(const Value& value, T& draft) {
  return read_member_list(value, group_of(draft));
}

template <typename T>
Result<void> read_groups(const Value& value, T& draft) {
  return read_group_list(value, group_of(draft));
}

template <typename T>
Result<void> read_min(const Value& value, T& draft) {
  TRY(group_of(draft).group.min, value.number(1, core::kMostMembers));
  return success();
}

template <typename T>
Result<void> read_count(const Value& value, T& draft) {
  TRY(group_of(draft).group.count, value.number(1, core::kMostMembers));
  return success();
}

template <typename T>
Result<void> read_min_groups(const Value& value, T& draft) {
  TRY(group_of(draft).group.min_groups, value.number(1, core::kMostMembers));
  return success();
}

template <typename T>
Result<void> read_topology_rule(const Value& value, T& draft) {
  return read_section(topology_rule_section(), value, group_of(draft).group.topology);
}

}  // namespace berth::scenario
