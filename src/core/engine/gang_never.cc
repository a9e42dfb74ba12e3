// Whether a gang could ever start: the machines as they are when nothing runs, by counts and
// bounds alone. What they do not prove is left to the search, which says "waiting".
#include "core/engine/gang_never.h"

#include <algorithm>
#include <utility>

#include "core/placement/choose_domains.h"

namespace berth::core {

namespace {

// More than any fleet holds: a node of which nobody knows yet what it could do.
constexpr std::int64_t kAny = std::int64_t{1} << 40U;

}  // namespace

GangProof::GangProof(const Engine::Impl& engine, const GangState& gang)
    : engine_(engine), gang_(gang) {}

Cause GangProof::never() {
  const Cause group = of_group(0);
  if (group != Cause::none || engine_.fleet.present_nodes() == 0) {
    return group;
  }
  const Amount need = least_of(0);
  const Amount has = amount_in({});
  if (need.whole > has.whole || need.mib > has.mib) {
    return Cause::exceeds_fleet;
  }
  return Cause::none;
}

std::optional<GangShortage> GangProof::lack_of_domains() {
  const bool any =
      std::ranges::any_of(gang_.nodes, [](const GangNode& group) { return group.topology.any(); });
  if (!any || engine_.fleet.present_nodes() == 0 || holds(0, {})) {
    return std::nullopt;
  }
  for (std::size_t group = 0; group < gang_.nodes.size(); ++group) {
    const Rule rule = rule_of(group, {});
    if (rule.domains != nullptr && !holds(group, {})) {
      return shortage_of(group, rule);
    }
  }
  return std::nullopt;  // each by itself could, and not all of them in the domain of the whole
}

// Of a group that holds() refused.
GangShortage GangProof::shortage_of(std::size_t group, const Rule& rule) {
  const GangNode& node = gang_.nodes[group];
  GangShortage found{.cause = Cause::no_topology_domain,
                     .level = {},
                     .best_domain = {},
                     .need = engine_.minimum_members(gang_, group),
                     .for_ever = true};
  int level = rule.levels.required;
  if (const auto shape = only_shape(node); shape.has_value()) {
    const DomainShortage lack =
        choose_domains(counts(*shape, *rule.domains), rule.levels, {.members = missing(node)})
            .shortage;
    found.fits = lack.fits;
    found.need = lack.need;
    found.domains = lack.domains;
    found.all_equal = lack.all_equal;
    found.outside = lack.outside;
    if (level != kNoLevel && !lack.best.is_none()) {
      found.best_domain = rule.domains->name(lack.best);
    }
  } else if (level != kNoLevel) {
    count_alike(*rule.domains, level, found);
  }
  if (level == kNoLevel && !rule.levels.segments.empty()) {
    level = rule.levels.segments.front().level;
    found.segment = rule.levels.segments.front().size;
  }
  if (level != kNoLevel) {
    found.level = rule.domains->topology().levels[static_cast<std::size_t>(level)];
  }
  return found;
}

// A tree of groups is not counted as a whole; where all members are alike, what a domain holds is.
void GangProof::count_alike(const Domains& domains, int level, GangShortage& found) {
  std::map<ShapeId, std::int64_t> shapes;
  for (const GangNode& group : gang_.nodes) {
    shapes.merge(shapes_of(group));
  }
  for (const DomainId domain : domains.of_level(level)) {
    if (domains.node_count(domain) == 0) {
      continue;
    }
    ++found.domains;
    const std::int64_t members =
        shapes.size() == 1 ? counts(shapes.begin()->first, domains).members(domain) : 0;
    if (members > found.fits) {
      found.fits = members;
      found.best_domain = domains.name(domain);
    }
  }
  if (found.fits >= found.need) {  // it is not for want of room: a group inside cannot keep its own
    found.fits = 0;
    found.best_domain.clear();
  }
}

// One group by itself, without rules of topology: shape by shape.
Cause GangProof::of_group(std::size_t group) {
  if (engine_.fleet.present_nodes() == 0) {
    return Cause::none;
  }
  const GangNode& node = gang_.nodes[group];
  if (!node.is_leaf()) {
    std::int64_t could = 0;
    Cause cause = Cause::none;
    for (const std::size_t child : node.children) {
      const Cause here = is_complete(child) ? of_group(child) : Cause::none;
      could += here == Cause::none ? 1 : 0;
      cause = more_advanced(cause, here);
    }
    return could >= node.min ? Cause::none : cause;
  }
  std::int64_t could = node.succeeded;
  Cause cause = Cause::none;
  for (const auto& [shape, count] : shapes_of(node)) {
    const Cause here = engine_.possible(engine_.shapes.at(shape));
    cause = more_advanced(cause, here);
    if (here == Cause::none && could < node.min) {
      could += std::min(count, members_in(shape, {}));
    }
  }
  return could >= node.min ? Cause::none : cause != Cause::none ? cause : Cause::exceeds_fleet;
}

// Whether the group's minimum could stand within the domain, its own rules of topology kept. True
// proves nothing.
bool GangProof::holds(std::size_t group, Part within) {
  const GangNode& node = gang_.nodes[group];
  if (!is_complete(group) || missing(node) <= 0) {
    return true;
  }
  const Rule rule = rule_of(group, within);
  if (rule.domains == nullptr) {
    return holds_inside(group, within);
  }
  if (const auto shape = only_shape(node); shape.has_value()) {
    return choose_domains(counts(*shape, *rule.domains), rule.levels,
                          {.members = missing(node), .within = within.domain})
        .fits;
  }
  if (rule.levels.required == kNoLevel ||
      rule.levels.required <= rule.domains->level(within.domain)) {
    return holds_inside(group, within);
  }
  return std::ranges::any_of(rule.domains->of_level(rule.levels.required), [&](DomainId domain) {
    return rule.domains->node_count(domain) > 0 && rule.domains->is_within(domain, within.domain) &&
           holds_inside(group, {.domains = rule.domains, .domain = domain});
  });
}

// The same where the group's own rule is kept by being inside.
bool GangProof::holds_inside(std::size_t group, Part within) {
  const GangNode& node = gang_.nodes[group];
  if (within.domains != nullptr) {
    const Amount need = least_of(group);
    const Amount has = amount_in(within);
    if (need.whole > has.whole || need.mib > has.mib) {
      return false;
    }
  }
  if (!node.is_leaf()) {
    return std::ranges::count_if(
               node.children, [&](std::size_t child) { return holds(child, within); }) >= node.min;
  }
  std::int64_t could = 0;
  for (const auto& [shape, count] : shapes_of(node)) {
    could += std::min(count, members_in(shape, within));
  }
  return could >= missing(node);
}

bool GangProof::is_complete(std::size_t group) const {
  return engine_.existing_in(gang_, group) >= gang_.nodes[group].min;
}

std::int64_t GangProof::missing(const GangNode& node) const { return node.min - node.succeeded; }

// Its own rule, if it speaks of the domains in which the group has to stay anyway.
GangProof::Rule GangProof::rule_of(std::size_t group, Part within) const {
  const TopologyRule& rule = gang_.nodes[group].topology;
  const Domains* domains = rule.any() ? engine_.domains_for(rule) : nullptr;
  if (domains == nullptr || (within.domains != nullptr && within.domains != domains)) {
    return {};
  }
  const Result<LevelRule> levels = resolve_levels(domains->topology(), rule);
  return levels.ok() ? Rule{.domains = domains, .levels = *levels} : Rule();
}

std::map<ShapeId, std::int64_t> GangProof::shapes_of(const GangNode& leaf) const {
  std::map<ShapeId, std::int64_t> shapes;
  for (const WorkloadId member : leaf.members) {
    ++shapes[engine_.entry(member).shape];
  }
  return shapes;
}

std::optional<ShapeId> GangProof::only_shape(const GangNode& node) const {
  const std::map<ShapeId, std::int64_t> shapes = shapes_of(node);
  return shapes.size() == 1 ? std::optional(shapes.begin()->first) : std::nullopt;
}

// By node; machines of one type hold the same.
const std::vector<std::int64_t>& GangProof::by_node(ShapeId id) {
  const auto [found, fresh] = by_node_.try_emplace(id);
  if (!fresh) {
    return found->second;
  }
  const Fleet& fleet = engine_.fleet;
  const Shape& shape = engine_.shapes.at(id);
  std::vector<std::int64_t>& members = found->second;
  members.resize(fleet.node_slots(), 0);
  std::map<NodeTypeId, std::int64_t> of_type;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const NodeId node(i);
    if (!fleet.present(node) ||
        constraint_refusal(shape.request.nodes(), fleet.node(node)) != Cause::none) {
      continue;
    }
    if (shape.by_uuid) {
      members[i] = engine_.most_on(shape, node);
      continue;
    }
    const auto [known, first] = of_type.try_emplace(engine_.types.of(node), 0);
    if (first) {
      known->second = engine_.most_on(shape, node);
    }
    members[i] = known->second;
  }
  return members;
}

