#include "core/placement/index.h"

#include <algorithm>

#include "core/placement/by_level.h"

namespace berth::core {

namespace {

constexpr std::uint16_t kRefused = 0x8000;   // plane 0: the low bits are the cause
constexpr std::uint16_t kNoGroup = 0xFFFF;   // plane 1: no second way
constexpr std::uint16_t kGuarded = kRefused | 0x4000;  // counted by the caller's rule instead

}  // namespace

void PlacementIndex::set_policy(std::unique_ptr<Policy> policy, std::uint64_t seed) {
  policy_ = std::move(policy);
  by_level_.reset();
  if (!policy_->reads_hints() && !policy_->draws()) {
    by_level_ = std::make_unique<ByLevelPolicy>(
        LevelOrders{.nodes = policy_->leaning(), .devices = policy_->leaning()});
  }
  seed_ = seed;
  draw_.reset();
  values_.clear();
  values_seen_ = 0;
  pages_.clear();
  order_known_ = false;
}

void PlacementIndex::forget(ShapeId shape) {
  if (shape.index() < pages_.size()) {
    pages_[shape.index()] = Page();
  }
}

const Policy& PlacementIndex::policy_for(const Shape& shape) const {
  return shape.hinted && by_level_ != nullptr ? *by_level_ : *policy_;
}

NodeInput PlacementIndex::input_of(NodeId node) const {
  return {.id = node,
          .node = fleet_.node(node),
          .face = ledger_.node(node),
          .devices = ledger_.faces(node),
          .ids = fleet_.devices_of(node),
          .ledger = ledger_,
          .uuid_ranks = uuid_ranks_};
}

// Brings every node's value, and the policy's cluster-wide sums, up to date.
void PlacementIndex::sync_values() {
  const ChangeLog& log = ledger_.changes();
  const auto sync_one = [&](NodeId node) {
    const NodeValue before = values_[node.index()];
    NodeValue after = policy_->value_of(input_of(node));
    if (!ledger_.node(node).present) {
      after = NodeValue{.domain = after.domain};
    }
    policy_->replace(before, after);
    values_[node.index()] = after;
  };
  if (values_.size() < ledger_.node_slots() || values_seen_ < log.begin()) {
    const std::size_t known = values_.size();
    values_.resize(ledger_.node_slots());
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (i >= known || log.changed_since(NodeId(i), values_seen_)) {
        sync_one(NodeId(i));
      }
    }
  } else {
    for (std::uint64_t at = values_seen_; at < log.end(); ++at) {
      if (log.is_latest(at)) {
        sync_one(log.at(at));
      }
    }
  }
  values_seen_ = log.end();
}

PlacementIndex::Answer PlacementIndex::answer(const Shape& shape, const NodeInput& on,
                                              const NodeValue& value, std::uint64_t allowed) const {
  ++steps_;
  Answer answer;
  const Policy& policy = policy_for(shape);
  answer.cause = node_refusal(shape, on.face);
  if (answer.cause == Cause::none && (shape.constrained || !on.node.taints.empty())) {
    answer.cause = constraint_refusal(shape.request.nodes(), on.node);
  }
  if (answer.cause != Cause::none) {
    return answer;
  }
  if (!shape.wants_gpu()) {
    answer.candidates = policy.evaluate({.on = on,
                                           .value = value,
                                           .shape = shape,
                                           .ask = nullptr,
                                           .fit = nullptr,
                                           .fits = 0,
                                           .cpu = shape.cpu,
                                           .ram = shape.ram});
    return answer;
  }
  const StaticFit& fit = shapes_.fit(shape.id, types_, fleet_, on.id);
  if (!shape.simple) {
    const TaskSearch found =
        search_task(policy, {.on = on, .shape = shape, .fit = fit, .allowed = allowed});
    answer.cause = found.cause;
    if (found.cause == Cause::none) {
      answer.candidates.add({.base = found.base, .lost = found.lost, .opens_idle = found.opens_idle});
    }
    return answer;
  }
  const DeviceAsk& ask = shape.ask(0);
  const AskPlaces found = places_for(ask, fit.asks[0], on.devices, allowed);
  answer.cause = found.cause;
  if (found.cause == Cause::none) {
    answer.candidates = policy.evaluate({.on = on,
                                           .value = value,
                                           .shape = shape,
                                           .ask = &ask,
                                           .fit = &fit.asks[0],
                                           .fits = found.fits,
                                           .cpu = shape.cpu,
                                           .ram = shape.ram});
  }
  return answer;
}

