// verify(): every derived figure recomputed from scratch, and the engine's own invariants.
#include <algorithm>

#include <fmt/format.h>

#include "core/engine/engine_impl.h"

namespace berth::core {

namespace {

Error broken(std::string text) { return {ErrorCode::internal, std::move(text)}; }

}  // namespace

// The tree's sums against the entries' own lists.
Result<void> Engine::Impl::verify_queues() const {
  if (!quotas.counting()) {
    return success();
  }
  std::vector<Booking> bookings;
  std::vector<QueueHead> demand;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.state == EntryState::free || entry.state == EntryState::ended) {
      continue;
    }
    if ((entry.holds() && !entry.grant->foreign) != entry.booked ||
        (entry.booked && entry.charge != quotas.charge_of(*entry.grant))) {
      return broken(fmt::format("workload {}: its queue has another charge booked than its grant",
                                entry.uid));
    }
    if (entry.booked) {
      bookings.push_back({entry.leaf, entry.charge, entry.booking, entry.preemptible});
    }
    if (!entry.demand.parts.empty()) {
      demand.push_back({entry.leaf, &entry.demand});
    }
  }
  return quotas.tree.verify(bookings, demand);
}

// All of its minimum holds something, or nothing of it does; and every member is filed once.
Result<void> Engine::Impl::verify_gang(WorkloadId head) const {
  const GangState& state = gangs_.at(head);
  std::int64_t holding = 0;
  Result<void> filed = success();
  for_members(head, [&](WorkloadId member) {
    const Entry& one = entry(member);
    holding += one.holds() ? 1 : 0;
    if (one.gang != head || id_of(one.uid) != member) {
      filed = broken(fmt::format("gang {}: its list names {}, which is not its member",
                                 entry(head).uid, one.uid));
    }
  });
  TRY_VOID(filed);
  const bool together = state.started || promised_gangs_.contains(head);
  if (!together && holding > 0) {
    return broken(fmt::format("gang {} waits, and {} of its members hold something",
                              entry(head).uid, holding));
  }
  return success();
}

// What is remembered of a node's future against the ledger's own answers, and the plans that rest
// on it against asking one end after the other.
Result<void> Engine::Impl::verify_plans() const {
  const ChangeLog& log = ledger.lasting_changes();
  const auto after = [&](NodeId node, std::span<const NodeOutlook::End> gone) {
    return node_without(node, [gone](WorkloadId id) {
      return std::ranges::find(gone, id, &NodeOutlook::End::workload) != gone.end();
    });
  };
  for (std::size_t i = 0; i < outlooks_.size(); ++i) {
    const NodeId node(i);
    if (!outlooks_[i].made || log.changed_since(node, outlooks_[i].seen)) {
      continue;
    }
    const NodeOutlook& outlook = outlooks_[i].outlook;
    for (std::size_t count = 0; count <= outlook.ends().size(); ++count) {
      const PlacementIndex::NodeState state = after(node, outlook.ends().first(count));
      const NodeOutlook::Room& room = outlook.room_after(count);
      bool same = room.cpu == state.face.cpu_free && room.ram == state.face.ram_free &&
                  room.slots == state.face.slots_free;
      for (std::size_t place = 0; place < state.devices.size(); ++place) {
        same = same && outlook.face_after(place, count) == state.devices[place];
      }
      if (!same) {
        return broken(fmt::format("node {}: after {} of its ends it will not be as is remembered",
                                  fleet.node(node).name, count));
      }
    }
  }
  for (const auto& [shape, plans] : shape_plans_) {
    for (std::size_t i = 0; i < plans.plans.size(); ++i) {
      const NodeId node(i);
      const NodePlan& plan = plans.plans[i];
      if (log.changed_since(node, plans.seen) || !plan.possible || !plan.timed) {
        continue;
      }
      const std::span<const NodeOutlook::End> ends = outlook_of(node).ends();
      std::size_t needed = 0;
      while (needed <= ends.size() &&
             index.judge(shape, node, after(node, ends.first(needed)), ~std::uint64_t{0}).cause !=
                 Cause::none) {
        ++needed;
      }
      if (static_cast<std::int64_t>(needed) != plan.releases) {
        return broken(
            fmt::format("node {}: a plan waits for {} of its {} ends, and it is {}",
                        fleet.node(node).name, plan.releases, ends.size(),
                        needed > ends.size() ? "not enough" : "more or less than needed"));
      }
    }
  }
  return success();
}

Result<void> Engine::Impl::verify() const {
  TRY_VOID(ledger.check());
  std::size_t holders = 0;
  std::size_t waiters = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const WorkloadId id(i);
    const bool known = entry.state != EntryState::free && entry.state != EntryState::ended;
    if (known && shapes.at(entry.shape).terms != terms_of(entry.options, entry.leaf)) {
      return broken(
          fmt::format("workload {}: its policy or device cap is not that of its queue", entry.uid));
    }
    if (entry.gang == id && entry.state != EntryState::free && entry.state != EntryState::ended) {
      TRY_VOID(verify_gang(id));
      waiters += waiting.contains(id) ? 1U : 0U;
      continue;
    }
    const bool holds = entry.state == EntryState::granted || entry.state == EntryState::promised;
    if (holds != entry.holds()) {
      return broken(fmt::format("workload {}: its state and its grant disagree", entry.uid));
    }
    if ((entry.state == EntryState::waiting) != waiting.contains(id)) {
      return broken(fmt::format("workload {}: its state and the waiting room disagree", entry.uid));
    }
    if (entry.state == EntryState::waiting && entry.cause == Cause::none) {
      return broken(fmt::format("workload {} waits and nothing says why", entry.uid));
    }
    if (entry.state == EntryState::waiting &&
        (entry.cause == Cause::granting_held) != granting_held_) {
      return broken(fmt::format("workload {} waits for {} while granting is {}", entry.uid,
                                cause_name(entry.cause), granting_held_ ? "held" : "not held"));
    }
    if (holds) {
      ++holders;
      const std::vector<WorkloadId>& there = on_node_[entry.grant->node.index()];
      if (std::ranges::count(there, id) != 1) {
        return broken(
            fmt::format("workload {}: it is not filed on its node exactly once", entry.uid));
      }
    }
    waiters += waiting.contains(id) ? 1U : 0U;
  }
  std::size_t filed = 0;
  for (const std::vector<WorkloadId>& there : on_node_) {
    filed += there.size();
  }
  if (filed != holders || waiters != waiting.size()) {
    return broken(
        fmt::format("{} grants are filed on nodes, {} workloads hold one; {} wait, the "
                    "waiting room has {}",
                    filed, holders, waiters, waiting.size()));
  }
  TRY_VOID(verify_queues());
  TRY_VOID(verify_plans());
  // The index must answer as if it asked every node anew.
  for (const KindId kind : waiting.kinds()) {
    const ShapeId shape = kinds.shape_of(kind);
    if (index.policy(shape).draws()) {
      continue;
    }
    const WorkloadId first = waiting.first_of(kind, now);
    const GuardRule rule = guard_for(first);
    const Selection kept = index.select(shape, rule);
    const Selection fresh = index.select_by_scan(shape, rule);
    if (kept.node != fresh.node || kept.way != fresh.way || kept.cost != fresh.cost) {
      return broken(fmt::format("workload {}: the index says node {}, asking every node says {}",
                                entries_[first.index()].uid, kept.node.value(),
                                fresh.node.value()));
    }
  }
  return success();
}

}  // namespace berth::core
