#include "core/engine/random_values_test.h"

#include <utility>

namespace berth::core {

std::int64_t RandomValues::number() {
  const auto wide = static_cast<std::int64_t>(random_());
  return wide >> below(64);
}

std::string RandomValues::text() {
  std::string bytes(static_cast<std::size_t>(below(16) == 0 ? below(2000) : below(40)), ' ');
  for (char& byte : bytes) {
    byte = static_cast<char>(below(256));
  }
  return bytes;
}

Device RandomValues::device() {
  return {.uuid = text(),
          .index = small_number(),
          .model = text(),
          .total = maybe([this] { return Memory::bytes(number()); }),
          .reserve = Memory::bytes(number()),
          .numa = small_number(),
          .mig_profile = text(),
          .mig_parent = text(),
          .mig_enabled = flip(),
          .pci_bus_id = text(),
          .health = one_of(DeviceHealth::unhealthy),
          .cordoned = flip(),
          .owned = flip(),
          .sm_sharing = flip(),
          .link_set = small_number()};
}

Node RandomValues::node() {
  Node node{.name = text(),
            .cpu = Milli(number()),
            .ram = Memory::bytes(number()),
            .pod_slots = number(),
            .labels = {},
            .taints = list([this] { return Taint{text(), text(), text()}; }),
            .ready = flip(),
            .cordoned = flip(),
            .gpu_replicas = small_number(),
            .sharing_ready = flip(),
            .tie_rank = number(),
            .devices = list([this] { return device(); }),
            .links = list([this] { return PairScore{small_number(), small_number(), number()}; }),
            .sizes_by_name = flip()};
  for (std::int64_t labels = below(4); labels > 0; --labels) {
    node.labels.emplace(text(), text());
  }
  return node;
}

DeviceAsk RandomValues::ask() {
  DeviceAsk ask;
  ask.kind = one_of(AskKind::mig);
  ask.count = 1 + static_cast<int>(below(kMaxAskCount));
  ask.mib = ask.kind == AskKind::memory ? 1 + below(kMaxAskMib) : number();
  ask.nano = ask.kind == AskKind::fraction ? 1 + below(kWholeNano.count() - 1) : number();
  if (ask.is_share()) {
    ask.limit_mib = maybe([&] { return ask.kind == AskKind::memory ? kMaxAskMib : 1 + below(9); });
    ask.limit_nano = maybe([] { return kWholeNano.count(); });
  }
  ask.mode = one_of(SharingMode::sm_sharing);
  ask.compute_milli = static_cast<int>(below(1001));
  ask.mutex = flip();
  ask.mig_profile = "p" + text();
  ask.filter = {.models = texts(),
                .use_types = texts(),
                .avoid_types = texts(),
                .use_uuids = texts(),
                .avoid_uuids = texts()};
  ask.numa_bind = flip();
  ask.node_order = one_of(OrderHint::spread);
  ask.device_order = one_of(OrderHint::spread);
  ask.links = one_of(LinkRule::required);
  ask.backend = one_of(Backend::mps);
  return ask;
}

Request RandomValues::request() {
  for (;;) {
    RequestSpec spec;
    spec.cpu = Milli(below(kMaxCpuMilli + 1));
    spec.ram = Memory::bytes(below(Memory::mib(kMaxMemoryMib).in_bytes() + 1));
    spec.nodes = {
        .names = texts(),
        .labels = list([this] { return LabelRule{text(), one_of(LabelRule::Op::less), texts()}; }),
        .tolerations = list([this] { return Toleration{text(), flip(), text(), text()}; })};
    spec.containers =
        list([this] { return ContainerAsk{"c" + text(), one_of(ContainerKind::sidecar), ask()}; });
    Result<Request> request = Request::create(std::move(spec));
    if (request.ok()) {
      return std::move(request).value();
    }
  }
}

Workload RandomValues::workload() {
  WorkloadOptions options;
  options.queue = text();
  options.priority = number();
  options.preemptible = flip();
  options.max_run = maybe([this] { return Duration(number()); });
  options.queued_at = maybe([this] { return Time(number()); });
  options.wait_timeout = maybe([this] { return Duration(number()); });
  options.confirm_within = maybe([this] { return Duration(number()); });
  options.foreign = flip();
  options.policy = maybe([this] { return text(); });
  options.restartable = flip();
  options.backfill = flip();
  options.preemption_delay = Duration(below(1'000'000));
  if (below(3) == 0) {
    Gang gang{.root = group("g", 0), .options = {}};
    gang.options = {.stale_grace = maybe([this] { return Duration(number()); }),
                    .start_timeout = maybe([this] { return Duration(below(1'000'000)); }),
                    .recovery_timeout = maybe([this] { return Duration(below(1'000'000)); }),
                    .whole_only = flip()};
    Result<Workload> made = Workload::gang(text(), std::move(gang), options);
    if (made.ok()) {
      return std::move(made).value();
    }
  }
  return Workload::task(text(), request(), std::move(options));
}

TopologyRule RandomValues::topology_rule() {
  return {.topology = text(),
          .required = text(),
          .preferred = text(),
          .segments = flip() ? std::vector<SegmentRule>()
                             : std::vector<SegmentRule>{{"rack" + text(), 1 + below(9)}}};
}

MemberSet RandomValues::members(const std::string& name) {
  return {.name = name, .count = 1 + below(5), .request = request(), .priority = maybe([this] {
                                                                       return number();
                                                                     })};
}

Group RandomValues::group(const std::string& name, int depth) {
  Group group{.name = name,
              .groups = {},
              .min_groups = 0,
              .members = {},
              .min = 0,
              .count = 0,
              .topology = topology_rule()};
  const bool inner = depth < 3 && flip();
  for (std::int64_t i = 0; i <= below(2); ++i) {
    if (inner) {
      group.groups.push_back(this->group(name + "-" + std::to_string(i), depth + 1));
    } else {
      group.members.push_back(members(name + "-m" + std::to_string(i)));
    }
  }
  if (inner) {
    group.min_groups = below(static_cast<std::int64_t>(group.groups.size()) + 1);
  } else {
    group.count = group.exist() + below(3);
    group.min = below(group.exist() + 1);
  }
  return group;
}

EngineConfig RandomValues::config() {
  return {.policy = text(),
          .policy_seed = static_cast<std::uint64_t>(number()),
          .max_sample_age = maybe([this] { return Duration(number()); }),
          .limit_overcommit_percent = number(),
          .device_cap = maybe([this] { return small_number(); }),
          .reservations = flip(),
          .aging_step = Duration(number()),
          .aging_max = number(),
          .releasing_horizon = Duration(number()),
          .whole_foreign_max = maybe([this] { return Memory::bytes(number()); }),
          .start_timeout = maybe([this] { return Duration(number()); }),
          .search_budget = number(),
          .exact_runners = number(),
          .evictions = flip()};
}

DeviceObserved RandomValues::observation() {
  return {.uuid = text(),
          .sampled_at = Time(number()),
          .used = maybe([this] { return Memory::bytes(number()); }),
          .attributed = flip(),
          .uses = list([this] { return DeviceObserved::Use{text(), Memory::bytes(number())}; }),
          .health = maybe([this] { return one_of(DeviceHealth::unhealthy); }),
          .restated = flip()};
}

GrantAdopted RandomValues::adoption() {
  return {.workload = workload(),
          .node = text(),
          .shares = list([this] {
            return GrantAdopted::Share{static_cast<std::uint32_t>(number()), text(), number(),
                                       number()};
          }),
          .confirmed = flip()};
}

HistoryChanged RandomValues::history() {
  return {list([this] {
    return HistoryChanged::Class{.cpu_milli = number(),
                                 .memory_mib = number(),
                                 .gpu_milli = small_number(),
                                 .num_gpu = small_number(),
                                 .gpu_spec = text(),
                                 .count = number()};
  })};
}

QueueSpec RandomValues::queue() {
  const auto duration = [this] { return Duration(number()); };
  return {.name = text(),
          .parent = text(),
          .priority = number(),
          .dimensions = list([this] {
            return QueueDimension{.device_class = text(),
                                  .kind = one_of(DimensionKind::compute),
                                  .deserved = number(),
                                  .limit = number(),
                                  .reserved = number(),
                                  .weight = number()};
          }),
          .order = one_of(QueueOrder::best_effort),
          .reclaim = one_of(ReclaimRight::fair_share),
          .preempt = one_of(PreemptRight::lower_priority),
          .min_runtime = {.reclaim = duration(),
                          .preempt = duration(),
                          .by_priority = list([&] {
                            return MinRuntime::ByPriority{number(), duration(), duration()};
                          })},
          .preemption_delay = duration(),
          .history = maybe([&] { return QueueHistory{duration(), number()}; }),
          .aging = {.step = duration(), .max = number()},
          .evictions = {.per_workload_per_hour = number(), .per_claim = number()},
          .stop = one_of(QueueStop::hold_and_drain),
          .policy = text(),
          .device_cap = maybe([this] { return number(); }),
          .created = Time(number())};
}

EventBody RandomValues::body(std::size_t kind) {
  switch (kind) {
    case 0: return NodeUpserted{node()};
    case 1: return NodeRemoved{text()};
    case 2: return DeviceCordoned{text(), flip()};
    case 3: return observation();
    case 4: return WorkloadSubmitted{workload()};
    case 5: return WorkloadCancelled{text()};
    case 6: return GrantConfirmed{text()};
    case 7: return GrantReleasing{text()};
    case 8: return GrantReleased{text()};
    case 9: return GrantLost{text(), text(), flip()};
    case 10: return WorkloadInitialized{text()};
    case 11: return adoption();
    case 12: return PolicyChanged{text(), static_cast<std::uint64_t>(number())};
    case 13: return history();
    case 14:
      return QueuesChanged{
          {.priority_rule = one_of(PriorityRule::kai), .queues = list([this] { return queue(); })}};
    case 15: return TopologiesChanged{list([this] { return Topology{text(), texts()}; })};
    case 16: return MembersJoined{text(), text(), members(text())};
    case 17: return TimeReached{};
    default: return GrantingHeld{flip()};
  }
}

Event RandomValues::event(std::size_t kind) { return {Time(number()), body(kind)}; }

Evicted RandomValues::eviction(WorkloadId workload, std::uint64_t grant, NodeId node) {
  return {.workload = workload,
          .grant = grant,
          .rule = one_of(Evicted::Rule::drain),
          .beneficiary = WorkloadId(static_cast<std::uint32_t>(number())),
          .moves_to = node,
          .text = text()};
}

LoggedAction RandomValues::action(std::size_t kind) {
  const auto workload = WorkloadId(static_cast<std::uint32_t>(number()));
  const auto grant = static_cast<std::uint64_t>(number());
  const NodeId node(static_cast<std::uint32_t>(number()));
  const auto places = [this] {
    return list([this] {
      return ContainerGrant{static_cast<std::uint32_t>(number()), list([this] {
                              return DeviceShare{DeviceId(static_cast<std::uint32_t>(number())),
                                                 number(), number()};
                            })};
    });
  };
  switch (kind) {
    case 0: return {Granted{workload, grant, node}, places()};
    case 1: return {Promised{workload, grant, node}, places()};
    case 2: return {Retracted{workload, grant, one_of(Cause::internal), flip()}, {}};
    case 3: return {eviction(workload, grant, node), {}};
    case 4: return {VerdictChanged{workload, one_of(Outcome::ended), one_of(Cause::internal)}, {}};
    case 5: return {Ended{workload, one_of(Cause::internal)}, {}};
    case 6: return {WakeAt{Time(number())}, {}};
    default:
      return {
          Notice{one_of(Notice::Kind::refused_event), DeviceId::none(), workload, number(), text()},
          {}};
  }
}

}  // namespace berth::core
