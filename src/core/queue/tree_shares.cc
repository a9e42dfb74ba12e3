// Demand, the division of capacity down the tree, what is kept for reservations, and past use.
//
// A division is done again only where an input of it changed and somebody asks: a queue's children
// are marked stale when one's need or past use changes or when the queue's own share did, and a
// question settles the queues on its path. So a change costs one division per level.
#include <algorithm>

#include "base/wide.h"
#include "core/queue/decay.h"
#include "core/queue/queue_tree_impl.h"

namespace berth::core {

void QueueTree::Impl::change_demand(QueueId leaf, const Charge& charge, std::int64_t sign) {
  for (const ChargeNeed& need : needs(charge)) {
    const std::int64_t by = sign * need.amount.rounded_up(units_per_whole(kind_of(need.slot)));
    std::vector<std::int64_t>& own = node(leaf).own_demand;
    if (own.size() <= need.slot.index()) {
      own.resize(of_slot.size(), 0);
    }
    own[need.slot.index()] += by;
    if (!need.dimension.is_none()) {
      demand_changed(leaf, need.dimension, by);
    }
  }
}

// Upwards until a limit or a reservation hides the change.
void QueueTree::Impl::demand_changed(QueueId queue, QuotaDimensionId d, std::int64_t by) {
  while (true) {
    QueuePlace& here = place(queue, d);
    const std::int64_t before = here.need();
    here.demand += by;
    by = here.need() - before;
    queue = node(queue).parent;
    if (by == 0 || queue.is_none()) {
      return;
    }
    mark_stale(queue, d);
  }
}

void QueueTree::Impl::mark_stale(QueueId parent, QuotaDimensionId d) {
  place(parent, d).children_stale = true;
  dimensions[d.index()].stale = true;
}

void QueueTree::Impl::divide_children(QueueId parent, QuotaDimensionId d) {
  QueuePlace& above = place(parent, d);
  above.children_stale = false;
  if (parent == kRootQueue) {
    const std::int64_t all = std::max<std::int64_t>(capacity_of(d), 0);
    above.share = {.deserved = all, .reserved = 0, .fair = all};
  }
  const std::vector<QueueId>& children = node(parent).children;
  siblings.clear();
  for (const QueueId child : children) {
    const QueueNode& each = node(child);
    const QueuePlace& here = each.places[d.index()];
    const bool decays = each.decay > 0;
    siblings.push_back(
        {.deserved = here.deserved,
         .limit = here.limit,
         .reserved = here.reserved,
         .weight = here.weight,
         .priority = each.spec.priority,
         .demand = here.demand,
         .use = decays ? here.use : 0,
         .history_k = decays ? std::clamp<std::int64_t>(each.spec.history->k, 0, kMostHistoryK) : 0,
         .rank = each.rank});
  }
  shares.resize(siblings.size());
  division.divide(above.share.fair, siblings, shares);
  const bool reserving = dim(d).reserving;
  for (std::size_t i = 0; i < children.size(); ++i) {
    QueuePlace& here = place(children[i], d);
    const DivisionShare before = here.share;
    here.share = shares[i];
    here.children_stale = here.children_stale || before.fair != shares[i].fair;
    if (before != shares[i]) {
      standing_changed(children[i]);
    }
    if (reserving && before.reserved != shares[i].reserved) {
      recharge(children[i], d, Counting::present);
      recharge(children[i], d, Counting::future);
    }
  }
}

// Makes the shares of a queue's path right.
void QueueTree::Impl::settle_path(QueueId queue, QuotaDimensionId d) {
  if (!dim(d).stale) {
    return;
  }
  const QueueId above = node(queue).parent;
  if (above.is_none()) {
    if (place(queue, d).children_stale) {
      divide_children(queue, d);
    }
    return;
  }
  settle_path(above, d);
  if (place(above, d).children_stale) {
    divide_children(above, d);
  }
}

// Makes every queue's shares right.
void QueueTree::Impl::settle(QuotaDimensionId d) {
  if (!dim(d).stale) {
    return;
  }
  for (const QueueId queue : top_down) {
    if (place(queue, d).children_stale) {
      divide_children(queue, d);
    }
  }
  dimensions[d.index()].stale = false;
}

void QueueTree::Impl::charge_booked(QueueId queue, QuotaDimensionId d, Counting counting,
                                    const ExactSum& amount, bool adding) {
  ExactSum& below = place(queue, d).charges[static_cast<std::size_t>(counting)].below;
  if (adding) {
    below.add(amount);
  } else {
    below.subtract(amount);
  }
  recharge(queue, d, counting);
}

// Upwards until a reservation hides the change.
void QueueTree::Impl::recharge(QueueId queue, QuotaDimensionId d, Counting counting) {
  const std::int64_t per_whole = dim(d).per_whole;
  const auto which = static_cast<std::size_t>(counting);
  while (true) {
    QueuePlace& here = place(queue, d);
    ReservedCharge& kept = here.charges[which];
    std::swap(before_change, kept.charge);
    if (kept.below.compare(here.share.reserved, per_whole) == std::strong_ordering::less) {
      set_units(kept.charge, here.share.reserved, per_whole);
    } else {
      kept.charge = kept.below;
    }
    queue = node(queue).parent;
    if (queue.is_none() || kept.charge == before_change) {
      return;
    }
    ExactSum& above = place(queue, d).charges[which].below;
    above.subtract(before_change);
    above.add(kept.charge);
  }
}

bool QueueTree::Impl::set_use(QueueId queue, QuotaDimensionId d, std::int64_t use) {
  QueueNode& each = node(queue);
  QueuePlace& here = each.places[d.index()];
  use = std::clamp<std::int64_t>(use, 0, kMostUse);
  if (here.use == use) {
    return false;
  }
  here.use = use;
  each.own_use.resize(of_slot.size(), 0);
  each.own_use[dim(d).slot.index()] = use;
  if (!each.parent.is_none()) {
    mark_stale(each.parent, d);
  }
  return true;
}

bool QueueTree::Impl::sample_once() {
  bool changed = false;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const QuotaDimensionId d(i);
    const std::int64_t all = capacity_of(d);
    for (std::size_t k = 0; k < nodes.size() && all > 0; ++k) {
      if (nodes[k].decay == 0) {
        continue;
      }
      const QueuePlace& here = nodes[k].places[i];
      const Int128 amount = here.sums.present.rounded_up(dimensions[i].per_whole);
      const Int128 present = std::min<Int128>(amount * kUseScale / all, kMostUse);
      changed |= set_use(QueueId(k), d,
                         decayed(here.use, static_cast<std::int64_t>(present), nodes[k].decay));
    }
  }
  return changed;
}

