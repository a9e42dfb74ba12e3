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
            .links = list([this] { return PairScore{small_number(), small_number(), number()}; })};
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
  return Workload::task(text(), request(), std::move(options));
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
          .whole_foreign_max = maybe([this] { return Memory::bytes(number()); })};
}

DeviceObserved RandomValues::observation() {
  return {.uuid = text(),
          .sampled_at = Time(number()),
          .used = maybe([this] { return Memory::bytes(number()); }),
          .attributed = flip(),
          .uses = list([this] { return DeviceObserved::Use{text(), Memory::bytes(number())}; }),
          .health = maybe([this] { return one_of(DeviceHealth::unhealthy); })};
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
    default: return TimeReached{};
  }
}

Event RandomValues::event(std::size_t kind) { return {Time(number()), body(kind)}; }

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
    case 3: return {VerdictChanged{workload, one_of(Outcome::ended), one_of(Cause::internal)}, {}};
    case 4: return {Ended{workload, one_of(Cause::internal)}, {}};
    case 5: return {WakeAt{Time(number())}, {}};
    default:
      return {
          Notice{one_of(Notice::Kind::refused_event), DeviceId::none(), workload, number(), text()},
          {}};
  }
}

}  // namespace berth::core
