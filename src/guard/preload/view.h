// The formulas of enforcement.md 2.5. Thread-safety: all functions.
#pragma once

#include <cstdint>

#include "guard/preload/books.h"
#include "guard/preload/grant.h"

namespace berth::guard {

struct MemoryView {
  std::uint64_t total = 0;
  std::uint64_t free = 0;
  std::uint64_t used = 0;  // by the grant, contexts and corrections included
};

constexpr std::uint64_t less(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

constexpr std::uint64_t smaller(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }

inline std::uint64_t limit_of(int target) {
  const PolicyDevice* policy = policy_of(target);
  return policy != nullptr ? policy->limit : 0;
}

// `total` and `free` are the driver's own.
inline MemoryView view_of(int target, std::uint64_t total, std::uint64_t free) {
  MemoryView view;
  view.total = smaller(limit_of(target), total);
  const std::uint64_t charged = charged_on(target);
  view.free = smaller(smaller(less(cap_of(target), charged), free), view.total);
  const PolicyDevice* policy = policy_of(target);
  const std::uint64_t overhead = policy != nullptr ? policy->overhead.load() : 0;
  view.used = smaller(charged + overhead, view.total - view.free);
  return view;
}

}  // namespace berth::guard
