// Sentence: the one sentence of a verdict. Words from the numbers, never longer than 200 bytes, and
// always with a number and a name (queues-gangs-topology.md 9.2, lesson 58).
//
// Each cause has a method or a phrase in sentence.cc, sentence_devices.cc or sentence_queues.cc;
// sentence_test.cc builds a world for each of them. Names come from outside: they are shown
// printable and, where long, shortened. Thread-safety: none; reads one engine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/engine_impl.h"

namespace berth::core {

// The largest ask of the shape; null when it wants no GPU.
const DeviceAsk* largest_ask(const Shape& shape);

class Sentence {
 public:
  static constexpr std::size_t kMost = 200;

  Sentence(const Engine::Impl& engine, const Entry& entry, const Verdict& verdict);
  std::string text() const;

 private:
  // A device that gave the verdict's cause as its answer, and to which ask.
  struct Refusal {
    NodeId node;
    DeviceId id;
    std::size_t place = 0;
    const DeviceAsk* ask = nullptr;
    DeviceNeed need;
    DeviceFace face;
  };
  using Nearness = std::function<std::int64_t(const Refusal&)>;

  std::string full_text() const;
  std::string granting_held() const;
  std::string because() const;
  std::string of_nodes() const;
  std::string wanted_models() const;
  std::string of_kinds() const;
  std::string of_devices() const;
  std::string of_the_engine() const;

  std::string no_node_matches() const;
  std::string untolerated_taint() const;
  std::string insufficient_node_resource() const;
  std::string stale_observation() const;
  std::string device_exclusive() const;
  std::string whose_cap() const;
  std::string foreign_use() const;
  std::string insufficient_compute() const;
  std::string insufficient_memory() const;
  std::string limit_overcommit() const;
  std::string insufficient_devices() const;
  std::string work_that_stays() const;
  std::string waiting_for_release() const;
  std::string kept_for_other() const;
  std::string too_large_for_all() const;

  // Whose turn it is and who belongs together (sentence_queues.cc); empty: not about that.
  std::string about_queues() const;
  std::string about_gangs() const;
  std::string about_rights() const;
  QuotaRefusal refusal() const;
  std::string over_quota() const;
  std::string queue_held() const;
  std::string unknown_queue() const;
  std::string not_a_leaf() const;
  std::string preempting() const;
  std::string gang_incomplete(const GangState& state) const;
  std::string no_topology_domain(const GangState& state) const;
  std::string gang_without_place(const GangState& state) const;

  // "2 of 3 nodes are", "all 3 nodes have": the nodes that gave the cause, and the verb.
  std::string those(std::string_view one, std::string_view many) const;
  // "n0, n1 and 3 more".
  std::string their_names() const;
  // "n0/GPU-1 is cordoned" of one device that says so; only the names of nodes when none is found.
  std::string example(std::string_view predicate) const;
  // "all 2 GPUs that it may use are drained (n0/GPU-1 and 1 more)".
  std::string devices_that_are(std::string_view what) const;
  // How the devices of a node that it may use are, where they do not serve: "2 drained, 1 in use".
  std::string tally(NodeId node) const;
  std::string where(NodeId node, DeviceId device) const;
  std::string name_of(NodeId node) const;
  std::string needs() const;
  // The refusing device that comes nearest to serving; the first of equals.
  std::optional<Refusal> nearest(const Nearness& nearness) const;

  const Engine::Impl& engine_;
  const Entry& entry_;
  const Verdict& verdict_;
  const Shape& shape_;
  const DeviceAsk* ask_;
  std::vector<NodeId> saying_;  // nodes whose answer is the cause, by name
};

}  // namespace berth::core
