// Script: a scenario file after reading and before running. Values, places kept for messages.
//
//   TRY(std::vector<Script> scripts, parse_scripts(text, "cases.yaml"));
//
// Names of devices stay as written ("n0/g1"): what they stand for depends on what happened before.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "config/value.h"
#include "core/engine/actions.h"
#include "core/engine/engine.h"
#include "core/model/device.h"
#include "core/model/gang.h"
#include "core/model/topology.h"
#include "core/model/verdict.h"
#include "core/model/workload.h"
#include "core/queue/queue_config.h"

namespace berth::scenario {

using config::Named;
using config::Place;

// --- what is done -------------------------------------------------------------------------------

struct Submit {
  Place place;
  std::vector<Named> uids{};
  core::Request request{};           // of a task
  std::optional<core::Gang> gang{};  // or the tree of groups
  core::WorkloadOptions options{};
  std::optional<Named>
      refusal{};             // the request is wrong and this is the code it must be refused with
  std::string refused_as{};  // what the request's reader said, when it refused
  // The word `annotations` as it was written; empty where the request has other words.
  std::map<std::string, std::string> annotations{};
};

// All of them arrive before any is decided: their queues are held while they come.
struct SubmitTogether {
  Place place;
  std::vector<Submit> submits{};
};

// More members of a gang exist.
struct Join {
  Place place;
  std::string uid{};
  std::string group{};
  core::MemberSet members{};
};

struct Adopt {
  Place place;
  std::string uid{};
  core::Request request{};
  core::WorkloadOptions options{};
  std::vector<Named> devices{};  // one share on each
  bool confirmed = true;
};

// Somebody writes annotations on a pod that exists.
struct Edit {
  Place place;
  std::string uid{};
  std::map<std::string, std::string> annotations{};
  std::optional<Named> refusal{};  // the code with which that must be refused
};

// Whoever decides starts anew and knows only what the outside world tells it again.
struct Restart {
  Place place;
};

enum class WorkloadVerb : std::uint8_t {
  cancel,
  confirm,
  releasing,
  end,
  lost,
  requeue,
  initialized
};

struct WorkloadDeed {
  WorkloadVerb verb = WorkloadVerb::cancel;
  std::vector<Named> uids{};
};

struct Observe {
  Place place;
  Named device{};
  std::optional<Memory> used{};  // empty: unknown
  Duration age{};                // negative: a sample from the future
  std::optional<std::vector<std::pair<Named, Memory>>> uses{};  // present: the sample is attributed
  std::optional<core::DeviceHealth> health{};
};

enum class NodeVerb : std::uint8_t { down, up, cordon, uncordon, remove };

struct NodeDeed {
  NodeVerb verb = NodeVerb::down;
  std::vector<Named> nodes{};
};

struct AddNode {
  Place place;
  core::Node node{};
};

enum class DeviceVerb : std::uint8_t { cordon, uncordon, remove, restore };

struct DeviceDeed {
  DeviceVerb verb = DeviceVerb::cordon;
  std::vector<Named> devices{};
};

struct AddDevice {
  Place place;
  std::string node{};
  std::vector<core::Device> devices{};
};

// The driver numbers the devices of a node anew: device N of the description gets indices[N].
struct Renumber {
  Place place;
  std::string node{};
  std::vector<std::int64_t> indices{};
};

struct ChangePolicy {
  Place place;
  std::string spec{};
};

// The quota tree from now on; the priority rule stays.
struct ChangeQueues {
  Place place;
  std::vector<core::QueueSpec> queues{};
};

// Queues are held, drained, or work again.
struct StopQueues {
  core::QueueStop stop = core::QueueStop::none;
  std::vector<Named> queues{};
};

// The harbour lets nothing be granted, or lets it be granted again.
struct HoldGranting {
  bool held = true;
};

struct ChangeTopologies {
  Place place;
  std::vector<core::Topology> topologies{};
};

// --- what is expected ---------------------------------------------------------------------------

enum class WantedState : std::uint8_t { granted, promised, waiting, never, ended };

// Figures by the key they were asked with, in bytes, pieces, milli or the unit of a dimension; see
// figures.h.
struct ExpectFigures {
  Named subject{};

  struct Figure {
    std::string name{};
    std::string wanted{};  // as written, for messages
    std::int64_t number = 0;
    std::string word{};  // use, mode, blocked
    bool is_word = false;
    Place place;
  };

