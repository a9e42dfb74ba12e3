// Entry: one workload that the engine knows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "core/model/verdict.h"
#include "core/model/workload.h"
#include "core/placement/shape.h"
#include "core/queue/charge.h"
#include "core/queue/waiting_room.h"

namespace berth::core {

// `parked`: a member whose gang waits as a whole; the gang's head stands in line for it.
enum class EntryState : std::uint8_t { free, waiting, parked, promised, granted, never, ended };

struct Entry {
  std::string uid;
  WorkloadOptions options;
  ShapeId shape;
  QueueId leaf = kRootQueue;  // its queue, while the tree counts (quotas.h)
  bool preemptible = false;   // by the rule in force
  PoolId pool;
  KindId kind;  // while it waits
  EntryState state = EntryState::free;
  Cause cause = Cause::none;
  Time queued_at;
  Time since;  // when the present outcome began
  Time evaluated;
  std::int64_t attempts = 0;
  std::unique_ptr<Grant> grant;  // promised or granted
  std::optional<Time> confirm_by;
  std::optional<Time> wait_until;
  std::optional<Time> releasing_until;
  // What the queue tree has of it.
  Charge demand;               // what it waits for or holds
  std::uint64_t demanded = 0;  // when it came to be so: the count of such changes
  Charge charge;               // of its grant, as booked
  BookingState booking = BookingState::running;
  bool booked = false;
  WorkloadId gang = WorkloadId::none();  // its gang's head; a head names itself
  std::size_t group = 0;                 // of a member: place in GangState::nodes
  bool slot = false;  // a lost member's place, kept for its replacement (the grant runs nothing)
  std::int64_t member_index = 0;               // of a member: by arrival
  std::int64_t seat = 0;                       // of a member: among its group; says its segments
  bool evicting = false;                       // it was asked to leave
  bool leaving = false;                        // the harbour said that its end was asked for
  bool supposed_gone = false;                  // a scratch has taken it out
  bool supposed_started = false;               // a trial has found it a place
  std::vector<Time> evictions;                 // when it was, of late
  WorkloadId hold = WorkloadId::none();        // the place to which it moves
  WorkloadId held_for = WorkloadId::none();    // this is such a place, not a workload of anybody
  std::optional<Verdict::Preemption> blocked;  // what its last claim met
  bool searched_fully = true;                  // false: a budget of steps ended
  bool preferred_promise = false;  // it was promised although there was a place at once (F8)

  bool holds() const { return grant != nullptr; }

  Outcome outcome() const {
    switch (state) {
      case EntryState::granted: return Outcome::granted;
      case EntryState::never: return Outcome::never;
      case EntryState::free:
      case EntryState::ended: return Outcome::ended;
      case EntryState::waiting:
      case EntryState::parked:
      case EntryState::promised: break;
    }
    return Outcome::waiting;
  }

  // When a running grant ends by its own declaration; empty = unknown.
  std::optional<Time> declared_end() const {
    if (!holds() || !options.max_run.has_value()) {
      return std::nullopt;
    }
    return grant->granted_at + *options.max_run;
  }
};

// All of them, by WorkloadId. An entry stays where it is: a pass that makes new ones holds others.
class Entries {
 public:
  std::size_t size() const { return size_; }
  Entry& operator[](std::size_t i) { return chunks_[i / kChunk][i % kChunk]; }
  const Entry& operator[](std::size_t i) const { return chunks_[i / kChunk][i % kChunk]; }
  void emplace_back() {
    if (size_ % kChunk == 0) {
      chunks_.push_back(std::make_unique<Entry[]>(kChunk));
    }
    ++size_;
  }

 private:
  static constexpr std::size_t kChunk = 64;

  std::vector<std::unique_ptr<Entry[]>> chunks_;
  std::size_t size_ = 0;
};

}  // namespace berth::core
