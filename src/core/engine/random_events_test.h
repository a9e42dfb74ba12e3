// RandomEvents: histories that stay in a small world, so that what matters happens often: names are
// reused, samples come late or from the future, the clock stands still, devices move and shrink.
//
// Events name things that may not exist when they come, so any subsequence of a history is one too.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "core/engine/events.h"

namespace berth::core {

class RandomEvents {
 public:
  explicit RandomEvents(std::uint64_t seed) : random_(seed) {}

  EngineConfig config();
  // The first events bring the nodes; `count` random ones follow.
  std::vector<Event> history(std::size_t count);
  std::vector<Event> fleet();
  Request request();

 private:
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  // True once in `n`.
  bool rarely(std::int64_t n) { return below(n) == 0; }
  template <class T>
  T pick(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<std::int64_t>(list.size())))];
  }
  std::string uid() { return "w" + std::to_string(below(14)); }
  std::string uuid() { return "g" + std::to_string(below(9)); }
  std::string node_name() { return "n" + std::to_string(below(4)); }

  Node node(std::int64_t index);
  Device device(std::int64_t index);
  DeviceAsk ask();
  DeviceAsk small_share();
  Workload workload();
  DeviceObserved observation();
  GrantAdopted adoption();
  HistoryChanged history_of_classes();
  QueuesChanged queues();
  EventBody body();

  std::mt19937_64 random_;
  Time now_{1000};
  bool held_ = false;  // granting is
};

}  // namespace berth::core
