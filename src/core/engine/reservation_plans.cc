// What each node could do for a shape, and when: the plans behind reservations.
#include <algorithm>
#include <bit>

#include "core/engine/engine_impl.h"

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

// Takes what a reservation holds off a device.
void take_off(DeviceFace& face, const DeviceNeed& need) {
  face.headroom = need.exclusive ? 0 : std::max<std::int64_t>(0, face.headroom - need.request);
  face.limit_room = std::max<std::int64_t>(0, face.limit_room - need.limit);
  face.nano_left = std::max(0, face.nano_left - need.nano);
  face.compute_left = static_cast<std::int16_t>(std::max(0, face.compute_left - need.compute));
  face.free_milli = static_cast<std::int16_t>(std::max(0, face.free_milli - need.milli));
  face.use = need.exclusive ? DeviceUse::whole : DeviceUse::shared;
  face.mode = need.mode;
  face.idle = false;
  ++face.grants;
}

}  // namespace

// Those that lie on the node and whose holders are before this one's.
Engine::Impl::Ahead Engine::Impl::ahead_of(const Reservation& reservation, NodeId node) const {
  Ahead ahead;
  const auto there = reserved_on_.find(node);
  if (there == reserved_on_.end()) {
    return ahead;
  }
  for (const PoolId pool : there->second) {
    const Reservation& other = reservations_.at(pool);
    if (other.holder != reservation.holder && ordered_before(other.holder, reservation.holder)) {
      ahead.push_back(&other);
    }
  }
  return ahead;
}

// By device place: what they hold.
std::vector<std::vector<DeviceNeed>> Engine::Impl::needs_ahead(const Ahead& ahead,
                                                               NodeId node) const {
  std::vector<std::vector<DeviceNeed>> needs(fleet.devices_of(node).size());
  for (const Reservation* other : ahead) {
    const Shape& held = shapes.at(other->shape);
    if (!held.wants_gpu()) {
      continue;
    }
    const AskFit& fit = shapes.fit(held.id, types, fleet, node).asks[0];
    for (std::size_t place = 0; place < needs.size(); ++place) {
      if ((other->plan.places >> place & 1U) != 0) {
        needs[place].push_back(fit.needs[place]);
      }
    }
  }
  return needs;
}

void Engine::Impl::set_aside(const Ahead& ahead, NodeId node,
                             PlacementIndex::NodeState& state) const {
  if (ahead.empty()) {
    return;
  }
  for (const Reservation* other : ahead) {
    const Shape& held = shapes.at(other->shape);
    state.face.cpu_free -= held.cpu;
    state.face.ram_free -= held.ram;
    --state.face.slots_free;
  }
  const std::vector<std::vector<DeviceNeed>> needs = needs_ahead(ahead, node);
  for (std::size_t place = 0; place < needs.size(); ++place) {
    for (const DeviceNeed& need : needs[place]) {
      take_off(state.devices[place], need);
    }
  }
}

NodePlan Engine::Impl::plan_in(ShapeId shape, NodeId node, PlacementIndex::NodeState state,
                               const Ahead& ahead) const {
  set_aside(ahead, node, state);
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

// The earliest declared end after which the shape fits.
NodePlan Engine::Impl::plan_timed(ShapeId shape, NodeId node, const Ahead& ahead) const {
  std::vector<std::pair<Time, WorkloadId>> ends;
  for (const WorkloadId id : on_node_[node.index()]) {
    const Entry& entry = entries_[id.index()];
    if (entry.grant->state == GrantState::releasing) {
      ends.emplace_back(now, id);
    } else if (const std::optional<Time> end = entry.declared_end(); end.has_value()) {
      ends.emplace_back(std::max(*end, now), id);
    }
  }
  std::ranges::sort(ends);
  const auto after = [&](std::size_t count) {
    const auto last = ends.begin() + static_cast<std::ptrdiff_t>(count);
    return plan_in(shape, node,
                   node_without(node,
                                [&](WorkloadId id) {
                                  return std::any_of(ends.begin(), last, [&](const auto& end) {
                                    return end.second == id;
                                  });
                                }),
                   ahead);
  };
  NodePlan plan = after(ends.size());
  if (!plan.possible) {
    return plan;
  }
  // More ends never hurt, so the first count that fits is found by halving.
  std::size_t low = 0;
  std::size_t high = ends.size();
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
  plan.timed = true;
  plan.at = low == 0 ? now : ends[low - 1].first;
  plan.releases = static_cast<std::int64_t>(low);
  return plan;
}

// Without declared ends: the devices whose fewest grants have to end.
NodePlan Engine::Impl::plan_untimed(ShapeId id, NodeId node, const Ahead& ahead) const {
  const Shape& shape = shapes.at(id);
  NodePlan plan = plan_in(id, node, node_without(node, [](WorkloadId) { return true; }), ahead);
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
  const std::vector<std::vector<DeviceNeed>> aside = needs_ahead(ahead, node);
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
      for (const DeviceNeed& need : aside[place]) {
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
      !shapes.fit(shape, types, fleet, node).could_ever) {
    return {};
  }
  if (node.index() >= on_node_.size()) {
    return plan_in(shape, node, node_without(node, [](WorkloadId) { return false; }), ahead);
  }
  const NodePlan timed = plan_timed(shape, node, ahead);
  return timed.possible ? timed : plan_untimed(shape, node, ahead);
}

// The reservation's own: what those before it hold there is not its.
NodePlan Engine::Impl::plan_for(const Reservation& reservation, NodeId node) const {
  const NodePlan& bound = shape_plans_.at(reservation.shape).plans[node.index()];
  const Ahead ahead = ahead_of(reservation, node);
  return ahead.empty() || !bound.possible ? bound : plan_node(reservation.shape, node, ahead);
}

void Engine::Impl::update_plan(ShapeId shape, ShapePlans& plans, NodeId node) {
  ++wake_steps_;
  const NodePlan plan = plan_node(shape, node, {});
  plans.plans[node.index()] = plan;
  std::optional<ShapePlans::Key>& key = plans.keys[node.index()];
  if (key.has_value()) {
    plans.order.erase(*key);
    key.reset();
  }
  if (plan.possible) {
    key = ShapePlans::Key{.untimed = !plan.timed,
                          .at = plan.timed ? plan.at : Time(),
                          .releases = plan.releases,
                          .left_over = plan.left_over,
                          .rank = index.rank(node),
                          .node = node};
    plans.order.insert(*key);
  }
}

// Looks again at the nodes that changed, for each shape that has a reservation.
void Engine::Impl::update_plans() {
  const ChangeLog& log = ledger.lasting_changes();
  std::set<ShapeId> used;
  for (const auto& [pool, reservation] : reservations_) {
    if (used.insert(reservation.shape).second) {
      shape_plans_.try_emplace(reservation.shape);
    }
  }
  std::erase_if(shape_plans_, [&](const auto& one) { return !used.contains(one.first); });
  for (auto& [shape, plans] : shape_plans_) {
    plans.touched.clear();
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
  }
}

}  // namespace berth::core