std::uint16_t PlacementIndex::group_for(Page& page, GroupKey key) {
  for (std::size_t i = 0; i < page.keys.size(); ++i) {
    if (page.keys[i].domain == key.domain && page.keys[i].lost == key.lost) {
      return static_cast<std::uint16_t>(i);
    }
  }
  const auto group = static_cast<std::uint16_t>(page.keys.size());
  ASSERT(group < kRefused, group);
  page.keys.push_back(key);
  page.minima.emplace_back(domains_[key.domain], group);
  page.minima.emplace_back(domains_[key.domain], group);
  return group;
}

bool PlacementIndex::takes(const Page& page, NodeId node) const {
  return (page.group[0][position_[node.index()]] & kRefused) == 0;
}

void PlacementIndex::clear_plane(Page& page, std::size_t plane, std::size_t position) {
  if (page.base[plane].empty()) {
    return;
  }
  const std::uint16_t group = page.group[plane][position];
  if ((group & kRefused) != 0) {
    return;
  }
  const std::int64_t before = page.base[plane][position];
  page.base[plane][position] = kNoCost;
  page.group[plane][position] = kNoGroup;
  page.minima[2U * group + plane].raised({page.base[plane], page.group[plane]}, position, before);
}

void PlacementIndex::set_plane(Page& page, std::size_t plane, std::size_t position,
                               const Candidate& candidate, std::uint16_t domain) {
  if (page.base[plane].empty()) {
    page.base[plane].assign(order_.size(), kNoCost);
    page.group[plane].assign(order_.size(), kNoGroup);
  }
  const std::uint16_t group = group_for(page, {.domain = domain, .lost = candidate.lost});
  const std::uint16_t old_group = page.group[plane][position];
  const std::int64_t before = page.base[plane][position];
  const auto bit = static_cast<std::uint8_t>(1U << plane);
  page.opens[position] = static_cast<std::uint8_t>(
      candidate.opens_idle ? page.opens[position] | bit : page.opens[position] & ~bit);
  if (old_group == group && before == candidate.base) {
    return;
  }
  page.base[plane][position] = candidate.base;
  page.group[plane][position] = group;
  const Leaves leaves{page.base[plane], page.group[plane]};
  if ((old_group & kRefused) == 0 && (old_group != group || candidate.base > before)) {
    page.minima[2U * old_group + plane].raised(leaves, position, before);
  }
  if (old_group != group || candidate.base < before) {
    page.minima[2U * group + plane].lowered(position, candidate.base);
  }
}

// Files one node's answer; keeps the counts of refusals.
void PlacementIndex::store(Page& page, std::size_t position, const Answer& answer, bool guarded,
                           bool present) {
  const std::uint16_t old = page.group[0][position];
  if ((old & kRefused) == 0) {
    --page.feasible;
  } else if (old != kNoGroup && old != kGuarded) {
    --page.refusals[old - kRefused];
  }
  const std::uint16_t domain = values_[order_[position].index()].domain;
  if (guarded || !present || answer.cause != Cause::none) {
    clear_plane(page, 0, position);
    clear_plane(page, 1, position);
    if (guarded || !present) {
      page.group[0][position] = guarded ? kGuarded : kNoGroup;
      return;
    }
    page.group[0][position] =
        static_cast<std::uint16_t>(kRefused | static_cast<std::uint16_t>(answer.cause));
    ++page.refusals[static_cast<std::size_t>(answer.cause)];
    return;
  }
  ++page.feasible;
  set_plane(page, 0, position, answer.candidates.at[0], domain);
  if (answer.candidates.count > 1) {
    set_plane(page, 1, position, answer.candidates.at[1], domain);
  } else {
    clear_plane(page, 1, position);
  }
}

void PlacementIndex::refresh_node(const Shape& shape, Page& page, NodeId node) {
  const bool present = ledger_.node(node).present;
  const bool guarded = guarded_[node.index()];
  Answer found;
  if (present && !guarded) {
    found = answer(shape, input_of(node), values_[node.index()], ~std::uint64_t{0});
  }
  store(page, position_[node.index()], found, guarded, present);
}

void PlacementIndex::rebuild(const Shape& shape, Page& page) {
  page = Page();
  page.built = true;
  page.base[0].assign(order_.size(), kNoCost);
  page.group[0].assign(order_.size(), kNoGroup);
  page.opens.assign(order_.size(), 0);
  for (const NodeId node : order_) {
    refresh_node(shape, page, node);
  }
}

void PlacementIndex::settle() {
  sync_values();
  if (!order_known_) {
    order_nodes();
  }
}

