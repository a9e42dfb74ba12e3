// Whose turn it is in a pass: the first of each woken kind, queue by queue, and who may not pass
// whom.
#include <tuple>

#include "core/engine/engine_impl.h"

namespace berth::core {

// The woken kinds that are still to be tried, by their first, in a line per queue; one line where
// no queues are configured.
class Engine::Impl::Lines {
 public:
  explicit Lines(Engine::Impl& engine) : engine_(engine), race_(engine.quotas.active()) {}

  struct Turn {
    std::int64_t priority = 0;
    Time queued_at;
    std::string_view uid;
    KindId kind;
    WorkloadId id;
    QueueId leaf;

    bool operator<(const Turn& other) const {
      return std::tie(other.priority, queued_at, uid) <
             std::tie(priority, other.queued_at, other.uid);
    }
  };

  void add(KindId kind) {
    const WorkloadId id = engine_.waiting.first_of(kind, engine_.now);
    if (id.is_none()) {
      return;
    }
    const QueueId leaf = race_ ? engine_.at(id).leaf : kRootQueue;
    lines_[leaf].insert({.priority = engine_.waiting.effective_priority(id, engine_.now),
                         .queued_at = engine_.at(id).queued_at,
                         .uid = engine_.at(id).uid,
                         .kind = kind,
                         .id = id,
                         .leaf = leaf});
  }

  // Tells the tree who is first in the leaf.
  void announce(QueueId leaf) {
    if (!race_) {
      return;
    }
    const auto line = lines_.find(leaf);
    if (line == lines_.end() || line->second.empty()) {
      engine_.quotas.tree.clear_head(leaf);
    } else {
      engine_.quotas.tree.set_head(leaf, engine_.turn_charge(line->second.begin()->id));
    }
  }

  void announce_all() {
    for (const auto& [leaf, line] : lines_) {
      announce(leaf);
    }
  }

  // Takes out whose turn it is now; empty = nobody's.
  std::optional<Turn> take_next() {
    const std::optional<QueueId> leaf = next_leaf();
    const auto line = leaf.has_value() ? lines_.find(*leaf) : lines_.end();
    if (line == lines_.end() || line->second.empty()) {
      return std::nullopt;
    }
    const Turn turn = *line->second.begin();
    line->second.erase(line->second.begin());
    return turn;
  }

 private:
  // Missed members of running gangs before everything: their places are held for them.
  std::optional<QueueId> next_leaf() const {
    for (const auto& [leaf, line] : lines_) {
      if (!line.empty() && engine_.is_missed(line.begin()->id)) {
        return leaf;
      }
    }
    return race_ ? engine_.quotas.tree.next() : std::optional(kRootQueue);
  }

  Engine::Impl& engine_;
  bool race_;
  std::map<QueueId, std::set<Turn>> lines_;
};

// The first of each kind, in order; of a kind whose first does not fit no later one does. Between
// queues the tree says whose turn it is, anew after every grant.
void Engine::Impl::try_in_order(const std::set<KindId>& woken) {
  Lines lines(*this);
  for (const KindId kind : woken) {
    lines.add(kind);
  }
  lines.announce_all();
  while (const std::optional<Lines::Turn> turn = lines.take_next()) {
    if (!waiting.contains(turn->id)) {
      lines.add(turn->kind);  // a claim made its gang leave as a whole
    } else if (const PoolId pool = at(turn->id).pool; try_workload(turn->id)) {
      lines.add(turn->kind);
      const WorkloadId head = waiting.head_of(pool, now);
      if (!head.is_none() && is_strict(at(head))) {
        lines.add(at(head).kind);  // it was behind the one that left
      }
    } else {
      update_reservations();  // before anything behind it can take what it waits for
    }
    lines.announce(turn->leaf);
  }
}

bool Engine::Impl::is_strict(const Entry& entry) const {
  return quotas.active() && quotas.tree.is_listed(entry.leaf) &&
         quotas.tree.spec(entry.leaf).order == QueueOrder::strict;
}

// In a queue of strict order nothing passes the first of its pool.
bool Engine::Impl::behind_head(WorkloadId id) const {
  if (!is_strict(entry(id))) {
    return false;
  }
  const WorkloadId head = waiting.head_of(entry(id).pool, now);
  return !head.is_none() && head != id && ordered_before(head, id);
}

}  // namespace berth::core
