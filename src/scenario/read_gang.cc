// The words of gangs: groups, members, where they may stand in relation to each other; and the
// topologies that they may name.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "scenario/gang_keys.h"
#include "scenario/request_words.h"
#include "scenario/sections.h"

namespace berth::scenario {

namespace {

constexpr std::string_view kPlainMember = "worker";

// --- topology of a group ---

constexpr std::array kSegmentKeys = {
    Key<core::SegmentRule>{{"level", "text", "each segment lies in one domain of it", "rack", true},
                           [](const Value& value, core::SegmentRule& rule) -> Result<void> {
                             TRY(rule.level, value.word());
                             return success();
                           }},
    Key<core::SegmentRule>{{"size", "number", "members of a segment", "4", true},
                           [](const Value& value, core::SegmentRule& rule) -> Result<void> {
                             TRY(rule.size, value.number(1, core::kMostMembers));
                             return success();
                           }},
};

constexpr std::array kRuleKeys = {
    Key<core::TopologyRule>{
        {"name", "name", "of the topology; the only one there is when not said", "racks"},
        [](const Value& value, core::TopologyRule& rule) -> Result<void> {
          TRY(rule.topology, value.word());
          return success();
        }},
    Key<core::TopologyRule>{{"required", "text", "all members in one domain of this level", "rack"},
                            [](const Value& value, core::TopologyRule& rule) -> Result<void> {
                              TRY(rule.required, value.word());
                              return success();
                            }},
    Key<core::TopologyRule>{
        {"preferred", "text", "in one domain of this level if there is room, else wider", "rack"},
        [](const Value& value, core::TopologyRule& rule) -> Result<void> {
          TRY(rule.preferred, value.word());
          return success();
        }},
    Key<core::TopologyRule>{
        {"segments", "list of segment", "members in order are cut into segments; widest first",
         "[{level: rack, size: 4}]"},
        [](const Value& value, core::TopologyRule& rule) -> Result<void> {
          TRY(std::vector<Value> items, value.items());
          for (const Value& item : items) {
            TRY_VOID(read_section(segment_section(), item, rule.segments.emplace_back()));
          }
          return success();
        }},
};

// --- members and groups ---

constexpr std::array kMemberKeys = {
    Key<MemberDraft>{
        {"name", "name", "`NAME`, or `NAME-0`, `NAME-1` … where there are several", "worker", true},
        [](const Value& value, MemberDraft& draft) -> Result<void> {
          TRY(draft.name, value.word());
          return success();
        }},
    Key<MemberDraft>{{"count", "number", "so many alike; 1 when not said", "4"},
                     [](const Value& value, MemberDraft& draft) -> Result<void> {
                       TRY(draft.count, value.number(1, core::kMostMembers));
                       return success();
                     }},
    Key<MemberDraft>{
        {"priority", "number", "among the members of its group: higher placed first", "10"},
        [](const Value& value, MemberDraft& draft) -> Result<void> {
          TRY(draft.priority, value.number(-1'000'000'000, 1'000'000'000));
          return success();
        }},
};

constexpr std::array kGroupKeys = {
    Key<GroupDraft>{{"name", "name", "unique within the gang", "workers", true},
                    [](const Value& value, GroupDraft& draft) -> Result<void> {
                      TRY(draft.group.name, value.word());
                      return success();
                    }},
    Key<GroupDraft>{kMembersKey, read_members<GroupDraft>},
    Key<GroupDraft>{kMinKey, read_min<GroupDraft>},
    Key<GroupDraft>{kCountKey, read_count<GroupDraft>},
    Key<GroupDraft>{kGroupsKey, read_groups<GroupDraft>},
    Key<GroupDraft>{kMinGroupsKey, read_min_groups<GroupDraft>},
    Key<GroupDraft>{kTopologyKey, read_topology_rule<GroupDraft>},
};

// --- topologies of the fleet ---

constexpr std::array kTopologyKeys = {
    Key<core::Topology>{{"name", "name", "by which groups name it", "racks", true},
                        [](const Value& value, core::Topology& topology) -> Result<void> {
                          TRY(topology.name, value.word());
                          return success();
                        }},
    Key<core::Topology>{{"levels", "list of text", "labels of nodes, the widest first, at most 16",
                         "[zone, rack]", true},
                        [](const Value& value, core::Topology& topology) -> Result<void> {
                          TRY(std::vector<Value> items, value.items());
                          for (const Value& item : items) {
                            TRY(std::string level, item.word());
                            topology.levels.push_back(std::move(level));
                          }
                          return success();
                        }},
};

void take_member_word(const yaml::Entry& entry, MemberDraft& draft) {
  draft.words.push_back(&entry);
}

void take_group_word(const yaml::Entry& entry, GroupDraft& draft) { draft.words.push_back(&entry); }

constexpr Section<core::SegmentRule> kSegment{"segment", "One layer of segments.", kSegmentKeys};
constexpr Section<core::TopologyRule> kRule{
    "group topology",
    "Where the members of a group may stand in relation to each other. Levels are labels of nodes, "
    "as the topology lists them.",
    kRuleKeys};
constexpr Section<MemberDraft> kMember{
    "member",
    "Members that ask for the same. Beside these keys stand the words of the request; those "
    "of the group hold too, where they are not said here.",
    kMemberKeys, request_keys, take_member_word};
constexpr Section<GroupDraft> kGroup{
    "group",
    "A part of a gang, with members or with groups of its own. Beside these keys stand the words "
    "of its members' request; those further out hold too, where they are not said here.",
    kGroupKeys, request_keys, take_group_word};
constexpr Section<core::Topology> kTopology{"topology", "How the labels of nodes divide the fleet.",
                                            kTopologyKeys};

// The words that count: its own, and those further out that it does not say itself.
Words with_inherited(const Words& own, const Words& inherited) {
  Words words = own;
  for (const yaml::Entry* entry : inherited) {
    const bool said = std::ranges::any_of(
        own, [entry](const yaml::Entry* one) { return one->key == entry->key; });
    if (!said) words.push_back(entry);
  }
  return words;
}

}  // namespace

Result<void> read_member_list(const Value& value, GroupDraft& draft) {
  if (value.node().is_scalar()) {
    TRY(const std::int64_t count, value.number(1, core::kMostMembers));
    draft.members.push_back({.place = value.place(), .name = "", .count = count});
    return success();
  }
  TRY(std::vector<Value> items, value.items());
  for (const Value& item : items) {
    MemberDraft member{.place = item.place()};
    TRY_VOID(read_section(member_section(), item, member));
    draft.members.push_back(std::move(member));
  }
  return success();
}

Result<void> read_group_list(const Value& value, GroupDraft& draft) {
  TRY(std::vector<Value> items, value.items());
  for (const Value& item : items) {
    GroupDraft group{.place = item.place()};
    TRY_VOID(read_section(group_section(), item, group));
    draft.groups.push_back(std::move(group));
  }
  return success();
}

Result<core::MemberSet> finish_member(const MemberDraft& draft, const Words& inherited,
                                      std::string_view file) {
  core::MemberSet set{
      .name = draft.name, .count = draft.count, .request = {}, .priority = draft.priority};
  TRY(set.request, request_from_entries(with_inherited(draft.words, inherited), file));
  return set;
}

Result<core::Group> finish_group(const GroupDraft& draft, const Words& inherited,
                                 std::string_view file) {
  core::Group group = draft.group;
  const Words words = with_inherited(draft.words, inherited);
  for (const MemberDraft& member : draft.members) {
    TRY(core::MemberSet set, finish_member(member, words, file));
    if (set.name.empty()) set.name = group.name.empty() ? kPlainMember : group.name;
    group.members.push_back(std::move(set));
  }
  for (const GroupDraft& inner : draft.groups) {
    TRY(core::Group one, finish_group(inner, words, file));
    group.groups.push_back(std::move(one));
  }
  return group;
}

Result<std::vector<core::Topology>> read_topologies(const Value& value) {
  std::vector<core::Topology> topologies;
  if (value.node().is_list() && value.node().items.empty()) return topologies;
  TRY(std::vector<Value> items, value.items());
  for (const Value& item : items) {
    TRY_VOID(read_section(topology_section(), item, topologies.emplace_back()));
  }
  for (const core::TopologyProblem& problem : core::check_topologies(topologies)) {
    // The text names the topology; the last of that name is the one at fault.
    config::Place at = value.place();
    for (std::size_t i = 0; i < topologies.size(); ++i) {
      at = topologies[i].name == problem.topology ? items[i].place() : at;
    }
    return yaml::error_at(value.file(), at.line, at.column, problem.text);
  }
  return topologies;
}

const Section<core::SegmentRule>& segment_section() { return kSegment; }

const Section<core::TopologyRule>& topology_rule_section() { return kRule; }

const Section<MemberDraft>& member_section() { return kMember; }

const Section<GroupDraft>& group_section() { return kGroup; }

const Section<core::Topology>& topology_section() { return kTopology; }

}  // namespace berth::scenario
