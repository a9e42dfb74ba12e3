// The sections of the scenario language, each defined in the file that reads it. Inside the room
// only.
#pragma once

#include <string>
#include <vector>

#include "config/section.h"
#include "core/model/device.h"
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
  std::vector<DeviceDraft> devices{};
};

struct FleetDraft {
  std::vector<core::Node> from_spec{};
  std::vector<NodeDraft> nodes{};
  std::optional<Memory> reserve{};
};

struct SubmitDraft {
  Submit submit;
  std::vector<const yaml::Entry*> words{};
};

struct AdoptDraft {
  Adopt adopt;
  std::vector<const yaml::Entry*> words{};
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
const Section<Observe>& observe_section();
const Section<AddDevice>& add_device_section();
const Section<Renumber>& renumber_section();
const Section<Expect>& expect_section();
const Section<ExpectWorkload>& expect_workload_section();
const Section<ExpectFigures>& expect_device_section();
const Section<ExpectFigures>& expect_node_section();

// The value of `fleet:`: SPEC, or the keys of the fleet section.
Result<std::vector<core::Node>> read_fleet(const Value& value);
// One node, complete. `reserve`: of devices that state none.
Result<core::Node> finish_node(const NodeDraft& draft, std::optional<Memory> reserve,
                               std::string_view file);
Result<std::vector<core::Device>> finish_devices(const std::vector<DeviceDraft>& drafts,
                                                 const core::Node& node,
                                                 std::optional<Memory> reserve,
                                                 std::string_view file);
Result<void> read_config(const Value& value, core::EngineConfig& config);
Result<void> read_expect(const Value& value, Step& step);

}  // namespace berth::scenario
