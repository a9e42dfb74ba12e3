// What each node could do for a shape, and when: the plans behind reservations.
#include <algorithm>
#include <bit>
#include <utility>

#include "core/engine/engine_impl.h"
#include "core/engine/node_outlook.h"

namespace berth::core {

namespace {

std::uint64_t mask_of(const std::vector<ContainerPlaces>& placed) {
  std::uint64_t mask = 0;
  for (const ContainerPlaces& container : placed) {
    for (int n = 0; n < container.places.count; ++n) {
      mask |= std::uint64_t{1} << container.places.at[static_cast<std::size_t>(n)];
    }
  }
  return mask;
}

}  // namespace

// Those that lie on the node and whose holders are before this one's.
const Engine::Impl::Ahead& Engine::Impl::ahead_of(Reservation& reservation, NodeId node) {
  Ahead& ahead = ahead_memory_;
  ahead.clear();
  for (Reservation* other : reserved_on(node)) {
    if (other->holder != reservation.holder && holder_before(*other, reservation)) {
      ahead.push_back({.shape = other->shape, .places = other->plan.places});
    }
  }
  if (ahead.size() > 1) {
    std::ranges::sort(ahead);
  }
  return ahead;
}

void Engine::Impl::find_path(Reservation& reservation) {
  const Entry& holder = entry(reservation.holder);
  reservation.path_of = holder.demanded;
  reservation.path.clear();
  if (!quotas.active() || !holder.gang.is_none()) {
    return;
  }
  for (QueueId at = holder.leaf; at != kRootQueue && !at.is_none(); at = quotas.tree.parent(at)) {
    reservation.path.push_back({.queue = at, .standing = {}, .rank = {}});
  }
  std::ranges::reverse(reservation.path);
}

const HolderStanding& Engine::Impl::standing_now(HolderStanding& one,
                                                 const Reservation& reservation) {
  if (one.round == order_round_) {
    return one;
  }
  one.round = order_round_;
  if (const std::uint64_t changes = quotas.tree.changes(one.queue); one.changes != changes) {
    one.changes = changes;
    one.standing = quotas.tree.standing(one.queue, entry(reservation.holder).demand);
    one.rank = quotas.tree.rank(one.queue);
  }
  return one;
}

// As ordered_before() of the holders, in a round of replanning: no time passes, nothing is booked
// and all shares are settled.
bool Engine::Impl::holder_before(Reservation& a, Reservation& b) {
  for (Reservation* one : {&a, &b}) {
    if (one->path_of != entry(one->holder).demanded) {
      find_path(*one);
    }
  }
  const std::size_t levels = std::min(a.path.size(), b.path.size());
  for (std::size_t i = 0; i < levels; ++i) {
    if (a.path[i].queue != b.path[i].queue) {
      const HolderStanding& left = standing_now(a.path[i], a);
      const HolderStanding& right = standing_now(b.path[i], b);
      return goes_before(left.standing, left.rank, right.standing, right.rank);
    }
  }
  return ordered_before(a.holder, b.holder);
}

HeldAhead Engine::Impl::held_by(const Ahead& ahead, NodeId node) const {
  HeldAhead held;
  for (const HeldPlaces& other : ahead) {
    const Shape& shape = shapes.at(other.shape);
    held.cpu += shape.cpu;
    held.ram += shape.ram;
    ++held.slots;
    if (!shape.wants_gpu()) {
      continue;
    }
    held.needs.resize(fleet.devices_of(node).size());
    const AskFit& fit = shapes.fit(shape.id, types, fleet, node).asks[0];
    for (std::size_t place = 0; place < held.needs.size(); ++place) {
      if ((other.places >> place & 1U) != 0) {
        held.needs[place].push_back(fit.needs[place]);
      }
    }
  }
  return held;
}

NodePlan Engine::Impl::plan_in(ShapeId shape, NodeId node, PlacementIndex::NodeState state,
                               const HeldAhead& held) const {
  state.face.cpu_free -= held.cpu;
  state.face.ram_free -= held.ram;
  state.face.slots_free -= held.slots;
  for (std::size_t place = 0; place < state.devices.size(); ++place) {
    for (const DeviceNeed& need : held.on(place)) {
      take_off(state.devices[place], need);
    }
  }
  NodePlan plan;
  const PlacementIndex::Judgement found = index.judge(shape, node, state, ~std::uint64_t{0});
  if (found.cause != Cause::none) {
    return plan;
  }
  plan.possible = true;
  plan.places = mask_of(found.places);
  for (std::size_t place = 0; place < state.devices.size(); ++place) {
    plan.left_over += (plan.places >> place & 1U) != 0 ? state.devices[place].free_milli : 0;
  }
  return plan;
}

// Made anew where the node changed since; what is only supposed is not remembered.
const NodeOutlook& Engine::Impl::outlook_of(NodeId node) const {
  if (suppositions > 0) {
    look_ahead(node, supposed_outlook_);
    return supposed_outlook_;
  }
  const ChangeLog& log = ledger.lasting_changes();
  if (outlooks_.size() <= node.index()) {
    outlooks_.resize(fleet.node_slots());
  }
  KnownOutlook& known = outlooks_[node.index()];
  if (!known.made || log.changed_since(node, known.seen)) {
    known.made = true;
    known.seen = log.end();
    look_ahead(node, known.outlook);
  }
  return known.outlook;
}

void Engine::Impl::look_ahead(NodeId node, NodeOutlook& outlook) const {
  const NodeFace& face = ledger.node(node);
  std::vector<NodeOutlook::End> ends;
  const std::span<const WorkloadId> there = node.index() < on_node_.size()
                                                ? std::span(on_node_[node.index()])
                                                : std::span<const WorkloadId>();
  for (const WorkloadId id : there) {
    const Entry& entry = entries_[id.index()];
    if (entry.supposed_gone) {
      continue;
    }
    if (entry.grant->state == GrantState::releasing) {
      ends.push_back({.at = NodeOutlook::kReleasing, .workload = id});
    } else if (const std::optional<Time> end = entry.declared_end(); end.has_value()) {
      ends.push_back({.at = *end, .workload = id});
    }
  }
  outlook.start(std::move(ends),
                {.cpu = face.cpu_free, .ram = face.ram_free, .slots = face.slots_free});
  for (const NodeOutlook::End& end : outlook.ends()) {
    const Grant& grant = *entries_[end.workload.index()].grant;
    outlook.add_freed({.cpu = grant.cpu.count(), .ram = grant.ram.in_bytes(), .slots = 1});
  }
  constexpr std::size_t kNever = ~std::size_t{0};
  std::vector<std::size_t> ends_of;    // of a device's holdings, in their order
  std::vector<std::size_t> ends_here;  // ascending
  for (const DeviceId device : fleet.devices_of(node)) {
    outlook.add_device(ledger.faces(node)[fleet.place_of(device)]);
    const std::vector<Holding>& holdings = ledger.book(device).holdings;
    ends_of.clear();
    ends_here.clear();
    for (const Holding& holding : holdings) {
      const auto end =
          std::ranges::find(outlook.ends(), holding.workload, &NodeOutlook::End::workload);
      const bool ends_once = end != outlook.ends().end();
      ends_of.push_back(ends_once ? static_cast<std::size_t>(end - outlook.ends().begin())
                                  : kNever);
      if (ends_once) {
        ends_here.push_back(ends_of.back());
      }
    }
    std::ranges::sort(ends_here);
    const auto repeated = std::ranges::unique(ends_here);
    ends_here.erase(repeated.begin(), repeated.end());
    for (const std::size_t end : ends_here) {
      outlook.add_step(end, ledger.face_without(device, [&](const Holding& holding) {
        return ends_of[static_cast<std::size_t>(&holding - holdings.data())] <= end;
      }));
    }
  }
}

// The earliest declared end after which the shape fits.
NodePlan Engine::Impl::plan_timed(ShapeId id, NodeId node, const HeldAhead& held) const {
  const NodeOutlook& outlook = outlook_of(node);
  const Shape& shape = shapes.at(id);
  NodePlan plan;
  std::size_t low = 0;
  if (shape.simple) {
    const std::optional<EarliestFit> found =
        outlook.earliest(shape, shapes.fit(id, types, fleet, node), held);
    if (!found.has_value()) {
      return plan;
    }
    low = found->ends;
    plan.possible = true;
    plan.places = found->places;
    plan.left_over = found->left_over;
  } else {
    const auto after = [&](std::size_t count) {
      const auto gone = outlook.ends().first(count);
      return plan_in(id, node,
                     node_without(node,
                                  [gone](WorkloadId other) {
                                    return std::ranges::find(gone, other,
                                                             &NodeOutlook::End::workload) !=
                                           gone.end();
                                  }),
                     held);
    };
    std::size_t high = outlook.ends().size();
    plan = after(high);
    if (!plan.possible) {
      return plan;
    }
    // More ends never hurt, so the first count that fits is found by halving.
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      const NodePlan tried = after(middle);
      if (tried.possible) {
        plan = tried;
        high = middle;
      } else {
        low = middle + 1;
      }
    }
  }
  plan.timed = true;
  plan.at = low == 0 ? now : std::max(now, outlook.ends()[low - 1].at);
  plan.releases = static_cast<std::int64_t>(low);
  return plan;
}

