// What is shown: devices, figures, and whether the books are whole.
#include <algorithm>

#include <fmt/format.h>

#include "core/ledger/ledger.h"
#include "lease/reasons.h"
#include "lease/service.h"

namespace berth::lease {

std::optional<Position> Service::position(const Lease& lease, const core::Verdict& verdict) const {
  if (lease.state != State::waiting || !verdict.position.has_value()) {
    return std::nullopt;
  }
  const auto in = waiting_in_.find(lease.ask.queue);
  return Position{verdict.position->index + 1, in == waiting_in_.end() ? 0 : in->second};
}

std::optional<core::Verdict> Service::verdict(const Lease& lease) const {
  Result<core::Verdict> verdict = engine_->explain(lease.id, core::Engine::Detail::in_short);
  if (!verdict) {
    return std::nullopt;
  }
  if (held_ && lease.state == State::waiting) {
    verdict->summary = held_because();
  }
  return std::move(*verdict);
}

std::int64_t Service::use_bytes(const Lease& lease) const {
  std::int64_t most = 0;
  const core::Fleet& fleet = engine_->fleet();
  for (const Held& held : lease.devices) {
    const core::DeviceId device = fleet.find_device(held.uuid);
    if (device.is_none() || !fleet.present(device)) {
      continue;
    }
    for (const core::Holding& holding : engine_->ledger().book(device).holdings) {
      if (engine_->uid(holding.workload) == lease.id) {
        most = std::max(most, holding.measured);
      }
    }
  }
  return most;
}

namespace {

std::string mode_of(const core::DeviceFace& face) {
  switch (face.use) {
    case core::DeviceUse::free: return "free";
    case core::DeviceUse::whole: return "exclusive";
    case core::DeviceUse::shared: break;
  }
  return face.mode == core::SharingMode::sm_sharing ? "sm-sharing" : "time-slicing";
}

}  // namespace

Device Service::device_row(const core::Node& node, const core::Device& device, Now now) const {
  const core::Fleet& fleet = engine_->fleet();
  const core::DeviceId id = fleet.find_device(device.uuid);
  const core::DeviceFace face =
      engine_->ledger().face_without(id, [](const core::Holding&) { return false; });
  const core::DeviceBook& book = engine_->ledger().book(id);
  Device row{.uuid = device.uuid,
             .node = node.name,
             .model = device.model,
             .index = device.index,
             .mig = device.is_mig(),
             .mig_parent = device.mig_enabled,
             .parent = device.mig_parent,
             .drained = drained_.contains(device.uuid),
             .health = fleet.device(id).health == core::DeviceHealth::ok ? "ok" : "unhealthy",
             .mode = mode_of(face)};
  if (face.blocked != core::Cause::none) {
    row.reason = reason_name(waiting_reason(face.blocked));
  } else if (held_) {
    row.reason = reason_name(waiting_reason(core::Cause::none));
  }
  if (device.total.has_value()) {
    row.total_mib = device.total->floor_mib();
  }
  row.reserve_mib = device.reserve.ceil_mib();
  row.foreign_mib = Memory::bytes(book.foreign).ceil_mib();
  row.committed_mib = Memory::bytes(book.committed()).ceil_mib();
  row.headroom_mib = Memory::bytes(face.headroom).floor_mib();
  row.attributed = book.attributed;
  if (const auto seen = seen_.find(device.uuid); seen != seen_.end()) {
    if (seen->second.report.used.has_value()) {
      row.used_mib = seen->second.report.used->ceil_mib();
    }
    row.sample_age_ms = std::max<std::int64_t>((now.time - seen->second.at).count(), 0);
    row.problem = seen->second.report.problem;
    if (seen->second.lost) {
      row.health = "lost";
    }
    for (const local::Attribution& owner : seen->second.owners) {
      if (owner.lease.empty()) {
        row.foreign.push_back(owner);
      }
    }
  }
  for (const core::Holding& holding : book.holdings) {
    if (const Lease* lease = find(engine_->uid(holding.workload))) {
      row.leases.push_back(lease);
    }
  }
  // While work leaves for other work, both are in the books; one of them has the room.
  row.promised_mib = Memory::bytes(std::min(book.requests, book.usable)).ceil_mib();
  return row;
}

std::vector<Device> Service::devices(Now now) const {
  std::vector<Device> rows;
  for (const auto& [name, node] : nodes_) {
    for (const core::Device& device : node.devices) {
      rows.push_back(device_row(node, device, now));
    }
  }
  return rows;
}

std::vector<local::Proof> Service::proofs() const {
  std::vector<local::Proof> proofs;
  for (const std::uint64_t number : live_) {
    const Lease& lease = leases_.at(number);
    if (holds(lease.state) && lease.proof.has_value()) {
      proofs.push_back(*lease.proof);
    }
  }
  return proofs;
}

Result<void> Service::check() const {
  TRY_VOID(core::verify(*engine_));
  const auto broken = [](const Lease& lease, std::string_view what) {
    return Error(ErrorCode::internal,
                 fmt::format("lease {} ({}): {}", lease.id, state_name(lease.state), what));
  };
  std::size_t live = 0;
  std::map<std::string, std::size_t> waiting;
  for (const auto& [number, lease] : leases_) {
    const core::Grant* grant = engine_->grant(lease.id);
    const bool booked = grant != nullptr && grant->state != core::GrantState::promised;
    if (lease.wants_gpu() && holds(lease.state) != booked) {
      return broken(lease, booked ? "the ledger holds it" : "the ledger does not hold it");
    }
    if ((lease.state == State::waiting) != (engine_->workload(lease.id).has_value() && !booked)) {
      return broken(lease, "the engine's queue says otherwise");
    }
    if (!is_live(lease.state) && engine_->workload(lease.id).has_value()) {
      return broken(lease, "ended, and the engine still has it");
    }
    live += is_live(lease.state) ? 1U : 0U;
    waiting[lease.principal] += lease.state == State::waiting ? 1U : 0U;
    const bool timed = due_of_.contains(number);
    if (!is_live(lease.state) && !timed) {
      return broken(lease, "it would never be forgotten");
    }
    if (lease.state == State::granted && !timed) {
      return broken(lease, "it would never have to be confirmed");
    }
  }
  if (live != live_.size()) {
    return Error(ErrorCode::internal,
                 fmt::format("{} leases live, counted {}", live, live_.size()));
  }
  for (const auto& [principal, count] : waiting) {
    const auto counted = waiting_of_.find(principal);
    if ((counted == waiting_of_.end() ? 0 : counted->second) != count) {
      return Error(ErrorCode::internal,
                   fmt::format("{} has {} waiting, counted otherwise", principal, count));
    }
  }
  return {};
}

}  // namespace berth::lease
