// The sections of the scenario language, each defined in the file that reads it. Inside the room
// only.
#pragma once

#include <string>
#include <vector>

#include "config/section.h"
#include "core/model/device.h"
#include "core/model/gang.h"
#include "core/model/topology.h"
#include "scenario/script.h"

namespace berth::scenario {

using config::expand_names;
using config::Key;
using config::KeyDoc;
using config::read_section;
using config::Section;
using config::section_doc;
using config::SectionDoc;
using config::suggestion;
using config::Value;

// Describes devices one after another; turned into core::Device when the node is complete.
struct DeviceDraft {
  Place place;
  std::int64_t count = 1;
  core::Device device{};
  bool has_memory = false;
  bool has_reserve = false;
  std::string uuid{};
};

struct NodeDraft {
  Place place;
  core::Node node{};
  NodeWay way{};
  std::vector<DeviceDraft> devices{};
};

struct FleetDraft {
  std::vector<core::Node> from_spec{};
  std::vector<NodeDraft> nodes{};
  std::optional<Memory> reserve{};
};

// Entries that are words of a request.
using Words = std::vector<const yaml::Entry*>;

struct MemberDraft {
  Place place;
  std::string name{};
  std::int64_t count = 1;
  std::optional<std::int64_t> priority{};
  Words words{};
};

struct GroupDraft {
  Place place;
  core::Group group{};  // without members and groups
  std::vector<MemberDraft> members{};
  std::vector<GroupDraft> groups{};
  Words words{};
};

struct SubmitDraft {
  Submit submit;
  GroupDraft root{};  // of a task: its words alone
  bool is_gang = false;
  core::GangOptions gang_options{};
  bool has_gang_options = false;
};

struct JoinDraft {
  std::string uid{};
  std::string group{};
  MemberDraft member{};
};

struct AdoptDraft {
  Adopt adopt;
  Words words{};
};

const Section<Script>& script_section();
const Section<FleetDraft>& fleet_section();
const Section<NodeDraft>& node_section();
const Section<DeviceDraft>& device_section();
const Section<core::EngineConfig>& config_section();
const Section<core::EngineConfig>& aging_section();
const Section<Step>& step_section();
const Section<SubmitDraft>& submit_section();
const Section<AdoptDraft>& adopt_section();
const Section<JoinDraft>& join_section();
const Section<GroupDraft>& group_section();
const Section<MemberDraft>& member_section();
const Section<core::TopologyRule>& topology_rule_section();
const Section<core::SegmentRule>& segment_section();
const Section<core::Topology>& topology_section();
const Section<Observe>& observe_section();
const Section<AddDevice>& add_device_section();
const Section<Renumber>& renumber_section();
const Section<Edit>& edit_section();
const Section<Expect>& expect_section();
const Section<ExpectWorkload>& expect_workload_section();
const Section<ExpectFigures>& expect_device_section();
const Section<ExpectFigures>& expect_node_section();
const Section<ExpectFigures>& expect_gang_section();
const Section<ExpectFigures>& expect_topology_section();
const Section<ExpectFigures>& expect_preemption_section();
const Section<ExpectFigures>& expect_quota_section();
const Section<ExpectFigures>& expect_queue_section();
const Section<ExpectEviction>& expect_eviction_section();
const Section<ExpectDomains>& expect_domains_section();

// A map of words by name.
Result<std::map<std::string, std::string>> read_words_by_name(const Value& value);
// The value of `fleet:`: SPEC, or the keys of the fleet section.
Result<void> read_fleet(const Value& value, Script& script);
// One node, complete. `reserve`: of devices that state none.
Result<core::Node> finish_node(const NodeDraft& draft, std::optional<Memory> reserve,
                               std::string_view file);
Result<std::vector<core::Device>> finish_devices(const std::vector<DeviceDraft>& drafts,
                                                 const core::Node& node,
                                                 std::optional<Memory> reserve,
                                                 std::string_view file);
Result<void> read_config(const Value& value, core::EngineConfig& config);
// `inherited`: the words of the request that stand further out.
Result<core::MemberSet> finish_member(const MemberDraft& draft, const Words& inherited,
                                      std::string_view file);
Result<core::Group> finish_group(const GroupDraft& draft, const Words& inherited,
                                 std::string_view file);
Result<std::vector<core::Topology>> read_topologies(const Value& value);
// Keys of a step.
Result<void> read_submit(const Value& value, Step& step);
Result<void> read_submit_together(const Value& value, Step& step);
Result<void> read_adopt(const Value& value, Step& step);
Result<void> read_join(const Value& value, Step& step);
Result<void> read_expect(const Value& value, Step& step);
// Parts of it (read_verdict.cc).
Result<void> read_gang_counts(const Value& value, ExpectWorkload& expect);
Result<void> read_topology_fit(const Value& value, ExpectWorkload& expect);
Result<void> read_preemption(const Value& value, ExpectWorkload& expect);
Result<void> read_quota_rows(const Value& value, ExpectWorkload& expect);
Result<void> read_queue_pages(const Value& value, Expect& expect);
Result<void> read_evictions(const Value& value, Expect& expect);
Result<void> read_domains(const Value& value, Expect& expect);
// An amount of a quota, as a queue file has it; kUnlimited for `unlimited` and -1.
Result<std::int64_t> read_amount(const Value& value, core::DimensionKind unit);

}  // namespace berth::scenario
