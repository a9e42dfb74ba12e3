#include "kube/scheduler/volumes.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "kube/scheduler/place_rules.h"
#include "kube/scheduler/selectors.h"
#include "request/units.h"

namespace berth::kube {

namespace {

constexpr std::string_view kNoProvisioner = "kubernetes.io/no-provisioner";
constexpr std::string_view kOnePodOnly = "ReadWriteOncePod";

std::int64_t bytes_of(const std::string& quantity, std::int64_t otherwise) {
  if (quantity.empty()) {
    return otherwise;
  }
  const auto parsed = request::parse_ram(quantity);
  return parsed.has_value() ? parsed->in_bytes() : otherwise;
}

bool is_bound(const VolumeClaim& claim) { return !claim.volume.empty() && claim.bind_completed; }

// A volume that nobody has, or that was set aside for this very claim.
bool serves(const Volume& volume, const VolumeClaim& claim) {
  const bool set_aside = volume.claim_namespace == claim.meta.namespace_name &&
                         volume.claim_name == claim.meta.name &&
                         (volume.claim_uid.empty() || volume.claim_uid == claim.meta.uid);
  const bool nobodys = volume.claim_name.empty() && volume.phase == "Available";
  return (set_aside || nobodys) && !volume.meta.deleting &&
         volume.storage_class == claim.storage_class && volume.volume_mode == claim.volume_mode &&
         matches(claim.selector, volume.meta.labels) &&
         std::ranges::all_of(claim.access_modes,
                             [&](const std::string& mode) {
                               return std::ranges::find(volume.access_modes, mode) !=
                                      volume.access_modes.end();
                             }) &&
         bytes_of(volume.capacity, 0) >= bytes_of(claim.request, 0);
}

bool reaches(const Volume& volume, const NodeFacts& node) {
  return matches_any(volume.node_terms, node.labels, node.name);
}

// The smallest that serves there, by name where equal; those `taken` are given to another claim of
// the same pod.
const Volume* find_volume(const Census& census, const VolumeClaim& claim, const NodeFacts& node,
                          const std::set<std::string>& taken) {
  const Volume* best = nullptr;
  for (const auto& [name, volume] : census.volumes) {
    if (taken.contains(name) || !serves(volume, claim) || !reaches(volume, node)) {
      continue;
    }
    if (volume.claim_name == claim.meta.name) {
      return &volume;
    }
    if (best == nullptr || bytes_of(volume.capacity, 0) < bytes_of(best->capacity, 0)) {
      best = &volume;
    }
  }
  return best;
}

bool can_provision(const Census& census, const VolumeClaim& claim, const NodeFacts& node) {
  const auto of_class = census.classes.find(claim.storage_class);
  if (of_class == census.classes.end() || of_class->second.provisioner == kNoProvisioner) {
    return false;
  }
  const StorageClass& kind = of_class->second;
  if (!claim.selected_node.empty() && claim.selected_node != node.name) {
    return false;
  }
  if (!kind.allowed_topologies.empty() &&
      std::ranges::none_of(kind.allowed_topologies,
                           [&](const Selector& term) { return matches(term, node.labels); })) {
    return false;
  }
  const auto driver = census.csi_drivers.find(kind.provisioner);
  if (driver == census.csi_drivers.end() || !driver->second.storage_capacity) {
    return true;
  }
  const std::int64_t wanted = bytes_of(claim.request, 0);
  return std::ranges::any_of(census.csi_capacities, [&](const auto& entry) {
    const CsiCapacity& room = entry.second;
    const std::int64_t most = bytes_of(room.maximum_volume_size, bytes_of(room.capacity, 0));
    return room.storage_class == claim.storage_class && matches(room.node_topology, node.labels) &&
           wanted <= most;
  });
}

// Why the claims of the pod allow no node whatever; empty: some may.
std::string why_none(const Census& census, const PodFacts& pod) {
  for (const PodVolume& volume : pod.rules->volumes) {
    const std::string key = claim_key(pod, volume);
    const auto found = census.claims.find(key);
    if (found == census.claims.end()) {
      return fmt::format("waits for PersistentVolumeClaim {}, which does not exist", key);
    }
    const VolumeClaim& claim = found->second;
    if (volume.ephemeral && claim.meta.owner_uid != pod.uid) {
      return fmt::format(
          "PersistentVolumeClaim {} was not made for this pod; delete it, or rename the volume",
          key);
    }
    if (claim.meta.deleting) {
      return fmt::format("PersistentVolumeClaim {} is being deleted", key);
    }
    if (claim.phase == "Lost") {
      return fmt::format("PersistentVolumeClaim {} has lost its volume", key);
    }
    if (is_bound(claim)) {
      if (!census.volumes.contains(claim.volume)) {
        return fmt::format("PersistentVolume {} of claim {} does not exist", claim.volume, key);
      }
      continue;
    }
    const auto of_class = census.classes.find(claim.storage_class);
    if (of_class == census.classes.end() || !of_class->second.waits_for_consumer) {
      return fmt::format(
          "unbound immediate PersistentVolumeClaims: {} waits for its volume before any node is "
          "chosen",
          key);
    }
  }
  return {};
}

class ClaimsReach : public PlaceRule {
 public:
  ClaimsReach(const Census& census, const PodFacts& pod) : census_(census), pod_(pod) {}

