// Census: what is known of a cluster beyond the engine's books: which pods lie where with which
// labels and rules, and what the hard rules of pods are asked against.
//
// Kept small: labels and rules that are equal are kept once, pods of one namespace with the same
// labels are counted per node as one group, and nothing is kept of a pod's spec that no rule needs.
//
// Invariant: a pod is in the lists of its node, its group and the indexes iff it was placed and did
// not leave. Thread-safety: none; the decision thread's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/model/device.h"
#include "kube/objects/objects.h"

namespace berth::kube {

using LabelsRef = std::shared_ptr<const Labels>;
using NodeIndex = std::uint32_t;
inline constexpr NodeIndex kNoNode = 0xffffffff;

// Resource -> whole units (a quantity rounded up where it is asked for, down where it is offered).
using Others = std::vector<std::pair<std::string, std::int64_t>>;

// What a pod takes of its node besides devices.
struct Footprint {
  std::int64_t cpu_milli = 0;
  std::int64_t ram_bytes = 0;
  Others others = {};  // by name
  bool operator==(const Footprint&) const = default;
};

// The hard rules of a pod that the engine has no word for.
struct PodRules {
  std::vector<Selector> node_terms = {};
  bool terms_apply = false;  // here; else the engine has them, and they are for spread alone
  Labels node_selector = {};
  std::vector<core::Toleration> tolerations = {};  // for spread that honours taints
  std::vector<PodAffinityTerm> affinity = {};
  std::vector<PodAffinityTerm> anti_affinity = {};
  std::vector<SpreadConstraint> spread = {};
  std::vector<HostPort> ports = {};
  std::vector<PodVolume> volumes = {};
  std::vector<std::string> features = {};
};

using RulesRef = std::shared_ptr<const PodRules>;

struct PodGroup;

// A pod that lies on a node, or is about to.
struct PodFacts {
  std::string id = {};  // "namespace/name"
  std::string uid = {};
  LabelsRef labels = {};
  RulesRef rules = {};  // null: none that concerns others
  Footprint takes = {};
  NodeIndex node = kNoNode;
  bool deleting = false;
  PodGroup* group = nullptr;  // while it is placed

  std::string_view namespace_name() const { return std::string_view(id).substr(0, id.find('/')); }
  std::string_view name() const { return std::string_view(id).substr(id.find('/') + 1); }
};

// Pods of one namespace with the same labels, by node.
struct PodGroup {
  struct Count {
    std::int32_t all = 0;
    std::int32_t deleting = 0;
  };

  std::string namespace_name = {};
  LabelsRef labels = {};
  std::map<NodeIndex, Count> on = {};
};

struct NodeFacts {
  std::string name = {};
  std::string uid = {};
  bool present = false;
  Labels labels = {};
  std::vector<core::Taint> taints = {};
  std::map<std::string, std::int64_t, std::less<>> offered = {};  // resources of Others
  std::map<std::string, std::int64_t, std::less<>> taken = {};
  std::vector<std::string> features = {};  // sorted
  std::vector<PodFacts*> pods = {};        // in no order
  std::string problem = {};                // of what it says about its devices
};

// What changed, so that only those who depend on it look again.
enum class Ground : std::uint8_t { nodes, pods, ports, others, storage, namespaces, kCount };

class Census {
 public:
  static std::string key(std::string_view namespace_name, std::string_view name);

  // --- nodes
  NodeIndex index_of(std::string_view name);         // gives out a new one where there is none
  NodeIndex find_node(std::string_view name) const;  // kNoNode
  NodeFacts& node(NodeIndex index) { return nodes_[index]; }
  const NodeFacts& node(NodeIndex index) const { return nodes_[index]; }
  std::size_t node_slots() const { return nodes_.size(); }
  void node_changed() { touch(Ground::nodes); }

  // --- pods. `facts` stays where it is until it leaves.
  void place(PodFacts& facts, NodeIndex node);
  void leave(PodFacts& facts);
  void set_deleting(PodFacts& facts);
  LabelsRef intern(const Labels& labels);
  const std::map<std::pair<std::string, const Labels*>, PodGroup>& groups() const {
    return groups_;
  }
  // Pods that keep others away.
  const std::set<const PodFacts*>& guarded() const { return guarded_; }

  // --- the rest
  // Why claims and volumes are not known; empty: they are.
  std::string storage_problem;
  std::map<std::string, Labels, std::less<>> namespaces;
  std::map<std::string, VolumeClaim, std::less<>> claims;  // by namespace/name
  std::map<std::string, Volume, std::less<>> volumes;
  std::map<std::string, StorageClass, std::less<>> classes;
  std::map<std::string, CsiNode, std::less<>> csi_nodes;
  std::map<std::string, CsiDriver, std::less<>> csi_drivers;
  std::map<std::string, CsiCapacity, std::less<>> csi_capacities;  // by namespace/name

  // Pods on nodes that use the claim.
  std::vector<const PodFacts*> users_of(const std::string& claim) const;

  void touch(Ground ground) { ++versions_[static_cast<std::size_t>(ground)]; }
  std::uint64_t version(Ground ground) const { return versions_[static_cast<std::size_t>(ground)]; }

 private:
  std::vector<NodeFacts> nodes_;
  std::map<std::string, NodeIndex, std::less<>> by_name_;
  std::map<std::pair<std::string, const Labels*>, PodGroup> groups_;
  std::unordered_multimap<std::uint64_t, std::weak_ptr<const Labels>> labels_;
  std::size_t sweep_labels_at_ = 1024;
  std::set<const PodFacts*> guarded_;
  std::map<std::string, std::set<const PodFacts*>, std::less<>> by_claim_;
  std::uint64_t versions_[static_cast<std::size_t>(Ground::kCount)] = {};
};

// The claim that a volume of a pod means: "namespace/name".
std::string claim_key(const PodFacts& pod, const PodVolume& volume);

}  // namespace berth::kube
