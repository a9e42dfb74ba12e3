#include "sim/scene.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

namespace berth::sim {

namespace {

constexpr std::int64_t kNanoPerMilli = 1'000'000;
constexpr std::size_t kMaxWarnings = 8;

std::vector<std::string> split_models(std::string_view spec) {
  std::vector<std::string> models;
  while (!spec.empty()) {
    const std::size_t bar = spec.find('|');
    models.emplace_back(spec.substr(0, bar));
    spec = bar == std::string_view::npos ? std::string_view{} : spec.substr(bar + 1);
  }
  return models;
}

core::WorkClass work_class(const TracePod& pod) {
  return {.cpu_milli = pod.cpu_milli,
          .memory_mib = pod.memory_mib,
          .gpu_milli = pod.gpu_milli,
          .num_gpu = pod.num_gpu,
          .models = split_models(pod.gpu_spec)};
}

void warn(Scene& scene, const std::vector<Unplaceable>& unplaceable) {
  for (const Unplaceable& found : unplaceable) {
    if (scene.warnings.size() == kMaxWarnings) {
      scene.warnings.push_back(
          fmt::format("{} more kinds of pods fit no node of this fleet, even an empty one",
                      unplaceable.size() - kMaxWarnings));
      return;
    }
    scene.warnings.push_back(fmt::format(
        "pod {}{} fits no node of this fleet, even an empty one: {}; it counts as refused work",
        found.example->name,
        found.pods > 1 ? fmt::format(" (and {} like it)", found.pods - 1) : std::string(),
        found.why));
  }
}

void mark_fitting(Scene& scene, const std::vector<Unplaceable>& unplaceable) {
  std::vector<bool> never(scene.requests.size(), false);
  for (const Unplaceable& found : unplaceable) {
    never[scene.request_of[static_cast<std::size_t>(found.example - scene.pods.data())]] = true;
  }
  for (const std::uint32_t request : scene.request_of)
    scene.fits_empty.push_back(!never[request]);
}

}  // namespace

core::Node engine_node(const TraceNode& node, std::int64_t tie_rank) {
  core::Node made;
  made.name = node.name;
  made.cpu = Milli(node.cpu_milli);
  made.ram = Memory::mib(node.memory_mib);
  made.pod_slots = kPodSlotsPerNode;
  made.tie_rank = tie_rank;
  for (int i = 0; i < node.devices; ++i) {
    core::Device device;
    device.uuid = fmt::format("GPU-{}-{:02}", node.name, i);
    device.index = i;
    device.model = node.model;
    device.total = Memory::mib(kWholeDeviceMilli);
    device.pci_bus_id = fmt::format("{:02x}:00.0", i);
    made.devices.push_back(std::move(device));
  }
  return made;
}

Result<core::Request> engine_request(const TracePod& pod) {
  core::RequestSpec spec;
  spec.cpu = Milli(pod.cpu_milli);
  spec.ram = Memory::mib(pod.memory_mib);
  if (pod.num_gpu > 0) {
    core::DeviceAsk ask = pod.gpu_milli < kWholeDeviceMilli
                              ? core::DeviceAsk::fraction_nano(pod.gpu_milli * kNanoPerMilli)
                              : core::DeviceAsk::whole_devices(pod.num_gpu);
    ask.filter.models = split_models(pod.gpu_spec);
    core::ContainerAsk container;
    container.gpu = std::move(ask);
    spec.containers.push_back(std::move(container));
  }
  return core::Request::create(std::move(spec));
}

Result<Scene> make_scene(std::string trace, std::vector<TraceNode> nodes,
                         std::vector<TracePod> pods) {
  Scene scene;
  scene.trace = std::move(trace);
  scene.nodes = std::move(nodes);
  scene.pods = std::move(pods);
  scene.capacity = capacity_milli(scene.nodes);
  if (scene.capacity == 0) {
    return invalid_argument(
        "the node list has no device, so there is nothing to fill; give one in which gpu is above "
        "0 "
        "somewhere");
  }
  core::ClassCounts counts;
  using Ask = std::tuple<std::int64_t, std::int64_t, int, int, std::string_view>;
  std::map<Ask, std::uint32_t> asks;
  for (const TracePod& pod : scene.pods) {
    const Ask ask{pod.cpu_milli, pod.memory_mib, pod.num_gpu, pod.gpu_milli, pod.gpu_spec};
    const auto [entry, fresh] =
        asks.try_emplace(ask, static_cast<std::uint32_t>(scene.requests.size()));
    if (fresh) {
      TRY(core::Request request, engine_request(pod));
      scene.requests.push_back(std::move(request));
    }
    scene.request_of.push_back(entry->second);
    counts.add(work_class(pod));
  }
  for (const core::WorkClass& work : counts.classes()) {
    scene.history.classes.push_back({.cpu_milli = work.cpu_milli,
                                     .memory_mib = work.memory_mib,
                                     .gpu_milli = work.gpu_milli,
                                     .num_gpu = work.num_gpu,
                                     .gpu_spec = core::joined_models(work),
                                     .count = work.count});
  }
  scene.typical = core::typical_classes(counts);
  const std::vector<Unplaceable> unplaceable = find_unplaceable(scene.nodes, scene.pods);
  warn(scene, unplaceable);
  mark_fitting(scene, unplaceable);
  return scene;
}

}  // namespace berth::sim