  std::vector<Figure> figures{};
  core::DimensionKind unit = core::DimensionKind::devices;  // of amounts
};

// One queue in one dimension: of a verdict's quotaChain, where it must stand, or of the tree.
struct ExpectQuota {
  Named queue{};
  Named dimension{};  // "*/devices"
  ExpectFigures figures{};
};

// Every field that is present must be met.
struct ExpectWorkload {
  Named uid{};
  std::optional<WantedState> state{};
  std::optional<std::string> cause{};
  std::optional<std::string> reason{};
  std::optional<std::string> stage{};
  std::optional<std::vector<std::string>> on{};  // devices, in grant order
  std::optional<std::string> node{};
  std::optional<Memory> request{};  // per device
  std::optional<Memory> limit{};    // per device
  std::optional<Memory> need{};
  std::optional<Memory> largest_free{};
  std::optional<std::string> largest_free_on{};
  std::optional<Memory> free_total{};
  std::optional<std::int64_t> fragmentation{};
  std::optional<std::map<std::string, std::int64_t>> nodes{};  // cause -> nodes
  std::optional<std::int64_t> position{};
  std::optional<std::int64_t> priority{};    // effective
  std::optional<std::optional<Time>> eta{};  // inner empty: unknown
  std::optional<Time> since{};
  std::optional<std::string> summary{};
  std::optional<std::vector<std::string>> says{};
  std::optional<std::vector<std::string>> would_help{};
  std::optional<ExpectFigures> gang{};
  std::vector<ExpectQuota> quota{};
  std::optional<ExpectFigures> topology{};
  std::optional<ExpectFigures> preemption{};
  std::optional<bool> search_complete{};
  // Of pods alone: the engine writes none of it.
  std::map<std::string, std::string> annotations{};                 // of its binding
  std::map<std::string, std::map<std::string, std::string>> env{};  // by container
};

// One workload that was told to leave in this step.
struct ExpectEviction {
  Named uid{};
  core::Evicted::Rule rule = core::Evicted::Rule::guarantee;
  std::string beneficiary{};              // empty: nobody
  std::optional<std::string> moves_to{};  // a node; inner empty: nowhere
  std::vector<std::string> says{};
};

struct ExpectEvictions {
  Place place;
  std::vector<ExpectEviction> evictions{};  // all of the step so far, in any order
};

// Where workloads stand in relation to each other.
struct ExpectDomains {
  Place place;
  std::string level{};  // a node label; kubernetes.io/hostname where there is none: the node
  std::vector<Named> workloads{};
  std::optional<std::vector<std::string>> are{};  // the domains in which they are, sorted
  std::optional<std::int64_t> count{};            // how many these are
};

struct Expect {
  Place place;
  std::vector<ExpectWorkload> workloads{};
  std::vector<ExpectFigures> devices{};
  std::vector<ExpectFigures> nodes{};
  std::vector<ExpectQuota> queues{};
  std::vector<ExpectDomains> domains{};
  std::optional<ExpectEvictions> evictions{};
  std::optional<std::pair<Place, std::vector<std::string>>> order{};
  std::optional<std::pair<Place, std::vector<std::string>>> decisions{};
  std::optional<std::pair<Place, std::vector<std::string>>> notices{};
  std::optional<std::pair<Place, std::int64_t>> actions{};
};

// --- the whole ----------------------------------------------------------------------------------

using Deed = std::variant<Submit, SubmitTogether, Join, Adopt, WorkloadDeed, Observe, NodeDeed,
                          AddNode, DeviceDeed, AddDevice, Renumber, ChangePolicy, ChangeQueues,
                          StopQueues, ChangeTopologies, HoldGranting, Edit, Restart, Expect>;

struct Step {
  Place place;
  std::optional<Time> at{};           // absolute
  std::optional<Duration> advance{};  // from the step before
  std::vector<Deed> deeds{};          // in the order written
};

// What a node is in Kubernetes beyond what the engine knows of it.
struct NodeWay {
  std::string backend = "none";  // who holds shares to their size there: none, guard, fractiond
  bool cdi = false;              // devices are named in the CDI way
  bool says_ready = true;        // false: nobody says whether the backend works
};

struct Script {
  std::string file{};
  Place place;
  std::string about{};
  std::vector<core::Node> fleet{};
  std::map<std::string, NodeWay> ways{};  // by the name of the node
  core::EngineConfig config{};
  std::optional<core::QueueConfig> queues{};  // without refusals; some may be on hold
  std::vector<core::Topology> topologies{};
  Duration eviction_grace{0};  // from the word to leave until it is gone
  std::vector<Step> steps{};
};

// The models of the fleet's devices, each once, in order: the classes of quota dimensions.
std::vector<std::string> device_classes(const std::vector<core::Node>& fleet);

// The fleet of a file that has a `fleet:` section, whatever stands beside it. Errors: as below.
Result<std::vector<core::Node>> parse_fleet(std::string_view text, std::string_view file_name);

// One script per document of the file. Errors: "FILE:LINE:COLUMN: FIELD 'VALUE': RULE".
Result<std::vector<Script>> parse_scripts(std::string_view text, std::string_view file_name);

}  // namespace berth::scenario
