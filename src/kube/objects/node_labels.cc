// Labels of GPU Feature Discovery (nvidia-node.md 9): what a node has when nobody annotated it.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kube/objects/amounts.h"
#include "kube/objects/node_parts.h"
#include "request/mig_profile.h"
#include "request/units.h"

namespace berth::kube {

namespace {

constexpr std::string_view kPrefix = "nvidia.com/";
constexpr std::string_view kGpu = "nvidia.com/gpu";
constexpr std::int64_t kMostDevices = core::kMaxDevicesPerNode;
// Below this `gpu.memory` is MiB, from here on bytes (annotations.md 2.3).
constexpr std::int64_t kLeastBytes = 1'048'576;

const std::string* find(const Labels& labels, const std::string& key) {
  const auto found = labels.find(key);
  return found == labels.end() ? nullptr : &found->second;
}

class LabelReader {
 public:
  LabelReader(const Node& node, const NodeRules& rules)
      : node_(node), labels_(node.meta.labels), rules_(rules) {}

  NodeDevices run() {
    read_gpus();
    read_instances();
    if (into_.devices.size() > core::kMaxDevicesPerNode) {
      problem("nvidia.com/gpu.count", fmt::format("at most {} devices in all", kMostDevices));
    }
    return std::move(into_);
  }

 private:
  std::optional<std::int64_t> number(const std::string& key, std::int64_t most) {
    return label_number(labels_, key, most, into_.problem);
  }

  void problem(const std::string& key, std::string_view rule) {
    if (into_.problem.empty()) {
      const std::string* value = find(labels_, key);
      into_.problem = node_problem("BadNodeLabel", key, value != nullptr ? *value : "", rule);
    }
  }

  // How many of a resource the vendor's plug-in offers to pods.
  std::int64_t offered(std::string_view resource) const {
    const auto found = node_.allocatable.find(std::string(resource));
    if (found == node_.allocatable.end()) {
      return 0;
    }
    const auto amount = read_amount(resource, found->second);
    return amount.ok() ? *amount : 0;
  }

  // Total of one device of `resource`, which is "gpu" or "mig-<profile>".
  std::optional<Memory> memory_of(const std::string& resource) {
    const std::string key = fmt::format("{}{}.memory", kPrefix, resource);
    const auto value = number(key, kMostMib * Memory::kBytesPerMib);
    if (!value || *value == 0) {
      into_.notes.push_back(
          fmt::format("label {} is missing or 0: its devices have no known size", key));
      return std::nullopt;
    }
    return *value < kLeastBytes ? Memory::mib(*value) : Memory::bytes(*value);
  }

  void add(const std::string& resource, const std::string& profile, std::int64_t count,
           std::int64_t offers) {
    const std::optional<Memory> total = memory_of(resource);
    const std::string* product = find(labels_, fmt::format("{}{}.product", kPrefix, resource));
    for (std::int64_t place = 0; place < count; ++place) {
      core::Device device;
      device.uuid = fmt::format(
          "{}/{}/{}", node_.meta.uid.empty() ? node_.meta.name : node_.meta.uid, resource, place);
      device.index = static_cast<int>(place);
      device.model = product != nullptr ? *product : "";
      device.total = total;
      if (total) {
        device.reserve = rules_.reserve.value_or(core::default_reserve(*total));
      }
      device.mig_profile = profile;
      device.owned = false;
      // Not offered now: nothing new goes there, what runs stays (a plug-in that restarts).
      device.health = place < offers ? core::DeviceHealth::ok : core::DeviceHealth::unhealthy;
      into_.devices.push_back(std::move(device));
    }
  }

  void read_gpus() {
    const std::string count_key = "nvidia.com/gpu.count";
    if (find(labels_, count_key) == nullptr) {
      return;
    }
    const auto count = number(count_key, kMostDevices);
    const auto replicas = number("nvidia.com/gpu.replicas", 1'000'000);
    if (!count) {
      return;
    }
    const std::int64_t offers = offered(kGpu);
    if (replicas == 0) {
      return;  // all of them are cut into instances
    }
    if (replicas.value_or(1) > 1) {
      if (offers > 0) {
        into_.notes.push_back(fmt::format(
            "nvidia.com/gpu stands for a part of a device here (nvidia.com/gpu.replicas={}), so no "
            "whole device can be promised",
            *replicas));
      }
      return;
    }
    if (offers > *count) {
      return problem(count_key,
                     fmt::format("no less than the {} that the node offers as {}", offers, kGpu));
    }
    if (offers < *count) {
      into_.notes.push_back(fmt::format(
          "{} of {} devices are offered as {}; the rest takes nothing new", offers, *count, kGpu));
    }
    add("gpu", "", *count, offers);
  }

  // Strategy `mixed`: a resource per profile.
  void read_instances() {
    const std::string prefix = fmt::format("{}mig-", kPrefix);
    for (auto at = labels_.lower_bound(prefix);
         at != labels_.end() && at->first.starts_with(prefix); ++at) {
      const std::string& key = at->first;
      if (!key.ends_with(".count")) {
        continue;
      }
      const std::string resource = key.substr(kPrefix.size(), key.size() - kPrefix.size() - 6);
      const auto profile = request::parse_mig_resource(resource);
      if (!profile) {
        continue;  // as "mig-strategy.count" of somebody else would be
      }
      const auto count = number(key, kMostDevices);
      if (!count) {
        return;
      }
      const std::int64_t offers = offered(fmt::format("{}{}", kPrefix, resource));
      if (offers > *count) {
        return problem(key, fmt::format("no less than the {} that the node offers as {}{}", offers,
                                        kPrefix, resource));
      }
      add(resource, profile->text(), *count, offers);
    }
  }

  const Node& node_;
  const Labels& labels_;
  const NodeRules& rules_;
  NodeDevices into_;
};

}  // namespace

std::optional<std::int64_t> label_number(const Labels& labels, const std::string& key,
                                         std::int64_t most, std::string& problem) {
  const std::string* text = find(labels, key);
  if (text == nullptr) {
    return std::nullopt;
  }
  std::int64_t value = 0;
  bool good = !text->empty() && text->size() <= 19;
  for (const char c : *text) {
    good = good && c >= '0' && c <= '9';
    if (good) {
      value = value > most ? value : value * 10 + (c - '0');
    }
  }
  if (!good || value > most) {
    if (problem.empty()) {
      problem = node_problem("BadNodeLabel", key, *text,
                             fmt::format("a whole number from 0 to {}", most));
    }
    return std::nullopt;
  }
  return value;
}

NodeDevices read_device_labels(const Node& node, const NodeRules& rules) {
  return LabelReader(node, rules).run();
}

}  // namespace berth::kube
