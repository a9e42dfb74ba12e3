// What admission and reclaim ask. Every comparison is on exact sums; rounded figures are for words.
#include <algorithm>

#include "core/queue/queue_tree_impl.h"

namespace berth::core {

namespace {

bool exceeds(const ExactSum& sum, const ExactSum& more, std::int64_t bound,
             std::int64_t per_whole) {
  return sum.compare_with(more, bound, per_whole) == std::strong_ordering::greater;
}

QuotaRefusal refusal(Cause cause, QueueId queue, const ChargeNeed& need, const ExactSum& used,
                     std::int64_t bound) {
  const std::int64_t per_whole = units_per_whole(kind_of(need.slot));
  return {.cause = cause,
          .queue = queue,
          .dimension = need.dimension,
          .need = need.amount.rounded_up(per_whole),
          .used = used.rounded_up(per_whole),
          .bound = bound};
}

}  // namespace

QuotaRefusal QueueTree::may_start(QueueId leaf, const Charge& charge, bool preemptible,
                                  Counting counting) const {
  const QueueNode& node = impl_->node(leaf);
  if (!node.blocked_by.is_none()) {
    return {.cause = Cause::queue_held, .queue = node.blocked_by};
  }
  if (!is_leaf(leaf)) {
    return {.cause = Cause::not_a_leaf_queue, .queue = leaf};
  }
  if (impl_->dimensions.empty()) {
    return {};
  }
  impl_->named_needs(charge);
  QuotaRefusal refused = impl_->refused_by_limit(leaf, counting);
  if (!refused.refused() && !preemptible) {
    refused = impl_->refused_by_deserved(leaf, counting);
  }
  return refused.refused() ? refused : impl_->refused_by_reserved(leaf, counting);
}

QuotaRefusal QueueTree::Impl::refused_by_limit(QueueId leaf, Counting counting) const {
  for (QueueId at = leaf; !at.is_none(); at = node(at).parent) {
    for (const ChargeNeed& need : last_needs()) {
      if (need.dimension.is_none()) {
        continue;
      }
      const QueuePlace& here = node(at).places[need.dimension.index()];
      const ExactSum& used = here.sums.of(counting);
      if (here.limit != kUnlimited &&
          exceeds(used, need.amount, here.limit, dim(need.dimension).per_whole)) {
        return refusal(Cause::over_limit, at, need, used, here.limit);
      }
    }
  }
  return {};
}

QuotaRefusal QueueTree::Impl::refused_by_deserved(QueueId leaf, Counting counting) const {
  for (QueueId at = leaf; !at.is_none(); at = node(at).parent) {
    for (const ChargeNeed& need : last_needs()) {
      if (need.dimension.is_none()) {
        continue;
      }
      const QueuePlace& here = node(at).places[need.dimension.index()];
      const bool unbounded =
          here.deserved == kUnlimited || (at == kRootQueue && here.deserved == 0);
      const ExactSum& used = here.sums.fixed_of(counting);
      if (!unbounded && exceeds(used, need.amount, here.deserved, dim(need.dimension).per_whole)) {
        return refusal(Cause::non_preemptible_over_quota, at, need, used, here.deserved);
      }
    }
  }
  return {};
}

QuotaRefusal QueueTree::Impl::refused_by_reserved(QueueId leaf, Counting counting) {
  for (const ChargeNeed& need : last_needs()) {
    if (need.dimension.is_none() || !dim(need.dimension).reserving) {
      continue;
    }
    settle(need.dimension);
    const QuotaRefusal refused = refused_by_charge(leaf, need, counting);
    if (refused.refused()) {
      return refused;
    }
  }
  return {};
}

// charge(root) with the need added: up the path until a reservation swallows it.
QuotaRefusal QueueTree::Impl::refused_by_charge(QueueId leaf, const ChargeNeed& need,
                                                Counting counting) {
  const std::int64_t per_whole = dim(need.dimension).per_whole;
  const auto which = static_cast<std::size_t>(counting);
  tried_below = place(leaf, need.dimension).charges[which].below;
  tried_below.add(need.amount);
  for (QueueId at = leaf;;) {
    const QueuePlace& here = place(at, need.dimension);
    const ReservedCharge& kept = here.charges[which];
    if (tried_below.compare(here.share.reserved, per_whole) == std::strong_ordering::less) {
      set_units(tried, here.share.reserved, per_whole);
    } else {
      tried = tried_below;
    }
    if (tried == kept.charge) {
      return {};
    }
    at = node(at).parent;
    if (at.is_none()) {
      const std::int64_t all = capacity_of(need.dimension);
      return tried.compare(all, per_whole) == std::strong_ordering::greater
                 ? refusal(Cause::over_limit, kRootQueue, need, kept.charge, all)
                 : QuotaRefusal{};
    }
    tried_below = place(at, need.dimension).charges[which].below;
    tried_below.subtract(kept.charge);
    tried_below.add(tried);
  }
}

QuotaRefusal QueueTree::never_fits(QueueId leaf, const Charge& charge) const {
  if (impl_->dimensions.empty()) {
    return {};
  }
  impl_->named_needs(charge);
  const QuotaRefusal refused = impl_->never_under_limits(leaf);
  return refused.refused() ? refused : impl_->never_beside_reservations(leaf);
}

QuotaRefusal QueueTree::Impl::never_under_limits(QueueId leaf) const {
  for (const ChargeNeed& need : last_needs()) {
    QueueId smallest;
    for (QueueId at = leaf; !at.is_none() && !need.dimension.is_none(); at = node(at).parent) {
      const std::int64_t limit = node(at).places[need.dimension.index()].limit;
      if (limit != kUnlimited &&
          (smallest.is_none() || limit < node(smallest).places[need.dimension.index()].limit)) {
        smallest = at;
      }
    }
    if (smallest.is_none()) {
      continue;
    }
    const std::int64_t limit = node(smallest).places[need.dimension.index()].limit;
    if (exceeds(ExactSum(), need.amount, limit, dim(need.dimension).per_whole)) {
      return refusal(Cause::over_limit, smallest, need, {}, limit);
    }
  }
  return {};
}

QueueId QueueTree::Impl::child_of_root_above(QueueId leaf) const {
  QueueId top = leaf;
  while (node(top).depth > 1) {
    top = node(top).parent;
  }
  return top;
}

// Only what the root's other children keep: that depends on capacity and configuration alone, while
// further down demand may change what is reserved, and the answer would be no proof.
QuotaRefusal QueueTree::Impl::never_beside_reservations(QueueId leaf) {
  const QueueId top = child_of_root_above(leaf);
  for (const ChargeNeed& need : last_needs()) {
    if (need.dimension.is_none() || !dim(need.dimension).reserving) {
      continue;
    }
    settle_path(top, need.dimension);
    std::int64_t others = 0;
    for (const QueueId child : node(kRootQueue).children) {
      others += child == top ? 0 : place(child, need.dimension).share.reserved;
    }
    const std::int64_t left = capacity_of(need.dimension) - others;
    if (others > 0 && exceeds(ExactSum(), need.amount, left, dim(need.dimension).per_whole)) {
      return refusal(Cause::over_limit, kRootQueue, need, {}, left);
    }
  }
  return {};
}

QueueId QueueTree::lowest_common_ancestor(QueueId a, QueueId b) const {
  const std::vector<QueueNode>& nodes = impl_->nodes;
  while (a != b) {
    const QueueNode& left = nodes[a.index()];
    const QueueNode& right = nodes[b.index()];
    if (left.depth == right.depth) {
      a = left.parent;
      b = right.parent;
    } else {
      (left.depth > right.depth ? a : b) = left.depth > right.depth ? left.parent : right.parent;
    }
  }
  return a;
}

std::pair<QueueId, QueueId> QueueTree::sides(QueueId a, QueueId b) const {
  return impl_->sides(a, b);
}

std::pair<QueueId, QueueId> QueueTree::Impl::sides(QueueId a, QueueId b) const {
  while (nodes[a.index()].parent != nodes[b.index()].parent) {
    QueueId& deeper = nodes[a.index()].depth >= nodes[b.index()].depth ? a : b;
    deeper = nodes[deeper.index()].parent;
  }
  return {a, b};
}

std::int64_t QueueTree::capacity(QuotaDimensionId dimension) const {
  return impl_->capacity_of(dimension);
}

QuotaRefusal QueueTree::within(QueueId leaf, QueueId ancestor, const Charge& charge,
                               Entitlement entitlement, bool preemptible) const {
  for (const ChargeNeed& need : impl_->named_needs(charge)) {
    if (need.dimension.is_none()) {
      continue;
    }
    const std::int64_t per_whole = impl_->dim(need.dimension).per_whole;
    impl_->settle_path(leaf, need.dimension);
    for (QueueId at = leaf; at != ancestor; at = parent(at)) {
      const QueuePlace& here = impl_->place(at, need.dimension);
      const std::int64_t bound =
          entitlement == Entitlement::deserved ? here.share.deserved : here.share.fair;
      if (exceeds(here.sums.future, need.amount, bound, per_whole)) {
        return refusal(Cause::over_limit, at, need, here.sums.future, bound);
      }
      if (!preemptible &&
          exceeds(here.sums.fixed_future, need.amount, here.share.deserved, per_whole)) {
        return refusal(Cause::non_preemptible_over_quota, at, need, here.sums.fixed_future,
                       here.share.deserved);
      }
    }
  }
  return {};
}

bool QueueTree::above(QueueId leaf, QueueId ancestor, QuotaDimensionId dimension,
                      Entitlement entitlement) const {
  impl_->settle_path(leaf, dimension);
  for (QueueId at = leaf; at != ancestor; at = parent(at)) {
    const QueuePlace& here = impl_->place(at, dimension);
    const std::int64_t bound =
        entitlement == Entitlement::deserved ? here.share.deserved : here.share.fair;
    if (here.deserved == kUnlimited ||
        here.sums.future.compare(bound, impl_->dim(dimension).per_whole) !=
            std::strong_ordering::greater) {
      return false;
    }
  }
  return true;
}

namespace {

ExactSum amount_in(std::span<const ChargeNeed> needs, QuotaDimensionId dimension) {
  for (const ChargeNeed& need : needs) {
    if (need.dimension == dimension) {
      return need.amount;
    }
  }
  return {};
}

}  // namespace

bool QueueTree::lacks(const Charge& charge, QuotaDimensionId dimension, Counting counting) const {
  const ExactSum more = amount_in(impl_->named_needs(charge), dimension);
  return exceeds(impl_->place(kRootQueue, dimension).sums.of(counting), more,
                 impl_->capacity_of(dimension), impl_->dim(dimension).per_whole);
}

ExactSum QueueTree::held(QueueId queue, QuotaDimensionId dimension) const {
  return impl_->place(queue, dimension).sums.present;
}

std::int64_t QueueTree::alloc(QueueId queue, QuotaDimensionId dimension) const {
  return impl_->place(queue, dimension).sums.present.rounded_up(impl_->dim(dimension).per_whole);
}

bool QueueTree::rises(QueueId queue, const Charge& charge, QuotaDimensionId dimension,
                      const ExactSum& before) const {
  impl_->settle_path(queue, dimension);
  const std::int64_t per_whole = impl_->dim(dimension).per_whole;
  const QueuePlace& here = impl_->place(queue, dimension);
  const ExactSum more = amount_in(impl_->named_needs(charge), dimension);
  ExactSum rise = here.sums.future;
  rise.subtract(before);
  return exceeds(here.sums.future, more, here.share.fair, per_whole) &&
         exceeds(rise, more, 0, per_whole);
}

bool QueueTree::below_deserved(QueueId queue, QuotaDimensionId dimension) const {
  impl_->settle_path(queue, dimension);
  const QueuePlace& here = impl_->place(queue, dimension);
  return here.sums.future.compare(here.share.deserved, impl_->dim(dimension).per_whole) ==
         std::strong_ordering::less;
}

QuotaFigures QueueTree::Impl::figures(QueueId queue, QuotaDimensionId d) {
  settle_path(queue, d);
  const QueuePlace& here = place(queue, d);
  const std::int64_t per_whole = dim(d).per_whole;
  ExactSum releasing = here.sums.present;
  releasing.subtract(here.sums.future);
  return {.deserved = here.deserved,
          .limit = here.limit,
          .reserved = here.reserved,
          .alloc = here.sums.present.rounded_up(per_whole),
          .releasing = releasing.rounded_up(per_whole),
          .non_preemptible = here.sums.fixed_present.rounded_up(per_whole),
          .demand = here.demand,
          .effective_deserved = here.share.deserved,
          .effective_reserved = here.share.reserved,
          .fair = here.share.fair,
          .decayed_use = here.use};
}

std::int64_t QueueTree::share(QueueId queue, QuotaDimensionId dimension,
                              Entitlement entitlement) const {
  impl_->settle_path(queue, dimension);
  const DivisionShare& share = impl_->place(queue, dimension).share;
  return entitlement == Entitlement::deserved ? share.deserved : share.fair;
}

QuotaFigures QueueTree::figures(QueueId queue, QuotaDimensionId dimension) const {
  return impl_->figures(queue, dimension);
}

std::vector<QuotaChainLink> QueueTree::chain(QueueId leaf, const Charge& charge,
                                             Counting counting) const {
  std::vector<QuotaChainLink> links;
  for (QueueId at = leaf; !at.is_none(); at = parent(at)) {
    for (const QuotaDimensionId d : dimensions_of(charge)) {
      QuotaChainLink link{.queue = at,
                          .dimension = d,
                          .need = amount_of(charge, d),
                          .figures = impl_->figures(at, d)};
      const std::int64_t used = counting == Counting::present
                                    ? link.figures.alloc
                                    : link.figures.alloc - link.figures.releasing;
      if (link.figures.limit != kUnlimited) {
        link.short_of = std::max<std::int64_t>(0, used + link.need - link.figures.limit);
      }
      links.push_back(link);
    }
  }
  return links;
}

}  // namespace berth::core
