// Sentences about whose turn it is and who belongs together.
#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/suggest.h"
#include "core/engine/sentence.h"
#include "core/engine/sentence_words.h"

namespace berth::core {

namespace {

constexpr std::size_t kMostNamed = 3;

// "a, b, c and 2 more".
std::string listed(std::span<const std::string> names) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) {
    shown.push_back(named(names[i], 24));
  }
  return names.size() <= kMostNamed
             ? fmt::format("{}", fmt::join(shown, ", "))
             : fmt::format("{} and {} more", fmt::join(shown, ", "), names.size() - kMostNamed);
}

}  // namespace

std::string Sentence::about_queues() const {
  switch (verdict_.cause) {
    case Cause::over_limit:
    case Cause::non_preemptible_over_quota: return over_quota();
    case Cause::queue_held: return queue_held();
    case Cause::unknown_queue: return unknown_queue();
    case Cause::not_a_leaf_queue: return not_a_leaf();
    default: return "";
  }
}

// What the queues said, asked again.
QuotaRefusal Sentence::refusal() const {
  const WorkloadId id = engine_.id_of(entry_.uid);
  const QueueTree& tree = engine_.quotas.tree;
  const Charge asked = engine_.asked_of_queue(id);
  if (verdict_.outcome == Outcome::never) {
    return tree.never_fits(entry_.leaf, asked);
  }
  if (!engine_.is_head(id)) {
    for (const QuotaRefusal& kind :
         engine_.quotas.view(shape_, entry_.leaf, entry_.preemptible, Counting::present).kinds) {
      if (kind.cause == verdict_.cause) {
        return kind;
      }
    }
  }
  return tree.may_start(entry_.leaf, asked, entry_.preemptible, Counting::present);
}

std::string Sentence::over_quota() const {
  const QuotaRefusal no = refusal();
  if (no.cause != verdict_.cause) {
    return "";
  }
  const QueueTree& tree = engine_.quotas.tree;
  const std::string dimension = tree.dimension_name(no.dimension);
  const auto amount = [&](std::int64_t value) { return quota_text(value, dimension); };
  const std::string asks =
      fmt::format("needs {}{} of {}", verdict_.outcome == Outcome::never ? "at least " : "",
                  amount(no.need), named(dimension, 40));
  const std::string queue = named(tree.name(no.queue), 40);
  if (no.cause == Cause::non_preemptible_over_quota) {
    const std::string_view help = "as preemptible work it could start beyond that";
    return no.need > no.bound
               ? fmt::format(
                     "{}; queue {} deserves {}, the most for work that is not preemptible; {}",
                     asks, queue, amount(no.bound), help)
               : fmt::format(
                     "{}; of the {} that queue {} deserves, work that is not preemptible "
                     "holds {}; {}",
                     asks, amount(no.bound), queue, amount(no.used), help);
  }
  if (no.queue == kRootQueue) {
    return fmt::format("{}; of {} others hold or keep {}", asks, amount(no.bound), amount(no.used));
  }
  return verdict_.outcome == Outcome::never
             ? fmt::format("{}; the limit of queue {} is {}", asks, queue, amount(no.bound))
             : fmt::format("{}; queue {} holds {} and its limit is {}", asks, queue,
                           amount(no.used), amount(no.bound));
}

std::string Sentence::queue_held() const {
  const QueueTree& tree = engine_.quotas.tree;
  const std::int64_t index = verdict_.position.has_value() ? verdict_.position->index : 0;
  QueueId held = entry_.leaf;
  for (QueueId at = entry_.leaf; !at.is_none(); at = tree.parent(at)) {
    if (tree.spec(at).stop != QueueStop::none) {
      held = at;
    }
  }
  const std::string reason = tree.held_because(entry_.leaf);
  return fmt::format("queue {} is on hold ({}); number {} of those that wait in {}",
                     named(tree.name(held), 40),
                     reason.empty() ? std::string("stop") : named(reason, 60), index + 1,
                     named(tree.name(entry_.leaf), 40));
}

