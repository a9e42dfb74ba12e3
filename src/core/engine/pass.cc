// The pass: woken workloads in order through the stages of stages.h.
#include <algorithm>

#include "core/engine/engine_impl.h"

namespace berth::core {

Appetite Engine::Impl::offer_of(NodeId node) const {
  const NodeFace& face = ledger.node(node);
  Appetite offer{.cpu = std::max<std::int64_t>(face.cpu_free, 0),
                 .ram = std::max<std::int64_t>(face.ram_free, 0)};
  const bool releasing = releasing_nodes_.contains(node);
  if (releasing) {
    const NodeFuture future = ledger.future(node);
    offer.cpu = std::max(offer.cpu, future.cpu);
    offer.ram = std::max(offer.ram, future.ram);
  }
  for (const DeviceId id : fleet.devices_of(node)) {
    const DeviceFace device =
        releasing ? ledger.future_face(id) : ledger.faces(node)[fleet.place_of(id)];
    if (device.blocked != Cause::none) {
      continue;
    }
    offer.idle_devices += device.idle ? 1 : 0;
    offer.device_bytes = std::max(offer.device_bytes, device.headroom);
    offer.nano = std::max<std::int64_t>(offer.nano, device.nano_left);
  }
  return offer;
}

// Kinds that wait and that the node could take now that it has improved.
void Engine::Impl::add_helped_by(NodeId node, std::set<KindId>& helped, std::int64_t& steps) const {
  if (!fleet.present(node) || ledger.node(node).blocked != Cause::none) {
    return;
  }
  for (const KindId kind : waiting.helped_by(offer_of(node), steps)) {
    ++steps;
    if (releasing_nodes_.contains(node) || index.is_guarded(node) ||
        !kinds.key(kind).gang.is_none() ||
        index.refusal(kinds.shape_of(kind), node) == Cause::none) {
      helped.insert(kind);
    }
  }
}

// Kinds that wait and that something which happened may help.
std::set<KindId> Engine::Impl::woken_kinds() {
  std::set<KindId> woken;
  const std::set<NodeId> nodes = std::move(improved_);
  improved_.clear();
  if (waiting.empty()) {
    freed_.clear();
    return woken;
  }
  StageBook::Scope stage(stages, StageId::order);
  for (const NodeId node : nodes) {
    add_helped_by(node, woken, wake_steps_);
  }
  wake_by_quota(woken);
  wake_claimants(woken);
  for (const WorkloadId id : requeued_) {
    woken.insert(at(id).kind);
  }
  requeued_.clear();
  return woken;
}

void Engine::Impl::run_pass() {
  if (fleet_changed_) {
    ++fleet_version_;
    displaced_for_.clear();
    if (const auto problems = quotas.fleet_changed(); problems.has_value()) {
      report(*problems);
      reread_queues();
    }
    rebook_reshaped();
    recheck_possible();
    fleet_changed_ = false;
  }
  if (granting_held_) {
    run_held_pass();
    return;
  }
  // A round can improve nodes itself (a reservation moves, a promise is taken back). Each round
  // grants, promises or moves something, and the bound keeps a mistake of ours from becoming a
  // hang.
  constexpr int kMostRounds = 8;
  for (int round = 0; round < kMostRounds; ++round) {
    review_gangs();
    settle_improved();
    const std::vector<WorkloadId> back(requeued_.begin(), requeued_.end());
    try_in_order(woken_kinds());
    say_why(back);
    update_reservations();
    const bool claims = claims_dirty_ && quotas.active() && !waiting.empty();
    if (improved_.empty() && requeued_.empty() && touched_gangs_.empty() && !claims) {
      return;
    }
  }
  improved_.clear();
}

// Who waits again behind one of its kind was not tried itself: what holds for that one holds for
// it.
void Engine::Impl::say_why(const std::vector<WorkloadId>& back) {
  for (const WorkloadId id : back) {
    if (!waiting.contains(id) || is_head(id) || at(id).cause != Cause::none) {
      continue;
    }
    const Cause cause = at(waiting.first_of(at(id).kind, now)).cause;
    set_state(id, EntryState::waiting,
              cause != Cause::none ? cause : waiting_cause(shapes.at(at(id).shape), id));
  }
}

void Engine::Impl::settle_improved() {
  if (promised_.empty()) {
    return;
  }
  const std::set<NodeId> nodes = improved_;
  std::set<NodeId> settled = nodes;
  if (!freed_.empty()) {
    settled.merge(quota_promises_);
    quota_promises_.clear();
  }
  std::vector<NodeId> by_name(settled.begin(), settled.end());  // ids follow the order of arrival
  std::ranges::sort(by_name, {}, [this](NodeId node) { return fleet.node(node).name; });
  for (const NodeId node : by_name) {
    settle_promises(node);
  }
  settle_gang_promises();
  if (!granting_held_) {
    retry_promised(nodes);
  }
}

// The cheapest place that the queue's quota and the reservations of others leave.
Selection Engine::Impl::select_for(WorkloadId id, const QuotaView* quota) {
  StageBook::Scope stage(stages, StageId::place);
  const Entry& entry = at(id);
  const std::int64_t before = index.steps();
  Selection selection;
  const GuardRule guarded = guard_for(id);
  const std::vector<bool> home = nodes_for_member(id);
  if ((quota == nullptr || quota->open) && home.empty()) {
    selection = index.select(entry.shape, guarded);
  } else if (quota == nullptr || !quota->shut) {
    const Shape& shape = shapes.at(entry.shape);
    selection = index.select_among(entry.shape, [&](NodeId node) -> std::optional<std::uint64_t> {
      const std::uint64_t places =
          quota == nullptr ? ~std::uint64_t{0} : quotas.places(*quota, shape, node);
      if (places == 0 || (!home.empty() && !home[node.index()])) {
        return std::nullopt;
      }
      if (!guarded || !index.is_guarded(node)) {
        return places;
      }
      const std::optional<std::uint64_t> open = guarded(node);
      return open.has_value() ? std::optional(*open & places) : std::nullopt;
    });
  }
  stage.stepped(index.steps() - before);
  if (selection.node.is_none()) {
    stage.rejected();
  }
  return selection;
}

// True when it was granted or promised. Otherwise its entry says why not.
bool Engine::Impl::try_workload(WorkloadId id) {
  Entry& entry = at(id);
  ++entry.attempts;
  entry.evaluated = now;
  blocked_by_.clear();
  const Shape& shape = shapes.at(entry.shape);
  {
    StageBook::Scope stage(stages, StageId::possible);
    const Cause never = never_cause(id);
    if (never != Cause::none) {
      stage.rejected();
      give_up(id, never);
      return false;
    }
  }
  if (granting_held_) {
    hold_back(id);
    return false;
  }
  if (is_head(id)) {
    return try_gang(id);
  }
  const QuotaView* quota = nullptr;
  if (quotas.active()) {
    StageBook::Scope stage(stages, StageId::quota);
    quotas.sync();
    quota = &quotas.view(shape, entry.leaf, entry.preemptible, Counting::present);
    blocked_by_ = quota->refusing();
    if (quota->shut) {
      stage.rejected();
    }
  }
  if (behind_head(id)) {
    set_state(id, EntryState::waiting, Cause::reserved_for_other);
    touched_pools_.insert(entry.pool);
    return false;
  }
  const Selection selection = select_for(id, quota);
  if (!releasing_nodes_.empty() && try_promise(id, selection)) {
    return true;
  }
  if (selection.node.is_none() && try_claim(id)) {
    return true;
  }
  if (selection.node.is_none()) {
    touched_pools_.insert(entry.pool);
    set_state(id, EntryState::waiting, waiting_cause(shape, id));
    if (waiting.contains(id)) {
      note_blocked(id);
    }
    return false;
  }
  commit(id, make_grant(id, selection.node, ledger.faces(selection.node),
                        index.places(entry.shape, selection)));
  return true;
}

std::unique_ptr<Grant> Engine::Impl::make_grant(WorkloadId id, NodeId node,
                                                std::span<const DeviceFace> faces,
                                                const std::vector<ContainerPlaces>& placed) const {
  const Entry& entry = entries_[id.index()];
  const Shape& shape = shapes.at(entry.shape);
  auto grant = std::make_unique<Grant>();
  grant->node = node;
  grant->granted_at = now;
  grant->cpu = shape.request.cpu();
  grant->ram = shape.request.ram();
  if (!shape.wants_gpu()) {
    return grant;
  }
  const StaticFit& fit = shapes.fit(entry.shape, types, fleet, node);
  const std::vector<DeviceId>& ids = fleet.devices_of(node);
  for (std::size_t i = 0; i < placed.size(); ++i) {
    ContainerGrant container{.container = placed[i].container, .shares = {}};
    for (int n = 0; n < placed[i].places.count; ++n) {
      const std::size_t place = placed[i].places.at[static_cast<std::size_t>(n)];
      const DeviceNeed& need = fit.asks[i].needs[place];
      const std::int64_t request =
          Memory::bytes(need.exclusive ? faces[place].headroom : need.request).floor_mib();
      const std::int64_t limit = need.exclusive ? request : Memory::bytes(need.limit).floor_mib();
      container.shares.push_back(
          {.device = ids[place], .request_mib = request, .limit_mib = limit});
    }
    grant->containers.push_back(std::move(container));
  }
  grant->charges = charges_for(shape, fit, faces, ids, placed);
  grant->starting = std::ranges::any_of(grant->charges, [](const DeviceCharge& charge) {
    return charge.starting_mib != charge.running_mib ||
           charge.starting_limit_mib != charge.running_limit_mib ||
           charge.starting_nano != charge.running_nano;
  });
  return grant;
}

void Engine::Impl::commit(WorkloadId id, std::unique_ptr<Grant> grant) {
  StageBook::Scope stage(stages, StageId::commit);
  Entry& entry = at(id);
  grant->number = ++grants_made_;
  const NodeId node = grant->node;
  book_grant(id, std::move(grant));
  if (waiting.contains(id)) {
    dequeue(id);
  }
  never_.erase(id);
  set_state(id, EntryState::granted, Cause::none);
  if (is_member(id)) {
    touched_gangs_.insert(entry.gang);
  }
  if (quotas.active() && quotas.tree.keeps_history()) {
    quotas.tree.note_grant(entry.leaf, entry.charge);
  }
  if (entry.options.confirm_within.has_value()) {
    entry.confirm_by = now + *entry.options.confirm_within;
    timers_.set({.due = *entry.confirm_by, .kind = TimerKind::confirm, .workload = id});
  }
  actions_.emplace_back(Granted{.workload = id, .grant = entry.grant->number, .node = node});
}

// Whether any machine could hold the shape when nothing runs; none = yes, or not provable.
Cause Engine::Impl::possible(const Shape& shape) const {
  if (fleet.present_nodes() == 0) {
    return Cause::none;
  }
  if (shape.constrained || shape.by_uuid) {
    return possible_for_constrained(shape);
  }
  Cause cause = Cause::none;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const NodeTypeId type(i);
    if (types.type(type).present == 0) {
      continue;
    }
    const StaticFit& fit = shapes.fit_of_type(shape.id, types, type);
    if (fit.could_ever) {
      return Cause::none;
    }
    cause = more_advanced(cause, fit.never);
  }
  return cause == Cause::insufficient_node_resource ? Cause::exceeds_fleet : cause;
}

