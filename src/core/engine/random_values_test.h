// RandomValues: arbitrary well-formed events, actions and everything in them, from a seed. Every
// field takes values other than its default, extremes included; nothing needs to make sense
// together.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/engine/actions.h"
#include "core/engine/decision_log.h"
#include "core/engine/engine.h"
#include "core/engine/events.h"

namespace berth::core {

class RandomValues {
 public:
  explicit RandomValues(std::uint64_t seed) : random_(seed) {}

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }

  bool flip() { return below(2) == 1; }

  std::int64_t number();  // any 64 bits, small ones as likely as large ones
  std::string text();     // any bytes

  Node node();
  Request request();
  Workload workload();
  EngineConfig config();
  // The alternative with that index in EventBody or Action.
  Event event(std::size_t kind);
  LoggedAction action(std::size_t kind);

 private:
  template <class Enum>
  Enum one_of(Enum last) {
    return static_cast<Enum>(below(static_cast<std::int64_t>(last) + 1));
  }

  template <class Make>
  auto list(Make make) {
    std::vector<decltype(make())> items(static_cast<std::size_t>(below(4)));
    for (auto& item : items) {
      item = make();
    }
    return items;
  }

  template <class Make>
  auto maybe(Make make) {
    return flip() ? std::optional(make()) : std::nullopt;
  }

  std::vector<std::string> texts() {
    return list([this] { return text(); });
  }

  int small_number() { return static_cast<int>(number() >> 32); }

  Device device();
  DeviceAsk ask();
  DeviceObserved observation();
  GrantAdopted adoption();
  HistoryChanged history();
  QueueSpec queue();
  TopologyRule topology_rule();
  MemberSet members(const std::string& name);
  Group group(const std::string& name, int depth);
  Evicted eviction(WorkloadId workload, std::uint64_t grant, NodeId node);
  EventBody body(std::size_t kind);

  std::mt19937_64 random_;
};

}  // namespace berth::core