std::string Sentence::unknown_queue() const {
  const QueueTree& tree = engine_.quotas.tree;
  std::vector<std::string> leaves;
  for (std::size_t i = 0; i < tree.queue_slots(); ++i) {
    if (tree.is_leaf(QueueId(i))) {
      leaves.push_back(tree.name(QueueId(i)));
    }
  }
  std::ranges::sort(leaves);
  const std::string typed = named(entry_.options.queue);
  if (leaves.size() <= 1) {
    return fmt::format("queue {} does not exist; there is 1 queue: {}", typed,
                       leaves.empty() ? "default" : named(leaves[0]));
  }
  return fmt::format("queue {} does not exist; did you mean {}? There are {} queues: {}", typed,
                     named(berth::nearest(entry_.options.queue, leaves)), leaves.size(),
                     listed(leaves));
}

std::string Sentence::not_a_leaf() const {
  const QueueTree& tree = engine_.quotas.tree;
  std::vector<std::string> children;
  for (const QueueId child : tree.children(entry_.leaf)) {
    children.push_back(tree.name(child));
  }
  std::ranges::sort(children);
  return fmt::format("queue {} has children; choose one of {}: {}", named(entry_.options.queue),
                     children.size(), listed(children));
}

// What its queue may take back, where there is no room and that is why others stay.
std::string Sentence::about_rights() const {
  const bool wants_room = verdict_.stage == Stage::device || verdict_.stage == Stage::topology;
  if (verdict_.outcome != Outcome::waiting || !wants_room || !engine_.quotas.active() ||
      !engine_.quotas.tree.is_leaf(entry_.leaf)) {
    return "";
  }
  const bool kept = verdict_.preemption.has_value() && verdict_.preemption->fair_share > 0;
  const std::string queue = named(engine_.quotas.tree.name(entry_.leaf), 40);
  switch (engine_.quotas.tree.spec(entry_.leaf).reclaim) {
    case ReclaimRight::never: return fmt::format("; queue {} takes nothing back", queue);
    case ReclaimRight::guarantee:
      return fmt::format("; queue {} takes back no more than its guarantee", queue);
    case ReclaimRight::fair_share:
      return kept ? "; what other queues hold is within their fair share" : "";
  }
  return "";
}

std::string Sentence::about_gangs() const {
  switch (verdict_.cause) {
    case Cause::preemption_delay:
      return fmt::format("waits {} before anything is ended for it; so far {}",
                         time_text(engine_.claim_delay(entry_)),
                         time_text(engine_.now - entry_.queued_at));
    case Cause::preempting: return preempting();
    default: break;
  }
  if (!verdict_.gang.has_value() || !engine_.is_head(engine_.id_of(entry_.uid))) {
    return "";
  }
  const GangState& state = engine_.gang(engine_.id_of(entry_.uid));
  switch (verdict_.cause) {
    case Cause::gang_incomplete: return gang_incomplete(state);
    case Cause::back_off:
      return fmt::format("failed to start {} times; tried again in {}", state.failed_starts,
                         time_text(std::max(Duration(0), *state.not_before - engine_.now)));
    case Cause::unsupported_constraint: return named(state.problem, kMost);
    case Cause::no_topology_domain:
      return verdict_.topology.has_value() ? no_topology_domain(state) : "";
    default: return gang_without_place(state);
  }
}

// Who leaves for it, wherever it will stand.
std::string Sentence::preempting() const {
  std::vector<NodeId> nodes;
  const WorkloadId id = engine_.id_of(entry_.uid);
  if (engine_.is_head(id)) {
    engine_.for_members(id, [&](WorkloadId member) {
      if (engine_.entry(member).holds()) {
        nodes.push_back(engine_.entry(member).grant->node);
      }
    });
  } else if (entry_.holds()) {
    nodes.push_back(entry_.grant->node);
  }
  std::ranges::sort(nodes);
  nodes.erase(std::ranges::unique(nodes).begin(), nodes.end());
  std::vector<std::string> leaving;
  for (const NodeId node : nodes) {
    for (const WorkloadId other : engine_.on_node_[node.index()]) {
      if (engine_.entry(other).evicting) {
        leaving.push_back(engine_.entry(other).uid);
      }
    }
  }
  std::ranges::sort(leaving);
  return leaving.empty()
             ? ""
             : fmt::format(
                   "has its place on {} as soon as {} {} gone, which {} to leave",
                   nodes.size() == 1 ? name_of(nodes.front()) : plural(std::ssize(nodes), "node"),
                   listed(leaving), leaving.size() == 1 ? "is" : "are",
                   leaving.size() == 1 ? "has" : "have");
}