Cause Engine::Impl::possible_for_constrained(const Shape& shape) const {
  Cause cause = Cause::none;
  bool possible = false;
  const auto ask_node = [&](NodeId node) {
    if (possible || !fleet.present(node)) {
      return;
    }
    const Node& description = fleet.node(node);
    const Cause constraint = constraint_refusal(shape.request.nodes(), description);
    if (constraint != Cause::none) {
      cause = more_advanced(cause, constraint);
      return;
    }
    const StaticFit& fit = shapes.fit(shape.id, types, fleet, node);
    possible = possible || fit.could_ever;
    cause = more_advanced(cause, fit.never);
  };
  const std::vector<std::string>& names = shape.request.nodes().names;
  if (names.empty()) {
    for (std::size_t i = 0; i < fleet.node_slots(); ++i) {
      ask_node(NodeId(i));
    }
  }
  for (const std::string& name : names) {
    const NodeId node = fleet.find_node(name);
    if (node.is_none() || !fleet.present(node)) {
      cause = more_advanced(cause, Cause::no_node_matches);
    } else {
      ask_node(node);
    }
  }
  if (possible) {
    return Cause::none;
  }
  return cause == Cause::insufficient_node_resource ? Cause::exceeds_fleet : cause;
}

// The fleet changed: what was impossible may be possible, and the other way round.
void Engine::Impl::recheck_possible() {
  const std::vector<WorkloadId> impossible(never_.begin(), never_.end());
  for (const WorkloadId id : impossible) {
    const Cause cause = never_cause(id);
    if (cause != Cause::none) {
      set_state(id, EntryState::never, cause);
      continue;
    }
    never_.erase(id);
    if (is_head(id)) {
      retry_gang(id);
      continue;
    }
    // Tried in the pass, once all of them ask again: what each is entitled to depends on it.
    set_demand(id, wish_of(id));
    at(id).state = EntryState::waiting;
    at(id).cause = Cause::none;  // the pass says why it waits
    at(id).since = now;
    enqueue(id);
    requeued_.insert(id);
  }
  const std::vector<KindId> kinds_now(waiting.kinds().begin(), waiting.kinds().end());
  for (const KindId kind : kinds_now) {
    const WorkloadId first = waiting.first_of(kind, now);
    if (first.is_none()) {
      continue;
    }
    const Cause cause = never_cause(first);
    while (cause != Cause::none && waiting.count_of(kind) > 0) {
      give_up(waiting.first_of(kind, now), cause);
    }
  }
}

