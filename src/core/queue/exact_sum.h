// ExactSum: a sum of device shares without rounding: whole devices plus fractions of any
// denominators.
//
//   ExactSum sum;
//   sum.add_fraction(7000, 24564);         // 7000 MiB of a device that holds 24564
//   sum.add_fraction(250'000'000, kNano);  // a quarter
//   sum.compare(kDevices, 1000);           // against one device, in milli
//
// Kept as an integer and, per denominator, a numerator below it; so what was added and taken away
// again leaves no trace, and equal sums of equal terms are equal. Comparing with a bound is exact:
// by the integer part, by one fraction in 128 bits, by a common denominator of any length. The same
// type counts MiB and milli of compute, which have no fractions. Source: annotations.md 1.4.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "core/queue/queue_config.h"

namespace berth::core {

class ExactSum {
 public:
  static constexpr std::int64_t kNano = 1'000'000'000;

  ExactSum() = default;

  explicit ExactSum(std::int64_t whole) : whole_(whole) {}

  void add_whole(std::int64_t amount) { whole_ += amount; }

  // amount/denominator; amount may have either sign, denominator > 0.
  void add_fraction(std::int64_t amount, std::int64_t denominator);
  void add(const ExactSum& other);
  void subtract(const ExactSum& other);
  // Empties it and keeps its memory.
  void clear();

  bool is_zero() const { return whole_ == 0 && fractions_.empty(); }

  bool has_fractions() const { return !fractions_.empty(); }

  // bound: in units of which `per_whole` make one.
  std::strong_ordering compare(std::int64_t bound, std::int64_t per_whole) const;
  // this + other against bound.
  std::strong_ordering compare_with(const ExactSum& other, std::int64_t bound,
                                    std::int64_t per_whole) const;
  // The value, in units of which `per_whole` make one, rounded up.
  std::int64_t rounded_up(std::int64_t per_whole) const;

  // Equal terms; two sums of the same value but other denominators differ.
  bool operator==(const ExactSum&) const = default;

  struct Fraction {
    std::int64_t denominator = 1;
    std::int64_t numerator = 0;  // 0 < numerator < denominator
    bool operator==(const Fraction&) const = default;
  };

  std::int64_t whole() const { return whole_; }

  const std::vector<Fraction>& fractions() const { return fractions_; }

 private:
  std::int64_t whole_ = 0;
  std::vector<Fraction> fractions_;  // by denominator ascending
};

// How many units of a dimension make one of what is summed: 1000 for devices, else 1.
constexpr std::int64_t units_per_whole(DimensionKind kind) {
  return kind == DimensionKind::devices ? 1000 : 1;
}

}  // namespace berth::core
