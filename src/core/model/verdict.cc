#include "core/model/verdict.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace berth::core {

namespace {

struct CauseRow {
  Cause cause;
  std::string_view name;
  Stage stage;
};

// In the order of the enumerators; checked by a test.
constexpr std::array<CauseRow, kCauseCount> kCauses{{
    {Cause::none, "", Stage::none},
    {Cause::no_node_matches, "NoNodeMatches", Stage::node},
    {Cause::untolerated_taint, "UntoleratedTaint", Stage::node},
    {Cause::node_not_ready, "NodeNotReady", Stage::node},
    {Cause::node_cordoned, "NodeCordoned", Stage::node},
    {Cause::insufficient_node_resource, "InsufficientNodeResource", Stage::node},
    {Cause::no_pod_slot, "NoPodSlot", Stage::node},
    {Cause::no_devices, "NoDevices", Stage::device},
    {Cause::resource_kind_mismatch, "ResourceKindMismatch", Stage::device},
    {Cause::no_such_profile, "NoSuchProfile", Stage::device},
    {Cause::type_mismatch, "TypeMismatch", Stage::device},
    {Cause::uuid_mismatch, "UuidMismatch", Stage::device},
    {Cause::replicas_unknown, "ReplicasUnknown", Stage::device},
    {Cause::device_not_owned, "DeviceNotOwned", Stage::device},
    {Cause::device_held_by_peer, "DeviceHeldByPeer", Stage::device},
    {Cause::sharing_not_ready, "SharingNotReady", Stage::device},
    {Cause::backend_cannot_enforce, "BackendCannotEnforce", Stage::device},
    {Cause::no_usable_memory, "NoUsableMemory", Stage::device},
    {Cause::device_unhealthy, "DeviceUnhealthy", Stage::device},
    {Cause::device_cordoned, "DeviceCordoned", Stage::device},
    {Cause::stale_observation, "StaleObservation", Stage::device},
    {Cause::share_below_minimum, "ShareBelowMinimum", Stage::device},
    {Cause::device_exclusive, "DeviceExclusive", Stage::device},
    {Cause::foreign_use, "ForeignUse", Stage::device},
    {Cause::device_cap, "DeviceCap", Stage::device},
    {Cause::compute_mode_conflict, "ComputeModeConflict", Stage::device},
    {Cause::insufficient_compute, "InsufficientCompute", Stage::device},
    {Cause::insufficient_memory, "InsufficientMemory", Stage::device},
    {Cause::limit_overcommit, "LimitOvercommit", Stage::device},
    {Cause::unequal_devices, "UnequalDevices", Stage::device},
    {Cause::insufficient_devices, "InsufficientDevices", Stage::device},
    {Cause::numa_unfit, "NumaUnfit", Stage::device},
    {Cause::waiting_for_release, "WaitingForRelease", Stage::device},
    {Cause::reserved_for_other, "ReservedForOther", Stage::device},
    {Cause::backfill_too_long, "BackfillTooLong", Stage::device},
    {Cause::search_budget, "SearchBudget", Stage::device},
    {Cause::wait_timed_out, "WaitTimedOut", Stage::none},
    {Cause::largest_device_too_small, "LargestDeviceTooSmall", Stage::device},
    {Cause::exceeds_fleet, "ExceedsFleet", Stage::node},
    {Cause::unknown_queue, "QueueDoesNotExist", Stage::quota},
    {Cause::contradictory_constraint, "ContradictoryConstraint", Stage::node},
    {Cause::gated, "Gated", Stage::gated},
    {Cause::granting_held, "GrantingHeld", Stage::binding},
    {Cause::back_off, "BackOff", Stage::gated},
    {Cause::gang_incomplete, "GangIncomplete", Stage::gang},
    {Cause::not_a_leaf_queue, "NotALeafQueue", Stage::quota},
    {Cause::queue_held, "QueueHeld", Stage::quota},
    {Cause::over_limit, "OverLimit", Stage::quota},
    {Cause::non_preemptible_over_quota, "NonPreemptibleOverQuota", Stage::quota},
    {Cause::unknown_resource, "UnknownResource", Stage::device},
    {Cause::unsupported_constraint, "UnsupportedConstraint", Stage::node},
    {Cause::no_topology_domain, "NoTopologyDomain", Stage::topology},
    {Cause::no_link_set, "NoLinkSet", Stage::topology},
    {Cause::preempting, "Preempting", Stage::device},
    {Cause::preemption_delay, "PreemptionDelayNotElapsed", Stage::device},
    {Cause::internal, "Internal", Stage::none},
}};

constexpr bool rows_in_order() {
  for (std::size_t i = 0; i < kCauses.size(); ++i) {
    if (static_cast<std::size_t>(kCauses[i].cause) != i) {
      return false;
    }
  }
  return true;
}

static_assert(rows_in_order(), "kCauses must list the causes in the order of the enumerators");

}  // namespace

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::granted: return "granted";
    case Outcome::waiting: return "waiting";
    case Outcome::never: return "never";
    case Outcome::ended: return "ended";
  }
  return "unknown";
}

std::string_view stage_name(Stage stage) {
  constexpr std::array<std::string_view, 8> kNames{"",     "gated",  "gang",     "quota",
                                                   "node", "device", "topology", "binding"};
  return kNames[static_cast<std::size_t>(stage)];
}

std::string_view cause_name(Cause cause) { return kCauses[static_cast<std::size_t>(cause)].name; }

std::optional<Cause> cause_from_name(std::string_view name) {
  for (const CauseRow& row : kCauses) {
    if (row.cause != Cause::none && row.name == name) {
      return row.cause;
    }
  }
  return std::nullopt;
}

Stage cause_stage(Cause cause) { return kCauses[static_cast<std::size_t>(cause)].stage; }

std::string reason_histogram(const Verdict::Nodes& nodes) {
  std::vector<std::pair<std::int64_t, std::string_view>> counts;
  for (std::size_t i = 1; i < kCauseCount; ++i) {
    if (nodes.by_reason[i] > 0) {
      counts.emplace_back(nodes.by_reason[i], kCauses[i].name);
    }
  }
  std::ranges::sort(counts, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  if (counts.empty()) {
    return "";
  }
  std::string text = fmt::format("0/{} nodes", nodes.total);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    fmt::format_to(std::back_inserter(text), "{} {} {}", i == 0 ? ":" : ",", counts[i].first,
                   counts[i].second);
  }
  return text + ".";
}

std::string pod_message(const Verdict& verdict) {
  std::string text = verdict.summary;
  if (verdict.outcome == Outcome::waiting || verdict.outcome == Outcome::never) {
    if (!text.empty() && text.back() != '.') {
      text += '.';
    }
    const std::string nodes = reason_histogram(verdict.nodes);
    text += nodes.empty() ? "" : " " + nodes;
  }
  constexpr std::size_t kMaxBytes = 1024;
  if (text.size() > kMaxBytes) {
    text.resize(kMaxBytes - 3);
    text += "...";
  }
  return text;
}

}  // namespace berth::core