void QueueTree::sample(Time now) {
  const std::int64_t ms = now.ms();
  const std::int64_t length = kSampleStep.count();
  const std::int64_t step = ms / length - (ms % length < 0 ? 1 : 0);
  std::int64_t last = impl_->last_sample.value_or(step);
  // Once a step changes nothing the next ones do not either.
  while (last < step && impl_->any_history && impl_->sample_once()) {
    ++last;
  }
  impl_->last_sample = step;
}

void QueueTree::note_grant(QueueId leaf, const Charge& charge) {
  if (!impl_->any_history) {
    return;
  }
  for (const ChargeNeed& need : impl_->named_needs(charge)) {
    if (need.dimension.is_none() || impl_->capacity_of(need.dimension) <= 0) {
      continue;
    }
    const Int128 amount = need.amount.rounded_up(impl_->dim(need.dimension).per_whole);
    for (QueueId at = leaf; !at.is_none(); at = impl_->node(at).parent) {
      const std::int64_t factor = impl_->node(at).decay;
      const Int128 by = amount * kUseScale * factor / impl_->capacity_of(need.dimension) >> 32;
      const std::int64_t use = impl_->place(at, need.dimension).use;
      impl_->set_use(at, need.dimension,
                     static_cast<std::int64_t>(std::min<Int128>(use + by, kMostUse)));
    }
  }
}

bool QueueTree::keeps_history() const { return impl_->any_history; }

bool QueueTree::protects() const { return impl_->any_protection; }

std::int64_t QueueTree::decay_factor(Duration half_life) {
  return core::decay_factor(kSampleStep, half_life);
}

}  // namespace berth::core