const MemberCounts& GangProof::counts(ShapeId shape, const Domains& domains) {
  const auto [found, fresh] = counts_.try_emplace({shape, &domains}, domains);
  if (fresh) {
    const std::vector<std::int64_t>& members = by_node(shape);
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i] > 0) {
        found->second.set(NodeId(i), {.members = members[i]});
      }
    }
  }
  return found->second;
}

std::int64_t GangProof::members_in(ShapeId shape, Part within) {
  if (within.domains != nullptr) {
    return counts(shape, *within.domains).members(within.domain);
  }
  std::int64_t sum = 0;
  for (const std::int64_t members : by_node(shape)) {
    sum += members;
  }
  return sum;
}

// What the minimum takes together at least, whatever the pieces.
GangProof::Amount GangProof::least_of(std::size_t group) const {
  const GangNode& node = gang_.nodes[group];
  std::vector<std::int64_t> whole;
  std::vector<std::int64_t> mib;
  const auto add = [&](const Amount& amount) {
    whole.push_back(amount.whole);
    mib.push_back(amount.mib);
  };
  for (const WorkloadId member : node.members) {
    add(least_of(engine_.shapes.at(engine_.entry(member).shape)));
  }
  for (const std::size_t child : node.children) {
    add(least_of(child));
  }
  const auto smallest = [needed = missing(node)](std::vector<std::int64_t>& all) {
    std::ranges::sort(all);
    std::int64_t total = 0;
    for (std::size_t i = 0; i < all.size() && std::cmp_less(i, needed); ++i) {
      total += all[i];
    }
    return total;
  };
  return {.whole = smallest(whole), .mib = smallest(mib)};
}

