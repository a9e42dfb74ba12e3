// Fields: what each event and action consists of, in the order in which the log has it. One list
// per type serves writing and reading, so that the two cannot differ.
//
//   template <class Archive> void fields(Archive& io, Of<Toleration> auto& t) { io(t.key,
//   t.exists); }
//
// To add a field: append it to its list and raise kLogVersion (decision_log.h).
#pragma once

#include <concepts>
#include <type_traits>
#include <variant>

#include "core/engine/actions.h"
#include "core/engine/engine.h"
#include "core/engine/events.h"

namespace berth::core {

// T itself when it is read, const T when it is written.
template <class Value, class T>
concept Of = std::same_as<std::remove_const_t<Value>, T>;

// The last enumerator of an enum that is logged.
template <class Enum>
inline constexpr Enum kLast = Enum::undefined;
template <>
inline constexpr SharingMode kLast<SharingMode> = SharingMode::sm_sharing;
template <>
inline constexpr AskKind kLast<AskKind> = AskKind::mig;
template <>
inline constexpr OrderHint kLast<OrderHint> = OrderHint::spread;
template <>
inline constexpr Backend kLast<Backend> = Backend::mps;
template <>
inline constexpr LinkRule kLast<LinkRule> = LinkRule::required;
template <>
inline constexpr ContainerKind kLast<ContainerKind> = ContainerKind::sidecar;
template <>
inline constexpr LabelRule::Op kLast<LabelRule::Op> = LabelRule::Op::less;
template <>
inline constexpr DeviceHealth kLast<DeviceHealth> = DeviceHealth::unhealthy;
template <>
inline constexpr Outcome kLast<Outcome> = Outcome::ended;
template <>
inline constexpr Cause kLast<Cause> = Cause::internal;
static_assert(static_cast<std::size_t>(Cause::internal) + 1 == kCauseCount);
template <>
inline constexpr DimensionKind kLast<DimensionKind> = DimensionKind::compute;
template <>
inline constexpr QueueOrder kLast<QueueOrder> = QueueOrder::best_effort;
template <>
inline constexpr ReclaimRight kLast<ReclaimRight> = ReclaimRight::fair_share;
template <>
inline constexpr PreemptRight kLast<PreemptRight> = PreemptRight::lower_priority;
template <>
inline constexpr QueueStop kLast<QueueStop> = QueueStop::hold_and_drain;
template <>
inline constexpr PriorityRule kLast<PriorityRule> = PriorityRule::kai;
template <>
inline constexpr Evicted::Rule kLast<Evicted::Rule> = Evicted::Rule::drain;
template <>
inline constexpr Notice::Kind kLast<Notice::Kind> = Notice::Kind::refused_event;

// The model.

void fields(auto& io, Of<Taint> auto& x) { io(x.key, x.value, x.effect); }

void fields(auto& io, Of<Device> auto& x) {
  io(x.uuid, x.index, x.model, x.total, x.reserve, x.numa, x.mig_profile, x.mig_parent);
  io(x.mig_enabled, x.pci_bus_id, x.health, x.cordoned, x.owned, x.sm_sharing, x.link_set);
}

void fields(auto& io, Of<PairScore> auto& x) { io(x.a, x.b, x.score); }

void fields(auto& io, Of<Node> auto& x) {
  io(x.name, x.cpu, x.ram, x.pod_slots, x.labels, x.taints, x.ready, x.cordoned);
  io(x.gpu_replicas, x.sharing_ready, x.tie_rank, x.devices, x.links, x.sizes_by_name);
}

void fields(auto& io, Of<DeviceFilter> auto& x) {
  io(x.models, x.use_types, x.avoid_types, x.use_uuids, x.avoid_uuids);
}

void fields(auto& io, Of<DeviceAsk> auto& x) {
  io(x.kind, x.count, x.mib, x.nano, x.limit_mib, x.limit_nano, x.mode, x.compute_milli, x.mutex);
  io(x.mig_profile, x.filter, x.numa_bind, x.node_order, x.device_order, x.links, x.backend);
}

void fields(auto& io, Of<ContainerAsk> auto& x) { io(x.name, x.kind, x.gpu); }

void fields(auto& io, Of<LabelRule> auto& x) { io(x.key, x.op, x.values); }

void fields(auto& io, Of<Toleration> auto& x) { io(x.key, x.exists, x.value, x.effect); }

void fields(auto& io, Of<NodeConstraints> auto& x) { io(x.names, x.labels, x.tolerations); }

void fields(auto& io, Of<RequestSpec> auto& x) { io(x.cpu, x.ram, x.nodes, x.containers); }

void fields(auto& io, Of<WorkloadOptions> auto& x) {
  io(x.queue, x.priority, x.preemptible, x.restartable, x.backfill, x.preemption_delay);
  io(x.max_run, x.queued_at, x.wait_timeout, x.confirm_within, x.policy, x.foreign);
}

void fields(auto& io, Of<SegmentRule> auto& x) { io(x.level, x.size); }

void fields(auto& io, Of<TopologyRule> auto& x) {
  io(x.topology, x.required, x.preferred, x.segments);
}

void fields(auto& io, Of<MemberSet> auto& x) { io(x.name, x.count, x.request, x.priority); }

void fields(auto& io, Of<Group> auto& x) {
  io(x.name, x.groups, x.min_groups, x.members, x.min, x.count, x.topology);
}

void fields(auto& io, Of<GangOptions> auto& x) {
  io(x.stale_grace, x.start_timeout, x.recovery_timeout, x.whole_only);
}

void fields(auto& io, Of<Gang> auto& x) { io(x.root, x.options); }

// Queues.

void fields(auto& io, Of<QueueDimension> auto& x) {
  io(x.device_class, x.kind, x.deserved, x.limit, x.reserved, x.weight);
}

void fields(auto& io, Of<MinRuntime::ByPriority> auto& x) { io(x.at_least, x.reclaim, x.preempt); }

void fields(auto& io, Of<MinRuntime> auto& x) { io(x.reclaim, x.preempt, x.by_priority); }

void fields(auto& io, Of<QueueHistory> auto& x) { io(x.half_life, x.k); }

void fields(auto& io, Of<QueueAging> auto& x) { io(x.step, x.max); }

void fields(auto& io, Of<EvictionCaps> auto& x) { io(x.per_workload_per_hour, x.per_claim); }

void fields(auto& io, Of<QueueSpec> auto& x) {
  io(x.name, x.parent, x.priority, x.dimensions, x.order, x.reclaim, x.preempt, x.min_runtime);
  io(x.preemption_delay, x.history, x.aging, x.evictions, x.stop, x.policy, x.device_cap);
  io(x.created);
}

void fields(auto& io, Of<QueueConfig> auto& x) { io(x.priority_rule, x.queues); }

void fields(auto& io, Of<DeviceShare> auto& x) { io(x.device, x.request_mib, x.limit_mib); }

void fields(auto& io, Of<ContainerGrant> auto& x) { io(x.container, x.shares); }

// Events.

void fields(auto& io, Of<NodeUpserted> auto& x) { io(x.node); }

void fields(auto& io, Of<NodeRemoved> auto& x) { io(x.name); }

void fields(auto& io, Of<DeviceCordoned> auto& x) { io(x.uuid, x.cordoned); }

void fields(auto& io, Of<DeviceObserved::Use> auto& x) { io(x.uid, x.used); }

void fields(auto& io, Of<DeviceObserved> auto& x) {
  io(x.uuid, x.sampled_at, x.used, x.attributed, x.uses, x.health, x.restated);
}

void fields(auto& io, Of<WorkloadSubmitted> auto& x) { io(x.workload); }

void fields(auto& io, Of<WorkloadCancelled> auto& x) { io(x.uid); }

void fields(auto& io, Of<GrantConfirmed> auto& x) { io(x.uid); }

void fields(auto& io, Of<GrantReleasing> auto& x) { io(x.uid); }

void fields(auto& io, Of<GrantReleased> auto& x) { io(x.uid); }

void fields(auto& io, Of<GrantLost> auto& x) { io(x.uid, x.why, x.requeue); }

void fields(auto& io, Of<WorkloadInitialized> auto& x) { io(x.uid); }

void fields(auto& io, Of<GrantAdopted::Share> auto& x) {
  io(x.container, x.uuid, x.request_mib, x.limit_mib);
}

void fields(auto& io, Of<GrantAdopted> auto& x) { io(x.workload, x.node, x.shares, x.confirmed); }

void fields(auto& io, Of<PolicyChanged> auto& x) { io(x.spec, x.seed); }

void fields(auto& io, Of<HistoryChanged::Class> auto& x) {
  io(x.cpu_milli, x.memory_mib, x.gpu_milli, x.num_gpu, x.gpu_spec, x.count);
}

void fields(auto& io, Of<HistoryChanged> auto& x) { io(x.classes); }

void fields(auto& io, Of<QueuesChanged> auto& x) { io(x.config); }

void fields(auto& io, Of<Topology> auto& x) { io(x.name, x.levels); }

void fields(auto& io, Of<TopologiesChanged> auto& x) { io(x.topologies); }

void fields(auto& io, Of<MembersJoined> auto& x) { io(x.uid, x.group, x.members); }

void fields(auto&, Of<TimeReached> auto&) {}

void fields(auto& io, Of<GrantingHeld> auto& x) { io(x.held); }

// Actions.

void fields(auto& io, Of<Granted> auto& x) { io(x.workload, x.grant, x.node); }

void fields(auto& io, Of<Promised> auto& x) { io(x.workload, x.grant, x.node); }

void fields(auto& io, Of<Retracted> auto& x) { io(x.workload, x.grant, x.why, x.lost); }

void fields(auto& io, Of<Evicted> auto& x) {
  io(x.workload, x.grant, x.rule, x.beneficiary, x.moves_to, x.text);
}

void fields(auto& io, Of<VerdictChanged> auto& x) { io(x.workload, x.outcome, x.cause); }

void fields(auto& io, Of<Ended> auto& x) { io(x.workload, x.why); }

void fields(auto& io, Of<WakeAt> auto& x) { io(x.time); }

void fields(auto& io, Of<Notice> auto& x) { io(x.kind, x.device, x.workload, x.bytes, x.text); }

// The header.

void fields(auto& io, Of<EngineConfig> auto& x) {
  io(x.policy, x.policy_seed, x.max_sample_age, x.limit_overcommit_percent, x.device_cap);
  io(x.reservations, x.aging_step, x.aging_max, x.releasing_horizon, x.whole_foreign_max);
  io(x.start_timeout, x.search_budget, x.exact_runners, x.evictions);
}

}  // namespace berth::core