PlacementIndex::Page& PlacementIndex::refreshed(ShapeId id) {
  settle();
  if (pages_.size() <= id.index()) {
    pages_.resize(std::max<std::size_t>(shapes_.slots(), id.index() + 1));
  }
  const Shape& shape = shapes_.at(id);
  Page& page = pages_[id.index()];
  const ChangeLog& log = ledger_.changes();
  if (!page.built) {
    rebuild(shape, page);
  } else if (page.seen < log.begin() || log.end() - page.seen > order_.size()) {
    for (const NodeId node : order_) {
      if (log.changed_since(node, page.seen)) {
        refresh_node(shape, page, node);
      }
    }
  } else {
    for (std::uint64_t at = page.seen; at < log.end(); ++at) {
      if (log.is_latest(at) && fleet_.present(log.at(at))) {
        refresh_node(shape, page, log.at(at));
      }
    }
  }
  page.seen = log.end();
  return page;
}

void PlacementIndex::best_in_trees(const Shape& shape, Page& page, Best& best) {
  page.offsets.assign(page.keys.size(), 0);
  const Policy& policy = policy_for(shape);
  policy.offsets(shape, page.keys, page.offsets);
  const std::int64_t grain = policy.grain();
  for (std::size_t i = 0; i < page.minima.size(); ++i) {
    const std::int64_t least = page.minima[i].least();
    if (least != kNoCost) {
      best.cost = std::min(best.cost, round_cost(least + page.offsets[i / 2], grain));
    }
  }
  if (best.cost == kNoCost) {
    return;
  }
  const std::int64_t bound = largest_rounding_to(best.cost, grain);
  best.rank = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < page.minima.size(); ++i) {
    const std::int64_t offset = page.offsets[i / 2];
    const std::int64_t least = page.minima[i].least();
    if (least == kNoCost || least > bound - offset) {
      continue;
    }
    const std::size_t plane = i % 2;
    const std::size_t position =
        page.minima[i].first_at_most({page.base[plane], page.group[plane]}, bound - offset);
    const NodeId node = order_[position];
    if (rank_[node.index()] < best.rank) {
      best.rank = rank_[node.index()];
      best.selection = {.node = node, .cost = best.cost};
    }
  }
  settle_way(page, best);
}

// The best node is known: which of its two ways is the cheaper one, the first on equality (5.5).
void PlacementIndex::settle_way(const Page& page, Best& best) const {
  const std::size_t position = position_[best.selection.node.index()];
  int way = 0;
  if (!page.base[1].empty() && (page.group[1][position] & kRefused) == 0) {
    const std::int64_t first = page.base[0][position] + page.offsets[page.group[0][position]];
    const std::int64_t second = page.base[1][position] + page.offsets[page.group[1][position]];
    way = second < first ? 1 : 0;
  }
  best.selection.way = way;
  best.selection.opens_idle = (page.opens[position] >> way & 1U) != 0;
}

void PlacementIndex::consider(const Shape& shape, NodeId node, const Answer& answer,
                              const NodeValue& value, std::uint64_t allowed, Best& best) const {
  if (answer.cause != Cause::none) {
    return;
  }
  std::array<GroupKey, 2> keys;
  std::array<std::int64_t, 2> offsets{};
  const auto count = static_cast<std::size_t>(answer.candidates.count);
  for (std::size_t i = 0; i < count; ++i) {
    keys[i] = {.domain = value.domain, .lost = answer.candidates.at[i].lost};
  }
  const Policy& policy = policy_for(shape);
  policy.offsets(shape, std::span(keys).first(count), std::span(offsets).first(count));
  std::size_t way = 0;
  if (count > 1 &&
      answer.candidates.at[1].base + offsets[1] < answer.candidates.at[0].base + offsets[0]) {
    way = 1;
  }
  const std::int64_t cost =
      round_cost(answer.candidates.at[way].base + offsets[way], policy.grain());
  const std::int64_t rank = rank_[node.index()];
  if (cost < best.cost || (cost == best.cost && rank < best.rank)) {
    best.cost = cost;
    best.rank = rank;
    best.selection = {.node = node,
                      .way = static_cast<int>(way),
                      .opens_idle = answer.candidates.at[way].opens_idle,
                      .cost = cost,
                      .allowed = allowed};
  }
}

void PlacementIndex::consider_guarded(const Shape& shape, const GuardRule& guard, Best& best) const {
  for (const NodeId node : guarded_list_) {
    if (!fleet_.present(node)) {
      continue;
    }
    const std::optional<std::uint64_t> allowed = guard ? guard(node) : ~std::uint64_t{0};
    if (allowed.has_value()) {
      const NodeValue& value = values_[node.index()];
      consider(shape, node, answer(shape, input_of(node), value, *allowed), value, *allowed, best);
    }
  }
}

