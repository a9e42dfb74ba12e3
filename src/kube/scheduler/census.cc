#include "kube/scheduler/census.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/result.h"

namespace berth::kube {

namespace {

std::uint64_t hash_of(const Labels& labels) {
  std::uint64_t hash = 1469598103934665603U;
  const auto add = [&hash](std::string_view text) {
    for (const char c : text) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
    }
    hash = (hash ^ 0xffU) * 1099511628211U;
  };
  for (const auto& [key, value] : labels) {
    add(key);
    add(value);
  }
  return hash;
}

}  // namespace

std::string Census::key(std::string_view namespace_name, std::string_view name) {
  return fmt::format("{}/{}", namespace_name, name);
}

std::string claim_key(const PodFacts& pod, const PodVolume& volume) {
  return volume.ephemeral ? fmt::format("{}/{}-{}", pod.namespace_name(), pod.name(), volume.name)
                          : fmt::format("{}/{}", pod.namespace_name(), volume.claim);
}

NodeIndex Census::index_of(std::string_view name) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    return found->second;
  }
  const auto index = static_cast<NodeIndex>(nodes_.size());
  nodes_.push_back({.name = std::string(name)});
  by_name_.emplace(name, index);
  return index;
}

NodeIndex Census::find_node(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? kNoNode : found->second;
}

// Labels that nobody has any more are swept out when the table has doubled.
LabelsRef Census::intern(const Labels& labels) {
  const std::uint64_t hash = hash_of(labels);
  const auto [first, last] = labels_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    if (LabelsRef known = at->second.lock(); known != nullptr && *known == labels) {
      return known;
    }
  }
  if (labels_.size() >= sweep_labels_at_) {
    std::erase_if(labels_, [](const auto& entry) { return entry.second.expired(); });
    sweep_labels_at_ = std::max<std::size_t>(1024, labels_.size() * 2);
  }
  auto fresh = std::make_shared<const Labels>(labels);
  labels_.emplace(hash, fresh);
  return fresh;
}

void Census::place(PodFacts& facts, NodeIndex index) {
  ASSERT(facts.group == nullptr, facts.id);
  facts.node = index;
  NodeFacts& at = nodes_[index];
  at.pods.push_back(&facts);
  const std::pair key(std::string(facts.namespace_name()), facts.labels.get());
  PodGroup& group = groups_[key];
  if (group.labels == nullptr) {
    group.namespace_name = key.first;
    group.labels = facts.labels;
  }
  facts.group = &group;
  PodGroup::Count& count = group.on[index];
  ++count.all;
  count.deleting += facts.deleting ? 1 : 0;
  for (const auto& [name, amount] : facts.takes.others) {
    at.taken[name] += amount;
  }
  if (!facts.takes.others.empty()) {
    touch(Ground::others);
  }
  touch(Ground::pods);
  if (facts.rules == nullptr) {
    return;
  }
  if (!facts.rules->anti_affinity.empty()) {
    guarded_.insert(&facts);
  }
  if (!facts.rules->ports.empty()) {
    touch(Ground::ports);
  }
  for (const PodVolume& volume : facts.rules->volumes) {
    by_claim_[claim_key(facts, volume)].insert(&facts);
    touch(Ground::storage);
  }
}

void Census::leave(PodFacts& facts) {
  if (facts.group == nullptr) {
    return;
  }
  NodeFacts& at = nodes_[facts.node];
  std::erase(at.pods, &facts);
  PodGroup& group = *facts.group;
  PodGroup::Count& count = group.on[facts.node];
  count.deleting -= facts.deleting ? 1 : 0;
  if (--count.all == 0) {
    group.on.erase(facts.node);
  }
  if (group.on.empty()) {
    groups_.erase({group.namespace_name, group.labels.get()});
  }
  facts.group = nullptr;
  for (const auto& [name, amount] : facts.takes.others) {
    at.taken[name] -= amount;
  }
  if (!facts.takes.others.empty()) {
    touch(Ground::others);
  }
  touch(Ground::pods);
  if (facts.rules != nullptr) {
    guarded_.erase(&facts);
    if (!facts.rules->ports.empty()) {
      touch(Ground::ports);
    }
    for (const PodVolume& volume : facts.rules->volumes) {
      const auto users = by_claim_.find(claim_key(facts, volume));
      if (users != by_claim_.end() && users->second.erase(&facts) > 0 && users->second.empty()) {
        by_claim_.erase(users);
      }
      touch(Ground::storage);
    }
  }
  facts.node = kNoNode;
}

void Census::set_deleting(PodFacts& facts) {
  if (facts.deleting) {
    return;
  }
  facts.deleting = true;
  if (facts.group != nullptr) {
    ++facts.group->on[facts.node].deleting;
    touch(Ground::pods);
  }
}

std::vector<const PodFacts*> Census::users_of(const std::string& claim) const {
  const auto found = by_claim_.find(claim);
  return found == by_claim_.end()
             ? std::vector<const PodFacts*>()
             : std::vector<const PodFacts*>(found->second.begin(), found->second.end());
}

}  // namespace berth::kube
