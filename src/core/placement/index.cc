#include "core/placement/index.h"

#include <algorithm>

#include "core/placement/by_level.h"

namespace berth::core {

std::unique_ptr<PlacementIndex::Ranking> PlacementIndex::ranking_by(std::unique_ptr<Policy> policy,
                                                                    std::uint64_t seed) {
  auto ranking = std::make_unique<Ranking>();
  if (!policy->reads_hints() && !policy->draws()) {
    ranking->by_level = std::make_unique<ByLevelPolicy>(
        LevelOrders{.nodes = policy->leaning(), .devices = policy->leaning()});
  }
  ranking->policy = std::move(policy);
  ranking->seed = seed;
  return ranking;
}

void PlacementIndex::set_policy(std::unique_ptr<Policy> policy, std::uint64_t seed) {
  rankings_.clear();
  rankings_.push_back(ranking_by(std::move(policy), seed));
  used_.assign(1, rankings_.front().get());
  pages_.clear();
  pages_built_ = 0;
  fleet_changed();
}

void PlacementIndex::add_policy(PolicyId id, std::unique_ptr<Policy> policy, std::uint64_t seed) {
  share_policy(id);
  rankings_.push_back(ranking_by(std::move(policy), seed));
  used_[id.index()] = rankings_.back().get();
}

void PlacementIndex::share_policy(PolicyId id) {
  used_.resize(std::max(used_.size(), id.index() + 1), nullptr);
  ASSERT(used_[id.index()] == nullptr, id.value());
  used_[id.index()] = rankings_.front().get();
}

bool PlacementIndex::draws() const {
  return std::ranges::any_of(rankings_,
                             [](const auto& ranking) { return ranking->policy->draws(); });
}

void PlacementIndex::fleet_changed() {
  for (const std::unique_ptr<Ranking>& ranking : rankings_) {
    ranking->order_known = false;
  }
  ranks_known_ = false;
  uuid_ranks_known_ = false;
  forget_refusals();
}

void PlacementIndex::forget(ShapeId shape) {
  if (shape.index() < pages_.size()) {
    pages_built_ -= pages_[shape.index()].built() ? 1U : 0U;
    pages_[shape.index()] = ShapePage();
  }
  if (shape.index() < known_refusals_.size()) {
    known_refusals_[shape.index()] = {};
  }
}

const Policy& PlacementIndex::policy_for(const Shape& shape) const {
  const Ranking& ranking = ranking_of(shape);
  return shape.hinted && ranking.by_level != nullptr ? *ranking.by_level : *ranking.policy;
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
bool PlacementIndex::is_pristine(NodeId node) const {
  const NodeFace& face = ledger_.node(node);
  return face.present && face.unbooked && face.blocked == Cause::none &&
         fleet_.node(node).taints.empty() &&
         std::ranges::all_of(ledger_.faces(node), [](const DeviceFace& device) {
           return device.blocked == Cause::none && device.headroom == device.usable;
         });
}

void PlacementIndex::sync_values(Ranking& ranking) {
  std::vector<NodeValue>& values = ranking.values;
  const ChangeLog& log = ledger_.changes();
  const auto sync_one = [&](NodeId node) {
    const NodeValue before = values[node.index()];
    NodeValue after = ranking.policy->value_of(input_of(node));
    if (!ledger_.node(node).present) {
      after = NodeValue{.domain = after.domain};
    }
    ranking.policy->replace(before, after);
    values[node.index()] = after;
    ranking.pristine[node.index()] = is_pristine(node);
  };
  if (values.size() < ledger_.node_slots() || ranking.values_seen < log.begin()) {
    const std::size_t known = values.size();
    values.resize(ledger_.node_slots());
    ranking.pristine.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i >= known || log.changed_since(NodeId(i), ranking.values_seen)) {
        sync_one(NodeId(i));
      }
    }
  } else {
    for (std::uint64_t at = ranking.values_seen; at < log.end(); ++at) {
      if (log.is_latest(at)) {
        sync_one(log.at(at));
      }
    }
  }
  ranking.values_seen = log.end();
}

