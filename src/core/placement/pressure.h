// Pressure: how much GPU value a node strands because its CPU or its memory runs out first.
//
//   const PressureTable table(counts);
//   std::int64_t stranded = table.pressure({.value = u, .cpu_milli = c, .memory_mib = m});
//
// A node whose free devices are worth U strands the more of it the less CPU and memory per device
// is free next to them: P(U, C, M) = 3 U h_cpu(C / U) + 3 U h_mem(M / U). The two h come from the
// workload: h(x) is the GPU-weighted mean over its classes of the squared share of their need that
// is missing when x is there. Unit of values and of h: p = 1e-12 of a device.
//
// The result is defined by the integers of section 5.8 alone. pressure() is the hottest function of
// the product: it estimates each quotient in floating point and corrects it by its exact integer
// remainder, so its value does not depend on how the estimate was rounded.
//
// Source: placement contract, sections 5.2 and 5.8 (normative).
// Thread-safety: immutable after construction.
// Invariants:
//   1. Each h falls or stays from point to point and lies within 0..1e12.
//   2. pressure() == pressure_by_definition(), for every input.
//   3. Without GPU work in the history every h, and so every pressure, is 0.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/placement/class_counts.h"
#include "core/placement/wide_arithmetic.h"

namespace berth::core {

// What is free on a node.
struct NodeRoom {
  std::int64_t value = 0;       // of its devices' leftovers, in p; a million devices at most
  std::int64_t cpu_milli = 0;   // below zero counts as zero
  std::int64_t memory_mib = 0;  // below zero counts as zero
};

class PressureTable {
 public:
  static constexpr int kPoints = 2001;
  static constexpr int kCpuStep = 100;     // milli-cores per device between two points
  static constexpr int kMemoryStep = 400;  // MiB per device between two points

  PressureTable() = default;
  explicit PressureTable(const ClassCounts& counts);

  // P in p. A value below zero counts as zero, one above a million devices as a million.
  [[nodiscard]] std::int64_t pressure(const NodeRoom& room) const;

  // The same by the letter of section 5.8 in 128-bit integers. Slow: for tests, and for values that
  // no machine has.
  [[nodiscard]] std::int64_t pressure_by_definition(const NodeRoom& room) const;

  [[nodiscard]] std::span<const std::int64_t> cpu_points() const { return cpu_.h; }

  [[nodiscard]] std::span<const std::int64_t> memory_points() const { return memory_.h; }

 private:
  static constexpr std::int64_t kMostValue = 1'000'000 * kOneInP;
  // Values up to 281 devices keep every intermediate of the fast form inside 64 bits.
  static constexpr std::int64_t kMostFastValue = std::int64_t{1} << 48;

  // One class and its request of one resource.
  struct ClassNeed {
    std::int64_t gpu_milli_of_all = 0;
    std::int64_t gpu_milli_per_pod = 0;
    std::int64_t request = 0;
  };

  // h of one resource, tabulated.
  struct Curve {
    std::array<std::int64_t, kPoints> h{};
    int flat_from = 0;        // at this index and beyond h is flat_h
    std::int64_t flat_h = 0;  // 0 unless a class needs more than the last point
  };

  static Curve tabulate(const std::vector<ClassNeed>& needs, int step);
  template <int kStep>
  static std::int64_t stranded(const Curve& curve, std::int64_t value, double inverse,
                               std::int64_t have);

  Curve cpu_;
  Curve memory_;
};

// One class's part of h at one point, times the trace's GPU-milli: section 5.8's
// "GPU-milli x 1e12 x (A - B) / A x (A - B) / A, left to right", 0 unless A > B. Apart so that the
// reading of that line has one place.
struct NeedAtPoint {
  std::int64_t gpu_milli = 0;  // of all pods of the class
  std::int64_t need = 0;       // A = 1000 x request
  std::int64_t have = 0;       // B = x k q
};

Int128 weighted_square_of_missing_share(const NeedAtPoint& at);

// Below: pressure(), inline for its callers' loops.

// The part of `value` that one resource strands; `have` in the unit of the curve.
template <int kStep>
inline std::int64_t PressureTable::stranded(const Curve& curve, std::int64_t value, double inverse,
                                            std::int64_t have) {
  // Section 5.8 divides have x 1e12 by value x step. Numerator, divisor and remainder share the
  // factor step, which changes none of the quotients: it is left out.
  constexpr std::int64_t kScale = kOneInP / kStep;
  constexpr std::int64_t kMostHave = INT64_MAX / kScale;  // beyond the curve for any fast value
  static_assert(kMostHave * kScale / kMostFastValue >= kPoints);
  const std::int64_t numerator = std::clamp<std::int64_t>(have, 0, kMostHave) * kScale;

  std::int64_t h = curve.flat_h;
  if (numerator < value * curve.flat_from) {
    auto index = static_cast<std::int64_t>(static_cast<double>(numerator) * inverse);
    std::int64_t rest = numerator - index * value;
    if (rest < 0) {
      --index;
      rest += value;
    } else if (rest >= value) {
      ++index;
      rest -= value;
    }
    const std::int64_t* point = curve.h.data() + index;
    h = point[0] -
        fast_quotient(
            {.factor = point[0] - point[1], .by = rest, .divisor = value, .inverse = inverse});
  }
  if (h == 0) return 0;
  return fast_quotient({.factor = value, .by = h, .divisor = kOneInP, .inverse = 1e-12});
}

inline std::int64_t PressureTable::pressure(const NodeRoom& room) const {
  if (room.value <= 0) return 0;
  if (room.value > kMostFastValue) return pressure_by_definition(room);
  const double inverse = 1.0 / static_cast<double>(room.value);
  return 3 * stranded<kCpuStep>(cpu_, room.value, inverse, room.cpu_milli) +
         3 * stranded<kMemoryStep>(memory_, room.value, inverse, room.memory_mib);
}

}  // namespace berth::core
