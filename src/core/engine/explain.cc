// Verdicts in full: the numbers (queues-gangs-topology.md 9). The words are in sentence.cc.
#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"
#include "core/engine/engine_impl.h"
#include "core/engine/sentence.h"

namespace berth::core {

namespace {

// The reason that a pod condition carries (queues page 9.1).
std::string_view pod_reason(Outcome outcome, Cause cause) {
  if (outcome == Outcome::granted) {
    return "";
  }
  switch (cause) {
    case Cause::unknown_queue:
    case Cause::not_a_leaf_queue:
    case Cause::unknown_resource:
    case Cause::contradictory_constraint:
    case Cause::unsupported_constraint:
    case Cause::granting_held:
    case Cause::internal: return "SchedulerError";
    // Never Unschedulable: an autoscaler would buy nodes that the quota forbids to use.
    case Cause::over_limit:
    case Cause::non_preemptible_over_quota:
    case Cause::queue_held: return "QuotaExceeded";
    case Cause::gated: return "SchedulingGated";
    case Cause::gang_incomplete: return "WaitingForGang";
    case Cause::preempting: return "Preempting";
    case Cause::wait_timed_out: return "TimedOut";
    default: return "Unschedulable";
  }
}

}  // namespace

// What the devices that the shape may use have to give.
Verdict::Devices Engine::Impl::devices_for(const Shape& shape) const {
  Verdict::Devices devices;
  const DeviceAsk* ask = largest_ask(shape);
  for (std::size_t i = 0; i < fleet.node_slots() && ask != nullptr; ++i) {
    const NodeId node(i);
    if (!fleet.present(node)) {
      continue;
    }
    const std::vector<DeviceId>& ids = fleet.devices_of(node);
    const std::span<const DeviceFace> faces = ledger.faces(node);
    // Free memory on a node that it may not use is no hint.
    const bool open = ledger.node(node).blocked == Cause::none &&
                      constraint_refusal(shape.request.nodes(), fleet.node(node)) == Cause::none;
    for (std::size_t place = 0; place < ids.size(); ++place) {
      const Device& device = fleet.device(ids[place]);
      if (static_refusal(*ask, fleet.node(node), device) != Cause::none) {
        continue;
      }
      ++devices.scanned;
      devices.need_mib = std::max(devices.need_mib, request_mib_on(*ask, device.usable_mib(),
                                                                   fleet.node(node).gpu_replicas));
      const DeviceFace& face = faces[place];
      if (!open || face.blocked != Cause::none || face.use == DeviceUse::whole) {
        continue;
      }
      const std::int64_t free = Memory::bytes(face.headroom).floor_mib();
      devices.free_total_mib += free;
      if (free > devices.largest_free_mib) {
        devices.largest_free_mib = free;
        devices.largest_free_node = fleet.node(node).name;
        devices.largest_free_uuid = device.uuid;
      }
    }
  }
  if (ask != nullptr && ask->kind == AskKind::memory) {
    devices.need_mib = ask->mib;
  }
  if (devices.free_total_mib > 0) {
    devices.fragmentation = 1000 - 1000 * devices.largest_free_mib / devices.free_total_mib;
  }
  return devices;
}

std::int64_t Engine::Impl::usable_devices(const DeviceAsk& ask, NodeId node) const {
  const Node& is = fleet.node(node);
  return std::ranges::count_if(is.devices, [&](const Device& device) {
    return static_refusal(ask, is, device) == Cause::none;
  });
}

std::int64_t Engine::Impl::free_devices(const DeviceAsk& ask, NodeId node) const {
  if (!fleet.present(node) || ledger.node(node).blocked != Cause::none) {
    return 0;
  }
  const Node& is = fleet.node(node);
  std::int64_t free = 0;
  for (std::size_t place = 0; place < is.devices.size(); ++place) {
    const DeviceNeed need = need_on(ask, is.devices[place].usable_mib(), is.gpu_replicas, 0);
    free += static_refusal(ask, is, is.devices[place]) == Cause::none &&
                    device_refusal(need, ledger.faces(node)[place]) == Cause::none
                ? 1
                : 0;
  }
  return free;
}

std::int64_t Engine::Impl::most_free_devices(const Shape& shape) const {
  std::int64_t most = 0;
  const DeviceAsk* ask = largest_ask(shape);
  for (std::size_t i = 0; i < fleet.node_slots() && ask != nullptr; ++i) {
    most = std::max(most, free_devices(*ask, NodeId(i)));
  }
  return most;
}

// False: it prefers joined devices, and those of a container are not.
bool Engine::Impl::got_linked_devices(const Grant& grant, const Request& request) const {
  return std::ranges::all_of(grant.containers, [&](const ContainerGrant& container) {
    if (request.containers()[container.container].gpu.links != LinkRule::preferred) {
      return true;
    }
    std::uint64_t set = 0;
    for (const DeviceShare& share : container.shares) {
      if (fleet.node_of(share.device) != grant.node) {
        return true;  // it vanished
      }
      set |= std::uint64_t{1} << fleet.place_of(share.device);
    }
    return LinkGraph(fleet.node(grant.node)).is_joined(set);
  });
}

void Engine::Impl::explain_grant(const Entry& entry, Verdict& verdict) const {
  const Grant& grant = *entry.grant;
  verdict.node = fleet.node(grant.node).name;
  const Request& request = shapes.at(entry.shape).request;
  for (const ContainerGrant& container : grant.containers) {
    for (const DeviceShare& share : container.shares) {
      verdict.chosen.push_back({.container = request.containers()[container.container].name,
                                .uuid = fleet.uuid(share.device),
                                .request_mib = share.request_mib,
                                .limit_mib = share.limit_mib});
    }
  }
}

void Engine::Impl::explain_waiting(const Entry& entry, WorkloadId id, Verdict& verdict) const {
  Verdict::Position position;
  position.queue = entry.options.queue;
  position.pool = pool_names_[entry.pool.index()];
  for (const WorkloadId other : waiting.ahead_of(id, now)) {
    ++position.index;
    ++position.jobs_ahead;
    const Shape& shape = shapes.at(entries_[other.index()].shape);
    for (std::size_t i = 0; i < shape.gpu_containers.size(); ++i) {
      position.devices_ahead += shape.ask(i).count;
    }
  }
  verdict.position = std::move(position);
  if (granting_held_) {
    return;  // nobody knows until when
  }
  if (is_head(id)) {
    verdict.eta = eta_of_gang(id);
    return;
  }
  const auto found = reservations_.find(entry.pool);
  if (found != reservations_.end() && found->second.holder == id && !found->second.node.is_none()) {
    const NodePlan& plan = found->second.plan;
    const bool believed = plan.timed && plan.at > now;  // what should have ended by now has not
    verdict.eta =
        EtaEstimate{.basis = believed ? EtaEstimate::Basis::declared : EtaEstimate::Basis::unknown,
                    .at = believed ? plan.at : Time()};
  }
}

Verdict Engine::Impl::explain(const Entry& entry) const {
  Verdict verdict;
  const WorkloadId id = id_of(entry.uid);
  const Shape& shape = shapes.at(entry.shape);
  verdict.outcome = entry.outcome();
  // Why it waits is asked now: nodes go down and samples age without anybody being tried.
  const Cause today = entry.state != EntryState::waiting || is_head(id) ? Cause::none
                      : granting_held_                                  ? Cause::granting_held
                                                                        : waiting_cause(shape, id);
  verdict.cause = today != Cause::none ? today : entry.cause;
  verdict.stage = cause_stage(verdict.cause);
  verdict.reason = pod_reason(verdict.outcome, verdict.cause);
  verdict.since = entry.since;
  verdict.last_evaluated = entry.evaluated;
  verdict.attempts = entry.attempts;
  verdict.effective_priority = effective_priority(entry);
  verdict.nodes.total = static_cast<std::int64_t>(fleet.present_nodes());
  if (entry.holds()) {
    explain_grant(entry, verdict);
  }
  if (verdict.outcome == Outcome::granted && !entry.holds()) {
    const GangState& state = gangs_.at(id);
    verdict.summary =
        fmt::format("granted: {} of {} {} run", present_in(state, 0), existing_in(state, 0),
                    state.nodes[0].is_leaf() ? "members" : "groups");
    return verdict;
  }
  if (verdict.outcome == Outcome::granted) {
    verdict.summary = shortened(
        fmt::format("granted on {}{}", printable(verdict.node),
                    got_linked_devices(*entry.grant, shape.request)
                        ? ""
                        : ", on devices that are not joined by NVLink as it would prefer"),
        200);
    return verdict;
  }
  // Counted anew, so the figures are of now.
  verdict.last_evaluated = now;
  const std::int64_t steps_before = index.steps();
  for (std::size_t i = 0; i < fleet.node_slots(); ++i) {
    const NodeId node(i);
    if (!fleet.present(node)) {
      continue;
    }
    const Cause cause = answer_of(entry, node);
    ++verdict.nodes.by_reason[static_cast<std::size_t>(cause)];
  }
  verdict.nodes.by_reason[0] = 0;
  verdict.steps = index.steps() - steps_before;
  if (shape.wants_gpu()) {
    verdict.devices = devices_for(shape);
  }
  if (entry.state == EntryState::waiting && waiting.contains(id)) {
    explain_waiting(entry, id, verdict);
  }
  explain_parts(id, verdict);
  verdict.summary = Sentence(*this, entries_[searched_for(id).index()], verdict).text();
  return verdict;
}

Cause Engine::Impl::answer_of(const Entry& entry, NodeId node) const {
  const Cause cause = entry.state == EntryState::never && entry.cause != Cause::unknown_queue
                          ? never_cause_on(shapes.at(entry.shape), node)
                          : index.refusal(entry.shape, node);
  if (cause == Cause::none && entry.state == EntryState::never &&
      cause_stage(entry.cause) == Stage::quota) {
    return entry.cause;  // the node would do
  }
  if (quotas.active() && entry.state == EntryState::waiting) {
    const Shape& shape = shapes.at(entry.shape);
    const QuotaView& view = quotas.view(shape, entry.leaf, entry.preemptible, Counting::present);
    const QuotaRefusal refusal = quotas.refusal_on(view, shape, node);
    if (refusal.refused() && (cause == Cause::none || cause_stage(cause) > Stage::quota) &&
        shapes.fit(shape.id, types, fleet, node).could_ever) {
      return refusal.cause;
    }
  }
  if (cause != Cause::none || !index.is_guarded(node) || entry.holds()) {
    return cause;
  }
  const GuardRule rule = guard_for(id_of(entry.uid));
  const std::optional<std::uint64_t> left = rule ? rule(node) : ~std::uint64_t{0};
  return left.value_or(0) == 0 ? Cause::reserved_for_other : Cause::none;
}

Cause Engine::Impl::never_cause_on(const Shape& shape, NodeId node) const {
  const Cause constraint = constraint_refusal(shape.request.nodes(), fleet.node(node));
  if (constraint != Cause::none) {
    return constraint;
  }
  return shapes.fit(shape.id, types, fleet, node).never;
}

}  // namespace berth::core