Selection PlacementIndex::select(ShapeId id, const GuardRule& guard) {
  Page& page = refreshed(id);
  const Shape& shape = shapes_.at(id);
  if (policy_->draws()) {
    return draw(shape, page, guard);
  }
  Best best;
  if (page.feasible > 0) {
    best_in_trees(shape, page, best);
  }
  if (!guarded_list_.empty()) {
    consider_guarded(shape, guard, best);
  }
  return best.selection;
}

Selection PlacementIndex::select_by_scan(ShapeId id, const GuardRule& guard) const {
  const Shape& shape = shapes_.at(id);
  Best best;
  best.rank = std::numeric_limits<std::int64_t>::max();
  for (const NodeId node : order_) {
    const NodeValue value = policy_->value_of(input_of(node));
    std::optional<std::uint64_t> allowed = ~std::uint64_t{0};
    if (guarded_[node.index()] && guard) {
      allowed = guard(node);
    }
    if (allowed.has_value() && fleet_.present(node)) {
      consider(shape, node, answer(shape, input_of(node), value, *allowed), value, *allowed, best);
    }
  }
  return best.selection;
}

const RefusalCounts& PlacementIndex::refusals(ShapeId shape) { return refreshed(shape).refusals; }

Cause PlacementIndex::refusal(ShapeId shape, NodeId node) const {
  const NodeInput on = input_of(node);
  return answer(shapes_.at(shape), on, policy_->value_of(on), ~std::uint64_t{0}).cause;
}

PlacementIndex::Judgement PlacementIndex::judge(ShapeId id, NodeId node, const NodeState& state,
                                                std::uint64_t allowed) const {
  const Shape& shape = shapes_.at(id);
  const NodeInput on{.id = node,
                     .node = fleet_.node(node),
                     .face = state.face,
                     .devices = state.devices,
                     .ids = fleet_.devices_of(node),
                     .ledger = ledger_};
  const NodeValue value = policy_->value_of(on);
  const Answer found = answer(shape, on, value, allowed);
  Judgement judgement{
      .cause = found.cause, .selection = {}, .rank = rank_[node.index()], .places = {}};
  if (found.cause == Cause::none) {
    Best best;
    consider(shape, node, found, value, allowed, best);
    judgement.selection = best.selection;
    judgement.places = places_on(shape, on, value, best.selection);
  }
  return judgement;
}

std::vector<ContainerPlaces> PlacementIndex::places_on(const Shape& shape, const NodeInput& on,
                                                       const NodeValue& value,
                                                       const Selection& selection) const {
  if (!shape.wants_gpu()) {
    return {};
  }
  const Policy& policy = policy_for(shape);
  const StaticFit& fit = shapes_.fit(shape.id, types_, fleet_, on.id);
  if (!shape.simple) {
    TaskSearch found =
        search_task(policy, {.on = on, .shape = shape, .fit = fit, .allowed = selection.allowed});
    ASSERT(found.cause == Cause::none, on.id.value());
    return std::move(found.containers);
  }
  const DeviceAsk& ask = shape.ask(0);
  const AskPlaces found = places_for(ask, fit.asks[0], on.devices, selection.allowed);
  ASSERT(found.cause == Cause::none, on.id.value());
  const PlaceInput input{.on = on,
                         .value = value,
                         .shape = shape,
                         .ask = &ask,
                         .fit = &fit.asks[0],
                         .fits = found.fits,
                         .cpu = shape.cpu,
                         .ram = shape.ram,
                         .drawn = selection.drawn};
  return {{.container = shape.gpu_containers[0], .places = policy.choose(input, selection.way)}};
}

std::vector<ContainerPlaces> PlacementIndex::places(ShapeId id, const Selection& selection) const {
  return places_on(shapes_.at(id), input_of(selection.node), values_[selection.node.index()],
                   selection);
}

void PlacementIndex::set_guarded(NodeId node, bool guarded) {
  if (guarded_.size() <= node.index()) {
    guarded_.resize(node.index() + 1, false);
  }
  if (guarded_[node.index()] == guarded) {
    return;
  }
  guarded_[node.index()] = guarded;
  if (guarded) {
    guarded_list_.insert(std::ranges::lower_bound(guarded_list_, node), node);
  } else {
    std::erase(guarded_list_, node);
  }
}

bool PlacementIndex::is_guarded(NodeId node) const {
  return node.index() < guarded_.size() && guarded_[node.index()];
}

}  // namespace berth::core
