#include "config/queue_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "core/queue/queue_tree.h"

namespace berth::config {

namespace {

using core::DimensionKind;
using DimensionKey = std::pair<std::string, DimensionKind>;

constexpr std::string_view kEvery = "*";

bool is_offered(const core::Node& node, const core::Device& device) {
  return node.ready && device.health == core::DeviceHealth::ok && device.total.has_value() &&
         !device.mig_enabled;
}

// Amounts by class and kind, "*" among the classes.
using Capacity = std::map<DimensionKey, std::int64_t>;

Capacity capacity_of(const std::vector<core::Node>& fleet) {
  Capacity capacity;
  for (const core::Node& node : fleet) {
    for (const core::Device& device : node.devices) {
      if (!is_offered(node, device)) continue;
      for (const std::string& of : {device.model, std::string(kEvery)}) {
        capacity[{of, DimensionKind::devices}] += kWholeMilli.count();
        capacity[{of, DimensionKind::compute}] += kWholeMilli.count();
        capacity[{of, DimensionKind::memory}] += device.usable_mib();
      }
    }
  }
  return capacity;
}

// The fleet without every second node in order of names, or the one node without every second
// device.
std::vector<core::Node> half_of(std::vector<core::Node> fleet, std::vector<std::string>& lost) {
  std::ranges::sort(fleet, {}, &core::Node::name);
  std::vector<core::Node> left;
  if (fleet.size() == 1) {
    core::Node node = fleet.front();
    node.devices.clear();
    for (std::size_t i = 0; i < fleet.front().devices.size(); ++i) {
      if (i % 2 == 0) {
        node.devices.push_back(fleet.front().devices[i]);
      } else {
        lost.push_back(fmt::format("{}/g{}", node.name, i));
      }
    }
    left.push_back(std::move(node));
    return left;
  }
  for (std::size_t i = 0; i < fleet.size(); ++i) {
    if (i % 2 == 0) {
      left.push_back(fleet[i]);
    } else {
      lost.push_back(fleet[i].name);
    }
  }
  return left;
}

class Planner {
 public:
  Planner(const core::QueueConfig& config, const std::vector<core::Node>& fleet)
      : whole_(capacity_of(fleet)), half_(capacity_of(half_of(fleet, plan_.lost))) {
    plan_.nodes = fleet.size();
    for (const core::Node& node : fleet) {
      plan_.devices += static_cast<std::size_t>(std::ranges::count_if(
          node.devices, [&](const core::Device& device) { return is_offered(node, device); }));
    }
    // Refused by nobody, for the classes were checked before; what is held is told by the tree.
    (void)tree_.configure(config, {});
    for (const core::QueueSpec& queue : config.queues) {
      for (const core::QueueDimension& dimension : queue.dimensions)
        named_.insert({dimension.device_class, dimension.kind});
    }
  }

  QueuePlan plan() && {
    ask_for_everything();
    walk(core::kRootQueue, -1);
    for (const DimensionKey& key : named_)
      plan_.dimensions.push_back(describe(key));
    fill(whole_, &PlannedDimension::whole);
    fill(half_, &PlannedDimension::half);
    return std::move(plan_);
  }

 private:
  void ask_for_everything() {
    core::Charge everything;
    for (const auto& [key, amount] : whole_) {
      if (key.first == kEvery || key.second != DimensionKind::devices) continue;
      everything.parts.push_back({.device_class = tree_.class_of(key.first),
                                  .mib = whole_.at({key.first, DimensionKind::memory}),
                                  .compute_milli = whole_.at({key.first, DimensionKind::compute}),
                                  .whole = amount / kWholeMilli.count()});
    }
    for (std::uint32_t id = 0; id < tree_.queue_slots(); ++id) {
      const core::QueueId queue{id};
      if (tree_.is_leaf(queue) && may_ask(queue)) tree_.add_demand(queue, everything);
    }
  }

  // What may not start counts for no demand.
  bool may_ask(core::QueueId queue) const {
    return tree_.held_because(queue).empty() && tree_.stop(queue) == core::QueueStop::none;
  }

  // A tree begins with the leaf of nobody's configuration, which is then not listed any more.
  void walk(core::QueueId queue, int depth) {
    if (queue != core::kRootQueue) {
      ids_.push_back(queue);
      plan_.queues.push_back({.name = tree_.name(queue),
                              .parent = tree_.name(tree_.parent(queue)),
                              .path = tree_.path_name(queue),
                              .depth = depth,
                              .leaf = tree_.is_leaf(queue),
                              .held = tree_.held_because(queue),
                              .stop = tree_.stop(queue),
                              .dimensions = {}});
      for (const DimensionKey& key : named_) {
        plan_.queues.back().dimensions.push_back(
            {.wanted = wanted(tree_.spec(queue), key),
             .children_deserved = children_deserved(queue, key),
             .whole = {},
             .half = {}});
      }
    }
    for (const core::QueueId child : tree_.children(queue))
      if (tree_.is_listed(child)) walk(child, depth + 1);
  }

  static core::QueueDimension wanted(const core::QueueSpec& spec, const DimensionKey& key) {
    for (const core::QueueDimension& dimension : spec.dimensions) {
      if (dimension.device_class == key.first && dimension.kind == key.second) return dimension;
    }
    return {.device_class = key.first, .kind = key.second};
  }

  std::int64_t children_deserved(core::QueueId queue, const DimensionKey& key) const {
    std::int64_t sum = 0;
    for (const core::QueueId child : tree_.children(queue))
      sum += std::max<std::int64_t>(0, wanted(tree_.spec(child), key).deserved);
    return sum;
  }

  DimensionPlan describe(const DimensionKey& key) const {
    const auto amount = [&](const Capacity& capacity) {
      const auto found = capacity.find(key);
      return found == capacity.end() ? 0 : found->second;
    };
    return {.name = core::dimension_name({.device_class = key.first, .kind = key.second}),
            .kind = key.second,
            .capacity = amount(whole_),
            .half_capacity = amount(half_),
            .deserved = children_deserved(core::kRootQueue, key)};
  }

  void fill(const Capacity& capacity, Entitled PlannedDimension::* into) {
    for (const auto& [key, amount] : whole_) {
      const auto left = capacity.find(key);
      tree_.set_capacity(key.first == kEvery ? core::kEveryClass : tree_.class_of(key.first),
                         key.second, left == capacity.end() ? 0 : left->second);
    }
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      std::size_t at = 0;
      for (const auto& [device_class, kind] : named_) {
        const auto dimension = tree_.dimension(device_class, kind);
        ASSERT(dimension.has_value(), device_class);
        const core::QuotaFigures figures = tree_.figures(ids_[i], *dimension);
        plan_.queues[i].dimensions[at++].*
            into = {.deserved = figures.effective_deserved, .share = figures.fair};
      }
    }
  }

  QueuePlan plan_;
  Capacity whole_;
  Capacity half_;
  core::QueueTree tree_;
  std::set<DimensionKey> named_;
  std::vector<core::QueueId> ids_;  // of plan_.queues
};

}  // namespace

QueuePlan plan_queues(const core::QueueConfig& config, const std::vector<core::Node>& fleet) {
  return Planner(config, fleet).plan();
}

}  // namespace berth::config