  bool passes(NodeIndex index) const override {
    const NodeFacts& node = census_.node(index);
    std::set<std::string> taken;
    for (const PodVolume& volume : pod_.rules->volumes) {
      const VolumeClaim& claim = census_.claims.at(claim_key(pod_, volume));
      if (is_bound(claim)) {
        if (!reaches(census_.volumes.at(claim.volume), node)) {
          return false;
        }
        continue;
      }
      if (const Volume* found = find_volume(census_, claim, node, taken)) {
        taken.insert(found->meta.name);
      } else if (!can_provision(census_, claim, node)) {
        return false;
      }
    }
    return true;
  }

 private:
  const Census& census_;
  const PodFacts& pod_;
};

class OnePodOnly : public PlaceRule {
 public:
  bool passes(NodeIndex) const override { return false; }
};

// The driver of a claim's volume, empty where there is none.
std::string driver_of(const Census& census, const VolumeClaim& claim) {
  if (const auto volume = census.volumes.find(claim.volume); volume != census.volumes.end()) {
    return volume->second.csi_driver;
  }
  const auto of_class = census.classes.find(claim.storage_class);
  return of_class == census.classes.end() ? std::string() : of_class->second.provisioner;
}

using VolumesByDriver = std::map<std::string, std::set<std::string>>;

void count_volumes(const Census& census, const PodFacts& pod, VolumesByDriver& into) {
  if (pod.rules == nullptr) {
    return;
  }
  for (const PodVolume& volume : pod.rules->volumes) {
    const std::string key = claim_key(pod, volume);
    const auto claim = census.claims.find(key);
    if (claim == census.claims.end()) {
      continue;
    }
    const std::string driver = driver_of(census, claim->second);
    if (!driver.empty()) {
      into[driver].insert(claim->second.volume.empty() ? key : claim->second.volume);
    }
  }
}

class Limits : public PlaceRule {
 public:
  Limits(const Census& census, const PodFacts& pod) : census_(census), pod_(pod) {
    count_volumes(census, pod, wanted_);
  }

  bool passes(NodeIndex index) const override {
    const NodeFacts& node = census_.node(index);
    const auto limits = census_.csi_nodes.find(node.name);
    if (limits == census_.csi_nodes.end()) {
      return true;
    }
    VolumesByDriver there = wanted_;
    for (const PodFacts* other : node.pods) {
      if (other != &pod_) {
        count_volumes(census_, *other, there);
      }
    }
    return std::ranges::all_of(wanted_, [&](const auto& entry) {
      const auto limit = limits->second.limits.find(entry.first);
      return limit == limits->second.limits.end() ||
             std::ssize(there.at(entry.first)) <= limit->second;
    });
  }

 private:
  const Census& census_;
  const PodFacts& pod_;
  VolumesByDriver wanted_;
};

bool has_volumes(const PodFacts& pod) {
  return pod.rules != nullptr && !pod.rules->volumes.empty();
}

}  // namespace

ReadyRule ready_volumes(const Census& census, const PodFacts& pod) {
  if (!has_volumes(pod)) {
    return {};
  }
  if (!census.storage_problem.empty()) {
    return {.waits = "unsupported constraint: spec.volumes: " + census.storage_problem};
  }
  if (std::string why = why_none(census, pod); !why.empty()) {
    return {.waits = std::move(why)};
  }
  return {.rule = std::make_unique<ClaimsReach>(census, pod)};
}

ReadyRule ready_single_writer(const Census& census, const PodFacts& pod) {
  if (!has_volumes(pod)) {
    return {};
  }
  for (const PodVolume& volume : pod.rules->volumes) {
    const std::string key = claim_key(pod, volume);
    const auto claim = census.claims.find(key);
    if (claim == census.claims.end() ||
        std::ranges::find(claim->second.access_modes, kOnePodOnly) ==
            claim->second.access_modes.end()) {
      continue;
    }
    for (const PodFacts* user : census.users_of(key)) {
      if (user != &pod) {
        return {.rule = std::make_unique<OnePodOnly>(),
                .waits = fmt::format("PersistentVolumeClaim {} is for one pod only, and {} uses it",
                                     key, user->id)};
      }
    }
  }
  return {};
}

ReadyRule ready_volume_limits(const Census& census, const PodFacts& pod) {
  if (!has_volumes(pod) || census.csi_nodes.empty()) {
    return {};
  }
  return {.rule = std::make_unique<Limits>(census, pod)};
}

std::vector<ClaimStep> steps_to_bind(const Census& census, const PodFacts& pod, NodeIndex index) {
  std::vector<ClaimStep> steps;
  if (!has_volumes(pod)) {
    return steps;
  }
  std::set<std::string> taken;
  for (const PodVolume& volume : pod.rules->volumes) {
    const std::string key = claim_key(pod, volume);
    const auto claim = census.claims.find(key);
    if (claim == census.claims.end() || is_bound(claim->second)) {
      continue;
    }
    const Volume* found = find_volume(census, claim->second, census.node(index), taken);
    steps.push_back({.claim = key, .volume = found == nullptr ? "" : found->meta.name});
    if (found != nullptr) {
      taken.insert(found->meta.name);
    }
  }
  return steps;
}

bool all_bound(const Census& census, const PodFacts& pod) {
  return !has_volumes(pod) || std::ranges::all_of(pod.rules->volumes, [&](const PodVolume& volume) {
    const auto claim = census.claims.find(claim_key(pod, volume));
    return claim != census.claims.end() && is_bound(claim->second);
  });
}

}  // namespace berth::kube
