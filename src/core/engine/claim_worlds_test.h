// ClaimWorlds: small worlds in which queues take capacity back from each other, from a seed.
//
// A world is a list of steps: events, and answers of the harbour to evictions. Steps name things
// that may not exist when they come, so any subsequence of a world is one too.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/engine/events.h"

namespace berth::core {

// The harbour answers the oldest evictions that it has not answered yet.
struct Answer {
  bool all = false;
};

struct ClaimStep {
  Duration after{0};
  std::variant<EventBody, Answer> what;
};

class ClaimWorlds {
 public:
  explicit ClaimWorlds(std::uint64_t seed)
      : random_(seed), of_holds_(~seed), holds_(seed % 4 == 2) {}

  // Topologies, nodes and queues first, then `count` steps.
  std::vector<ClaimStep> world(std::size_t count);

 private:
  std::int64_t to(std::int64_t most) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most + 1));
  }

  bool one_in(std::int64_t many) { return to(many - 1) == 0; }

  // One in a thousand `often`.
  bool hits(std::int64_t often) { return to(999) < often; }

  template <class T>
  const T& of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(to(std::ssize(values) - 1))];
  }

  void choose_character();
  Node node(std::int64_t index);
  QueueDimension terms(std::string_view device_class, DimensionKind kind);
  QueueSpec queue(const std::string& name, const std::string& parent);
  EventBody queues();
  DeviceAsk ask(bool small);
  WorkloadOptions options();
  EventBody task();
  EventBody gang();
  ClaimStep step();
  std::string uid();

  // Whether granting, or a queue, is held: from numbers of their own, so that the rest of a world
  // stays as it is.
  bool held_one_in(std::uint64_t many) { return holds_ && of_holds_() % many == 0; }

  std::mt19937_64 random_;
  std::mt19937_64 of_holds_;
  bool holds_ = false;
  // What kind of world it is.
  std::int64_t nodes_ = 2;
  std::int64_t most_devices_ = 4;
  bool two_models_ = false;
  bool gangs_ = false;
  bool shares_ = false;
  bool times_ = false;
  bool caps_ = false;
  bool rights_ = false;
  bool history_ = false;
  std::int64_t leaves_ = 3;
  std::int64_t devices_ = 0;  // of all nodes, about
  std::vector<std::pair<std::string, DimensionKind>> dimensions_;
};

}  // namespace berth::core