// Without declared ends: the devices whose fewest grants have to end.
NodePlan Engine::Impl::plan_untimed(ShapeId id, NodeId node, const HeldAhead& held) const {
  const Shape& shape = shapes.at(id);
  NodePlan plan = plan_in(id, node, node_without(node, [](WorkloadId) { return true; }), held);
  if (!plan.possible) {
    return plan;
  }
  plan.releases = static_cast<std::int64_t>(on_node_[node.index()].size());
  if (!shape.simple || !shape.wants_gpu()) {
    return plan;
  }

  struct Choice {
    std::int64_t releases = 0;
    std::int64_t left_over = 0;
    std::size_t place = 0;
    auto operator<=>(const Choice&) const = default;
  };

  std::vector<Choice> choices;
  const AskFit& fit = shapes.fit(shape.id, types, fleet, node).asks[0];
  const std::vector<DeviceId>& ids = fleet.devices_of(node);
  for (std::size_t place = 0; place < ids.size(); ++place) {
    if ((fit.eligible >> place & 1U) == 0) {
      continue;
    }
    std::vector<Holding> holders = ledger.book(ids[place]).holdings;
    std::ranges::sort(holders, [](const Holding& a, const Holding& b) {
      return a.request != b.request ? a.request > b.request : a.workload < b.workload;
    });
    for (std::size_t count = 0; count <= holders.size(); ++count) {
      DeviceFace face = ledger.face_without(ids[place], [&](const Holding& holding) {
        return std::any_of(holders.begin(), holders.begin() + static_cast<std::ptrdiff_t>(count),
                           [&](const Holding& h) { return h.workload == holding.workload; });
      });
      for (const DeviceNeed& need : held.on(place)) {
        take_off(face, need);
      }
      if (device_refusal(fit.needs[place], face) == Cause::none) {
        choices.push_back({.releases = static_cast<std::int64_t>(count),
                           .left_over = face.free_milli - fit.needs[place].milli,
                           .place = place});
        break;
      }
    }
  }
  const auto count = static_cast<std::size_t>(shape.ask(0).count);
  if (choices.size() < count) {
    plan.possible = false;
    return plan;
  }
  std::ranges::sort(choices);
  plan.releases = plan.left_over = 0;
  plan.places = 0;
  for (std::size_t i = 0; i < count; ++i) {
    plan.releases += choices[i].releases;
    plan.left_over += choices[i].left_over;
    plan.places |= std::uint64_t{1} << choices[i].place;
  }
  return plan;
}

