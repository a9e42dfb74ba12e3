// A configuration taken over: who is below whom, in which dimensions, with what already booked.
#include <algorithm>
#include <ranges>
#include <set>
#include <tuple>

#include "core/queue/decay.h"
#include "core/queue/queue_tree_impl.h"

namespace berth::core {

QueueTree::Impl::Impl() {
  intern(kRootQueueName);
  intern_class("*");
}

// A new name is an unlisted queue below the root.
QueueId QueueTree::Impl::intern(std::string_view name) {
  const auto found = by_name.find(name);
  if (found != by_name.end()) {
    return found->second;
  }
  const QueueId id(nodes.size());
  by_name.emplace(name, id);
  QueueNode& fresh = nodes.emplace_back();
  fresh.name = std::string(name);
  return id;
}

DeviceClassId QueueTree::Impl::intern_class(std::string_view model) {
  const auto found = class_by_name.find(model);
  if (found != class_by_name.end()) {
    return found->second;
  }
  const DeviceClassId id(classes.size());
  class_by_name.emplace(model, id);
  classes.emplace_back(model);
  capacity.resize(classes.size() * kDimensionKinds, 0);
  of_slot.resize(classes.size() * kDimensionKinds);
  return id;
}

std::vector<QueueProblem> QueueTree::configure(const QueueConfig& config,
                                               const std::vector<std::string>& classes,
                                               const std::vector<QueueProblem>& others) {
  std::vector<QueueProblem> problems = check_queues(config, classes);
  problems.insert(problems.end(), others.begin(), others.end());
  impl_->take(config);
  impl_->hold(problems);
  impl_->link_parents();
  impl_->lay_out();
  impl_->name_dimensions();
  impl_->set_terms();
  impl_->rebuild_books();
  trivial_ = impl_->is_trivial();
  return problems;
}

QueueId QueueTree::place_of(std::string_view name) {
  const std::size_t before = impl_->nodes.size();
  const QueueId queue = impl_->intern(name);
  if (impl_->nodes.size() != before) {
    impl_->link_parents();
    impl_->lay_out();
    impl_->set_terms();
    impl_->rebuild_books();
    trivial_ = impl_->is_trivial();
  }
  return queue;
}

// The specifications, one per name. Names get their ids in their own order, not in the file's.
void QueueTree::Impl::take(const QueueConfig& config) {
  std::map<std::string_view, const QueueSpec*> chosen;
  std::set<std::string_view> models;
  for (const QueueSpec& spec : config.queues) {
    const auto at = chosen.try_emplace(spec.name, &spec).first;
    if (counts_before(spec, *at->second)) {
      at->second = &spec;
    }
    for (const QueueDimension& dimension : spec.dimensions) {
      models.insert(dimension.device_class);
    }
  }
  for (QueueNode& each : nodes) {
    each.listed = false;
    each.held.clear();
    each.spec = QueueSpec();
    each.spec.name = each.name;
  }
  for (const auto& [name, spec] : chosen) {
    if (!name.empty()) {
      QueueNode& taken = node(intern(name));
      taken.listed = true;
      taken.spec = *spec;
      std::ranges::sort(
          taken.spec.dimensions);  // of two entries of one dimension the lesser counts
    }
  }
  node(kRootQueue).listed = true;
  for (const std::string_view model : models) {
    intern_class(model);
  }
}

void QueueTree::Impl::hold(const std::vector<QueueProblem>& problems) {
  for (const QueueProblem& problem : problems) {
    const auto found = by_name.find(problem.queue);
    if (found != by_name.end() && node(found->second).held.empty()) {
      node(found->second).held = problem.text;
    }
  }
}

// Whoever has no way up to the root hangs below it.
void QueueTree::Impl::link_parents() {
  const auto above = [&](const QueueNode& each) {
    const auto found = by_name.find(each.spec.parent);
    const bool known = each.listed && found != by_name.end() && node(found->second).listed;
    return known ? found->second : kRootQueue;
  };
  for (QueueNode& each : nodes) {
    each.parent = above(each);
  }
  node(kRootQueue).parent = QueueId::none();
  std::vector<QueueId> circled;
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    QueueId at = nodes[i].parent;
    for (std::size_t steps = 0; steps < nodes.size() && at != kRootQueue && at != QueueId(i);
         ++steps) {
      at = node(at).parent;
    }
    if (at == QueueId(i)) {
      circled.emplace_back(i);
    }
  }
  for (const QueueId queue : circled) {
    node(queue).parent = kRootQueue;
  }
}