GangProof::Amount GangProof::least_of(const Shape& shape) {
  Amount amount;
  for (std::size_t i = 0; i < shape.gpu_containers.size(); ++i) {
    const ContainerAsk& container = shape.request.containers()[shape.gpu_containers[i]];
    const DeviceAsk& ask = container.gpu;
    if (container.kind == ContainerKind::init) {
      continue;
    }
    amount.whole += ask.is_exclusive() && ask.kind != AskKind::mig ? ask.count : 0;
    amount.mib += ask.kind == AskKind::memory ? ask.count * ask.mib : 0;
  }
  return amount;
}

// All that the machines of the domain have.
GangProof::Amount GangProof::amount_in(Part within) const {
  const Fleet& fleet = engine_.fleet;
  Amount sum;
  for (std::size_t i = 0; i < fleet.node_slots(); ++i) {
    const NodeId node(i);
    if (!fleet.present(node) ||
        (within.domains != nullptr &&
         within.domains->of_node(node, within.domains->level(within.domain)) != within.domain)) {
      continue;
    }
    for (const Device& device : fleet.node(node).devices) {
      sum.whole += device.mig_enabled || device.is_mig() ? 0 : 1;
      sum.mib += device.mig_enabled ? 0 : device.total.has_value() ? device.usable_mib() : kAny;
    }
  }
  return sum;
}

// How many members of the shape the empty machine holds at most.
std::int64_t Engine::Impl::most_on(const Shape& shape, NodeId node) const {
  const StaticFit& fit = shapes.fit(shape.id, types, fleet, node);
  if (!fit.could_ever) {
    return 0;
  }
  const Node& is = fleet.node(node);
  const bool settled =
      is.sharing_ready && std::ranges::all_of(is.devices, [](const Device& device) {
        return device.owned && device.total.has_value();
      });
  if (!settled) {
    return kAny;  // its operator can mend that, or its size is not known yet
  }
  const PlacementIndex::NodeState empty = bare_node(node);
  return count_on_node(shape, empty.face, empty.devices, fit).members;
}

}  // namespace berth::core