NodePlan Engine::Impl::plan_node(ShapeId shape, NodeId node, const Ahead& ahead) const {
  if (!fleet.present(node) || ledger.node(node).blocked != Cause::none ||
      !shapes.fit(shape, types, fleet, node).could_ever ||
      constraint_refusal(shapes.at(shape).request.nodes(), fleet.node(node)) != Cause::none) {
    return {};
  }
  const HeldAhead held = held_by(ahead, node);
  const NodePlan timed = plan_timed(shape, node, held);
  return timed.possible ? timed : plan_untimed(shape, node, held);
}

// The reservation's own: what those before it hold there is not its.
NodePlan Engine::Impl::plan_for(Reservation& reservation, NodeId node) {
  ShapePlans& plans = *reservation.plans;
  const NodePlan& bound = plans.plans[node.index()];
  if (!bound.possible) {
    return bound;
  }
  const Ahead& ahead = ahead_of(reservation, node);
  if (ahead.empty()) {
    return bound;
  }
  std::vector<ShapePlans::Beside>& known = plans.beside[node];
  const auto same = std::ranges::find(known, ahead, &ShapePlans::Beside::ahead);
  if (same != known.end()) {
    return same->plan;
  }
  const NodePlan plan = plan_node(reservation.shape, node, ahead);
  known.push_back({.ahead = ahead, .plan = plan});
  return plan;
}

