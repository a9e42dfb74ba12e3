#include "core/engine/claim_worlds_test.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/engine/world_test.h"

namespace berth::core {

namespace {

constexpr std::int64_t kMibOfA = 24;
constexpr std::int64_t kMibOfB = 40;

}  // namespace

void ClaimWorlds::choose_character() {
  nodes_ = 1 + to(3);
  most_devices_ = 1 + to(3);
  two_models_ = one_in(3);
  gangs_ = one_in(2);
  shares_ = one_in(2);
  times_ = one_in(3);
  caps_ = one_in(3);
  rights_ = one_in(3);
  history_ = one_in(10);
  leaves_ = 2 + to(2);
  dimensions_ = {{"*", one_in(4) ? DimensionKind::memory : DimensionKind::devices}};
  if (two_models_ && !one_in(3)) {
    dimensions_.emplace_back("A", one_in(3) ? DimensionKind::memory : DimensionKind::devices);
  }
  if (one_in(3)) {
    const auto other = dimensions_.front().second == DimensionKind::memory ? DimensionKind::devices
                                                                           : DimensionKind::memory;
    dimensions_.emplace_back("*", other);
  }
  if (one_in(6)) {
    dimensions_.emplace_back("*", DimensionKind::compute);
  }
}

Node ClaimWorlds::node(std::int64_t index) {
  const bool is_b = two_models_ && index % 2 == 1;
  Node node = node_of(fmt::format("n{}", index), static_cast<int>(1 + to(most_devices_ - 1)),
                      is_b ? kMibOfB : kMibOfA);
  for (Device& device : node.devices) {
    device.model = is_b ? "B" : "A";
  }
  node.labels["rack"] = fmt::format("r{}", index / 2);
  return node;
}

QueueDimension ClaimWorlds::terms(std::string_view device_class, DimensionKind kind) {
  QueueDimension terms{.device_class = std::string(device_class), .kind = kind};
  const std::int64_t unit = kind == DimensionKind::memory ? kMibOfA : 1000;
  const std::int64_t most = std::max<std::int64_t>(2, devices_);
  const auto amount = [&] {
    return one_in(4) ? to(most * unit / 2) : unit * to(std::max<std::int64_t>(1, most * 2 / 3));
  };
  terms.deserved = one_in(12) ? kUnlimited : amount();
  const std::int64_t due = std::max<std::int64_t>(0, terms.deserved);
  terms.limit = terms.deserved != kUnlimited && one_in(5) ? due + amount() : kUnlimited;
  terms.reserved = one_in(6) ? (one_in(2) ? due : to(due)) : 0;
  terms.weight = one_in(2) ? 1 : to(3);
  return terms;
}

QueueSpec ClaimWorlds::queue(const std::string& name, const std::string& parent) {
  QueueSpec queue;
  queue.name = name;
  queue.parent = parent;
  queue.priority = one_in(4) ? 101 : 100;
  queue.created = Time(to(2));
  for (const auto& [device_class, kind] : dimensions_) {
    if (!one_in(5)) {
      queue.dimensions.push_back(terms(device_class, kind));
    }
  }
  if (rights_) {
    queue.reclaim = static_cast<ReclaimRight>(to(2));
    queue.preempt = static_cast<PreemptRight>(to(1));
    queue.order = static_cast<QueueOrder>(to(2));
  }
  if (times_) {
    queue.min_runtime.reclaim = one_in(2) ? Duration(to(4) * 60'000) : Duration(0);
    queue.min_runtime.preempt = one_in(2) ? Duration(to(4) * 60'000) : Duration(0);
    if (one_in(4)) {
      queue.min_runtime.by_priority.push_back(
          {.at_least = to(3), .reclaim = Duration(to(3) * 60'000), .preempt = Duration(90'000)});
    }
    queue.preemption_delay = one_in(4) ? Duration(to(3) * 30'000) : Duration(0);
  }
  if (caps_) {
    queue.evictions.per_workload_per_hour = one_in(3) ? kNoCap : to(3);
    queue.evictions.per_claim = one_in(2) ? kNoCap : to(2);
  }
  if (history_ && one_in(2)) {
    queue.history = QueueHistory{.half_life = Duration(600'000), .k = 1000};
  }
  return queue;
}

// The leaves keep their names; what lies above them is another tree each time.
EventBody ClaimWorlds::queues() {
  QueueConfig config;
  std::vector<std::string> inner{"root"};
  std::vector<int> depth{0};
  const std::int64_t many = to(4);
  for (std::int64_t i = 0; i < many; ++i) {
    const auto above = static_cast<std::size_t>(to(std::ssize(inner) - 1));
    if (depth[above] < 3) {
      config.queues.push_back(queue(fmt::format("q{}", i), inner[above]));
      inner.push_back(config.queues.back().name);
      depth.push_back(depth[above] + 1);
    }
  }
  for (std::int64_t i = 0; i < leaves_; ++i) {
    config.queues.push_back(queue(fmt::format("l{}", i), of(inner)));
  }
  for (QueueSpec& each : config.queues) {
    if (held_one_in(8)) {
      each.stop = held_one_in(3) ? QueueStop::hold_and_drain : QueueStop::hold;
    }
  }
  return QueuesChanged{.config = std::move(config)};
}

DeviceAsk ClaimWorlds::ask(bool small) {
  DeviceAsk ask = DeviceAsk::whole_devices(static_cast<int>(1 + (small ? 0 : to(1) * to(2))));
  if (shares_ && !one_in(3)) {
    ask = one_in(2) ? DeviceAsk::memory_mib(4 * (1 + to(5)))
                    : DeviceAsk::memory_mib(1 + to(kMibOfA - 1), static_cast<int>(1 + to(1)));
  }
  if (two_models_) {
    ask.filter.models = {one_in(3) ? "B" : "A"};
  }
  return ask;
}

WorkloadOptions ClaimWorlds::options() {
  WorkloadOptions options;
  options.queue = fmt::format("l{}", to(leaves_ - 1));
  options.priority = one_in(2) ? 0 : to(3);
  options.preemptible = !one_in(6);
  options.restartable = !one_in(4);
  if (times_ && one_in(6)) {
    options.preemption_delay = Duration(to(3) * 40'000);
  }
  if (one_in(10)) {
    options.max_run = Duration(to(20) * 60'000);
  }
  return options;
}

std::string ClaimWorlds::uid() { return fmt::format("w{}", to(13)); }

EventBody ClaimWorlds::task() {
  return WorkloadSubmitted{Workload::task(uid(), asking(ask(false)), options())};
}

EventBody ClaimWorlds::gang() {
  Group group;
  group.members.push_back(
      {.name = "m", .count = 1 + to(3), .request = asking(ask(true)), .priority = {}});
  group.min = 1 + to(group.members.front().count - 1);
  if (one_in(3)) {
    group.topology.required = "rack";
  }
  GangOptions options_of_gang;
  options_of_gang.whole_only = one_in(4);
  return WorkloadSubmitted{
      Workload::gang(uid(), {.root = group, .options = options_of_gang}, options()).value()};
}

ClaimStep ClaimWorlds::step() {
  ClaimStep step{.after = Duration(one_in(3) ? to(20'000) : 0), .what = Answer{}};
  if (hits(430)) {
    step.what = gangs_ && one_in(3) ? gang() : task();
  } else if (hits(350)) {
    step.what = Answer{.all = one_in(2)};
  } else if (hits(400)) {
    const std::string who = gangs_ && one_in(2) ? fmt::format("{}/m-{}", uid(), to(3)) : uid();
    switch (to(4)) {
      case 0: step.what = GrantLost{.uid = who, .why = "exit 1", .requeue = one_in(2)}; break;
      case 1: step.what = GrantReleasing{who}; break;
      case 2: step.what = GrantConfirmed{who}; break;
      case 3: step.what = WorkloadCancelled{uid()}; break;
      default: step.what = GrantReleased{who};
    }
  } else if (hits(500)) {
    step.after = Duration(to(1) * 45'000 + to(5) * 60'000);
    step.what = TimeReached{};
  } else if (hits(500)) {
    const std::int64_t which = to(nodes_ - 1);
    if (one_in(2)) {
      step.what = NodeRemoved{fmt::format("n{}", which)};
    } else {
      step.what = NodeUpserted{node(which)};
    }
  } else if (hits(400)) {
    step.what = queues();
  } else {
    step.what = task();
  }
  return step;
}

std::vector<ClaimStep> ClaimWorlds::world(std::size_t count) {
  choose_character();
  std::vector<ClaimStep> steps;
  const auto add = [&](EventBody body) {
    steps.push_back({.after = Duration(0), .what = std::move(body)});
  };
  add(TopologiesChanged{{{.name = "racks", .levels = {"rack"}}}});
  for (std::int64_t i = 0; i < nodes_; ++i) {
    Node made = node(i);
    devices_ += std::ssize(made.devices);
    add(NodeUpserted{std::move(made)});
  }
  add(queues());
  bool held = false;
  for (std::size_t i = 0; i < count; ++i) {
    steps.push_back(step());
    if (held_one_in(held ? 4 : 10)) {
      held = !held;
      add(GrantingHeld{held});
    }
  }
  if (held) {
    add(GrantingHeld{false});
  }
  return steps;
}

}  // namespace berth::core