// As waiting_cause, where the queue may have some devices and not others.
Cause Engine::Impl::waiting_cause_among(const Shape& shape, WorkloadId id,
                                        const QuotaView& quota) const {
  Cause cause = Cause::none;
  const GuardRule guarded = guard_for(id);
  for (std::size_t i = 0; i < fleet.node_slots(); ++i) {
    const NodeId node(i);
    if (!fleet.present(node)) {
      continue;
    }
    Cause here = answer_of(entry(id), node);
    if (quotas.places(quota, shape, node) == 0) {
      here = shapes.fit(shape.id, types, fleet, node).could_ever ? quota.refusal.cause : here;
    } else if (here == Cause::none) {
      here = quota.refusal.cause;
    }
    cause = more_advanced(cause, here);
  }
  return cause;
}

// The most telling reason among the nodes' answers.
Cause Engine::Impl::waiting_cause(const Shape& shape, WorkloadId id) const {
  if (quotas.active() && is_delayed(entry(id)) && has_rights(entry(id)) && may_claim(id)) {
    return Cause::preemption_delay;
  }
  if (quotas.active()) {
    const Entry& asking = entry(id);
    const QuotaView& quota = quotas.view(shape, asking.leaf, asking.preemptible, Counting::present);
    if (quota.shut) {
      return quota.refusal.cause;
    }
    if (!quota.open) {
      return waiting_cause_among(shape, id, quota);
    }
    if (behind_head(id)) {
      return Cause::reserved_for_other;
    }
  }
  Cause cause = fleet.present_nodes() == 0 ? Cause::no_node_matches : Cause::none;
  const RefusalCounts& counts = index.refusals(shape.id);
  for (std::size_t i = counts.size(); i-- > 1;) {
    if (counts[i] > 0) {
      cause = more_advanced(cause, static_cast<Cause>(i));
      break;
    }
  }
  cause = cause_beside_gangs(shape.id, id, cause);
  // Nodes with a reservation are not on the page: they are asked one by one.
  PlacementIndex::Refusals refusal = index.asking(shape.id);
  for (const auto& [pool, reservation] : reservations_) {
    if (reservation.node.is_none()) {
      continue;
    }
    const Cause there = refusal(reservation.node);
    if (there != Cause::none) {
      cause = more_advanced(cause, there);
    } else if (reservation.holder != id) {
      const bool declared =
          entries_[id.index()].options.max_run.has_value() && reservation.plan.timed;
      cause = declared ? Cause::backfill_too_long : Cause::reserved_for_other;
    }
  }
  return cause;
}

}  // namespace berth::core