// Ranks, children, and every queue after its parent.
void QueueTree::Impl::lay_out() {
  std::vector<QueueId> order;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    order.emplace_back(i);
    nodes[i].children.clear();
    nodes[i].has_listed_children = false;
  }
  std::ranges::sort(order, [&](QueueId a, QueueId b) {
    const QueueNode& left = node(a);
    const QueueNode& right = node(b);
    return std::tie(left.spec.created, left.name) < std::tie(right.spec.created, right.name);
  });
  for (std::size_t i = 0; i < order.size(); ++i) {
    node(order[i]).rank = static_cast<std::uint32_t>(i);
  }
  std::ranges::stable_sort(
      order, [&](QueueId a, QueueId b) { return node(a).spec.priority > node(b).spec.priority; });
  for (const QueueId queue : order) {
    const QueueNode& each = node(queue);
    if (queue != kRootQueue) {
      node(each.parent).children.push_back(queue);
      node(each.parent).has_listed_children |= each.listed;
    }
  }
  top_down.assign(1, kRootQueue);
  for (std::size_t i = 0; i < top_down.size(); ++i) {
    QueueNode& each = node(top_down[i]);
    const bool blocks = !each.listed || !each.held.empty() || each.spec.stop != QueueStop::none;
    const bool has_parent = !each.parent.is_none();
    each.depth = has_parent ? node(each.parent).depth + 1 : 0;
    each.blocked_by = blocks       ? top_down[i]
                      : has_parent ? node(each.parent).blocked_by
                                   : QueueId::none();
    top_down.insert(top_down.end(), each.children.begin(), each.children.end());
  }
}

void QueueTree::Impl::name_dimensions() {
  std::set<QuotaSlot> named;
  for (const QueueNode& each : nodes) {
    for (const QueueDimension& dimension : each.spec.dimensions) {
      named.insert(slot_of(intern_class(dimension.device_class), dimension.kind));
    }
  }
  dimensions.clear();
  of_slot.assign(of_slot.size(), QuotaDimensionId::none());
  for (const QuotaSlot slot : named) {
    of_slot[slot.index()] = QuotaDimensionId(dimensions.size());
    dimensions.push_back({.slot = slot, .per_whole = units_per_whole(kind_of(slot))});
  }
}

// Quotas of every queue in every dimension, cut to their range: who broke it is held, but counts.
void QueueTree::Impl::set_terms() {
  any_history = false;
  any_protection = false;
  for (QueueNode& each : nodes) {
    const std::optional<QueueHistory>& history = each.spec.history;
    each.decay = history.has_value() && history->half_life.count() > 0
                     ? core::decay_factor(kSampleStep, history->half_life)
                     : 0;
    any_history = any_history || each.decay > 0;
    const MinRuntime& protects = each.spec.min_runtime;
    any_protection = any_protection || protects.reclaim.count() > 0 ||
                     protects.preempt.count() > 0 || !protects.by_priority.empty();
    each.places.assign(dimensions.size(), {});
    each.turn.stale = true;
    ++each.changes;
    std::vector<bool> seen(dimensions.size(), false);
    for (QueuePlace& fresh : each.places) {
      fresh.weight = each.listed ? 1 : 0;
    }
    for (const QueueDimension& terms : each.spec.dimensions) {
      const QuotaDimensionId d =
          of_slot[slot_of(intern_class(terms.device_class), terms.kind).index()];
      if (seen[d.index()]) {
        continue;
      }
      seen[d.index()] = true;
      QueuePlace& fresh = each.places[d.index()];
      fresh.deserved = std::clamp(terms.deserved, kUnlimited, kMostQuota - 1);
      fresh.limit = std::clamp(terms.limit, kUnlimited, kMostQuota - 1);
      fresh.reserved = std::clamp<std::int64_t>(terms.reserved, 0, kMostQuota - 1);
      fresh.weight = std::clamp<std::int64_t>(terms.weight, 0, kMostWeight);
      dimensions[d.index()].reserving |= fresh.reserved > 0;
    }
  }
}

// Sums and demand of the new dimensions from what each queue has of its own.
void QueueTree::Impl::rebuild_books() {
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    dimensions[i].stale = true;
    for (const QueueId queue : std::views::reverse(top_down)) {
      rebuild_place(queue, QuotaDimensionId(i));
    }
  }
}

// Of a queue whose children are done; hands its part on to the queue above.
void QueueTree::Impl::rebuild_place(QueueId queue, QuotaDimensionId d) {
  const std::size_t slot = dim(d).slot.index();
  QueueNode& each = node(queue);
  QueuePlace& here = each.places[d.index()];
  const BookedSums nothing;
  const BookedSums& own = slot < each.own.size() ? each.own[slot] : nothing;
  here.sums.add(own);
  here.demand += slot < each.own_demand.size() ? each.own_demand[slot] : 0;
  here.use = each.decay > 0 && slot < each.own_use.size() ? each.own_use[slot] : 0;
  QueuePlace* above = each.parent.is_none() ? nullptr : &place(each.parent, d);
  for (const Counting counting : {Counting::present, Counting::future}) {
    const auto which = static_cast<std::size_t>(counting);
    ReservedCharge& kept = here.charges[which];
    kept.below.add(own.of(counting));
    kept.charge = kept.below;  // nothing is reserved before the division says so
    if (above != nullptr) {
      above->charges[which].below.add(kept.charge);
    }
  }
  if (above != nullptr) {
    above->sums.add(here.sums);
    above->demand += here.need();
  }
}

bool QueueTree::Impl::is_trivial() const {
  return dimensions.empty() && nodes.size() == 2 && nodes[1].listed &&
         nodes[1].blocked_by.is_none();
}

}  // namespace berth::core
