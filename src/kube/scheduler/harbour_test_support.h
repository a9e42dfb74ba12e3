// A small cluster for tests of the harbour: nodes and pods as values, and what the harbour wants.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/ledger/ledger.h"
#include "kube/scheduler/harbour.h"

namespace berth::kube {

// A node whose devices an administrator has stated: UUIDs "GPU-<node>-<index>".
inline Node test_node(const std::string& name, int devices, std::int64_t mib = 100) {
  Node node;
  node.meta.name = name;
  node.meta.uid = "node-" + name;
  node.allocatable = {{"cpu", "16"}, {"memory", "64Gi"}, {"pods", "110"}};
  node.meta.labels = {{"kubernetes.io/hostname", name}};
  node.conditions.push_back({.type = "Ready", .status = "True"});
  std::string list;
  for (int i = 0; i < devices; ++i) {
    list += fmt::format(R"({}{{"uuid":"GPU-{}-{}","index":{},"model":"A100","totalMiB":{},)"
                        R"("reserveMiB":0,"numa":0,"mig":null}})",
                        i == 0 ? "" : ",", name, i, i, mib);
  }
  node.meta.annotations["berth.dev/devices"] =
      R"({"v":1,"backend":"none","cdi":false,"owned":true,"devices":[)" + list + "]}";
  return node;
}

// A pod of ours with one container.
inline Pod test_pod(const std::string& name, Labels annotations = {}) {
  static int made = 0;
  Pod pod;
  pod.meta.namespace_name = "ns";
  pod.meta.name = name;
  pod.meta.uid = fmt::format("uid-{}-{}", name, ++made);
  pod.meta.created_ms = 1000;
  pod.meta.generation = 1;
  pod.meta.annotations = annotations;
  pod.scheduler_name = "berth-scheduler";
  pod.phase = "Pending";
  pod.words.namespace_name = "ns";
  pod.words.name = name;
  request::ContainerWords main{.name = "main"};
  main.env.push_back({.name = "NVIDIA_VISIBLE_DEVICES",
                      .field_path = "metadata.annotations['berth.dev/main.devices']"});
  pod.words.containers.push_back(main);
  pod.words.annotations = std::move(annotations);
  return pod;
}

inline Pod share_pod(const std::string& name, std::int64_t mib) {
  return test_pod(name, {{"gpu-memory", std::to_string(mib)}});
}

// As the API server has it after the binding.
inline Pod bound_by(Pod pod, const Bind& bind) {
  pod.words.preset_node = bind.node;
  for (const auto& [key, value] : bind.annotations) {
    pod.meta.annotations[key] = value;
    pod.words.annotations[key] = value;
  }
  return pod;
}

// Somebody else's pod.
inline Pod foreign_pod(const std::string& name, const std::string& node,
                       const std::string& cpu = "100m") {
  Pod pod = test_pod(name);
  pod.scheduler_name = "default-scheduler";
  pod.words.preset_node = node;
  pod.words.containers[0].requests["cpu"] = cpu;
  pod.phase = "Running";
  return pod;
}

// One harbour, and what a test tells it and asks it. Its invariants are checked all the time.
struct Cluster {
  HarbourConfig config;
  std::unique_ptr<Harbour> harbour;
  Time now{1'000'000};

  explicit Cluster(HarbourConfig wanted = {}) : config(std::move(wanted)) {
    config.nodes.allow_advisory = true;
    restart();
  }

  // A new process: it knows nothing.
  void restart() { harbour = Harbour::create(config, now).value(); }

  void ready() { harbour->set_ready(true, now); }

  void tell(const Node& node) {
    harbour->node_changed(node, now);
    check();
  }

  void tell(const Pod& pod) {
    harbour->pod_changed(pod, now);
    check();
  }

  void gone(const Pod& pod) {
    harbour->pod_gone(pod.meta.namespace_name + "/" + pod.meta.name, pod.meta.uid, now);
    check();
  }

  void pass(std::int64_t ms) {
    now = now + Duration(ms);
    settle();
  }

  void settle() {
    harbour->settle(now);
    check();
  }

  // What it wants done now.
  std::vector<Deed> deeds() {
    settle();
    auto taken = harbour->take({.bindings = 1000, .conditions = 1000, .events = 1000}, now);
    check();
    return taken;
  }

  template <typename Kind>
  std::vector<std::pair<std::uint64_t, Kind>> deeds_of() {
    std::vector<std::pair<std::uint64_t, Kind>> found;
    for (Deed& deed : deeds()) {
      if (auto* body = std::get_if<Kind>(&deed.body)) {
        found.emplace_back(deed.number, std::move(*body));
      }
    }
    return found;
  }

  // The one binding that it wants now.
  std::pair<std::uint64_t, Bind> binding() {
    auto found = deeds_of<Bind>();
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? std::pair<std::uint64_t, Bind>() : found.front();
  }

  void answer(std::uint64_t number, int status, const std::string& message = "") {
    harbour->answered(number, {.status = status, .message = message}, now);
    check();
  }

  void no_answer(std::uint64_t number) {
    harbour->answered(number, {.outcome = Said::Outcome::unknown}, now);
    check();
  }

  // The one pod that it wants to read, as it is.
  void answer_read(const Pod& pod) {
    auto reads = deeds_of<ReadPod>();
    ASSERT_EQ(reads.size(), 1U);
    harbour->answered(reads.front().first, {.status = 200, .pod = pod}, now);
    check();
  }

  // Binds a pod as if nothing could go wrong; returns it as the watch will tell it.
  Pod bind(const Pod& pod) {
    tell(pod);
    const auto [number, wanted] = binding();
    EXPECT_EQ(wanted.pod.name, pod.meta.name);
    answer(number, 201);
    Pod bound = bound_by(pod, wanted);
    tell(bound);
    return bound;
  }

  std::int64_t promised_mib(const std::string& uuid) const {
    const core::DeviceId id = harbour->engine().fleet().find_device(uuid);
    return id.is_none() ? -1
                        : Memory::bytes(harbour->engine().ledger().book(id).requests).ceil_mib();
  }

  std::int64_t cpu_free(const std::string& node) const {
    return harbour->engine().ledger().node(harbour->engine().fleet().find_node(node)).cpu_free;
  }

  std::string message(const std::string& name) const {
    const auto words = harbour->words("ns/" + name);
    return words.has_value() ? words->reason + ": " + words->message : "nothing is said";
  }

  PodPhase phase(const std::string& name) const {
    return harbour->phase("ns/" + name).value_or(PodPhase::gated);
  }

  void check() const {
    const auto checked = harbour->check();
    EXPECT_TRUE(checked.ok()) << checked.error().to_string();
  }
};

}  // namespace berth::kube
