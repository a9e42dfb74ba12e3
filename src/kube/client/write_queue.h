// WriteQueue: what Berth writes, in order of rank, at most so many at once (kubernetes-api.md 1,
// 5).
//
//   writes.submit({.rank = WriteRank::binding, .object = uid, .call = …, .done = …});
//
// Bindings go before conditions, conditions before events. Of conditions of one object only the
// latest waits; a binding of the object drops it. Each write asks the fence right before it is
// sent, and again at every further try. Leases do not come through here. Thread-safety: the
// client's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kube/client/call.h"
#include "kube/client/clock.h"

namespace berth::kube {

enum class WriteRank : std::uint8_t { binding, condition, event };

struct Write {
  WriteRank rank = WriteRank::binding;
  std::string object = {};  // uid of what it is about
  Call call = {};
  Answered done = {};  // may be empty
};

// A bucket that holds so many tokens and gets one each `refill`.
struct BucketRule {
  std::uint32_t size = 1;
  Duration refill{1'000};
};

struct WriteQueueOptions {
  std::size_t window = 64;             // in flight
  std::size_t events_window = 8;       // of them at most so many events
  std::size_t events_waiting = 1'000;  // beyond it the oldest event is dropped
  BucketRule events_per_object{.size = 25, .refill = Duration(300'000)};
  BucketRule events_in_all{.size = 1'000, .refill = Duration(20)};
};

struct WriteFigures {
  std::uint64_t sent[3] = {};    // by rank
  std::uint64_t superseded = 0;  // conditions that a later one or a binding replaced
  std::uint64_t events_dropped = 0;
  std::uint64_t fenced = 0;
  std::size_t in_flight = 0;
  std::size_t waiting = 0;
};

class WriteQueue {
 public:
  // `may_write` is the fence: asked right before each write, false = refused. A write that was
  // refused, replaced or dropped ends with Outcome::not_sent and a problem that says which.
  WriteQueue(Caller& caller, Timers& timers, std::function<bool()> may_write,
             WriteQueueOptions options = {});
  ~WriteQueue();
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;

  // Never calls `done` inside.
  void submit(Write write);
  // Drops what waits of an object that is gone: conditions and events. Their `done` is not called.
  void forget(const std::string& object);
  WriteFigures figures() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth::kube
