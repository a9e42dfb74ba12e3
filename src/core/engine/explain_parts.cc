// Verdicts: what queues, gang, topology and possible victims came to
// (queues-gangs-topology.md 9.1).
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/engine/engine_impl.h"

namespace berth::core {

// Whose search the verdict tells of: a member that waits with its gang was not looked at by itself.
WorkloadId Engine::Impl::searched_for(WorkloadId id) const {
  return waits_with_gang(id) ? entry(id).gang : id;
}

// What it asks of its queue: the task's own wish, or the least of a gang's minimum.
Charge Engine::Impl::asked_of_queue(WorkloadId id) const {
  return is_head(id) ? minimum_charge(gangs_.at(id), 0) : quotas.least(shapes.at(entry(id).shape));
}

void Engine::Impl::explain_quota(WorkloadId id, Verdict& verdict) const {
  const Entry& one = entry(id);
  const QueueTree& tree = quotas.tree;
  if (!quotas.active() || !tree.is_listed(one.leaf) || !tree.is_leaf(one.leaf)) {
    return;
  }
  for (const QuotaChainLink& link : tree.chain(one.leaf, asked_of_queue(id), Counting::present)) {
    const QuotaFigures& figures = link.figures;
    // What may not be taken back counts by itself, against what is deserved (4.1).
    const bool bound = !one.preemptible && figures.deserved != kUnlimited;
    const std::int64_t beyond =
        bound ? std::max<std::int64_t>(
                    0, figures.non_preemptible + link.need - figures.effective_deserved)
              : 0;
    verdict.quota_chain.push_back({.queue = tree.name(link.queue),
                                   .resource = tree.dimension_name(link.dimension),
                                   .deserved = figures.deserved,
                                   .limit = figures.limit,
                                   .used = figures.alloc,
                                   .need = link.need,
                                   .short_of = std::max(link.short_of, beyond)});
  }
}

// The least number of members with which the group's minimum is met.
std::int64_t Engine::Impl::minimum_members(const GangState& state, std::size_t group) const {
  const GangNode& node = state.nodes[group];
  if (node.is_leaf()) {
    return node.min;
  }
  std::vector<std::int64_t> parts;
  for (const std::size_t child : node.children) {
    parts.push_back(minimum_members(state, child));
  }
  std::ranges::sort(parts);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < parts.size() && std::cmp_less(i, node.min); ++i) {
    sum += parts[i];
  }
  return sum;
}

// Those that there are, and those that ended well.
std::int64_t Engine::Impl::existing_members(const GangState& state, std::size_t group) const {
  const GangNode& node = state.nodes[group];
  std::int64_t sum = node.succeeded + std::ranges::count_if(node.members, [&](WorkloadId member) {
                       return !entry(member).slot;
                     });
  for (const std::size_t child : node.children) {
    sum += existing_members(state, child);
  }
  return sum;
}

// Groups of groups are tried domain by domain and not counted; where all members are alike, what
// each domain holds is counted here.
void Engine::Impl::count_in_domains(const GangState& state, Verdict::TopologyFit& fit) const {
  fit.need = minimum_members(state, 0);
  const Domains* domains = nullptr;
  std::set<ShapeId> of_members;
  for (const GangNode& group : state.nodes) {
    const Domains* here = group.topology.any() ? domains_for(group.topology) : nullptr;
    if (domains == nullptr && here != nullptr &&
        std::ranges::count(here->topology().levels, fit.level) > 0) {
      domains = here;
    }
    for (const WorkloadId member : group.members) {
      of_members.insert(entry(member).shape);
    }
  }
  if (domains == nullptr || of_members.size() != 1) {
    return;
  }
  const auto level =
      std::ranges::find(domains->topology().levels, fit.level) - domains->topology().levels.begin();
  std::map<std::string, std::int64_t> room;
  for (std::size_t i = 0; i < fleet.node_slots(); ++i) {
    const NodeId node(i);
    const DomainId domain =
        fleet.present(node) ? domains->of_node(node, static_cast<int>(level)) : DomainId::none();
    if (!domain.is_none()) {
      room[domains->name(domain)] +=
          room_on(shapes.at(*of_members.begin()), node, ~std::uint64_t{0}).members;
    }
  }
  for (const auto& [name, members] : room) {
    if (members > fit.fits) {
      fit.fits = members;
      fit.best_domain = name;
    }
  }
}

void Engine::Impl::explain_gang(WorkloadId id, Verdict& verdict) const {
  if (entry(id).gang.is_none()) {
    return;
  }
  const GangState& state = gangs_.at(entry(id).gang);
  verdict.gang = Verdict::GangCounts{.min = minimum_members(state, 0),
                                     .exist = existing_members(state, 0),
                                     .placeable = state.shortage.placeable};
  if (!waits_with_gang(id) && !is_head(id)) {
    return;  // surplus, or a replacement: it waits for itself
  }
  verdict.search_complete = verdict.search_complete && state.shortage.proved;
  if (!state.shortage.level.empty()) {
    verdict.topology = Verdict::TopologyFit{.level = state.shortage.level,
                                            .best_domain = state.shortage.best_domain,
                                            .fits = state.shortage.fits,
                                            .need = state.shortage.need};
    if (state.shortage.best_domain.empty() && state.shortage.segment == 0 &&
        !state.shortage.for_ever) {
      count_in_domains(state, *verdict.topology);
    }
  }
}

void Engine::Impl::explain_parts(WorkloadId id, Verdict& verdict) const {
  const WorkloadId searched = searched_for(id);
  verdict.search_complete = verdict.cause != Cause::search_budget && entry(searched).searched_fully;
  explain_quota(searched, verdict);
  explain_gang(id, verdict);
  if (verdict.outcome == Outcome::waiting) {
    verdict.preemption = entry(searched).blocked;
  }
}

}  // namespace berth::core
