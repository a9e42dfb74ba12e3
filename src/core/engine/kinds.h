// Kinds: waiting workloads that ask for exactly the same, declare the same run time and stand in
// the same queue on the same terms. They share every answer, whoever's reservation is asked about:
// of one kind, the first in order that does not fit proves that no later one does. Thread-safety:
// none.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/placement/shape.h"
#include "core/queue/charge.h"
#include "core/queue/waiting_room.h"

namespace berth::core {

struct KindKey {
  ShapeId shape;
  std::int64_t run = -1;                 // declared run time in ms; -1 = none
  WorkloadId gang = WorkloadId::none();  // of a head: a gang is a kind of its own
  // Of a member: topology rules may let one group or segment in where they keep another out.
  std::size_t group = 0;
  std::int64_t segment = 0;
  // What only matters where queues are configured; as here where none are.
  QueueId queue = kRootQueue;
  bool preemptible = false;
  bool backfill = false;
  std::int64_t priority = 0;
  std::int64_t preemption_delay = 0;
  auto operator<=>(const KindKey&) const = default;
};

class Kinds {
 public:
  KindId of(const KindKey& key) {
    const auto [at, fresh] = ids_.try_emplace(key, KindId());
    if (fresh) {
      if (free_.empty()) {
        at->second = KindId(keys_.size());
        keys_.push_back(key);
      } else {
        at->second = free_.back();
        free_.pop_back();
        keys_[at->second.index()] = key;
      }
    }
    return at->second;
  }
  // None where nobody of this kind waits.
  KindId find(const KindKey& key) const {
    const auto at = ids_.find(key);
    return at == ids_.end() ? KindId::none() : at->second;
  }
  ShapeId shape_of(KindId kind) const { return keys_[kind.index()].shape; }
  const KindKey& key(KindId kind) const { return keys_[kind.index()]; }
  // Nobody of this kind waits any more; its id may be used again.
  void forget(KindId kind) {
    ids_.erase(keys_[kind.index()]);
    free_.push_back(kind);
  }

 private:
  std::map<KindKey, KindId> ids_;
  std::vector<KindKey> keys_;  // by kind
  std::vector<KindId> free_;
};

}  // namespace berth::core
