// Kinds: waiting workloads that ask for exactly the same and declare the same run time. They share
// every answer, whoever's reservation is asked about: of one kind, the first in order that does not
// fit proves that no later one does. Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/placement/shape.h"
#include "core/queue/waiting_room.h"

namespace berth::core {

class Kinds {
 public:
  KindId of(ShapeId shape, std::optional<Duration> max_run) {
    const Key key{shape, max_run.has_value() ? max_run->count() : kUnknown};
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
  ShapeId shape_of(KindId kind) const { return keys_[kind.index()].first; }
  // Nobody of this kind waits any more; its id may be used again.
  void forget(KindId kind) {
    ids_.erase(keys_[kind.index()]);
    free_.push_back(kind);
  }

 private:
  using Key = std::pair<ShapeId, std::int64_t>;
  static constexpr std::int64_t kUnknown = -1;

  std::map<Key, KindId> ids_;
  std::vector<Key> keys_;  // by kind
  std::vector<KindId> free_;
};

}  // namespace berth::core
