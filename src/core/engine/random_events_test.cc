#include "core/engine/random_events_test.h"

#include <utility>

#include "core/placement/registry.h"

namespace berth::core {

namespace {

// Every registered policy, and one of them by level.
std::vector<std::string> all_policies() {
  std::vector<std::string> names{"nodes=pack,devices=spread"};
  for (const PolicyInfo& policy : registered_policies()) {
    names.emplace_back(policy.name);
  }
  return names;
}

}  // namespace

EngineConfig RandomEvents::config() {
  EngineConfig config;
  config.policy = pick(all_policies());
  config.policy_seed = static_cast<std::uint64_t>(below(5));
  if (rarely(3)) {
    config.max_sample_age = Duration(3000);
  }
  config.limit_overcommit_percent = pick<std::int64_t>({100, 150, 200, 300});
  if (rarely(4)) {
    config.device_cap = static_cast<int>(1 + below(3));
  }
  config.reservations = rarely(3);
  config.aging_step = Duration(pick<std::int64_t>({1, 2000, 600'000}));
  config.releasing_horizon = Duration(pick<std::int64_t>({0, 1500, 120'000}));
  if (rarely(4)) {
    config.whole_foreign_max = Memory::mib(below(2) * 300);
  }
  return config;
}

Device RandomEvents::device(std::int64_t index) {
  Device device;
  device.uuid = "g" + std::to_string(index);
  device.index = static_cast<int>(index);
  device.model = rarely(2) ? "A100" : "T4";
  device.reserve = Memory::bytes(Memory::mib(200).in_bytes() + below(3) * 1000);
  device.total = Memory::mib(pick<std::int64_t>({4296, 8392, 10'200, 16'584}));
  device.numa = static_cast<int>(index % 2);
  device.link_set = rarely(3) ? 0 : -1;
  if (rarely(12)) {
    device.total.reset();
  }
  device.health = rarely(10) ? DeviceHealth::unhealthy : DeviceHealth::ok;
  device.cordoned = rarely(12);
  device.owned = !rarely(12);
  device.sm_sharing = !rarely(6);
  if (index >= 7) {  // a MIG instance
    device.mig_profile = "1g.5gb";
    device.mig_parent = "g6";
  }
  device.mig_enabled = index == 6 && rarely(2);
  return device;
}

// Node i usually carries devices 2i and 2i + 1, the last one also g8; sometimes others, or fewer.
Node RandomEvents::node(std::int64_t index) {
  Node node;
  node.name = "n" + std::to_string(index);
  node.cpu = Milli(pick<std::int64_t>({2000, 8000, 64'000}));
  node.ram = Memory::mib(pick<std::int64_t>({4000, 64'000}));
  node.pod_slots = rarely(5) ? below(4) : 110;
  node.labels["zone"] = rarely(2) ? "a" : "b";
  if (rarely(8)) {
    node.taints.push_back({"team", "x", rarely(3) ? "PreferNoSchedule" : "NoSchedule"});
  }
  node.ready = !rarely(12);
  node.cordoned = rarely(12);
  node.gpu_replicas = static_cast<int>(pick<std::int64_t>({0, 2, 3}));
  node.sharing_ready = !rarely(12);
  node.tie_rank = below(2);
  const std::int64_t last = index == 3 ? 9 : 2 * index + 2;
  for (std::int64_t i = 2 * index; i < last; ++i) {
    if (!rarely(8)) {
      node.devices.push_back(device(i));
    }
  }
  if (rarely(10)) {
    node.devices.push_back(device(below(9)));  // may be present elsewhere, or twice
  }
  if (node.devices.size() > 1 && rarely(2)) {
    node.links.push_back({.a = 0, .b = 1, .score = pick<std::int64_t>({50, 100, 210})});
  }
  return node;
}

DeviceAsk RandomEvents::small_share() {
  DeviceAsk ask = rarely(3) ? DeviceAsk::fraction_nano(1 + below(400'000'000))
                            : DeviceAsk::memory_mib(1 + below(3000));
  if (rarely(4)) {
    ask.limit_mib = 3000 + below(9000);
  }
  return ask;
}

DeviceAsk RandomEvents::ask() {
  DeviceAsk ask;
  switch (below(10)) {
    case 0:
    case 1: ask = DeviceAsk::whole_devices(static_cast<int>(1 + below(3))); break;
    case 2:
      ask = DeviceAsk::fraction_nano(rarely(8) ? 1 + below(300'000) : 1 + below(999'999'999));
      break;
    case 3: ask = DeviceAsk::fraction_nano(250'000'000 * (1 + below(3))); break;
    case 4: ask = DeviceAsk::replica_part(); break;
    case 5: ask = DeviceAsk::mig_instances(rarely(6) ? "7g.40gb" : "1g.5gb"); break;
    default:
      ask = DeviceAsk::memory_mib(rarely(4) ? 1 + below(18'000) : 1024 * (1 + below(10)));
      break;
  }
  if (ask.is_share()) {
    if (ask.kind != AskKind::replica && rarely(4)) {
      ask.count = static_cast<int>(1 + below(3));
    }
    if (rarely(5)) {
      ask.limit_mib = 8192 + below(16'384);
      if (ask.kind == AskKind::memory && *ask.limit_mib < ask.mib) {
        ask.limit_mib = ask.mib;
      }
    } else if (ask.kind == AskKind::fraction && rarely(4)) {
      ask.limit_nano = kWholeNano.count();
    }
    ask.mode = rarely(5) ? SharingMode::sm_sharing : SharingMode::time_slicing;
    ask.compute_milli = rarely(5) ? static_cast<int>(50 * below(21)) : 0;
    ask.mutex = rarely(12);
  }
  if (rarely(6)) {
    ask.filter.models = {rarely(2) ? "A100" : "T4"};
  }
  if (rarely(20)) {
    ask.filter.use_types = {"a1"};
  }
  if (rarely(12)) {
    (rarely(2) ? ask.filter.use_uuids : ask.filter.avoid_uuids) = {uuid(), uuid()};
  }
  ask.numa_bind = ask.count > 1 && rarely(4);
  ask.links = static_cast<LinkRule>(rarely(4) ? below(3) : 0);
  ask.node_order = static_cast<OrderHint>(rarely(8) ? below(3) : 0);
  ask.device_order = static_cast<OrderHint>(rarely(8) ? below(3) : 0);
  return ask;
}

Request RandomEvents::request() {
  RequestSpec spec;
  spec.cpu = Milli(rarely(3) ? 500 * below(20) : 0);
  spec.ram = Memory::mib(rarely(3) ? 500 * below(20) : 0);
  if (rarely(10)) {
    spec.nodes.names = {node_name(), node_name()};
  }
  if (rarely(10)) {
    spec.nodes.labels.push_back(
        {"zone", rarely(2) ? LabelRule::Op::in : LabelRule::Op::not_in, {"a"}});
  }
  if (rarely(6)) {
    spec.nodes.tolerations.push_back({.key = "team", .exists = true, .value = {}, .effect = {}});
  }
  if (rarely(5)) {  // several containers, with phases
    for (std::int64_t i = 1 + below(3); i >= 0; --i) {
      const auto kind = static_cast<ContainerKind>(below(3));
      spec.containers.push_back({"c" + std::to_string(i), kind, small_share()});
    }
  } else if (rarely(12)) {  // a whole device and a share, side by side or one after the other
    const auto kind = [this] { return static_cast<ContainerKind>(below(3)); };
    spec.containers.push_back({"a", kind(), DeviceAsk::whole_devices(1)});
    spec.containers.push_back({"b", kind(), small_share()});
  } else if (!rarely(12)) {
    spec.containers.push_back({"main", ContainerKind::app, ask()});
  }
  return Request::create(std::move(spec)).value();
}

Workload RandomEvents::workload() {
  WorkloadOptions options;
  options.priority = rarely(3) ? below(4) : 0;
  options.preemptible = rarely(2);
  if (rarely(2)) {
    options.max_run = Duration(1000 * below(30));
  }
  if (rarely(8)) {
    options.queued_at = Time(now_.ms() - 2000 + below(4000));
  }
  if (rarely(6)) {
    options.wait_timeout = Duration(2500 * below(4));
  }
  if (rarely(6)) {
    options.confirm_within = Duration(1000 + 1000 * below(4));
  }
  if (rarely(40)) {
    options.queue = "unheard-of";
  }
  if (rarely(6)) {
    options.policy = pick(all_policies());
  }
  options.restartable = false;  // nobody is moved: the model knows no evictions
  return Workload::task(uid(), request(), std::move(options));
}

DeviceObserved RandomEvents::observation() {
  DeviceObserved seen;
  seen.uuid = rarely(20) ? "g99" : uuid();
  seen.sampled_at = Time(now_.ms() + (rarely(3) ? below(6000) - 4000 : 0));
  if (!rarely(12)) {
    seen.used = Memory::bytes(rarely(2) ? below(600) * Memory::kBytesPerMib
                                        : below(12'000) * Memory::kBytesPerMib - below(5000));
  }
  seen.restated = rarely(3);
  seen.attributed = rarely(2);
  for (std::int64_t n = below(4); n > 0; --n) {
    seen.uses.push_back({uid(), Memory::mib(below(5000))});
  }
  if (rarely(8)) {
    seen.health = rarely(2) ? DeviceHealth::unhealthy : DeviceHealth::ok;
  }
  return seen;
}

GrantAdopted RandomEvents::adoption() {
  const std::int64_t index = below(8);
  GrantAdopted adopted{.workload = Workload::task(uid(), request()),
                       .node = "n" + std::to_string(index / 2),
                       .shares = {}};
  adopted.confirmed = !rarely(4);
  const auto& containers = adopted.workload.request().containers();
  for (std::uint32_t i = 0; i < containers.size(); ++i) {
    const std::int64_t mib = 1 + below(6000);
    adopted.shares.push_back({i, "g" + std::to_string(index), mib, mib + below(2000)});
  }
  return adopted;
}

HistoryChanged RandomEvents::history_of_classes() {
  HistoryChanged history;
  for (std::int64_t n = below(5); n > 0; --n) {
    history.classes.push_back({.cpu_milli = 500 * below(10),
                               .memory_mib = 1000 * below(10),
                               .gpu_milli = static_cast<int>(100 * (1 + below(10))),
                               .num_gpu = 1,
                               .gpu_spec = rarely(3) ? "A100" : "",
                               .count = 1 + below(20)});
  }
  return history;
}

// The leaf of everybody, with nothing to share out.
QueuesChanged RandomEvents::queues() {
  QueueConfig config = default_queues();
  config.queues[0].reclaim = ReclaimRight::never;
  config.queues[0].preempt = PreemptRight::never;
  config.queues.emplace_back().name = kRootQueueName;
  for (QueueSpec& queue : config.queues) {
    if (rarely(2)) {
      queue.policy = pick(all_policies());
    }
    if (rarely(2)) {
      queue.device_cap = 1 + below(4);
    }
  }
  return {std::move(config)};
}

EventBody RandomEvents::body() {
  if (rarely(held_ ? 6 : 60)) {
    held_ = !held_ || rarely(5);  // sometimes it is said twice
    return GrantingHeld{held_};
  }
  if (rarely(70)) {
    return queues();
  }
  const std::int64_t dice = below(100);
  if (dice < 38) return WorkloadSubmitted{workload()};
  if (dice < 54) return GrantReleased{uid()};
  if (dice < 70) return observation();
  if (dice < 75) return GrantReleasing{uid()};
  if (dice < 79) return GrantConfirmed{uid()};
  if (dice < 83) return WorkloadInitialized{uid()};
  if (dice < 86) return WorkloadCancelled{uid()};
  if (dice < 89) return GrantLost{uid(), "gone", rarely(2)};
  if (dice < 92) return adoption();
  if (dice < 94) return DeviceCordoned{uuid(), rarely(3)};
  if (dice < 97) return NodeUpserted{node(below(4))};
  if (dice < 98) return NodeRemoved{node_name()};
  if (dice < 99) return PolicyChanged{pick(all_policies()), static_cast<std::uint64_t>(below(3))};
  return rarely(2) ? EventBody(history_of_classes()) : EventBody(TimeReached{});
}

std::vector<Event> RandomEvents::fleet() {
  std::vector<Event> events;
  for (std::int64_t i = 0; i < 4; ++i) {
    events.push_back({now_, NodeUpserted{node(i)}});
  }
  return events;
}

std::vector<Event> RandomEvents::history(std::size_t count) {
  std::vector<Event> events = fleet();
  for (std::size_t i = 0; i < count; ++i) {
    if (rarely(2)) {  // else the clock stands still
      now_ = now_ + Duration(below(800));
    }
    const bool backwards = rarely(30);
    events.push_back({backwards ? now_ - Duration(below(5000)) : now_, body()});
  }
  return events;
}

}  // namespace berth::core
