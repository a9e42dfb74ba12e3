// Shapes and node types: what is learned about a request or a machine is learned once for all that
// are equal to it.
//
// A Shape is one distinct Request on distinct terms; a NodeType one distinct machine description
// (name, labels and taints aside). StaticFit says what one shape may use of one type: it changes
// with neither books nor time. Thread-safety: none; owned by one engine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/model/fleet.h"
#include "core/model/ids.h"
#include "core/model/request.h"
#include "core/model/verdict.h"
#include "core/placement/link_sets.h"
#include "core/placement/rules.h"

namespace berth::core {

struct ShapeTag;
struct NodeTypeTag;
struct PolicyTag;
using ShapeId = Id<ShapeTag>;
using NodeTypeId = Id<NodeTypeTag>;
using PolicyId = Id<PolicyTag>;  // a policy that somebody asked for by name (index.h)

inline constexpr PolicyId kEnginePolicy(std::size_t{0});  // that of the engine, whichever it is

// What a request is placed by besides what it asks for. It comes from the workload or its queue, so
// that equal requests may differ in it.
struct ShapeTerms {
  PolicyId policy = kEnginePolicy;
  int device_cap = 0;  // most grants on a shared device that it joins, itself included; 0 = no cap
  bool operator==(const ShapeTerms&) const = default;
};

struct NodeType {
  Node example;              // any node of the type
  std::vector<int> numa;     // of each device place
  std::int64_t present = 0;  // nodes of this type that are present
};

class NodeTypes {
 public:
  // The node's description may have changed: files it under its type.
  void sync(const Fleet& fleet, NodeId node);
  NodeTypeId of(NodeId node) const { return of_node_[node.index()]; }
  const NodeType& type(NodeTypeId id) const { return types_[id.index()]; }
  std::size_t size() const { return types_.size(); }

 private:
  std::unordered_map<std::string, NodeTypeId> by_text_;
  std::vector<NodeType> types_;
  std::vector<NodeTypeId> of_node_;  // by NodeId; none = absent
};

// One container's use of one node type.
struct AskFit {
  std::uint64_t eligible = 0;       // device places that pass every static rule
  Cause cause = Cause::no_devices;  // most telling static refusal among the others
  std::vector<DeviceNeed> needs;    // by device place
};

struct StaticFit {
  bool known = false;
  bool could_ever = false;                 // an empty node of this type could hold the shape
  Cause never = Cause::none;               // why not
  std::vector<AskFit> asks;                // parallel to Shape::gpu_containers
  std::shared_ptr<const LinkGraph> links;  // only of shapes that ask for joined devices
};

struct Shape {
  ShapeId id;
  Request request;
  ShapeTerms terms;
  std::uint64_t hash = 0;
  std::int64_t cpu = 0;                       // millicores
  std::int64_t ram = 0;                       // bytes
  std::vector<std::uint32_t> gpu_containers;  // indices into request.containers()
  bool simple = true;                         // at most one GPU container, an app, no rule on sets
  bool constrained = false;                   // node names, labels or tolerations matter
  bool by_uuid = false;                       // static fit differs between nodes of a type
  bool linked = false;                        // asks for joined devices
  bool hinted = false;                        // asks for an order of nodes or devices of its own
  std::int64_t references = 0;                // workloads of this shape that are known

  const DeviceAsk& ask(std::size_t i) const { return request.containers()[gpu_containers[i]].gpu; }
  bool wants_gpu() const { return !gpu_containers.empty(); }
};

class Shapes {
 public:
  // What "never" depends on besides: the burst ratio in percent (L4).
  explicit Shapes(std::int64_t limit_percent = 200) : limit_percent_(limit_percent) {}

  // The shape of a request; counts one reference.
  ShapeId acquire(const Request& request, const ShapeTerms& terms = {});
  // Gives one reference back. Shapes without references are kept for reuse while there are few.
  // Returns the shapes that were forgotten, so that caches by shape can be dropped.
  std::vector<ShapeId> release(ShapeId id);

  const Shape& at(ShapeId id) const { return *shapes_[id.index()]; }
  bool known(ShapeId id) const { return shapes_[id.index()] != nullptr; }
  std::size_t slots() const { return shapes_.size(); }

  // What the shape may use of a node. The answer stays valid until the next call for the same
  // shape.
  const StaticFit& fit(ShapeId id, const NodeTypes& types, const Fleet& fleet, NodeId node);
  const StaticFit& fit_of_type(ShapeId id, const NodeTypes& types, NodeTypeId type);

 private:
  ShapeId find(const Request& request, const ShapeTerms& terms, std::uint64_t hash) const;
  StaticFit compute(const Shape& shape, const Node& node) const;

  std::int64_t limit_percent_;
  std::vector<std::unique_ptr<Shape>> shapes_;
  std::vector<std::vector<StaticFit>> fits_;  // by shape, then type
  std::vector<StaticFit> by_uuid_;            // by shape: scratch for shapes that name devices
  std::unordered_multimap<std::uint64_t, ShapeId> by_hash_;
  std::vector<ShapeId> idle_;  // without references, oldest first
  std::vector<ShapeId> free_;  // slots to use again
};

// Why not even an empty machine of this description could hold the shape: capacity and kind alone,
// so that the answer stays true whatever ends. None when it could, or when that is not proved.
Cause never_on(const Shape& shape, const Node& node, const StaticFit& fit,
               std::int64_t limit_percent);

}  // namespace berth::core
