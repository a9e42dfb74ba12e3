// Verdicts in full: numbers now, words from the numbers (queues-gangs-topology.md 9).
#include <algorithm>

#include <fmt/format.h>

#include "core/engine/engine_impl.h"

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

// The largest ask of the shape, in words and in MiB per device.
struct Need {
  const DeviceAsk* ask = nullptr;
  std::int64_t mib = 0;
};

std::string amount_text(const DeviceAsk& ask) {
  const std::string many =
      ask.count == 1 ? " of one GPU" : fmt::format(" of each of {} GPUs", ask.count);
  switch (ask.kind) {
    case AskKind::none: return "nothing";
    case AskKind::memory:
      return ask.count == 1 ? fmt::format("{} MiB on one GPU", ask.mib)
                            : fmt::format("{} MiB on each of {} GPUs", ask.mib, ask.count);
    case AskKind::fraction:
      return fmt::format("{}.{:03} %{}", ask.nano / 10'000'000, ask.nano / 10'000 % 1000, many);
    case AskKind::replica: return "one replica part of a GPU";
    case AskKind::whole:
      return ask.count == 1 ? std::string("one whole GPU")
                            : fmt::format("{} whole GPUs of one node", ask.count);
    case AskKind::mig:
      return fmt::format("{} MIG instance{} {}", ask.count, ask.count == 1 ? "" : "s",
                         ask.mig_profile);
  }
  return "";
}

const DeviceAsk* largest_ask(const Shape& shape) {
  const DeviceAsk* largest = nullptr;
  const auto size = [](const DeviceAsk& ask) {
    return ask.is_exclusive() ? std::int64_t{1} << 50 : std::max(ask.mib, ask.nano);
  };
  for (std::size_t i = 0; i < shape.gpu_containers.size(); ++i) {
    if (largest == nullptr || size(shape.ask(i)) > size(*largest)) {
      largest = &shape.ask(i);
    }
  }
  return largest;
}

std::string cores_text(std::int64_t milli) {
  return milli % 1000 == 0 ? fmt::format("{}", milli / 1000)
                           : fmt::format("{}.{:03}", milli / 1000, milli % 1000);
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
    for (std::size_t place = 0; place < ids.size(); ++place) {
      const Device& device = fleet.device(ids[place]);
      if (static_refusal(*ask, fleet.node(node), device) != Cause::none) {
        continue;
      }
      ++devices.scanned;
      devices.need_mib = std::max(devices.need_mib, request_mib_on(*ask, device.usable_mib(),
                                                                   fleet.node(node).gpu_replicas));
      const DeviceFace& face = faces[place];
      if (face.blocked != Cause::none || face.use == DeviceUse::whole) {
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

std::string Engine::Impl::summary_of(const Entry& entry, const Verdict& verdict) const {
  const Shape& shape = shapes.at(entry.shape);
  const DeviceAsk* ask = largest_ask(shape);
  const std::string needs =
      ask != nullptr ? amount_text(*ask)
                     : fmt::format("{} CPU cores and {} MiB of memory", cores_text(shape.cpu),
                                   Memory::bytes(shape.ram).ceil_mib());
  switch (verdict.cause) {
    case Cause::none: return fmt::format("needs {}; it is about to be tried", needs);
    case Cause::insufficient_memory:
      if (!verdict.devices.has_value()) {
        return fmt::format("needs {}; no node has it free", needs);
      }
      if (verdict.devices->largest_free_mib >= verdict.devices->need_mib) {
        return shape.simple
                   ? fmt::format("needs {}; the devices with {} MiB free have no fraction left",
                                 needs, verdict.devices->largest_free_mib)
                   : fmt::format(
                         "needs {} and more in {} containers; no node has all of it free now",
                         needs, shape.gpu_containers.size());
      }
      if (verdict.devices->largest_free_mib == 0) {
        return fmt::format("needs {}; none of the {} devices it may use has memory free", needs,
                           verdict.devices->scanned);
      }
      return fmt::format("needs {}; largest free is {} MiB ({}/{})", needs,
                         verdict.devices->largest_free_mib, verdict.devices->largest_free_node,
                         verdict.devices->largest_free_uuid);
    case Cause::largest_device_too_small:
      if (!shape.simple) {
        return fmt::format(
            "needs {} and more in {} containers of one task; no node of the fleet holds "
            "all of it even when empty",
            needs, shape.gpu_containers.size());
      }
      return fmt::format("needs {}; the largest device it may use holds {} MiB when empty", needs,
                         largest_usable(shape));
    case Cause::insufficient_node_resource:
    case Cause::exceeds_fleet:
      return fmt::format("needs {} CPU cores and {} MiB of memory on one node; {}",
                         cores_text(shape.cpu), Memory::bytes(shape.ram).ceil_mib(),
                         verdict.outcome == Outcome::never ? "no node is that large"
                                                           : "no node has both free now");
    case Cause::insufficient_devices:
    case Cause::device_exclusive:
      return fmt::format(
          "needs {}; {}", needs,
          verdict.outcome == Outcome::never
              ? fmt::format("no node has more than {} such devices", most_devices(shape))
              : fmt::format("the best node has {} free", most_free_devices(shape)));
    case Cause::no_such_profile:
    case Cause::type_mismatch:
    case Cause::uuid_mismatch:
    case Cause::resource_kind_mismatch:
      return fmt::format("needs {}; no device of the fleet is of that kind ({})", needs,
                         pool_names_[entry.pool.index()]);
    case Cause::reserved_for_other:
    case Cause::backfill_too_long:
      return fmt::format("needs {}; the free room is kept for {}, which is before it", needs,
                         holder_before(entry));
    case Cause::waiting_for_release:
      return fmt::format("needs {}; it is promised on {} as soon as what ends there is gone", needs,
                         fleet.node(entry.grant->node).name);
    case Cause::unknown_queue:
      return fmt::format("queue {} does not exist; the only queue is default", entry.options.queue);
    default:
      return fmt::format("needs {}; {} of {} nodes say {}", needs,
                         verdict.nodes.by_reason[static_cast<std::size_t>(verdict.cause)],
                         verdict.nodes.total, cause_name(verdict.cause));
  }
}

std::int64_t Engine::Impl::largest_usable(const Shape& shape) const {
  std::int64_t largest = 0;
  const DeviceAsk* ask = largest_ask(shape);
  for (std::size_t i = 0; i < types.size(); ++i) {
    const NodeType& type = types.type(NodeTypeId(i));
    for (const Device& device : type.example.devices) {
      if (type.present > 0 && ask != nullptr &&
          static_refusal(*ask, type.example, device) == Cause::none) {
        largest = std::max(largest, device.usable_mib());
      }
    }
  }
  return largest;
}

std::int64_t Engine::Impl::most_devices(const Shape& shape) const {
  std::int64_t most = 0;
  const DeviceAsk* ask = largest_ask(shape);
  for (std::size_t i = 0; i < types.size(); ++i) {
    const NodeType& type = types.type(NodeTypeId(i));
    if (type.present == 0 || ask == nullptr) {
      continue;
    }
    most = std::max(most, std::ranges::count_if(type.example.devices, [&](const Device& device) {
                      return static_refusal(*ask, type.example, device) == Cause::none;
                    }));
  }
  return most;
}

std::int64_t Engine::Impl::most_free_devices(const Shape& shape) const {
  std::int64_t most = 0;
  const DeviceAsk* ask = largest_ask(shape);
  for (std::size_t i = 0; i < fleet.node_slots() && ask != nullptr; ++i) {
    const NodeId node(i);
    if (!fleet.present(node) || ledger.node(node).blocked != Cause::none) {
      continue;
    }
    std::int64_t free = 0;
    const std::vector<DeviceId>& ids = fleet.devices_of(node);
    for (std::size_t place = 0; place < ids.size(); ++place) {
      const Device& device = fleet.device(ids[place]);
      const DeviceNeed need = need_on(*ask, device.usable_mib(), fleet.node(node).gpu_replicas, 0);
      free += static_refusal(*ask, fleet.node(node), device) == Cause::none &&
                      device_refusal(need, ledger.faces(node)[place]) == Cause::none
                  ? 1
                  : 0;
    }
    most = std::max(most, free);
  }
  return most;
}

// The holder of the reservation that is in the entry's way.
std::string Engine::Impl::holder_before(const Entry& entry) const {
  for (const auto& [pool, reservation] : reservations_) {
    if (!reservation.node.is_none() && entries_[reservation.holder.index()].uid != entry.uid &&
        index.refusal(entry.shape, reservation.node) == Cause::none) {
      return entries_[reservation.holder.index()].uid;
    }
  }
  return "another workload";
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
  const auto found = reservations_.find(entry.pool);
  if (found != reservations_.end() && found->second.holder == id && !found->second.node.is_none()) {
    const NodePlan& plan = found->second.plan;
    const bool believed = plan.timed && plan.at > now;  // what should have ended by now has not
    verdict.eta =
        EtaEstimate{.basis = believed ? EtaEstimate::Basis::declared : EtaEstimate::Basis::unknown,
                    .at = believed ? plan.at : Time()};
    explain_unblock(found->second, verdict);
  }
}

// The smallest known changes, each of which alone lets it start.
void Engine::Impl::explain_unblock(const Reservation& reservation, Verdict& verdict) const {
  const NodeId node = reservation.node;
  const std::string& name = fleet.node(node).name;
  const DeviceAsk* ask = largest_ask(shapes.at(reservation.shape));
  if (ask != nullptr && ask->kind == AskKind::memory && verdict.devices.has_value() &&
      verdict.cause == Cause::insufficient_memory && ask->count == 1) {
    verdict.unblock.push_back({.kind = Unblock::Kind::free_memory,
                               .mib = ask->mib - verdict.devices->largest_free_mib,
                               .node = verdict.devices->largest_free_node,
                               .device = verdict.devices->largest_free_uuid});
    if (verdict.devices->largest_free_mib > 0) {
      verdict.unblock.push_back(
          {.kind = Unblock::Kind::smaller_request, .mib = verdict.devices->largest_free_mib});
    }
  }
  if (reservation.plan.timed && reservation.plan.releases == 1) {
    for (const WorkloadId id : on_node_[node.index()]) {
      const Entry& holder = entries_[id.index()];
      const std::optional<Time> end = holder.declared_end();
      if (end.has_value() && std::max(*end, now) == reservation.plan.at) {
        verdict.unblock.push_back(
            {.kind = Unblock::Kind::wait, .node = name, .workload = holder.uid, .until = *end});
        break;
      }
    }
  }
  if (ask != nullptr && ask->is_exclusive()) {
    verdict.unblock.push_back(
        {.kind = Unblock::Kind::free_devices,
         .devices = ask->count - most_free_devices(shapes.at(reservation.shape)),
         .node = name});
  }
  if (verdict.unblock.size() > 3) {
    verdict.unblock.resize(3);
  }
}

Verdict Engine::Impl::explain(const Entry& entry) const {
  Verdict verdict;
  const WorkloadId id = id_of(entry.uid);
  const Shape& shape = shapes.at(entry.shape);
  verdict.outcome = entry.outcome();
  // Why it waits is asked now: nodes go down and samples age without anybody being tried.
  const Cause today = entry.state == EntryState::waiting ? waiting_cause(shape, id) : Cause::none;
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
  if (verdict.outcome == Outcome::granted) {
    verdict.summary = fmt::format("granted on {}", verdict.node);
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
    Cause cause = verdict.outcome == Outcome::never && verdict.cause != Cause::unknown_queue
                      ? never_cause_on(shape, node)
                      : index.refusal(entry.shape, node);
    if (cause == Cause::none && index.is_guarded(node) && !entry.holds()) {
      cause = Cause::reserved_for_other;
    }
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
  verdict.search_complete = entry.cause != Cause::search_budget;
  verdict.summary = summary_of(entry, verdict);
  if (verdict.summary.size() > 200) {
    verdict.summary.resize(197);
    verdict.summary += "...";
  }
  return verdict;
}

Cause Engine::Impl::never_cause_on(const Shape& shape, NodeId node) const {
  const Cause constraint = constraint_refusal(shape.request.nodes(), fleet.node(node));
  if (constraint != Cause::none) {
    return constraint;
  }
  return shapes.fit(shape.id, types, fleet, node).never;
}

}  // namespace berth::core
