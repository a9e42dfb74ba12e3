// Whose turn it is (queues-gangs-topology.md 4.4): from the leaves up, at every queue the child
// that comes first stands for it. The order of two siblings is a total one, so neither the order of
// the heads nor that of the comparisons matters.
#include <algorithm>

#include "base/assert.h"
#include "base/wide.h"
#include "core/queue/queue_tree_impl.h"

namespace berth::core {

namespace {

// alloc / allocatable; the denominator is at least 1.
struct Ratio {
  std::int64_t above = 0;
  std::int64_t below = 1;
  std::strong_ordering operator<=>(const Ratio& other) const {
    return Int128{above} * other.below <=> Int128{other.above} * below;
  }
};

// A queue in the race, with the head that stands for it.
struct Runner {
  QueueId queue;
  std::size_t head = 0;
  bool above_fair = false;                    // not below F in all needed dimensions
  bool above_deserved = false;                // not within D' with the workload added
  std::optional<Ratio> ratio = std::nullopt;  // found when it is needed
};

class Race {
 public:
  Race(QueueTree::Impl& tree, std::span<const QueueHead> heads) : tree_(tree), heads_(heads) {}

  std::size_t winner() {
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      enter(heads_[i].leaf, i);
    }
    for (std::size_t depth = levels_.size() - 1; depth > 0; --depth) {
      // By parent, so that siblings meet.
      std::vector<Runner>& level = levels_[depth];
      std::ranges::sort(level, [&](const Runner& a, const Runner& b) {
        return tree_.node(a.queue).parent < tree_.node(b.queue).parent;
      });
      for (std::size_t from = 0; from < level.size();) {
        const QueueId parent = tree_.node(level[from].queue).parent;
        std::size_t best = from;
        std::size_t to = from + 1;
        for (; to < level.size() && tree_.node(level[to].queue).parent == parent; ++to) {
          best = before(level[to], level[best]) ? to : best;
        }
        enter(parent, level[best].head);
        from = to;
      }
    }
    return levels_.front().front().head;
  }

 private:
  void enter(QueueId queue, std::size_t head) {
    const std::size_t depth = tree_.node(queue).depth;
    if (levels_.size() <= depth) {
      levels_.resize(depth + 1);
    }
    Runner runner{.queue = queue, .head = head};
    if (depth > 0) {
      place(runner);
    }
    levels_[depth].push_back(runner);
  }

  void place(Runner& runner) {
    for (const ChargeNeed& need : tree_.needs(*heads_[runner.head].charge)) {
      if (need.dimension.is_none()) {
        continue;
      }
      tree_.settle_path(runner.queue, need.dimension);
      const QueuePlace& here = tree_.place(runner.queue, need.dimension);
      const std::int64_t per_whole = tree_.dim(need.dimension).per_whole;
      const ExactSum& alloc = here.sums.future;
      runner.above_fair |= alloc.compare(here.share.fair, per_whole) != std::strong_ordering::less;
      runner.above_deserved |= alloc.compare_with(need.amount, here.share.deserved, per_whole) ==
                               std::strong_ordering::greater;
    }
  }

  // max over dimensions of alloc / max(1, min(L, max(D', F))), with the workload added.
  Ratio ratio_of(const Runner& runner) {
    const std::span<const ChargeNeed> needs = tree_.needs(*heads_[runner.head].charge);
    Ratio largest;
    for (std::size_t i = 0; i < tree_.dimensions.size(); ++i) {
      const QuotaDimensionId d(i);
      const std::int64_t per_whole = tree_.dim(d).per_whole;
      tree_.settle_path(runner.queue, d);
      const QueuePlace& here = tree_.place(runner.queue, d);
      std::int64_t alloc = here.sums.future.rounded_up(per_whole);
      for (const ChargeNeed& need : needs) {
        if (need.dimension == d) {
          tree_.tried = here.sums.future;
          tree_.tried.add(need.amount);
          alloc = tree_.tried.rounded_up(per_whole);
        }
      }
      const std::int64_t entitled = std::max(here.share.deserved, here.share.fair);
      const std::int64_t allocatable =
          here.limit == kUnlimited ? entitled : std::min(here.limit, entitled);
      largest =
          std::max(largest, Ratio{.above = alloc, .below = std::max<std::int64_t>(1, allocatable)},
                   [](const Ratio& a, const Ratio& b) { return a < b; });
    }
    return largest;
  }

  bool before(Runner& a, Runner& b) {
    if (a.above_fair != b.above_fair) {
      return b.above_fair;
    }
    if (a.above_deserved != b.above_deserved) {
      return b.above_deserved;
    }
    const QueueNode& left = tree_.node(a.queue);
    const QueueNode& right = tree_.node(b.queue);
    if (left.spec.priority != right.spec.priority) {
      return left.spec.priority > right.spec.priority;
    }
    if (!tree_.dimensions.empty()) {
      for (Runner* each : {&a, &b}) {
        if (!each->ratio.has_value()) {
          each->ratio = ratio_of(*each);
        }
      }
      const std::strong_ordering order = *a.ratio <=> *b.ratio;
      if (order != std::strong_ordering::equal) {
        return order == std::strong_ordering::less;
      }
    }
    return left.rank < right.rank;
  }

  QueueTree::Impl& tree_;
  std::span<const QueueHead> heads_;
  std::vector<std::vector<Runner>> levels_;  // by depth
};

}  // namespace

std::size_t QueueTree::first(std::span<const QueueHead> heads) const {
  ASSERT(!heads.empty());
  return heads.size() == 1 ? 0 : Race(*impl_, heads).winner();
}

}  // namespace berth::core