void Engine::Impl::update_plan(ShapeId shape, ShapePlans& plans, NodeId node) {
  ++wake_steps_;
  const NodePlan plan = plan_node(shape, node, {});
  const NodePlan before = std::exchange(plans.plans[node.index()], plan);
  // Where others have reserved, the rest of the node may have become better although its best has
  // not.
  if (is_later(before, plan) || (!reserved_on(node).empty() && !is_later(plan, before))) {
    plans.improved.push_back(node);
  }
  if (!plans.beside.empty()) {
    plans.beside.erase(node);
  }
  std::optional<ShapePlans::Key> fresh;
  if (plan.possible) {
    fresh = ShapePlans::Key{.untimed = !plan.timed,
                            .at = plan.timed ? plan.at : Time(),
                            .releases = plan.releases,
                            .left_over = plan.left_over,
                            .rank = index.rank(node),
                            .node = node};
  }
  std::optional<ShapePlans::Key>& key = plans.keys[node.index()];
  if (key == fresh) {
    return;  // it stands where it stood
  }
  if (key.has_value() && fresh.has_value()) {
    auto moved = plans.order.extract(*key);  // its memory serves again
    moved.value() = *fresh;
    plans.order.insert(std::move(moved));
  } else if (key.has_value()) {
    plans.order.erase(*key);
  } else {
    plans.order.insert(*fresh);
  }
  key = fresh;
}

// Looks again at the nodes that changed, for each shape that has a reservation. The plans of one
// that has none any more are kept for a while: they cost a look at every node.
void Engine::Impl::update_plans() {
  constexpr std::size_t kMostKept = 8;
  std::vector<std::pair<ShapeId, ShapePlans*>> used;  // few, of many reservations
  for (auto& [pool, reservation] : reservations_) {
    auto of_shape = std::ranges::find(used, reservation.shape, &decltype(used)::value_type::first);
    if (of_shape == used.end()) {
      used.emplace_back(reservation.shape,
                        &shape_plans_.try_emplace(reservation.shape).first->second);
      of_shape = used.end() - 1;
    }
    reservation.plans = of_shape->second;
  }
  for (auto& [shape, plans] : shape_plans_) {
    if (std::ranges::find(used, &plans, &decltype(used)::value_type::second) != used.end()) {
      plans.last_used = order_round_;
      update_plans_of(shape, plans);
    } else {
      plans.used = false;
    }
  }
  while (shape_plans_.size() > used.size() + kMostKept) {
    auto oldest = shape_plans_.end();
    for (auto at = shape_plans_.begin(); at != shape_plans_.end(); ++at) {
      if (!at->second.used &&
          (oldest == shape_plans_.end() || at->second.last_used < oldest->second.last_used)) {
        oldest = at;
      }
    }
    shape_plans_.erase(oldest);
  }
}

void Engine::Impl::update_plans_of(ShapeId shape, ShapePlans& plans) {
  const ChangeLog& log = ledger.lasting_changes();
  const bool back = !std::exchange(plans.used, true);
  plans.touched.clear();
  plans.improved.clear();
  plans.all_touched = plans.plans.size() < fleet.node_slots() || plans.seen < log.begin();
  if (plans.all_touched) {
    plans.plans.resize(fleet.node_slots());
    plans.keys.resize(fleet.node_slots());
    for (std::size_t i = 0; i < fleet.node_slots(); ++i) {
      update_plan(shape, plans, NodeId(i));
    }
  } else {
    for (std::uint64_t at = plans.seen; at < log.end(); ++at) {
      if (log.is_latest(at)) {
        plans.touched.push_back(log.at(at));
        update_plan(shape, plans, log.at(at));
      }
    }
  }
  plans.seen = log.end();
  if (back && !plans.all_touched) {
    // As if they were all made now: what could come at once then can come now, not then.
    plans.all_touched = true;
    std::vector<NodeId> past;
    for (const ShapePlans::Key& key : plans.order) {
      if (key.untimed || key.at >= now) {
        break;
      }
      past.push_back(key.node);
    }
    for (const NodeId node : past) {
      update_plan(shape, plans, node);
    }
  }
}

}  // namespace berth::core