NodeAnswer PlacementIndex::answer(const Shape& shape, const NodeInput& on, const NodeValue& value,
                                  std::uint64_t allowed) const {
  ++steps_;
  NodeAnswer answer;
  const Policy& policy = policy_for(shape);
  if (shape.constrained || !on.node.taints.empty()) {
    answer.cause = constraint_refusal(shape.request.nodes(), on.node);
  }
  if (answer.cause == Cause::none) {
    answer.cause = node_refusal(shape, on.face);
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
        search_task(&policy, {.on = on, .shape = shape, .fit = fit, .allowed = allowed});
    answer.cause = found.cause;
    if (found.cause == Cause::none) {
      answer.candidates.add(
          {.base = found.base, .lost = found.lost, .opens_idle = found.opens_idle});
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

void PlacementIndex::refresh_node(const Shape& shape, ShapePage& page, NodeId node) {
  const Standing standing = !ledger_.node(node).present ? Standing::absent
                            : guarded_[node.index()]    ? Standing::guarded
                                                        : Standing::open;
  const Ranking& ranking = ranking_of(shape);
  const NodeValue& value = ranking.values[node.index()];
  NodeAnswer found;
  if (standing == Standing::open) {
    found = answer(shape, input_of(node), value, ~std::uint64_t{0});
  }
  page.put(ranking.position[node.index()], value.domain, standing, found);
}

void PlacementIndex::settle(Ranking& ranking) {
  sync_values(ranking);
  if (!ranking.order_known) {
    order_nodes(ranking);
  }
}

// The answer of a pristine node, asked once per type and refresh.
const NodeAnswer& PlacementIndex::remembered(const Shape& shape, NodeId node) {
  std::optional<NodeAnswer>& known = of_type_[types_.of(node).index()];
  if (!known.has_value()) {
    known =
        answer(shape, input_of(node), ranking_of(shape).values[node.index()], ~std::uint64_t{0});
  }
  return *known;
}

// So much is new that making the trees anew is cheaper than mending them, and equal nodes share one
// answer.
void PlacementIndex::refresh_many(const Shape& shape, ShapePage& page, bool all) {
  const ChangeLog& log = ledger_.changes();
  const bool shareable = !shape.constrained && !shape.by_uuid && !policy_for(shape).ranks_uuids();
  const Ranking& ranking = ranking_of(shape);
  of_type_.assign(types_.size(), std::nullopt);
  page.start_bulk();
  for (std::size_t position = 0; position < ranking.order.size(); ++position) {
    const NodeId node = ranking.order[position];
    if (!all && !log.changed_since(node, page.seen)) {
      continue;
    }
    if (shareable && ranking.pristine[node.index()] && !guarded_[node.index()]) {
      page.put(position, ranking.values[node.index()].domain, Standing::open,
               remembered(shape, node));
    } else {
      refresh_node(shape, page, node);
    }
  }
  page.finish_bulk();
}

// Pages are memory: beyond a budget the one that was not asked for the longest is forgotten.
void PlacementIndex::make_room_for(ShapeId shape) {
  constexpr std::size_t kMostAnswers = std::size_t{1} << 21U;
  const std::size_t most_pages = std::max<std::size_t>(8, kMostAnswers / (by_rank_.size() + 1));
  if (pages_built_ < most_pages) {
    ++pages_built_;
    return;
  }
  ShapePage* oldest = nullptr;
  for (ShapePage& page : pages_) {
    if (page.built() && (oldest == nullptr || page.used < oldest->used)) {
      oldest = &page;
    }
  }
  ASSERT(oldest != nullptr, shape.value());
  *oldest = ShapePage();
}

ShapePage& PlacementIndex::refreshed(ShapeId id) {
  const Shape& shape = shapes_.at(id);
  Ranking& ranking = ranking_of(shape);
  settle(ranking);
  if (pages_.size() <= id.index()) {
    pages_.resize(std::max<std::size_t>(shapes_.slots(), id.index() + 1));
  }
  ShapePage& page = pages_[id.index()];
  const ChangeLog& log = ledger_.changes();
  page.used = ++uses_;
  if (!page.built()) {
    make_room_for(id);
    page.reset(ranking.order.size(), ranking.domains);
    page.used = uses_;
    refresh_many(shape, page, true);
  } else if (page.seen < log.begin() || log.end() - page.seen > ranking.order.size() / 4) {
    refresh_many(shape, page, false);
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

void PlacementIndex::best_on_page(const Shape& shape, const ShapePage& page, Best& best) {
  const Ranking& ranking = ranking_of(shape);
  const Policy& policy = policy_for(shape);
  offsets_.assign(page.groups().size(), 0);
  policy.offsets(shape, page.groups(), offsets_);
  best.cost = page.least_cost(offsets_, policy.grain());
  if (best.cost == kNoCost) {
    return;
  }
  best.rank = std::numeric_limits<std::int64_t>::max();
  page.for_each_first(offsets_, largest_rounding_to(best.cost, policy.grain()),
                      [&](std::size_t position) {
                        const NodeId node = ranking.order[position];
                        if (rank_[node.index()] < best.rank) {
                          best.rank = rank_[node.index()];
                          best.selection = {.node = node, .cost = best.cost};
                        }
                      });
  const std::size_t position = ranking.position[best.selection.node.index()];
  best.selection.way = page.way_at(position, offsets_);
  best.selection.opens_idle = page.opens_idle(position, best.selection.way);
}

void PlacementIndex::consider(const Shape& shape, NodeId node, const NodeAnswer& answer,
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

void PlacementIndex::consider_guarded(const Shape& shape, const GuardRule& guard, Best& best) {
  const Ranking& ranking = ranking_of(shape);
  KnownRefusals& known = known_refusals(shape.id);
  for (const NodeId node : guarded_list_) {
    if (!fleet_.present(node) || refusal(shape, known, node) != Cause::none) {
      continue;  // the rule costs more than the answer, and only takes away
    }
    const NodeValue& value = ranking.values[node.index()];
    const NodeAnswer open = answer(shape, input_of(node), value, ~std::uint64_t{0});
    const std::optional<std::uint64_t> allowed = guard ? guard(node) : ~std::uint64_t{0};
    if (!allowed.has_value()) {
      continue;
    }
    consider(shape, node,
             *allowed == ~std::uint64_t{0} ? open : answer(shape, input_of(node), value, *allowed),
             value, *allowed, best);
  }
}

Selection PlacementIndex::select(ShapeId id, const GuardRule& guard) {
  const ShapePage& page = refreshed(id);
  const Shape& shape = shapes_.at(id);
  if (ranking_of(shape).policy->draws()) {
    return draw(shape, page, guard);
  }
  Best best;
  if (page.feasible() > 0) {
    best_on_page(shape, page, best);
  }
  if (!guarded_list_.empty()) {
    consider_guarded(shape, guard, best);
  }
  return best.selection;
}

Selection PlacementIndex::select_among(ShapeId id, const GuardRule& rule) {
  const ShapePage& page = refreshed(id);
  const Shape& shape = shapes_.at(id);
  const Ranking& ranking = ranking_of(shape);
  Best best;
  for (std::size_t position = 0; position < ranking.order.size(); ++position) {
    const NodeId node = ranking.order[position];
    const bool guarded = is_guarded(node);
    if (!guarded && !page.takes(position)) {
      continue;
    }
    const std::optional<std::uint64_t> allowed = rule(node);
    if (!allowed.has_value()) {
      continue;
    }
    const NodeValue& value = ranking.values[node.index()];
    consider(shape, node, answer(shape, input_of(node), value, *allowed), value, *allowed, best);
  }
  return best.selection;
}

Selection PlacementIndex::select_by_scan(ShapeId id, const GuardRule& guard) const {
  const Shape& shape = shapes_.at(id);
  Best best;
  best.rank = std::numeric_limits<std::int64_t>::max();
  const Ranking& ranking = ranking_of(shape);
  for (const NodeId node : ranking.order) {
    const NodeValue value = ranking.policy->value_of(input_of(node));
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

const RefusalCounts& PlacementIndex::refusals(ShapeId shape) { return refreshed(shape).refusals(); }

PlacementIndex::KnownRefusals& PlacementIndex::known_refusals(ShapeId shape) {
  settle(ranking_of(shapes_.at(shape)));  // which forgets them all where the fleet has changed
  if (known_refusals_.size() <= shape.index()) {
    known_refusals_.resize(std::max<std::size_t>(shapes_.slots(), shape.index() + 1));
  }
  KnownRefusals& known = known_refusals_[shape.index()];
  if (known.age != refusals_age_ || known.nodes.size() < ledger_.node_slots()) {
    known.age = refusals_age_;
    known.nodes.assign(ledger_.node_slots(), {});
  }
  return known;
}

Cause PlacementIndex::refusal(const Shape& shape, KnownRefusals& known, NodeId node) {
  KnownRefusal& here = known.nodes[node.index()];
  const std::uint64_t changed = ledger_.changes().last_change(node) + 1;
  if (here.asked_at != changed) {
    Ranking& ranking = ranking_of(shape);
    settle(ranking);
    const NodeValue& value = ranking.values[node.index()];
    here = {.asked_at = changed,
            .cause = answer(shape, input_of(node), value, ~std::uint64_t{0}).cause};
  }
  return here.cause;
}

Cause PlacementIndex::refusal(ShapeId shape, NodeId node) {
  return refusal(shapes_.at(shape), known_refusals(shape), node);
}

PlacementIndex::Judgement PlacementIndex::judge(ShapeId id, NodeId node, const NodeState& state,
                                                std::uint64_t allowed) {
  const Shape& shape = shapes_.at(id);
  Ranking& ranking = ranking_of(shape);
  settle(ranking);
  const NodeInput on{.id = node,
                     .node = fleet_.node(node),
                     .face = state.face,
                     .devices = state.devices,
                     .ids = fleet_.devices_of(node),
                     .ledger = ledger_,
                     .uuid_ranks = uuid_ranks_};
  const NodeValue value = ranking.policy->value_of(on);
  const NodeAnswer found = answer(shape, on, value, allowed);
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
        search_task(&policy, {.on = on, .shape = shape, .fit = fit, .allowed = selection.allowed});
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
  const Shape& shape = shapes_.at(id);
  return places_on(shape, input_of(selection.node),
                   ranking_of(shape).values[selection.node.index()], selection);
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
