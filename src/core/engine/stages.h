// The named stages of a pass, in order, with counters and timers.
//
//   order      which woken workload is tried next
//   quota      may its queue hold it (no queues configured: always)
//   possible   could any machine of the fleet ever hold it: proves "never"
//   place      filter nodes and devices, score, choose: the placement index
//   promise    room that is being freed (L3)
//   claim      who has to leave or move for it: consolidate, reclaim, preempt
//   commit     book the grant in a ledger transaction
//   reserve    the concrete place of each pool's head, and what may pass it
#pragma once

#include <array>
#include <cstdint>

#include "core/engine/engine.h"

namespace berth::core {

enum class StageId : std::uint8_t {
  order,
  quota,
  possible,
  place,
  promise,
  claim,
  commit,
  reserve,
  kCount
};

class StageBook {
 public:
  static constexpr std::size_t kCount = static_cast<std::size_t>(StageId::kCount);

  explicit StageBook(Stopwatch* stopwatch) : stopwatch_(stopwatch) {
    constexpr std::array<std::string_view, kCount> kNames{
        "order", "quota", "possible", "place", "promise", "claim", "commit", "reserve"};
    for (std::size_t i = 0; i < kCount; ++i) {
      stats_[i].name = kNames[i];
    }
  }

  // Counts one call of a stage and times it while it lives.
  class Scope {
   public:
    Scope(StageBook& book, StageId id)
        : book_(book), stats_(book.stats_[static_cast<std::size_t>(id)]) {
      ++stats_.calls;
      started_ = book_.stopwatch_ != nullptr ? book_.stopwatch_->nanos() : 0;
    }

    ~Scope() {
      if (book_.stopwatch_ != nullptr) {
        stats_.nanos += book_.stopwatch_->nanos() - started_;
      }
    }

    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    void rejected() { ++stats_.rejected; }

    void stepped(std::int64_t steps) { stats_.steps += steps; }

   private:
    StageBook& book_;
    StageStats& stats_;
    std::int64_t started_ = 0;
  };

  const std::array<StageStats, kCount>& stats() const { return stats_; }

 private:
  Stopwatch* stopwatch_;
  std::array<StageStats, kCount> stats_{};
};

}  // namespace berth::core
