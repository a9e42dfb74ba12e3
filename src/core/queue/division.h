// The division of a capacity between siblings, in one dimension: what each deserves when all of it
// cannot be kept (D'), what stays reserved (R'), and the fair share (F). A pure function of
// integers.
//
// Deserved first, in order of priority; then what is left by weight, priority after priority, in
// rounds of exact fractions; left-over units by largest fraction. Invariants: the F of those that
// do not deserve without limit sum up to at most the capacity; min(D', need) <= F <= need, where
// need = min(limit, max(demand, reserved)). Source: queues-gangs-topology.md 4.3.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/wide.h"
#include "core/queue/queue_config.h"

namespace berth::core {

inline constexpr std::int64_t kUseScale = 1'000'000;  // decayed use is in millionths of C
inline constexpr std::int64_t kMostUse = 1'000 * kUseScale;

struct Sibling {
  std::int64_t deserved = 0;  // kUnlimited
  std::int64_t limit = kUnlimited;
  std::int64_t reserved = 0;
  std::int64_t weight = 1;
  std::int64_t priority = 100;
  std::int64_t demand = 0;
  std::int64_t use = 0;        // u, 0 … kMostUse
  std::int64_t history_k = 0;  // 0 = no history
  std::uint32_t rank = 0;      // order by creation time, then name; no two alike
};

struct DivisionShare {
  std::int64_t deserved = 0;  // D'
  std::int64_t reserved = 0;  // R'
  std::int64_t fair = 0;      // F
  bool operator==(const DivisionShare&) const = default;
};

std::int64_t need_of(const Sibling& sibling);

class Division {
 public:
  // One share per sibling, in their order. Keeps its memory between calls.
  void divide(std::int64_t capacity, std::span<const Sibling> siblings,
              std::span<DivisionShare> shares);

 private:
  // Of siblings that share something: which, and what each puts in the scale.
  struct Player {
    std::uint32_t at = 0;
    std::int64_t missing = 0;  // need - F
    Int128 claim = 0;          // N; in give_deserved D
    Int128 remainder = 0;      // of the last offer, in units of 1/ΣN
  };

  void order();
  void give_deserved(std::int64_t capacity);
  void scale_class(std::span<const std::uint32_t> members, std::int64_t rest);
  void share_surplus(std::span<const std::uint32_t> members, std::int64_t& rest);
  void set_claims();
  bool play_round(std::int64_t& rest);
  void give_units(std::span<Player> players, std::int64_t& rest, std::int64_t DivisionShare::* to);
  template <class Visit>
  void for_each_priority(Visit visit);

  std::span<const Sibling> siblings_;
  std::span<DivisionShare> shares_;
  std::vector<std::uint32_t> by_priority_;  // high to low, then by rank
  std::vector<Player> players_;
  std::vector<Player> floored_;  // who got the floor of his last offer
};

}  // namespace berth::core