// The first group that lacks members, by its own numbers; of a gang with one group those of all.
std::string Sentence::gang_incomplete(const GangState& state) const {
  for (const GangNode& group : state.nodes) {
    const std::int64_t exist =
        group.is_leaf() ? group.succeeded + std::ssize(group.members) : group.min;
    if (exist < group.min) {
      return fmt::format("{}{} of {} members exist; nothing starts before all {} do",
                         state.nodes.size() == 1 ? std::string()
                                                 : fmt::format("group {}: ", named(group.name, 40)),
                         exist, group.min, group.min);
    }
  }
  return fmt::format("{} of {} members exist", verdict_.gang->exist, verdict_.gang->min);
}

std::string Sentence::no_topology_domain(const GangState& state) const {
  const GangShortage& shortage = state.shortage;
  std::string topology;
  for (const GangNode& group : state.nodes) {
    const Domains* domains = group.topology.any() ? engine_.domains_for(group.topology) : nullptr;
    if (domains != nullptr && std::ranges::count(domains->topology().levels, shortage.level) > 0) {
      topology = domains->topology().name;
      break;
    }
  }
  const std::string level = named(shortage.level, 40);
  const Verdict::TopologyFit& fit = *verdict_.topology;
  // It waits all the same (annotations.md T3): another node may come, or another label.
  const std::string_view for_ever = shortage.for_ever ? ", even with nothing running" : "";
  if (shortage.segment > 0) {
    return fmt::format(
        "topology {}: segments of {} members stay in one {} each, and there is room "
        "for {} of {} members so{}",
        named(topology, 30), shortage.segment, level, fit.fits, fit.need, for_ever);
  }
  std::string text = fmt::format("topology {}: no {} holds all {} members{}; ", named(topology, 30),
                                 level, fit.need, for_ever);
  if (shortage.domains == 1 && !fit.best_domain.empty()) {
    text += fmt::format("the only one, {}, holds {}", named(fit.best_domain, 40), fit.fits);
  } else if (shortage.all_equal) {
    text += fmt::format("each of {} holds {} of {}", shortage.domains, fit.fits, fit.need);
  } else if (fit.best_domain.empty()) {
    text += fmt::format("{} of them were tried", shortage.domains);
  } else {
    text += fmt::format("{} holds {} of {}, the most of {}", named(fit.best_domain, 40), fit.fits,
                        fit.need, shortage.domains);
  }
  if (shortage.outside > 0) {
    text += fmt::format("; {} no label {}",
                        shortage.outside == 1 ? std::string("1 node has")
                                              : fmt::format("{} nodes have", shortage.outside),
                        level);
  }
  return text;
}

// For how many of those that must start together there is room.
std::string Sentence::gang_without_place(const GangState& state) const {
  const std::int64_t min = verdict_.gang->min;
  bool alike = true;
  engine_.for_members(engine_.id_of(entry_.uid), [&](WorkloadId member) {
    alike = alike && engine_.entry(member).shape == shape_.id;
  });
  const std::string asks =
      alike ? fmt::format("needs {} for each of {} members at once", needs(), min)
            : fmt::format("needs places for {} members at once", min);
  if (verdict_.outcome == Outcome::never) {
    return alike ? fmt::format("{}; an empty fleet holds {}", asks, engine_.most_members(shape_))
                 : fmt::format("{}; an empty fleet does not hold them", asks);
  }
  return fmt::format("{}; there is room for {}", asks, state.shortage.placeable);
}

}  // namespace berth::core
