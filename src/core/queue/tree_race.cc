// Whose turn it is (queues-gangs-topology.md 4.4): from the leaves up, at every queue the child
// that comes first stands for it. The order of two siblings is a total one, so the order in which
// they are compared does not matter.
#include <algorithm>

#include "base/assert.h"
#include "core/queue/queue_tree_impl.h"

namespace berth::core {

// Many heads are compared with one another between two changes, and many of them ask for the same.
QueueStanding QueueTree::Impl::standing_of(QueueId queue, const Charge& charge) {
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    settle_path(queue, QuotaDimensionId(i));
  }
  QueueNode& here = node(queue);
  for (const KnownStanding& known : here.standings) {
    if (known.changes == here.changes && known.charge == charge) {
      return known.standing;
    }
  }
  KnownStanding& known = here.standings[here.oldest_standing++ % here.standings.size()];
  known = {.changes = here.changes, .charge = charge, .standing = find_standing(queue, charge)};
  return known.standing;
}

// Where the shares on the path are settled.
QueueStanding QueueTree::Impl::find_standing(QueueId queue, const Charge& charge) {
  QueueStanding standing;
  const std::span<const ChargeNeed> all = named_needs(charge);
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const QuotaDimensionId d(i);
    const std::int64_t per_whole = dimensions[i].per_whole;
    const QueuePlace& here = place(queue, d);
    const ExactSum* alloc = &here.sums.future;
    const auto need = std::ranges::find(all, d, &ChargeNeed::dimension);
    if (need != all.end()) {
      standing.above_fair |=
          alloc->compare(here.share.fair, per_whole) != std::strong_ordering::less;
      tried = *alloc;
      tried.add(need->amount);
      alloc = &tried;
      standing.above_deserved |=
          alloc->compare(here.share.deserved, per_whole) == std::strong_ordering::greater;
    }
    const std::int64_t entitled = std::max(here.share.deserved, here.share.fair);
    const std::int64_t allocatable =
        here.limit == kUnlimited ? entitled : std::min(here.limit, entitled);
    const DominantRatio ratio{.above = alloc->rounded_up(per_whole),
                              .below = std::max<std::int64_t>(1, allocatable)};
    if (standing.ratio < ratio) {
      standing.ratio = ratio;
    }
  }
  return standing;
}

bool QueueTree::Impl::goes_before(QueueId a, const QueueStanding& of_a, QueueId b,
                                  const QueueStanding& of_b) const {
  return core::goes_before(of_a, rank_of(a), of_b, rank_of(b));
}

QueueStanding QueueTree::standing(QueueId queue, const Charge& charge) const {
  return impl_->standing_of(queue, charge);
}

QueueRank QueueTree::rank(QueueId queue) const { return impl_->rank_of(queue); }

namespace {

// A queue with the head that stands for it.
struct Runner {
  QueueId queue;
  std::size_t head = 0;
  QueueStanding standing = {};
};

}  // namespace

// Of two only the queues right below the lowest one above both have to be compared.
bool QueueTree::Impl::is_before(const QueueHead& a, const QueueHead& b) {
  const auto [left, right] = sides(a.leaf, b.leaf);
  ASSERT(left != right, a.leaf.value());
  const QueueStanding of_left = standing_of(left, *a.charge);
  return goes_before(left, of_left, right, standing_of(right, *b.charge));
}

std::size_t QueueTree::first(std::span<const QueueHead> heads) const {
  ASSERT(!heads.empty());
  if (heads.size() == 2) {
    return impl_->is_before(heads[0], heads[1]) ? 0 : 1;
  }
  std::vector<std::vector<Runner>> levels(1);  // by depth
  const auto enter = [&](QueueId queue, std::size_t head) {
    const std::size_t depth = impl_->node(queue).depth;
    levels.resize(std::max(levels.size(), depth + 1));
    levels[depth].push_back(
        {.queue = queue, .head = head, .standing = impl_->standing_of(queue, *heads[head].charge)});
  };
  for (std::size_t i = 0; i < heads.size(); ++i) {
    enter(heads[i].leaf, i);
  }
  for (std::size_t depth = levels.size() - 1; depth > 0; --depth) {
    std::vector<Runner>& level = levels[depth];
    // Siblings side by side, the one that comes first in front.
    std::ranges::sort(level, [&](const Runner& a, const Runner& b) {
      const QueueId above_a = parent(a.queue);
      const QueueId above_b = parent(b.queue);
      return above_a != above_b ? above_a < above_b
                                : impl_->goes_before(a.queue, a.standing, b.queue, b.standing);
    });
    for (std::size_t i = 0; i < level.size(); ++i) {
      if (i == 0 || parent(level[i].queue) != parent(level[i - 1].queue)) {
        enter(parent(level[i].queue), level[i].head);
      }
    }
  }
  return levels.front().front().head;
}

void QueueTree::set_head(QueueId leaf, const Charge& charge) {
  QueueTurn& turn = impl_->node(leaf).turn;
  turn.has_head = true;
  turn.head = charge;
  impl_->turn_changed(leaf);
}

void QueueTree::clear_head(QueueId leaf) {
  impl_->node(leaf).turn.has_head = false;
  impl_->turn_changed(leaf);
}

// The queue's standing and so who comes first above it.
void QueueTree::Impl::turn_changed(QueueId queue) {
  for (QueueId at = queue; !at.is_none(); at = node(at).parent) {
    node(at).turn.stale = true;
  }
}

// So have those of the queues above.
void QueueTree::Impl::standing_changed(QueueId queue) {
  for (QueueId at = queue; !at.is_none(); at = node(at).parent) {
    ++node(at).changes;
    node(at).turn.stale = true;
  }
}

std::uint64_t QueueTree::changes(QueueId queue) const { return impl_->node(queue).changes; }

void QueueTree::settle() const {
  for (std::size_t d = 0; d < dimensions(); ++d) {
    impl_->settle(QuotaDimensionId(d));
  }
}

std::optional<QueueId> QueueTree::next() const {
  settle();
  impl_->find_turn(kRootQueue);
  const QueueId leaf = impl_->node(kRootQueue).turn.leaf;
  return leaf.is_none() ? std::nullopt : std::optional(leaf);
}

void QueueTree::Impl::find_turn(QueueId queue) {
  if (!node(queue).turn.stale) {
    return;
  }
  QueueId best;
  for (const QueueId child : node(queue).children) {
    find_turn(child);
    const QueueTurn& turn = node(child).turn;
    if (!turn.leaf.is_none() &&
        (best.is_none() || goes_before(child, turn.standing, best, node(best).turn.standing))) {
      best = child;
    }
  }
  QueueTurn& turn = node(queue).turn;
  turn.leaf = !best.is_none() ? node(best).turn.leaf : turn.has_head ? queue : QueueId::none();
  if (!turn.leaf.is_none() && queue != kRootQueue) {
    turn.standing = standing_of(queue, node(turn.leaf).turn.head);
  }
  turn.stale = false;
}

}  // namespace berth::core
